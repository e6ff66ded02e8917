"""Calls of handlers, and of functions that the user names, that neither wait nor make system calls.

The program handlers knows of each when it began and ended; a trace has to know it too.
"""

import json
import os
import re
import signal
import statistics

import pytest

from lib import golang, gospect, gotrace, grpc, perfetto, pprof, tracing
from lib.params import every_version, in_full
from lib.process import Program, wait_until

HANDLER = "net/http.serverHandler.ServeHTTP"
MODES = (golang.PLAIN, golang.PIE)
# Each version, and either way to reach the agent from the code.
PAIRS = in_full(tuple((version, mode) for version in golang.VERSIONS for mode in MODES),
                ((golang.OLDEST, golang.PLAIN), (golang.NEWEST, golang.PIE)))
every_pair = pytest.mark.parametrize("version,mode", PAIRS, ids=[f"go{v}-{m}" for v, m in PAIRS])
CYCLES = int(os.environ.get("TRACE_CYCLES", 5))  # of attaching and detaching in a storm


def tolerance(ns):
    return max(20_000, ns / 100)


@pytest.fixture
def handlers(untouched):
    return lambda version=golang.NEWEST, mode=golang.PLAIN: untouched(
        golang.build("handlers", version, mode))


def rows_of(file, *args):
    result = gospect.run("report", file, *args, "-n", 0, "-f", "json", seconds=100).ok()
    assert not result.err, result.err
    return json.loads(result.out)


def trace(program, file, command, *args):
    """The answer to the command, given while the program is traced, and what gospect said."""
    process = gospect.start("trace", "-p", program.pid, "-o", file, *args)
    wait_until(lambda: tracing.is_patched(program.pid), 30, what="the agent")
    answer = program.ask(command)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err.decode()
    assert " 0 lost" in err.decode(), err.decode()
    return json.loads(answer), err.decode()


def rows_in_order(file, *by):
    rows = sorted(rows_of(file, *by), key=lambda row: row["begin_ns"])
    assert all(row["uncertain_ns"] == 0 and row["whole"] for row in rows)
    return rows


def assert_agree(calls, rows, within=False):
    """Each call has its row, which begins and ends where the program says: within what it knows
    for certain, all of them; and but for those that the operating system interrupted just between
    two clocks, within 20 us or 1 %. The program's clocks are read within the call, unless `within`
    says that it is the other way round."""
    calls = sorted(calls, key=lambda call: call["began"])
    assert len(rows) == len(calls)
    offset = statistics.median(row["begin_ns"] - call["began"] for call, row in zip(calls, rows))
    close = 0
    for call, row in zip(calls, rows):
        begin, end = row["begin_ns"] - offset, row["end_ns"] - offset
        took = call["ended"] - call["began"]
        inner, outer = (row["elapsed_ns"], took) if within else (took, row["elapsed_ns"])
        assert inner < outer + 2000, (call, row)
        assert call["sent"] - 20_000 < begin, (call, row)
        assert end < call["answered"] + tolerance(took), (call, row)
        close += (abs(begin - call["began"]) < tolerance(took)
                  and abs(end - call["ended"]) < tolerance(took))
    assert close > 0.95 * len(calls), f"{len(calls) - close} of {len(calls)} are off"


@every_pair
def test_a_handler_that_never_waits_is_seen_from_its_call_to_its_return(handlers, version, mode,
                                                                        tmp_path):
    program = handlers(version, mode)
    for name, command in (("long", "serve http 200 1 100"), ("short", "serve http 1000 1 5")):
        file = tmp_path / f"{name}.trace"
        calls, err = trace(program, file, command)
        assert len(err.splitlines()) == 1, err
        rows = rows_in_order(file, "--by", "request")
        assert {row["name"] for row in rows} == {HANDLER}
        assert_agree(calls, rows)
    if mode == golang.PLAIN:
        assert gotrace.tool_trace_takes("1.27.2", file) is None


@every_version()
def test_requests_at_the_same_time_and_over_http2_are_all_there(handlers, version, tmp_path):
    program = handlers(version)
    for kind in ("http", "http2"):
        file = tmp_path / f"{kind}.trace"
        calls, _ = trace(program, file, f"serve {kind} 1000 6 20")
        rows = rows_in_order(file, "--by", "request")
        assert len(rows) == len(calls)
        assert all(row["elapsed_ns"] > 20_000 - 1000 for row in rows)
        took = sum(call["ended"] - call["began"] for call in calls)
        assert took <= sum(row["elapsed_ns"] for row in rows)


