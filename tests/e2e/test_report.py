"""`gospect report`: tables of traces and profiles, against what Go's own tools make of them."""

import collections
import json
import pathlib
import subprocess
import zlib

import pytest

from lib import golang, gospect, gotrace, pprof

VERSIONS = ("1.22.12", "1.24.13", "1.27.2")
WRITE_TRACE = gospect.ROOT / "build" / "src" / "gotrace" / "write_made_up_trace"
WRITE_PROFILE = gospect.ROOT / "build" / "src" / "profile" / "write_made_up_profile"


def trace_of_go(version, folder):
    """A trace by Go's own tracer."""
    file = folder / f"go{version}.trace"
    subprocess.run([golang.build("selftrace", version), file], check=True)
    return file


def trace_made_up(seed, folder):
    file = folder / f"{seed}.trace"
    subprocess.run([WRITE_TRACE, str(seed), file], check=True, stdout=subprocess.DEVNULL)
    return file


def report(file, *args):
    return json.loads(gospect.run("report", file, "-f", "json", "-n", "0", *args).ok().text)


def by_function(summary):
    """What Go's summarizer says, added up by start function."""
    rows = collections.defaultdict(lambda: collections.Counter())
    for g in summary["goroutines"].values():
        row = rows[g["name"]]
        row["goroutines"] += 1
        row["running_ns"] += g["running"]
        row["runnable_ns"] += g["runnable"]
        row["syscall_ns"] += g["syscall"]
        row["waiting_ns"] += sum((g["blocked"] or {}).values())
    return rows


def assert_like_go(file):
    expected = by_function(gotrace.read(file, newer=True)[0])
    rows = {row["name"]: row for row in report(file)}
    compared = 0
    for name, times in expected.items():
        if not name:
            continue  # never named itself in the trace
        compared += 1
        assert rows[name]["goroutines"] == times["goroutines"], name
        for key in ("running_ns", "runnable_ns", "syscall_ns", "waiting_ns"):
            assert rows[name][key] == pytest.approx(times[key], rel=0.001, abs=2000), (name, key)
    return compared


@pytest.mark.parametrize("version", VERSIONS)
def test_a_trace_of_go_is_summed_up_as_go_does(version, tmp_path):
    assert assert_like_go(trace_of_go(version, tmp_path)) >= 8


def test_a_trace_becomes_a_profile_that_go_tool_pprof_reads(tmp_path):
    trace = trace_of_go(golang.NEWEST, tmp_path)
    gospect.run("report", trace, "-o", "t.pb.gz").ok()
    profile = pprof.read(tmp_path / "t.pb.gz")
    states = collections.Counter()
    for sample in profile.samples:
        states[sample.labels["state"]] += sample.values["wall"]
    rows = report(trace)
    for state in ("running", "runnable", "syscall", "waiting"):
        assert states[state] == sum(row[f"{state}_ns"] for row in rows), state
    top = golang.go("1.22.12", "tool", "pprof", "-top", "-cum", "t.pb.gz")
    assert "main.talk" in top and "main.quarrel" in top


