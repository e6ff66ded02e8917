"""Traces have the goroutines that waited before they began: compared with the program's own dump."""

import collections
import json
import re
import signal
import time

import pytest

from lib import golang, gospect, gotrace, perfetto, pprof, traceback
from lib.process import Program
from lib.traced import Tracing, incidents

VERSIONS = ("1.17.13", "1.22.12", golang.NEWEST)
COUNT = 50
# As a trace calls the wait reasons, and the runtime in its dump.
REASONS = {"sync": ("semacquire", "sync.Mutex.Lock"), "chan receive": ("chan receive",),
           "select": ("select",), "sync.(*Cond).Wait": ("sync.Cond.Wait",)}


@pytest.fixture(params=VERSIONS, ids=[f"go{v}" for v in VERSIONS])
def stuck(request, tmp_path):
    """A program with waiting goroutines only, and its traceback at SIGQUIT."""
    with open(tmp_path / "stderr", "w+b") as err:
        program = Program(golang.build("stuck", request.param), COUNT, stderr=err,
                          env={"GOTRACEBACK": "all"})

        def dies():
            program.process.send_signal(signal.SIGQUIT)
            program.process.wait(60)
            text = (tmp_path / "stderr").read_text()
            return [g for g in traceback.parse(text[text.index("\ngoroutine ") + 1:]).values()
                    if "main.main.func1" in g.functions()]

        program.dies = dies
        yield program
        program.process.kill()
        program.process.wait()


def traced(program, file, *args):
    return gospect.run("trace", "-p", program.pid, "-d", 0.5, "-o", file, *args).ok()


def report(file, *args):
    return json.loads(gospect.run("report", file, "-f", "json", "-n", "0", *args).ok().text)


def is_ours(function):
    return function.startswith("main.")


def assert_said(requests, dump, lines=True):
    """Each goroutine waits where the program says, and for that. A Perfetto trace has no lines."""
    said = {row["goroutine"]: row for row in requests}
    assert set(said) == {g.id for g in dump}
    for g in dump:
        reason, = said[g.id]["waits"]
        stack, = said[g.id]["stacks"]
        assert g.state in REASONS[reason] and stack["wait"] == reason, g
        assert [(f["func"], f["line"]) for f in stack["frames"] if is_ours(f["func"])] == [
            (f.func, f.line if lines else 0) for f in g.frames if is_ours(f.func)], g


def test_a_program_that_hangs_is_named_in_full(stuck, tmp_path):
    """Before, the table had only (none), (none), and no goroutine had the label w."""
    file = tmp_path / "t.trace"
    traced(stuck, file)
    rows = report(file)
    requests = report(file, "--root", "^main.main.func1$")
    labelled = report(file, "--by", "label:w")
    dump = stuck.dies()
    assert len(dump) == COUNT and rows[0]["name"] == "main.main.func1"
    assert all(row["name"] and row["waits"] or row["syscall_ns"] for row in rows), rows
    each = rows[0]["waiting_ns"] / COUNT
    reasons = collections.Counter(key for g in dump for key, of in REASONS.items() if g.state in of)
    assert 0.4e9 < each and rows[0]["goroutines"] == COUNT
    assert rows[0]["waits"] == {
        key: pytest.approx(count * each, rel=0.01) for key, count in reasons.items()}
    assert_said(requests, dump)
    assert {row["name"] for row in labelled} == {str(i) for i in range(COUNT)}
    assert_said(labelled, dump)
    read = gotrace.read_valid(file)
    assert not read["procs"].get("Running->Running")


def test_how_long_they_have_waited_before_is_known(stuck, tmp_path):
    file = tmp_path / "t.trace"
    time.sleep(0.2)
    _, least = map(int, stuck.ask("since").split())
    traced(stuck, file)
    most, _ = map(int, stuck.ask("since").split())
    row = report(file)[0]
    assert set(row["waited_before_ns"]) == set(row["waits"]) == set(REASONS)
    for request in report(file, "--root", "^main.main.func1$"):
        stack, = request["stacks"]
        assert least <= stack["waited_before_ns"] <= most
        assert stack["waited_before_ns"] <= row["waited_before_ns"][stack["wait"]] <= most


@pytest.mark.parametrize("reader", ("1.22.12", "1.24.13", golang.NEWEST))
def test_readers_of_every_version_take_a_trace_without_events(stuck, tmp_path, reader):
    file = tmp_path / "t.trace"
    traced(stuck, file)
    assert gotrace.tool_trace_takes(reader, file) is None


@pytest.mark.parametrize("wire,readers", [("1.23", ("1.24.13", golang.NEWEST)),
                                          ("1.25", ("1.25.11", golang.NEWEST))])