@every_version()
def test_a_handler_that_panics_ends_with_what_recovers_it(handlers, version, tmp_path):
    """net/http closes the connection: the goroutine ends."""
    program = handlers(version)
    file = tmp_path / "out.trace"
    calls, _ = trace(program, file, "serve panic 100 1 50")
    rows = rows_in_order(file, "--by", "request")
    assert len(rows) == len(calls)
    assert all(row["elapsed_ns"] > call["ended"] - call["began"] - 2000
               for call, row in zip(calls, rows))
    assert statistics.median(row["elapsed_ns"] for row in rows) < 2e6
    assert gotrace.tool_trace_takes("1.27.2", file) is None


def offcpu(program, command, *args):
    """What offcpu shows of the program while it obeys; and its answer."""
    process = gospect.start("offcpu", program.pid, "-n", 0, *args)
    wait_until(lambda: tracing.is_patched(program.pid), 30, what="the agent")
    answer = json.loads(program.ask(command))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err.decode()
    return answer, out.decode(), err.decode()


def test_offcpu_shows_requests_unless_told_otherwise(handlers):
    calls, out, _ = offcpu(handlers(), "serve http 50 1 100", "-f", "json")
    rows = json.loads(out)
    assert len(rows) == len(calls) == 50 and {row["name"] for row in rows} == {HANDLER}


def test_offcpu_without_requests_shows_start_functions(targets):
    program = targets.keep("states", golang.NEWEST)
    for args, words in (((), "here is each start function"), (("--sampled",), "here is each start function")):
        result = gospect.run("offcpu", program.pid, "-d", "500ms", "-n", 0, *args).ok()
        assert words in result.err and "START FUNCTION" in result.text
    assert " main." in result.text
    result = gospect.run("offcpu", program.pid, "-d", "200ms", "--by", "request")
    assert result.status == 1 and "no call in" in result.words[-1]


def test_requests_as_a_profile_have_the_time_of_the_calls(handlers, tmp_path):
    program = handlers()
    calls, _ = trace(program, tmp_path / "out.trace", "serve http 50 1 500")
    gospect.run("report", tmp_path / "out.trace", "--by", "request", "-o", tmp_path / "p.pb.gz").ok()
    profile = pprof.read(tmp_path / "p.pb.gz")
    took = sum(call["ended"] - call["began"] for call in calls)
    wall = sum(sample.values["wall"] for sample in profile.samples)
    assert took <= wall + 2000 * len(calls) and wall < took + sum(tolerance(500_000) for _ in calls) * 5
    assert profile.total("cpu") > 0.9 * wall, "the handler computes"
    assert {sample.labels["request"] for sample in profile.samples} == {HANDLER}
    page = gospect.run("report", tmp_path / "out.trace", "--by", "request", "-f", "html").ok().text
    assert "<html" in page and "ServeHTTP" in page


@every_version((golang.OLDEST, golang.NEWEST))
def test_a_hijacked_connection_ends_no_later_than_its_handler(handlers, version, tmp_path):
    program = handlers(version)
    calls, _ = trace(program, tmp_path / "out.trace", "serve hijack 100 1 50")
    rows = rows_in_order(tmp_path / "out.trace", "--by", "request")
    assert_agree(calls, rows)


@every_pair
def test_functions_that_are_named_are_seen(handlers, version, mode, tmp_path):
    program = handlers(version, mode)
    # Of recursion the outermost call counts.
    root = ("--root", r"^main\.(fact|deep|risky|tiny)$")
    calls, err = trace(program, tmp_path / "fact.trace", "call fact 200", *root)
    rows = rows_in_order(tmp_path / "fact.trace", *root)
    assert_agree(calls, rows, within=True)
    assert {row["name"] for row in rows} == {"main.fact"}
    assert re.search(r"main\.tiny is inlined, for example into main\.\w+: cannot be hooked; calls are inferred from stacks", err), err
    # Its beginning is run again when there is no room on the stack, and the call begins behind it.
    calls, _ = trace(program, tmp_path / "deep.trace", "call deep 200", *root)
    assert_agree(calls, rows_in_order(tmp_path / "deep.trace", *root))
    assert gotrace.tool_trace_takes("1.27.2", tmp_path / "fact.trace") is None


@every_version()
def test_a_call_that_a_panic_ended_is_over_at_the_next(handlers, version, tmp_path):
    program = handlers(version)
    root = ("--root", r"^main\.risky$")
    calls, _ = trace(program, tmp_path / "out.trace", "call risky 201", *root)
    rows = sorted(rows_of(tmp_path / "out.trace", *root), key=lambda row: row["begin_ns"])
    assert len(rows) == 201
    for call, after, row in zip(calls, calls[1:], rows):
        # The next one is called, and computes for 20 us.
        assert 19_000 < row["elapsed_ns"] < after["ended"] - call["sent"] - 19_000
    # Those that return, which is each other one, end where they return.
    returned = [row["elapsed_ns"] - (call["ended"] - call["began"])
                for call, row in list(zip(calls, rows))[::2]]
    assert statistics.median(returned) < 5000


