"""`gospect trace` on a machine on which others take every processor."""

import contextlib
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import time

import pytest

from lib import gospect, gotrace
from lib.process import busy_loops, status, wait_until
from lib.traced import Tracing, incidents, tracing
from lib.tracing import is_patched

CAP_SYS_NICE = 23
# The records of so many bursts of 100,000 rounds are more than half of a trace of this size: each has 16 MB.
MAX_MB, BURSTS_OF_MAX_MB = 48, 2
# What gospect's child processes do not get.
FIRST = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK


def hogs_beside():
    return busy_loops(os.cpu_count())


@pytest.fixture
def busy():
    """Every processor has something else to do."""
    with hogs_beside():
        yield


def may_raise_priorities():
    return int(status("self")["CapEff"], 16) >> CAP_SYS_NICE & 1


def policies(process):
    """The scheduling policy and nice value of each of its threads."""
    threads = sorted(map(int, os.listdir(f"/proc/{process.pid}/task")))
    return [(os.sched_getscheduler(t), os.getpriority(os.PRIO_PROCESS, t)) for t in threads]


@pytest.mark.alone
@pytest.mark.skipif(not may_raise_priorities(), reason="it takes CAP_SYS_NICE")
def test_decoding_leaves_the_cpus_to_others_until_the_end(targets, busy, tmp_path):
    program = targets.start("counted")
    t = Tracing(program.pid, tmp_path / "t.trace").has_begun()
    # Who decodes, who writes what waits to a file, who collects.
    wait_until(lambda: policies(t.process) == [(os.SCHED_IDLE, 0), (os.SCHED_OTHER, -10), (FIRST, -10)])
    did = json.loads(program.ask("work"))
    t.end()
    assert t.lost == 0, t.err
    assert set(did) <= set(gotrace.read_valid(t.file)["goroutines"])


def decoder_seconds(t):
    """The CPU time of the thread that decodes, which is the main one."""
    return int(pathlib.Path(f"/proc/{t.process.pid}/task/{t.process.pid}/schedstat").read_text().split()[0]) / 1e9


@pytest.mark.alone
def test_nothing_is_decoded_while_every_cpu_is_busy(targets, tmp_path):
    """More than half of --max-size waits by the end."""
    program = targets.start("burst", session=True)
    rounds = 0
    with hogs_beside():
        t = Tracing(program.pid, tmp_path / "t.trace", "--max-size", MAX_MB).has_begun()
        time.sleep(1)  # what there is at the beginning is read
        began, before = time.monotonic(), decoder_seconds(t)
        for _ in range(BURSTS_OF_MAX_MB):
            rounds += json.loads(program.ask("burst 100000"))["rounds"]
        spent, passed = decoder_seconds(t) - before, time.monotonic() - began
    t.end()
    # It asks a hundred times a second whether a processor is free.
    assert spent < 0.01 + 0.02 * passed, f"{spent} s in {passed} s"
    assert t.lost == 0 and "ended early" not in t.err, t.err
    assert t.events > 11 * rounds


@pytest.mark.alone
def test_a_trace_ends_undecoded_when_what_waits_would_fill_it(targets, tmp_path):
    program = targets.start("burst", session=True)
    with hogs_beside():
        t = Tracing(program.pid, tmp_path / "t.trace", "--max-size", 8).has_begun()
        time.sleep(1)
        before = spent = now = decoder_seconds(t)
        program.send("burst 500000")
        while is_patched(program.pid):  # after it was read: the program was still traced then
            spent, now = now, decoder_seconds(t)
            time.sleep(0.01)
    t.wait()
    program.line()
    assert "reached its maximum size, 8 MB, with the records that waited for an idle CPU" in t.err
    assert spent - before < 0.05
    # Each log's text is in its record, and once in the file.
    assert 8 / 3 < t.file.stat().st_size / 2**20 <= 8
    gotrace.read_valid(t.file)


def crowd(others):
    """Four processes want the processors: so many in sessions of their own, the others in gospect's."""
    return busy_loops(4, sessions=others)


in_other_sessions = pytest.mark.parametrize("others", [4, pytest.param(2, marks=pytest.mark.slow)])


def has_precedence(program):
    """Its session has nearly all of the processors, where sessions share them."""
    with contextlib.suppress(FileNotFoundError):
        pathlib.Path(f"/proc/{program.pid}/autogroup").write_text("-20")


def trace_bursts(program, file, others, bursts):
    has_precedence(program)
    rounds = 0
    with crowd(others), tracing(program, file) as t:
        for _ in range(bursts):
            time.sleep(0.3)
            rounds += json.loads(program.ask("burst 100000"))["rounds"]
    assert t.lost == 0, t.err
    assert t.events > 11 * rounds
    return rounds


