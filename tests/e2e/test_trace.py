"""`gospect trace`: what it writes, against what programs count themselves and what Go's tracer sees."""

import html
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

from lib import golang, gospect, gotrace, perfetto, pprof
from lib.params import every_version
from lib.process import wait_until
from lib.traced import SUMMARY, Tracing, assert_as_counted, incidents, times, tracing
from lib.tracing import kill_unguarded

# Go's tracer of these versions writes what our reader of traces reads.
OWN_TRACER = ("1.22.12", "1.25.11", "1.27.2")


def traced_work(program, file, *args):
    """The program's work, what it says it did, and what Go's reader makes of our trace of it."""
    with tracing(program, file, *args) as t:
        did = json.loads(program.ask("work"))
    assert t.lost == 0, t.err
    return did, gotrace.read_valid(file), t


@every_version()
def test_trace_has_as_many_events_as_the_program_counts(targets, version, tmp_path):
    program = targets.start("counted", version)
    did, trace, _ = traced_work(program, tmp_path / "t.trace")
    assert_as_counted(did, trace, version)


# What is compared: time in a system call begins before Go's own tracer has taken its stack for that
# event or after it, by version, so with both at work it is told from running by neither.
PARTS = {"at work": ("running", "syscall"), "runnable": ("runnable",), "in all": ("total",)}


def spent(g, key):
    return sum(g[part] for part in PARTS[key])


def differences_of_times(did, theirs, mine):
    off = []
    for goid, counts in did.items():
        a, b = theirs["goroutines"][goid], mine["goroutines"][goid]
        where = goid, counts["kind"]
        assert b["events"] == a["events"], where
        # Each event's time lies a little apart: between the two clocks' readings the other tracer
        # does its work.
        slack = 20000 + 200 * sum(a["events"].values())
        off += [(key, *where, spent(a, key), spent(b, key)) for key in PARTS
                if abs(spent(b, key) - spent(a, key)) > 0.01 * spent(a, key) + slack]
    return off


@pytest.mark.parametrize("version", OWN_TRACER)
def test_gos_own_tracer_sees_the_same(targets, version, tmp_path):
    """Both at once, each goroutine of the work: events the same, times within 1 %."""
    own, ours = tmp_path / "own.trace", tmp_path / "ours.trace"
    # Where much else runs, the kernel takes the processor away between those readings now and then:
    # from other goroutines each time.
    for _ in range(4):
        program = targets.start("counted", version)
        with tracing(program, ours) as t:
            assert program.ask(f"trace {own}") == "ok"
            did = json.loads(program.ask("work"))
            assert program.ask("end-trace") == "ok"
        assert t.lost == 0, t.err
        theirs, = gotrace.read(own, newer=True)
        off = differences_of_times(did, theirs, gotrace.read_valid(ours))
        if len(off) <= 0.01 * len(did):
            return
    assert not off


@pytest.mark.parametrize("version", (OWN_TRACER[0], OWN_TRACER[-1]))
def test_go_s_own_tracer_sees_the_same_sweeping(targets, version, tmp_path):
    program = targets.start("counted", version, env={"GOGC": "20"})
    own, ours = tmp_path / "own.trace", tmp_path / "ours.trace"
    assert program.ask("garbage") == "ok"  # what is still to be swept was there before either
    with tracing(program, ours) as t:
        assert program.ask(f"trace {own}") == "ok"
        assert program.ask("garbage") == "ok"
        assert program.ask("end-trace") == "ok"
    assert t.lost == 0, t.err
    theirs, = gotrace.read(own, newer=True)
    mine = gotrace.read_valid(ours)
    seen, times = (trace["ranges"]["GC incremental sweep"] for trace in (mine, theirs))
    # It is swept for a collection that ended before their trace began, and for making it, as well.
    assert times > 10 and times <= seen <= times + 5
    assert theirs["swept"] <= mine["swept"] <= 1.1 * theirs["swept"]


