"""A program whose stacks and labels are always new: gospect keeps a limited number, and says so.

The memory of an older gospect grew with each new pair of stack and labels for as long as it looked.
"""

import contextlib
import pathlib
import re
import signal
import subprocess
import time

import pytest

from lib import golang, gospect, terminal
from lib.process import status

# Everything that is kept, at its limits: stacks, labels, pairs of them, and symbols at the end.
MOST_MB = 450


@contextlib.contextmanager
def running(*args):
    program = subprocess.Popen([golang.build("renewed", golang.NEWEST), *args], stdout=subprocess.PIPE)
    try:
        assert program.stdout.readline().startswith(b"ready")
        yield program
    finally:
        program.kill()
        program.communicate()


@pytest.fixture
def renewed():
    with running("-sleepers=6000", "-nap=150ms", "-starters=1") as program:
        yield program


def megabytes(pid):
    return int(status(pid)["VmRSS"].split()[0]) / 1024


def record(pid, seconds):
    """Its memory in the middle and at the end of the recording, and what it says."""
    process = gospect.start("record", "-p", pid, "--budget", "100", "-o", "x.pb.gz")
    sizes = []
    for _ in range(2):
        time.sleep(seconds / 2)
        sizes.append(megabytes(process.pid))
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=100)[1].decode()
    assert process.returncode == 0, err
    return *sizes, err


@pytest.mark.alone  # it has to see all pairs that fit within its time
@pytest.mark.slow
def test_a_recording_of_what_is_always_new_says_what_it_does_not_keep(renewed):
    _, size, err = record(renewed.pid, 24)
    print(f"{size:.0f} MB")
    assert size < MOST_MB
    found = re.search(r"distinct pairs of stack and labels is reached: (\d+) samples", err)
    assert found and int(found[1]) > 1000, err


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.time_limit(400)
def test_a_long_recording_does_not_grow(renewed):
    middle, end, _ = record(renewed.pid, 240)
    print(f"{middle:.0f} MB, {end:.0f} MB")
    assert end < MOST_MB and end < 1.1 * middle


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.time_limit(400)
@pytest.mark.skipif(terminal.why_not() is not None, reason="tmux is not installed")
def test_top_does_not_grow(renewed):
    with terminal.Terminal(gospect.BINARY, "top", "-p", renewed.pid, "--budget", "100") as t:
        t.wait_for("goroutines")
        t.press("3")
        time.sleep(150)
        middle = megabytes(t.pid)
        time.sleep(100)
        end = megabytes(t.pid)
        t.press("q")
        assert t.status(60) == 0
    print(f"{middle:.0f} MB, {end:.0f} MB")
    assert end < 1.1 * middle


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.time_limit(400)
def test_a_trace_with_cpu_samples_of_ever_new_stacks_does_not_grow(tmp_path):
    """An older gospect kept the stacks of all CPU samples where one always waited."""
    with running("-sleepers=0", "-starters=0", "-spinners=2") as program:
        trace = gospect.start("trace", program.pid, "--flight", "2", "--max-size", "8", "--cpu=1000",
                              "-o", tmp_path / "t.trace")
        sizes = []
        for seconds in 60, 180:
            time.sleep(seconds)
            sizes.append(megabytes(trace.pid))
        trace.send_signal(signal.SIGINT)
        err = trace.communicate(timeout=100)[1].decode()
    assert trace.returncode == 0, err
    print(f"{sizes[0]:.0f} MB, {sizes[1]:.0f} MB")
    assert sizes[1] < sizes[0] + 40


def test_a_recording_with_more_threads_than_files_says_so_before(states):
    pathlib.Path("x.folded").unlink(missing_ok=True)
    result = gospect.run("record", "-p", states.pid, "-d", "0.5", "-o", "x.folded",
                         prefix=("prlimit", "--nofile=48:48"))
    assert result.status == 0, result.err
    assert re.search(r"^gospect: too many open files: \d+ threads are not sampled",
                     result.err)
