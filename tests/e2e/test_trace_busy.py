"""`gospect trace` on a machine on which others take every processor."""

import json
import os
import signal
import subprocess
import time

import pytest

from lib import gospect, gotrace
from lib.process import status, wait_until
from lib.traced import Tracing

CAP_SYS_NICE = 23
HOG = ("sh", "-c", "while :; do :; done")


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
    wait_until(lambda: policies(t.process) == [(os.SCHED_IDLE, 0), (os.SCHED_OTHER, -10)])
    did = json.loads(program.ask("work"))
    t.end()
    assert t.lost == 0, t.err
    assert set(did) <= set(gotrace.read_valid(t.file)["goroutines"])


@pytest.mark.alone
def test_who_may_not_raise_a_priority_does_not_lower_it(targets, busy, tmp_path):
    program = targets.start("counted")
    process = subprocess.Popen(
        ["setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice", str(gospect.BINARY), "trace",
         "-p", str(program.pid), "-o", str(tmp_path / "t.trace")], stderr=subprocess.PIPE)
    wait_until(lambda: len(os.listdir(f"/proc/{process.pid}/task")) == 2)
    program.ask("work")
    assert policies(process) == [(os.SCHED_OTHER, 0), (os.SCHED_OTHER, 0)]
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