def test_stacks_begin_where_the_goroutine_stood(targets, tmp_path):
    program = targets.start("counted")
    _, trace, _ = traced_work(program, tmp_path / "t.trace")
    stacks = trace["stacks"]
    assert stacks["Running->Waiting sleep"][-2:] == ["main.sleeper"] or \
        stacks["Running->Waiting sleep"][-1] == "main.sleeper", stacks
    assert "time.Sleep" in stacks["Running->Waiting sleep"]
    assert stacks["Running->Syscall"][-1] in ("main.caller", "main.main")


@pytest.mark.parametrize("version", ("1.22.12", "1.24.13", "1.27.2"))
def test_go_tool_trace_opens_it(targets, version, tmp_path):
    program = targets.start("counted", golang.MIDDLE)
    traced_work(program, tmp_path / "t.trace")
    assert gotrace.tool_trace_takes(version, tmp_path / "t.trace") is None


@pytest.mark.parametrize("version", ("1.22.12", "1.24.13", "1.27.2"))
def test_the_pages_of_go_tool_trace_open(targets, version, tmp_path):
    program = targets.start("counted", version)
    did, _, t = traced_work(program, tmp_path / "t.trace")
    kinds = {counts["kind"] for counts in did.values()}
    with gotrace.Pages(version, t.file) as pages:
        assert b"/goroutines" in pages.get("/")
        summary = pages.get("/goroutines").decode()
        assert {kind for kind in kinds if f"main.{kind}" not in summary} == set()
        sleeper = html.unescape(re.search(r'href="(/goroutine\?[^"]*)">main\.sleeper<', summary)[1])
        assert b"sleep" in pages.get(sleeper)
        assert len(json.loads(pages.get("/jsontrace"))["traceEvents"]) > 1000
        assert b"<html" in pages.get("/trace").lower()
        assert b"mmu" in pages.get("/mmu").lower()
        assert json.loads(pages.get("/mmu?mode=plot&flags=stw%7Cbackground"))["curve"]
        for name in "block", "sched":
            profile = tmp_path / f"{name}.pb.gz"
            profile.write_bytes(pages.get(f"/{name}?raw=1"))
            functions = {f for s in pprof.read(profile).samples for f in s.stack}
            assert any(f.startswith("main.") for f in functions), (name, functions)
        for page in "/io?raw=1", "/syscall?raw=1", "/usertasks", "/userregions":
            pages.get(page)


def test_the_collector_is_in_the_trace(targets, tmp_path):
    program = targets.start("hectic", args=("-only", "garbage"))
    trace_file = tmp_path / "t.trace"
    gospect.run("trace", "-p", program.pid, "-d", "1", "-o", trace_file).ok()
    trace = gotrace.read_valid(trace_file)
    assert any("GC concurrent mark" in name for name in trace["ranges"]), trace["ranges"]
    assert any("stop-the-world" in name for name in trace["ranges"]), trace["ranges"]
    assert any("heap" in name for name in trace["metrics"]), trace["metrics"]


def test_a_trace_of_a_program_that_does_nothing_is_as_long_as_asked(targets, tmp_path):
    program = targets.start("counted")
    t = Tracing(program.pid, tmp_path / "t.trace", "-d", "1.5").wait()
    trace = gotrace.read_valid(t.file)
    assert 1.4e9 < trace["last"] - trace["first"] < 3e9
    assert t.seconds == pytest.approx((trace["last"] - trace["first"]) / 1e9, abs=0.1)
    assert max(sum(g["blocked"].values()) for g in trace["goroutines"].values()) > 1.4e9


def test_stack_depth_0_writes_no_stacks(targets, tmp_path):
    program = targets.start("counted")
    _, trace, t = traced_work(program, tmp_path / "t.trace", "--stack-depth", "0")
    assert t.stacks == 0
    assert not [s for key, s in trace["stacks"].items() if len(s) > 1], trace["stacks"]


