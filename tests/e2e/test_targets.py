"""A target is named as users name it: by its id, or by its name, with and without -p."""

import json
import re
import shutil

import pytest

from lib import control_group, golang, gospect
from lib.process import Program


@pytest.fixture
def named(tmp_path):
    """Starts programs that have a name of their own."""
    started = []

    def start(name, folder="a"):
        (tmp_path / folder).mkdir(exist_ok=True)
        binary = shutil.copy(golang.build("states", golang.NEWEST), tmp_path / folder / name)
        started.append(Program(binary, "-only=chan"))
        return started[-1]

    yield start
    for program in started:
        program.assert_well()
        program.stop()


def of_process(*args):
    return json.loads(gospect.run("dump", "-f", "json", *args).ok().text)["process"]["pid"]


def test_a_bare_id_is_a_target(states):
    assert of_process(states.pid) == states.pid


def test_a_name_is_a_target_with_and_without_p(named):
    program = named("oddly-named-server-of-tests")
    assert of_process("oddly-named-server-of-tests") == program.pid
    assert of_process("-p", "oddly-named-server-of-tests") == program.pid
    comm = open(f"/proc/{program.pid}/comm").read().strip()
    assert len(comm) == 15
    assert of_process(comm) == program.pid


@pytest.mark.parametrize("verb,args", [("record", ("-d", "200ms", "-o", "p.pb.gz")), ("stack", ("-g", "1")),
                                       ("trace", ("-d", "0.1", "-o", "t.trace")), ("doctor", ())])
def test_each_verb_takes_a_name(named, verb, args):
    named("a-name-for-verbs")
    gospect.run(verb, "a-name-for-verbs", *args).ok()


def test_a_name_of_several_lists_them(named):
    one, two = named("twice-here", "a"), named("twice-here", "b")
    words = gospect.run("dump", "twice-here").fails(2)
    assert words.endswith("give one process id")
    for program in (one, two):
        command = open(f"/proc/{program.pid}/cmdline").read().strip("\0").replace("\0", " ")
        assert len(command) > 60 and f"{program.pid} ({command[:60]}...)" in words


def test_a_name_of_none_says_which_there_are(named):
    program = named("the-only-one")
    words = gospect.run("record", "-p", "nobody-has-this", "-d", "1s", "-o", "x.html").fails(1)
    assert "nobody-has-this" in words
    assert f"the-only-one ({program.pid})" in words or "more" in words


def test_the_name_of_another_users_program_says_that_it_is_denied(named, run_as_nobody):
    program = named("of-somebody")
    words = run_as_nobody("dump", "of-somebody").fails(1)
    assert str(program.pid) in words and "permission denied" in words


IDS = [f"{digits}{'0123456789abcdef' * 4}"[:64] for digits in ("feed1234", "feed5678")]


@pytest.fixture
def contained(named):
    """Starts programs in control groups with the names of those of containers."""
    made = []

    def start(name, group):
        try:
            group = control_group.make(group)
        except OSError as error:
            pytest.skip(f"no control group can be made here: {error}")
        made.append(group)
        program = named(name)
        group.joinpath("cgroup.procs").write_text(str(program.pid))
        return program

    yield start
    for group in made:
        control_group.remove(group)


def test_a_container_is_a_target_by_the_begin_of_its_id(contained):
    """As engines with and without systemd name their groups."""
    one = contained("in-the-first", f"docker-{IDS[0]}.scope")
    two = contained("in-the-second", f"kubepods/pod1/{IDS[1]}")
    assert of_process("--container", IDS[0]) == one.pid
    assert of_process("--container", IDS[1][:5]) == two.pid
    assert of_process("--container", f"containerd://{IDS[1]}") == two.pid
    gospect.run("doctor", "--container", IDS[0][:12]).ok()
    listed = {p["pid"]: p["container"] for p in json.loads(gospect.run("ps", "-f", "json").ok().text)}
    assert (listed[one.pid], listed[two.pid]) == tuple(IDS)
    words = gospect.run("dump", "--container", "feed").fails(2)
    assert str(one.pid) in words and str(two.pid) in words and "-p PID" in words
    words = gospect.run("record", "--container", "0123456789ab", "-d", "1s", "-o", "x.html").fails(1)
    assert re.search(r"no Go process is in container '0123456789ab'; there are: \S+ \(", words)
    listed = re.findall(r"[:,] ([\w.-]+) \([^)]*, \d+\)", words)
    assert len(set(listed)) == len(listed)
    assert IDS[0][:12] in listed or " more" in words


@pytest.mark.parametrize("args", [("--container", "abc"), ("--container", "abcd", "-p", "1"),
                                  ("--container", "a/b/c"), ("--container", "abcd", "--", "true"),
                                  ("--container", "abcd", "--container", "abcd")], ids=" ".join)
def test_a_container_of_wrong_usage(args):
    assert "container" in gospect.run("dump", *args).fails(2)


@pytest.mark.parametrize("args", [("-p", "1", "-p", "2"), ("1", "2"), ("-p", "1", "name"), ("-p", "1", "--", "true")], ids=" ".join)
def test_two_targets_are_wrong_usage(args):
    words = gospect.run("dump", *args).fails(2)
    assert "two targets" in words
