"""If a filter matches nothing, gospect lists the existing values, and fails."""

import pytest

from lib import gospect


@pytest.fixture
def total(states):
    return len(gospect.dump(states.pid))


@pytest.mark.parametrize("args,there", [(("--wait", "nosuch"), "chan receive"), (("--label", "nosuch"), "labels are: "),
                                        (("--state", "running", "--wait", "chan"), "waiting"),
                                        (("--func", "nosuch"), "start functions are: main."), (("-g", "99999"), "-g 99999")])
def test_a_dump_without_a_match_lists_the_existing_values(states, total, args, there):
    words = gospect.run("dump", states.pid, *args).fails(1)
    assert f"0 of {total} goroutines match" in words and args[0] in words and there in words


def test_the_listed_labels_are_those_of_the_program(states):
    labels = {key for g in gospect.dump_json(states.pid)["goroutines"] for key in g["labels"]}
    words = gospect.run("dump", states.pid, "--label", "nosuch").fails(1)
    assert labels and sum(label in words for label in labels) >= min(10, len(labels))
    key = sorted(labels)[0]
    values = {g["labels"][key] for g in gospect.dump_json(states.pid)["goroutines"] if key in g["labels"]}
    words = gospect.run("dump", states.pid, "--label", f"{key}=nosuch").fails(1)
    assert f"values of {key} are: " in words and any(value in words for value in values)


def test_a_recording_without_a_match_is_written_and_reported(states, tmp_path):
    result = gospect.run("record", states.pid, "-d", "300ms", "--wait", "nosuch", "-o", tmp_path / "p.pb.gz")
    assert result.status == 1
    assert "goroutines match --wait 'nosuch'; wait reasons are: " in result.words[-1]
    assert (tmp_path / "p.pb.gz").stat().st_size > 0


def test_a_report_by_a_label_that_nobody_has_names_those_that_there_are(states, tmp_path):
    gospect.run("record", states.pid, "-d", "500ms", "-o", tmp_path / "p.pb.gz").ok()
    labels = {key for g in gospect.dump_json(states.pid)["goroutines"] for key in g["labels"]}
    for args in (("--by", "label:nosuch"), ("--by", "label:nosuch", "--only", "x")):
        words = gospect.run("report", tmp_path / "p.pb.gz", *args).fails(1)
        assert "has the label nosuch" in words and any(label in words for label in labels)


def test_offcpu_by_a_label_that_nobody_has_says_so(states):
    for args in ((), ("--sampled",)):
        result = gospect.run("offcpu", states.pid, "-d", "500ms", "--by", "label:nosuch", *args)
        assert result.status == 1 and "nosuch" in result.words[-1] and "label" in result.words[-1]