def test_a_trace_ends_when_it_is_as_large_as_it_may_be(targets, tmp_path):
    program = targets.start("counted")
    t = Tracing(program.pid, tmp_path / "t.trace", "--max-size", "1").has_begun()
    while t.process.poll() is None:
        program.ask("work")
    assert t.wait().file.stat().st_size <= 1 << 20
    assert "ended early" in t.err
    gotrace.read_valid(t.file)


def local_time(path):
    """When an incident was, by its name."""
    stamp = re.search(r"-(\d{8}-\d{6})(?=-)", path.name)[1]
    return time.mktime(time.strptime(stamp, "%Y%m%d-%H%M%S"))


def test_flight_keeps_the_last_seconds_of_each_incident(targets, tmp_path):
    """The second one took the first one's name, and its place."""
    program = targets.start("counted")
    file = tmp_path / "t.trace"
    t = Tracing(program.pid, file, "--flight", "1").has_begun()
    end = time.monotonic() + 4
    while time.monotonic() < end:
        program.ask("work")
    assert not list(tmp_path.iterdir())
    written = []
    for reason, number in (("usr1", signal.SIGUSR1), ("usr1", signal.SIGUSR1),
                           ("interrupt", signal.SIGINT)):
        began = time.time()
        t.process.send_signal(number)
        wait_until(lambda: len(incidents(file)) > len(written), what="an incident's file")
        new, = set(incidents(file)) - {path for path, _ in written}
        assert re.fullmatch(rf"t-\d{{8}}-\d{{6}}(-[2-9])?-{reason}\.trace", new.name)
        assert int(began) <= local_time(new) <= time.time()
        written.append((new, new.read_bytes()))
        program.ask("work")
    t.wait()
    assert [path for path, _ in written] == incidents(file) and not file.exists()
    for path, bytes_of_then in written:
        assert path.read_bytes() == bytes_of_then
        assert f" s to {path}\n" in t.err
        read = gotrace.read_valid(path)
        assert 0.5e9 < read["last"] - read["first"] < 3.5e9
    assert t.file == written[-1][0]


def test_the_end_of_a_flight_writes_what_happened_since_an_incident(targets, tmp_path):
    """Nothing: then no second file has the same again."""
    program = targets.start("counted")
    file = tmp_path / "t.trace"
    t = Tracing(program.pid, file, "--flight", "5").has_begun()
    program.ask("work")
    time.sleep(1)
    t.process.send_signal(signal.SIGUSR1)
    wait_until(lambda: incidents(file), what="an incident's file")
    only, = incidents(file)
    t.end()
    if "nothing has happened since" in t.err:
        assert incidents(file) == [only] == [t.file]
    else:  # The runtime's own goroutines may have done something.
        last, = set(incidents(file)) - {only}
        gotrace.read_valid(last)
    gotrace.read_valid(only)


def test_the_reason_of_a_flights_end_is_in_its_name(tmp_path):
    for name, args, reason in (("d", ("-d", "0.5"), "duration"), ("e", (), "exit")):
        file = tmp_path / f"{name}.pftrace"
        result = gospect.run("trace", "-o", file, "--flight", "9", *args, "--",
                             golang.build("split", golang.NEWEST), "-for", "1s")
        assert result.status == 3, result.err  # the program's own
        only, = incidents(file)
        assert only.name.endswith(f"-{reason}.pftrace") and f"-> {only}" in result.err


@pytest.mark.parametrize("name", ["/dev/null", "fifo"])
def test_a_flight_is_not_written_beside_what_is_no_file(states, tmp_path, name):
    os.mkfifo(tmp_path / "fifo")
    line = gospect.run("trace", "-p", states.pid, "-o", tmp_path / name, "-f", "go",
                       "--flight", "1", "-d", "0.1").fails(1)
    assert "choose another name" in line and not list(pathlib.Path("/dev").glob("null-*"))


