"""Traces by libgospect, from outside: by ctypes."""

import contextlib
import ctypes as c
import json
import os
import pathlib
import re
import subprocess
import sys
import threading

import pytest

from lib import golang, gospect, gotrace, library, perfetto
from lib.library import Code, Failed, Target, Trace
from lib.process import wait_until
from lib.traced import Tracing, incidents
from lib.tracing import is_patched, kill_unguarded

lib = library.lib


@contextlib.contextmanager
def cancel():
    pointer = c.c_void_p(lib.gospect_cancel_create())
    yield pointer
    lib.gospect_cancel_destroy(pointer)


@contextlib.contextmanager
def running(trace, cancelled):
    """gospect_trace_run() in a thread, until the block has ended."""
    failed = []

    def run():
        try:
            trace.run()
        except Failed as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    yield
    lib.gospect_cancel_request(cancelled)
    thread.join(30)
    assert not thread.is_alive() and not failed, failed


def work(program, file=None, **kwargs):
    """The program's own report, and its trace."""
    with cancel() as stop, Target(program.pid, cancel=stop) as target, \
            Trace(target, file, **kwargs) as trace:
        assert is_patched(program.pid)
        with running(trace, stop):
            did = json.loads(program.ask("work"))
        assert not is_patched(program.pid)
        assert (trace.stats.lost, trace.stats.is_full) == (0, 0), target.remarks
        assert trace.stats.events > len(did) and 0 < trace.stats.pause_ns < 1e9
        return did, trace.data


def assert_all_is_there(did, read):
    for goid, counts in did.items():
        events = read["goroutines"][goid]["events"]
        assert events["NotExist->Runnable"] == events["Running->NotExist"] == 1, (goid, counts)
        if counts["kind"] == "sleeper":
            assert events["Running->Waiting sleep"] == counts["sleeps"]


@pytest.fixture
def counted(targets):
    return targets.start("counted")


# ---- what is written ----

def test_a_trace_in_a_file(counted, tmp_path):
    file = tmp_path / "t.trace"
    did, _ = work(counted, file)
    assert_all_is_there(did, gotrace.read_valid(file))
    assert os.listdir(tmp_path) == [file.name]


def test_a_trace_in_a_sink(counted, tmp_path):
    did, data = work(counted)
    (tmp_path / "t.trace").write_bytes(data)
    assert_all_is_there(did, gotrace.read_valid(tmp_path / "t.trace"))


def test_a_trace_in_perfettos_format(counted):
    did, data = work(counted, format=1)
    if not perfetto.protos():
        pytest.skip("Perfetto's Python package cannot be had")
    trace = perfetto.Trace(data)
    assert not trace.wrong and len(trace.goroutines) >= len(did)


def test_a_flight_is_written_when_another_thread_asks(targets, tmp_path):
    program = targets.start("counted")
    file = tmp_path / "f.trace"
    written, paths = [], []
    told = library.FLIGHT(lambda arg, seconds, err: written.append((seconds, err)))
    named = library.INCIDENT(lambda arg, path, seconds, err: paths.append(
        (path.decode(), seconds, err)))
    with cancel() as stop, Target(program.pid, cancel=stop) as target, \
            Trace(target, file, flight=1, flight_written=told,
                  incident_written=named) as trace:
        with running(trace, stop):
            did = json.loads(program.ask("work"))
            lib.gospect_trace_write_flight(trace.pointer)
            wait_until(lambda: written, what="the flight")
            assert incidents(file) and is_patched(program.pid)
        (seconds, err), = written
        assert seconds > 0 and not err
    assert [pathlib.Path(path) for path, _, _ in paths] == incidents(file)
    assert all(seconds > 0 and not err for _, seconds, err in paths)
    assert re.search(r"-usr1\.trace$", paths[0][0])
    assert set(did) & set(gotrace.read_valid(incidents(file)[0])["goroutines"])


def test_a_trace_ends_when_its_time_is_over_or_its_file_is_full(targets):
    program = targets.start("counted")
    with Target(program.pid) as target:
        with Trace(target, duration=0.5) as trace:
            assert trace.run().duration_ns / 1e9 == pytest.approx(0.5, abs=0.4)
        with Trace(target, duration=20, max_bytes=20000) as trace:
            worker = threading.Thread(target=program.ask, args=("work",))
            worker.start()
            assert trace.run().is_full == 1
            worker.join()
            assert len(trace.data) <= 20000
        assert any("reached its maximum size" in line for line in target.remarks)


# ---- refusals ----

@pytest.mark.parametrize("options", [
    dict(duration=-1), dict(flight=1), dict(format=7), dict(flags=1 << 30),
    dict(flags=library.TRACE_IN_MEMORY, path="t.trace"), dict(stack_depth=128),
    dict(root=b"("), dict(max_pause=float("nan"))])
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(Failed) as failed:
        Trace(None, **options)
    assert failed.value.code == Code.INVALID