def test_a_truncated_trace_is_used_as_far_as_it_goes(tmp_path):
    whole = trace_made_up(12, tmp_path)
    cut = tmp_path / "cut.trace"
    cut.write_bytes(whole.read_bytes()[:whole.stat().st_size * 2 // 3])
    result = gospect.run("report", cut).ok()
    assert "main.worker" in result.text
    assert any("is truncated within a generation" in line for line in result.words)


def perfetto_file(packets):
    packed = zlib.compress(packets, 0)
    packet = b"\x92\x03" + bytes([len(packed)]) + packed
    return b"\x0a" + bytes([len(packet)]) + packet


@pytest.mark.parametrize("content, words", [
    (b"", "is empty"),
    (b"go 1.21 trace\0\0\0", "Go 1.21"),
    (b"go 1.99 trace\0\0\0", "newer"),
    (b"hello, this is no profile", "not a pprof profile"),
    (b"\x1f\x8bnot really gzip", "corrupt"),
    (b"\x0a\x95\x01\x92\x03\x91\x01" + 145 * b"x", "cannot be unpacked"),
    (perfetto_file(b"\x0a\x02\x50\x07"), "ui.perfetto.dev"),  # a packet of sequence 7
    (perfetto_file(b"\x0a\x70\x50\x07"), "packets is invalid"),
])
def test_file_that_is_no_profile_is_refused(content, words, tmp_path):
    (tmp_path / "file").write_bytes(content)
    assert words in gospect.run("report", tmp_path / "file").fails(1)


def test_a_damaged_trace_is_read_or_refused(tmp_path):
    """Never a crash, whatever byte is wrong."""
    whole = trace_made_up(12, tmp_path).read_bytes()
    statuses = collections.Counter()
    for i in range(60):
        at = 16 + i * (len(whole) - 17) // 60
        damaged = bytearray(whole)
        damaged[at] ^= 0xFF
        (tmp_path / "damaged").write_bytes(damaged)
        statuses[gospect.run("report", tmp_path / "damaged").status] += 1
    assert set(statuses) <= {0, 1}, statuses
    assert statuses[1] > 5


@pytest.fixture
def profile(tmp_path):
    path = tmp_path / "service.pb.gz"
    with open(path, "wb") as out:
        subprocess.run([WRITE_PROFILE, "service", "pprof"], stdout=out, check=True)
    return path


def test_tables_add_up_to_the_profile(profile):
    total = sum(sample.values["wall"] for sample in pprof.read(profile).samples)
    for what in ("root", "state", "wait", "label:tenant"):
        assert sum(row["wall_ns"] for row in report(profile, "--by", what)) == total, what
    functions = report(profile, "--by", "func")
    assert sum(row["self_ns"] for row in functions) == total


def test_two_equal_profiles_do_not_differ(profile):
    lines = gospect.run("report", "--diff", profile, profile).ok().text.splitlines()
    assert len(lines) > 2
    assert all("+0.00" in line for line in lines[1:] if "..." not in line)


def test_a_leak_is_counted(targets, tmp_path):
    program = targets.start("states", args=("-only=chan", "-extra=30"))
    more = targets.start("states", args=("-only=chan", "-extra=130"))
    for name, one in (("before", program), ("after", more)):
        gospect.run("dump", one.pid, "-o", tmp_path / f"{name}.pb.gz").ok()
    args = ("report", "--diff", tmp_path / "before.pb.gz", tmp_path / "after.pb.gz")
    grown = json.loads(gospect.run(*args, "-f", "json").ok().text)[0]
    assert grown["change_goroutines"] == 100 == grown["after_goroutines"] - grown["before_goroutines"]
    first = gospect.run(*args).ok().text.splitlines()[1]
    assert "+100 " in first and first.endswith(grown["name"])
    gospect.run("report", "--diff", *args[:1:-1], "-o", tmp_path / "shrunk.html").ok()
    fewer = json.loads(gospect.run("report", "--diff", args[3], args[2], "-f", "json").ok().text)[0]
    assert fewer["change_goroutines"] == -100 and fewer["name"] == grown["name"]
    page = (tmp_path / "shrunk.html").read_text()
    assert page.startswith("<!doctype html>") or page.startswith("<!DOCTYPE html>")
    assert page.count('"label_sets"') == 2, "both profiles are in it"


def test_wrong_usage_is_said():
    gospect.run("report").fails(2)
    gospect.run("report", "x", "--by", "colour").fails(2)
    gospect.run("report", "x", "y").fails(2)
    gospect.run("report", "x", "-f", "png").fails(2)
    assert "cannot read" in gospect.run("report", "nowhere.trace").fails(1)


def test_only_selects_one_label_value(profile, tmp_path):
    rows = {row["name"]: row for row in report(profile, "--by", "label:tenant") if row["name"]}
    value, row = next(iter(rows.items()))
    gospect.run("report", profile, "--by", "label:tenant", "--only", value, "-o", "one.pb.gz").ok()
    one = pprof.read(tmp_path / "one.pb.gz")
    assert one.total("wall") == row["wall_ns"]
    assert all(sample.labels["tenant"] == value for sample in one.samples)
    assert "has the label" in gospect.run("report", profile, "--by", "label:tenant", "--only",
                                          "nobody").fails(1)
    gospect.run("report", profile, "--only", value).fails(2)


@pytest.mark.parametrize("name,kind", [("t.html", "html"), ("t.folded", "folded"), ("t.json", "speedscope"),
                                       ("t.firefox.json", "firefox")])
def test_a_report_of_its_own_files_says_the_same(name, kind, tmp_path):
    """The times by start function: of the pprof file that was made of a trace, and of the other file."""
    trace = trace_made_up(12, tmp_path)
    gospect.run("report", trace, "-o", name).ok()
    gospect.run("report", trace, "-o", "t.pb.gz").ok()
    exact = {row["name"]: row for row in report("t.pb.gz", "--by", "root")}
    again = {row["name"]: row for row in report(name, "--by", "root")}
    assert set(again) == set(exact)
    for root, row in exact.items():
        # Folded stacks have whole microseconds.
        assert again[root]["wall_ns"] == pytest.approx(row["wall_ns"], rel=1e-3, abs=1000), root
        if kind == "html":
            assert again[root] == row


@pytest.mark.parametrize("name", ["t.json", "t.firefox.json"])
def test_a_file_in_the_order_of_time_keeps_the_states(name, tmp_path):
    """And Firefox's keeps the wait reasons: against the pprof file that was made of the same trace."""
    trace = trace_made_up(12, tmp_path)
    gospect.run("report", trace, "-o", name).ok()
    gospect.run("report", trace, "-o", "t.pb.gz").ok()
    exact = pprof.read(tmp_path / "t.pb.gz")
    for by in ["state"] if name == "t.json" else ["state", "wait"]:
        times = collections.Counter()
        for sample in exact.samples:
            if by in sample.labels:
                times[sample.labels[by]] += sample.values["wall"]
        rows = {row["name"]: row["wall_ns"] for row in report(name, "--by", by)}
        for value, time in times.items():
            assert rows.get(value, 0) == pytest.approx(time, rel=1e-3, abs=1000), value


def test_a_page_of_a_page_is_the_same_page(tmp_path):
    """With states, wait reasons, labels and times."""
    trace = trace_made_up(12, tmp_path)
    gospect.run("report", trace, "-o", "a.html").ok()
    gospect.run("report", "a.html", "-o", "b.html").ok()
    gospect.run("report", "b.html", "-o", "c.html").ok()
    assert (tmp_path / "b.html").read_bytes() == (tmp_path / "c.html").read_bytes()


def test_a_report_of_a_dump_as_json_counts_its_goroutines(targets):
    program = targets.start("states")
    gospect.run("dump", "-p", program.pid, "-f", "json", "-o", "d.json").ok()
    goroutines = json.loads(pathlib.Path("d.json").read_text())["goroutines"]
    rows = report("d.json", "--by", "wait")
    assert sum(row["count"] for row in rows) == len(goroutines)
    said = collections.Counter(g["wait_reason"] for g in goroutines if g["state"] == "waiting")
    for row in rows:
        if row["name"] in said:
            assert row["count"] == said[row["name"]]


@pytest.mark.parametrize("text", [b"<!DOCTYPE html><p>", b"{", b"{}", b'{"goroutines":[{"frames":[{}]}]}', b"main.main 5\nmain.main\n"])
def test_a_damaged_file_of_its_own_is_refused(text, tmp_path):
    (tmp_path / "x").write_bytes(text)
    gospect.run("report", tmp_path / "x").fails(1)