@pytest.mark.alone  # beside other tests hardly a CPU is free, and nothing is decoded
def test_a_killed_gospect_leaves_what_was_complete(targets, tmp_path):
    program = targets.start("counted")
    file = tmp_path / "t.trace"
    partial = file.with_name("t.trace.partial")
    t = Tracing(program.pid, file).has_begun()
    end = time.monotonic() + 3
    # Where others take all of the machine, nothing is decoded (docs/internals/trace-file.md).
    while time.monotonic() < end or (partial.stat().st_size < 10000 and time.monotonic() < end + 75):
        program.ask("work")
        time.sleep(0.01)
    kill_unguarded(t.process)
    assert gotrace.read_valid(partial)["events"] > 1000
    assert not file.exists()
    # The next one clears up behind it.
    did, _, _ = traced_work(program, file)
    assert did


def test_a_target_that_ends_is_traced_to_its_end(tmp_path):
    binary = golang.build("split", golang.NEWEST)
    file = tmp_path / "t.trace"
    result = gospect.run("trace", "-o", file, "--", binary, "-for", "1s")
    assert result.status == 3, result.err  # the program's own
    assert SUMMARY.search(result.err), result.err
    gotrace.read_valid(file)


def test_a_perfetto_trace_has_every_goroutine(targets, tmp_path):
    if not perfetto.protos():
        pytest.skip("the package perfetto cannot be had from PyPI")
    program = targets.start("counted")
    file = tmp_path / "t.pftrace"
    with tracing(program, file) as t:
        did = json.loads(program.ask("work"))
    assert t.lost == 0, t.err
    trace = perfetto.Trace(file.read_bytes())
    assert not trace.wrong, trace.wrong[:3]
    for goid, counts in did.items():
        assert f"G{goid} main.{counts['kind']}" in trace.goroutines
    sleepers = trace.goroutines_named("main.sleeper")
    assert sum(name == "sleep" for s in sleepers for name, _, _ in s.slices) == 800


def test_unwritable_output_fails_before_the_target_is_touched(states):
    assert "directory" in gospect.run("trace", "-p", states.pid, "-o", "/nowhere/t.trace").fails(1)
    assert "file extension" in gospect.run("trace", "-p", states.pid, "-o", "t.txt").fails(2)
    assert "core" in gospect.run("trace", "--core", "x", "-o", "t.trace").fails(2)
    assert "flight" in gospect.run("trace", "-p", states.pid, "--flight", "3").fails(2)


def test_a_full_disk_keeps_what_was_complete(targets, tmp_path):
    """Where hardly a CPU is free, nothing is decoded before the end (docs/internals/trace-file.md)."""
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small])
    if mounted.returncode != 0:
        pytest.skip("no file system of our own can be mounted here")
    try:
        program = targets.start("counted")
        t = Tracing(program.pid, small / "t.trace").has_begun()
        for _ in range(20):  # 3 MB
            program.ask("work")
            if t.process.poll() is not None:
                break
        t.process.send_signal(signal.SIGINT)
        err = t.process.communicate(timeout=100)[1].decode()
        assert t.process.returncode == 1, err
        assert "no space left on device" in err
        gotrace.read_valid(small / "t.trace")
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_full_disk_leaves_the_incidents_before(targets, tmp_path):
    """What does not fit is said, and leaves no part of a file; the trace goes on."""
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small])
    if mounted.returncode != 0:
        pytest.skip("no file system of our own can be mounted here")
    try:
        program = targets.start("counted")
        file = small / "t.trace"
        t = Tracing(program.pid, file, "--flight", "60").has_begun()
        program.ask("work")
        t.process.send_signal(signal.SIGUSR1)
        wait_until(lambda: incidents(file), what="an incident's file")
        first, = incidents(file)
        (small / "filler").write_bytes(bytes(os.statvfs(small).f_bavail * 4096))
        program.ask("work")
        t.process.send_signal(signal.SIGINT)
        err = t.process.communicate(timeout=60)[1].decode()
        assert t.process.returncode == 1 and "no space left on device" in err
        assert set(small.iterdir()) == {first, small / "filler"}
        gotrace.read_valid(first)
    finally:
        subprocess.run(["umount", small], check=True)
