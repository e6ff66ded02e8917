"""A program makes everything that gospect does to its threads slow, and gospect still ends at a signal.

It looked at each of 2,000 threads, and for each of them went through a list that has no end, or through
64 MB of stack: for minutes, deaf to every signal.
"""

import signal
import time

import pytest

from lib import golang, gospect, tracing
from lib.process import wait_until

# A thread that may be in the agent is given so many seconds to leave it, all in all.
PATIENCE = 5

pytestmark = [pytest.mark.alone]


@pytest.fixture
def masked(targets):
    return targets.start("masked", golang.NEWEST)


def start(program):
    return gospect.start("trace", "-p", program.pid, "-d", 60, "-o", "x.trace", "--max-pause", "1000")


def end(process, seconds):
    """It ends by itself; what it says."""
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=60)[1].decode()
    took = time.monotonic() - began
    print(f"{took:.2f} s")
    assert took < seconds, err
    return err


def usual_end(program):
    """How long a trace of this program takes to end on this machine, as busy as it is, when nothing is in
    its way. It stops and resumes the same threads."""
    process = start(program)
    wait_until(lambda: tracing.is_patched(program.pid), 30)
    began = time.monotonic()
    end(process, 60)
    return time.monotonic() - began


def test_attaching_ends_without_a_usable_thread(masked):
    masked.ask("circle")
    process = start(masked)
    time.sleep(1)
    assert "so tracing stops it twice" in end(process, 5)  # it went as far as to the threads
    assert process.returncode != 0
    assert not tracing.mappings(masked.pid)
    masked.ask("list")


def test_detaching_ends_without_a_usable_thread(masked):
    """The code is restored, and the guardian removes the memory when the list is one again."""
    process = start(masked)
    wait_until(lambda: tracing.is_patched(masked.pid), 30)
    masked.ask("circle")
    assert "gospect-guard" in end(process, 5)
    assert tracing.changed_bytes(masked) == 0
    masked.ask("list")
    tracing.assert_cleaned_soon(masked, 20)


def test_all_threads_block_signals_on_stacks_that_do_not_end(masked, targets):
    usual = usual_end(masked)
    process = start(masked)
    wait_until(lambda: tracing.is_patched(masked.pid), 30)
    masked.ask("mask")
    assert "is still in the agent after 5 s" in end(process, PATIENCE + usual)
    assert tracing.changed_bytes(masked) == 0
    masked.ask("list")
    # The guardian goes on trying, so at times it traces the program.
    targets.forget(masked).stop()