@pytest.mark.parametrize("args", [(), ("workers",)], ids=["goroutines", "workers"])
def test_each_grpc_call_is_seen(untouched, args, tmp_path):
    program = untouched(grpc.program(), *args)
    spent, _ = trace(program, tmp_path / "out.trace", "call 300")
    rows = rows_in_order(tmp_path / "out.trace", "--by", "request")
    assert len(rows) == len(spent) == 300
    assert {row["name"] for row in rows} == {"google.golang.org/grpc.(*Server).handleStream"}
    assert all(row["elapsed_ns"] > ns for row, ns in zip(rows, spent))
    # Beside what the method computes there is the reading and writing of its messages.
    assert statistics.median(row["elapsed_ns"] - ns for row, ns in zip(rows, spent)) < 200_000


def test_calls_are_slices_in_perfetto(handlers, tmp_path):
    if not perfetto.protos():
        pytest.skip("the package perfetto cannot be had from PyPI")
    program = handlers()
    calls, _ = trace(program, tmp_path / "out.pftrace", "serve http 100 2 50")
    seen = perfetto.Trace((tmp_path / "out.pftrace").read_bytes())
    assert not seen.wrong, seen.wrong[:3]
    took = [end - begin for track in seen.tracks.values() for name, begin, end in track.slices
            if name == f"gospect.call {HANDLER}"]
    assert len(took) == len(calls) == 100
    assert min(took) > 49_000


def test_lost_events_leave_a_legal_trace(handlers, tmp_path):
    """Calls without returns, and returns without calls."""
    program = handlers()
    program.send("storm")
    file = tmp_path / "out.trace"
    # On a busy machine the program may hardly run meanwhile.
    for seconds in 0.03, 0.1, 0.3, 1, 3:
        err = gospect.run("trace", "-p", program.pid, "-d", seconds, "-o", file, "--root",
                          r"^main\.(small|mixed|round)$").ok().err
        if int(re.search(r"(\d+) events", err)[1]) > 20_000:
            break
    assert program.ask("calm").startswith("ok ")
    assert int(re.search(r"(\d+) events", err)[1]) > 20_000, err
    assert gotrace.tool_trace_takes("1.27.2", file) is None


def test_root_that_matches_too_many_or_none_is_refused(handlers, tmp_path):
    program = handlers()
    for root, words in ((r"^net/http\.", r"matches \d+ functions, and the limit is 32"),
                        (r"^main\.no$", "--root matches no function")):
        for verb in (("trace", "-o", tmp_path / "x.trace"), ("offcpu",)):
            line = gospect.run(*verb, "-p", program.pid, "-d", 0.1, "--root", root).fails(1)
            assert re.search(words, line), line
            assert not list(tmp_path.iterdir())
    line = gospect.run("trace", "-p", program.pid, "-d", 0.1, "-o", "x.trace", "--root", "(")
    assert "invalid regular expression" in line.fails(2)
    result = gospect.run("trace", "-p", program.pid, "-d", 0.1, "-o", "-", "-f", "go", "--root",
                         r"^(runtime\.newproc|internal/bytealg\.Count)$").ok()
    assert "runtime.newproc belongs to the runtime" in result.err
    assert "internal/bytealg.Count " in result.err


@pytest.mark.time_limit(120 + CYCLES)
@pytest.mark.parametrize("mode", MODES)
@every_version((golang.OLDEST, golang.NEWEST))
def test_a_storm_of_preemption_does_no_harm(handlers, version, mode):
    """Goroutines are stopped at any instruction of the functions, and go on there when the hooks
    have come or gone."""
    program = handlers(version, mode)
    program.send("storm")
    seen, seconds = 0, 0.02
    for _ in range(CYCLES):
        result = gospect.run("trace", "-p", program.pid, "-d", seconds, "-o", "-", "-f", "go",
                             "--max-size", 1000, "--root", r"^main\.(small|mixed|round)$").ok()
        one = int(re.search(r"(\d+) events", result.err)[1]) > 1000
        seen += one
        # On a busy machine the program may hardly run meanwhile.
        seconds = 0.02 if one else min(2, 4 * seconds)
    assert int(program.ask("calm").split()[1]) > 0
    assert seen