def test_nothing_is_left_where_a_trace_is_refused(targets):
    program = targets.start("counted")
    with Target(program.pid) as target:
        with pytest.raises(Failed, match="would stop it") as failed:
            Trace(target, max_pause=1e-6)
        assert failed.value.code == Code.DENIED
        with Trace(target) as first, pytest.raises(Failed, match=str(os.getpid())):
            assert first and Trace(target)
        assert not is_patched(program.pid)
        with Trace(target, duration=0.1) as trace:
            trace.run()
            with pytest.raises(Failed) as failed:
                trace.run()
            assert failed.value.code == Code.INVALID


def test_library_removes_a_stale_agent(targets, tmp_path):
    program = targets.start("counted")
    kill_unguarded(Tracing(program.pid, tmp_path / "t.trace").has_begun().process)
    assert is_patched(program.pid)
    with Target(program.pid) as target:
        found = [c.c_int(), c.c_int()]
        for ret in found:
            library.check(lib.gospect_trace_clean(target.pointer, None, c.byref(ret)))
    assert [ret.value for ret in found] == [1, 0] and not is_patched(program.pid)


def test_a_sink_that_fails_ends_the_trace(targets):
    program = targets.start("counted")
    with Target(program.pid) as target:
        options = library.TraceOptions(duration=20, sink=library.Sink(
            library.WRITE(), None, os.open("/dev/full", os.O_WRONLY)))
        pointer = c.c_void_p()
        with pytest.raises(Failed, match="No space left"):
            library.check(lib.gospect_trace_create(c.byref(options), c.byref(pointer)))
    assert not is_patched(program.pid)


# ---- the process that uses it ----

def test_two_targets_at_once(targets, tmp_path):
    programs = [targets.start("counted"), targets.start("counted", golang.OLDEST)]
    did = [None, None]

    def trace(i):
        did[i] = work(programs[i], tmp_path / f"{i}.trace")[0]

    threads = [threading.Thread(target=trace, args=(i,)) for i in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in (0, 1):
        assert_all_is_there(did[i], gotrace.read_valid(tmp_path / f"{i}.trace"))


CONFINED = """
import ctypes as c, os, sys
sys.path[:0] = [{tests!r}]
from lib import library

def status(name):
    return next(line.split()[1] for line in open("/proc/thread-self/status")
                if line.startswith(name + ":"))

lib, surgeon = library.lib, c.c_void_p()
before = int(status("CapEff"), 16)
trace = library.Trace(None, {file!r}, duration=0.5)
library.check(lib.gospect_surgeon_start({pid}, None, c.byref(surgeon)))
library.check(lib.gospect_confine(c.byref(library.ConfineOptions(pid={pid}, trace=trace.pointer))))
with library.Target({pid}) as target:
    trace.begin(target, surgeon)
    assert trace.run().events
    lib.gospect_trace_destroy(trace.pointer)
lib.gospect_surgeon_end(surgeon)
for forbidden in "/etc/passwd", "/proc/self/status":
    try:
        open(forbidden)
    except PermissionError:
        continue
    raise AssertionError(forbidden)
lib.gospect_confine_end()
"""


def test_a_confined_process_traces_by_a_surgeon_that_it_started_before(targets, tmp_path):
    program = targets.start("counted")
    file = tmp_path / "t.trace"
    script = CONFINED.format(tests=str(gospect.ROOT / "tests"), pid=program.pid, file=str(file))
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                         timeout=60)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert gotrace.read_valid(file)["goroutines"]


def test_a_child_is_held_until_it_is_traced(tmp_path):
    binary, file = golang.build("brief", golang.NEWEST), tmp_path / "t.trace"
    ours, childs = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(os.open(tmp_path / "out", os.O_CREAT | os.O_WRONLY), 1)
        os.read(ours, 1)
        os.execv(binary, [str(binary), "0"])
    hold = c.c_void_p()
    library.check(lib.gospect_hold_start(child, c.byref(hold)))
    os.write(childs, b"x")
    with Target(child, hold=hold, exec_timeout=5) as target, Trace(target, file) as trace:
        assert not (tmp_path / "out").read_text()
        lib.gospect_hold_release(hold)
        trace.run()
    assert os.waitpid(child, 0)[1] == 0
    assert (tmp_path / "out").read_text() == "did 1012\n"
    read = gotrace.read_valid(file)
    assert read["logs"]["init=brief"] == 7 and read["logs"]["child=brief"] == 1000
    os.close(ours)
    os.close(childs)


def test_an_output_appears_whole_or_not_at_all(tmp_path):
    output = c.c_void_p()
    path = str(tmp_path / "out").encode()
    library.check(lib.gospect_output_open(path, c.byref(output)))
    lib.gospect_output_sink.restype = library.Sink
    sink = lib.gospect_output_sink(output)
    assert sink.write(sink.arg, b"abc", 3) == 0
    assert os.listdir(tmp_path) == []
    library.check(lib.gospect_output_commit(output))
    lib.gospect_output_close(output)
    assert pathlib.Path(tmp_path / "out").read_bytes() == b"abc"
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o600
