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
from lib.process import status, wait_until
from lib.traced import Tracing, tracing
from lib.tracing import is_patched

CAP_SYS_NICE = 23
HOG = ("sh", "-c", "while :; do :; done")
# What gospect's child processes do not get.
FIRST = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK


@pytest.fixture
def busy():
    """Every processor has something else to do."""
    hogs = [subprocess.Popen(HOG) for _ in range(os.cpu_count())]
    yield
    for hog in hogs:
        hog.kill()
        hog.wait()


def may_raise_priorities():
    return int(status("self")["CapEff"], 16) >> CAP_SYS_NICE & 1


def policies(process):
    """Of its threads: how the kernel schedules them, and their nice values."""
    threads = sorted(map(int, os.listdir(f"/proc/{process.pid}/task")))
    return [(os.sched_getscheduler(t), os.getpriority(os.PRIO_PROCESS, t)) for t in threads]


@pytest.mark.alone
@pytest.mark.skipif(not may_raise_priorities(), reason="it takes CAP_SYS_NICE")
def test_decoding_leaves_the_processors_to_others_until_the_end(targets, busy, tmp_path):
    program = targets.start("counted")
    t = Tracing(program.pid, tmp_path / "t.trace").has_begun()
    # Who decodes, who writes what waits to a file, who collects.
    wait_until(lambda: policies(t.process) == [(os.SCHED_IDLE, 0), (os.SCHED_OTHER, -10), (FIRST, -10)])
    did = json.loads(program.ask("work"))
    t.end()
    assert t.lost == 0, t.err
    assert set(did) <= set(gotrace.read_valid(t.file)["goroutines"])


@pytest.fixture
def crowded():
    """Two processes beside gospect want its share of the processors, and two others have their own."""
    hogs = [subprocess.Popen(HOG, start_new_session=i % 2) for i in range(4)]
    yield
    for hog in hogs:
        hog.kill()
        hog.wait()


def has_precedence(program):
    """Its session has nearly all of the processors, where sessions share them."""
    with contextlib.suppress(FileNotFoundError):
        pathlib.Path(f"/proc/{program.pid}/autogroup").write_text("-20")


@pytest.mark.alone
@pytest.mark.skipif(not may_raise_priorities(), reason="it takes CAP_SYS_NICE")
def test_nothing_is_lost_when_a_program_suddenly_does_much(targets, crowded, tmp_path):
    program = targets.start("burst", session=True)
    has_precedence(program)
    rounds = 0
    with tracing(program, tmp_path / "t.trace") as t:
        for _ in range(3):
            time.sleep(0.3)
            rounds += json.loads(program.ask("burst 100000"))["rounds"]
    assert t.lost == 0, t.err
    trace = gotrace.read_valid(t.file)
    assert trace["logs"] == {"burst=in the midst of a round": rounds}
    whole = [g for g in trace["goroutines"].values() if g["created"] > 0 and g["ended"] > 0]
    assert sum(g["name"] == "main.short" for g in whole) == rounds // 10
    assert sum(g["events"].get("Running->Syscall", 0) for g in trace["goroutines"].values()) >= rounds


@pytest.mark.alone
@pytest.mark.skipif(not may_raise_priorities(), reason="it takes CAP_SYS_NICE")
def test_a_program_is_traced_from_the_beginning_on_a_busy_machine(targets, crowded, tmp_path):
    """Between attaching and the first look at what it writes gospect has much to do."""
    program = targets.start("burst", session=True)
    has_precedence(program)
    program.send("burst 500000")
    t = Tracing(program.pid, tmp_path / "t.trace", "-d", "0.1").has_begun().wait()
    assert t.lost == 0, t.err
    gotrace.read_valid(t.file)
    program.line()


@pytest.mark.alone
def test_what_is_lost_for_lack_of_a_right_is_said_with_what_to_do(targets, tmp_path):
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
def test_who_may_not_raise_a_priority_does_not_lower_it(targets, busy, tmp_path):
    program = targets.start("counted")
    process = subprocess.Popen(
        ["setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice", str(gospect.BINARY), "trace",
         "-p", str(program.pid), "-o", str(tmp_path / "t.trace")], stderr=subprocess.PIPE)
    wait_until(lambda: len(os.listdir(f"/proc/{process.pid}/task")) == 3)
    program.ask("work")
    assert policies(process) == [(os.SCHED_OTHER, 0)] * 3
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=30)
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
    wait_until(file.exists, what="the flight recorder's file")
    assert set(did) <= set(gotrace.read_valid(file)["goroutines"])
    t.process.send_signal(signal.SIGINT)
    assert t.process.wait(30) == 0