@pytest.mark.alone
@pytest.mark.skipif(not may_raise_priorities(), reason="it takes CAP_SYS_NICE")
@in_other_sessions
def test_nothing_is_lost_when_a_program_suddenly_does_much(targets, others, tmp_path):
    rounds = trace_bursts(targets.start("burst", session=True), tmp_path / "t.trace", others, 2)
    trace = gotrace.read_valid(tmp_path / "t.trace")
    assert trace["logs"]["burst=in the midst of a round"] == rounds
    whole = [g for g in trace["goroutines"].values() if g["created"] > 0 and g["ended"] > 0]
    assert sum(g["name"] == "main.short" for g in whole) == rounds // 10
    assert sum(g["events"].get("Running->Syscall", 0) for g in trace["goroutines"].values()) >= rounds


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.skipif(not may_raise_priorities(), reason="it takes CAP_SYS_NICE")
@in_other_sessions
def test_nothing_is_lost_in_ten_bursts(targets, others, tmp_path):
    trace_bursts(targets.start("burst", session=True), tmp_path / "t.trace", others, 10)


@pytest.mark.alone
@pytest.mark.skipif(not may_raise_priorities(), reason="it takes CAP_SYS_NICE")
@in_other_sessions
def test_a_program_is_traced_from_the_beginning_on_a_busy_machine(targets, others, tmp_path):
    """Between attaching and the first look at what it writes gospect has much to do."""
    program = targets.start("burst", session=True)
    has_precedence(program)
    program.send("burst 500000")
    with crowd(others):
        t = Tracing(program.pid, tmp_path / "t.trace", "-d", "0.1").has_begun().wait()
    assert t.lost == 0, t.err
    gotrace.read_valid(t.file)
    program.line()


@pytest.mark.alone
def test_loss_without_real_time_priority_names_the_remedy(targets, tmp_path):
    program = targets.start("burst")
    process = subprocess.Popen(
        ["setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice", str(gospect.BINARY), "trace",
         "-p", str(program.pid), "-o", str(tmp_path / "t.trace")], stderr=subprocess.PIPE, text=True)
    wait_until(lambda: is_patched(program.pid), what="the hooks")
    wait_until(lambda: len(os.listdir(f"/proc/{process.pid}/task")) == 3)
    program.send("burst 200000")
    for _ in range(20):  # others have the processor
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.01)
        if select.select([program.process.stdout], [], [], 0)[0]:
            break
    program.line()
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=60)
    assert process.returncode == 0, words
    assert int(re.search(r"(\d+) lost", words)[1]) > 0, words
    assert "CAP_SYS_NICE" in words and "ulimit -r" in words, words
    gotrace.read_valid(tmp_path / "t.trace")


@pytest.mark.alone
def test_decoder_without_cap_sys_nice_keeps_its_priority(targets, busy, tmp_path):
    program = targets.start("counted")
    process = subprocess.Popen(
        ["setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice", str(gospect.BINARY), "trace",
         "-p", str(program.pid), "-o", str(tmp_path / "t.trace")], stderr=subprocess.PIPE)
    wait_until(lambda: len(os.listdir(f"/proc/{process.pid}/task")) == 3)
    program.ask("work")
    assert policies(process) == [(os.SCHED_OTHER, 0)] * 3
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=60)
    assert process.returncode == 0, words
    gotrace.read_valid(tmp_path / "t.trace")


@pytest.mark.alone
def test_a_trace_is_as_long_as_it_was_to_be(targets, busy, tmp_path):
    program = targets.start("counted")
    t = Tracing(program.pid, tmp_path / "t.trace", "-d", "2").has_begun()
    while t.process.poll() is None:
        program.ask("work")
    assert 1.9 < t.wait().seconds < 2.5
    gotrace.read_valid(t.file)


@pytest.mark.alone
def test_a_flight_has_what_happened_before_the_signal(targets, busy, tmp_path):
    program = targets.start("counted")
    file = tmp_path / "t.trace"
    t = Tracing(program.pid, file, "--flight", "5").has_begun()
    end = time.monotonic() + 2
    while time.monotonic() < end:
        did = json.loads(program.ask("work"))
    t.process.send_signal(signal.SIGUSR1)
    wait_until(lambda: incidents(file), what="the flight recorder's file")
    assert set(did) <= set(gotrace.read_valid(incidents(file)[0])["goroutines"])
    t.process.send_signal(signal.SIGINT)
    assert t.process.wait(60) == 0