def test_gos_own_tools_show_waiting_goroutines_from_1_23_on(stuck, tmp_path, wire, readers):
    file = tmp_path / "t.trace"
    began = time.time_ns(), time.monotonic_ns()
    traced(stuck, file, "--wire", wire)
    assert file.read_bytes().startswith(f"go {wire} trace\0\0\0".encode())
    for reader in readers:
        assert gotrace.tool_trace_takes(reader, file) is None
    read, = gotrace.read(file, wire=int(wire[2:]))
    assert "error" not in read, read["error"]
    dump = stuck.dies()
    for g in dump:
        assert read["goroutines"][str(g.id)]["name"] == "main.main.func1"
        assert [f for f in read["stood"][str(g.id)] if is_ours(f)] == [
            f for f in g.functions() if is_ours(f)]
    assert_said(report(file, "--root", "^main.main.func1$"), dump)
    assert bool(read["clocks"]) == (wire == "1.25")
    for monotonic, wall in read["clocks"] or []:
        assert 0 < monotonic - began[1] < 20e9
        assert monotonic - began[1] == pytest.approx(wall - began[0], abs=5e6)


@pytest.mark.parametrize("suffix", ("trace", "pftrace"))
def test_each_file_of_a_flight_has_the_waiting_goroutines(stuck, tmp_path, suffix):
    file = tmp_path / f"t.{suffix}"
    t = Tracing(stuck.pid, file, "--flight", "1").has_begun()
    for _ in range(64):
        time.sleep(0.05)
        stuck.ask("check")
    t.end()
    requests = report(incidents(file)[0], "--root", "^main.main.func1$")
    if suffix == "trace":
        gotrace.read_valid(incidents(file)[0])
    assert_said(requests, stuck.dies(), lines=suffix == "trace")
    assert all(0.9e9 < row["wall_ns"] < 2.5e9 for row in requests)


def test_offcpu_shows_goroutines_that_wait_during_the_whole_trace(stuck):
    rows = json.loads(gospect.run("offcpu", "-p", stuck.pid, "-d", "0.5", "--root",
                                  "^main.main.func1$", "-f", "json", "-n", "0").ok().text)
    assert_said(rows, stuck.dies())


def test_a_flame_graph_of_a_program_that_hangs_has_its_stacks(stuck, tmp_path):
    file, profile = tmp_path / "t.trace", tmp_path / "t.pb.gz"
    traced(stuck, file)
    gospect.run("report", file, "-o", profile).ok()
    shown = collections.Counter()
    for sample in pprof.read(profile).samples:
        functions = sample.stack
        if "main.main.func1" in functions:
            shown[next(f for f in functions if is_ours(f))] += sample.values["wall"]
    whole = sum(shown.values())
    expected = collections.Counter(next(f.func for f in g.frames if is_ours(f.func))
                                   for g in stuck.dies())
    assert shown == {f: pytest.approx(n / COUNT * whole, rel=0.01) for f, n in expected.items()}


def test_perfetto_shows_why_and_where_from_the_first_slice_on(stuck, tmp_path):
    if not perfetto.protos():
        pytest.skip("the package perfetto cannot be had from PyPI")
    file = tmp_path / "t.pftrace"
    traced(stuck, file)
    trace = perfetto.Trace(file.read_bytes())
    assert not trace.wrong, trace.wrong[:3]
    requests = report(file, "--root", "^main.main.func1$")
    for args in (), ("--root", "^main.main.func1$"), ("--by", "label:w"):
        text = gospect.run("report", file, *args).ok().text
        assert "chan receive" in text and not re.search(r":0\b", text), text
    dump = stuck.dies()
    assert_said(requests, dump, lines=False)
    names = {g.id: next(k for k, of in REASONS.items() if g.state in of) for g in dump}
    # What is still so at the end of the trace has no end.
    states = {track.name: track.open[0][0] for track in trace.tracks.values()
              if track.open and track.name.endswith(" main.main.func1")}
    assert states == {f"G{goid} main.main.func1": reason for goid, reason in names.items()}
    assert sum(trace.stacks.values()) >= COUNT
    assert not [name for name in trace.goroutines if name.startswith("G46116860")]


def test_each_goroutine_at_one_place_takes_few_bytes(targets, tmp_path):
    """A log names all that wait at one place, so that 100,000 add no more than 0.4 MB."""
    program = targets.start("stuck", args=("20000",))
    sizes = []
    for depth in (0, 32):
        file = tmp_path / f"{depth}.trace"
        result = traced(program, file, "--stack-depth", depth)
        assert "label sets were lost" not in result.err
        sizes.append(file.stat().st_size)
    assert 20000 < sizes[1] - sizes[0] < 4 * 20000
    row = report(file)[0]
    assert row["name"] == "main.main.func1" and row["goroutines"] == 20000
    assert sum(row["waits"].values()) == pytest.approx(row["wall_ns"], rel=0.01)
