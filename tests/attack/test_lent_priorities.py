"""On a busy machine gospect lends threads a real-time priority, so that they stop at once. Whatever
becomes of gospect meanwhile, each thread has again what it had: policy, nice value, slice, what its
children get, timer slack."""

import os
import signal
import subprocess
import time

import pytest

from lib import golang, scheduling, tracing
from lib.params import in_full
from lib.process import busy_loops, wait_until

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="only root may lend priorities"),
              pytest.mark.alone, pytest.mark.time_limit(300)]

# What threads have that somebody cared for.
OWN = ({"policy": scheduling.OTHER, "nice": 3, "slack": 123456},
       {"policy": scheduling.BATCH, "nice": -2},
       {"policy": scheduling.OTHER, "flags": scheduling.RESET_ON_FORK, "runtime": 4000000},
       {"policy": scheduling.OTHER})


def busy_machine():
    return busy_loops(2 * (os.cpu_count() or 1))


@pytest.fixture
def program(untouched):
    """Its threads always want to run, each with a way of being scheduled of its own."""
    program = untouched(tracing.hectic(golang.NEWEST), "-only=loops,channels", "-each=3",
                        env={"GOMAXPROCS": "6"})
    wait_until(lambda: len(scheduling.threads(program.pid)) > 6)
    for i, thread in enumerate(scheduling.threads(program.pid)):
        scheduling.set_to(thread, **OWN[i % len(OWN)])
    return program


def assert_as_before(program, before):
    """Those that are still there; one that was born since has it from its parent, and none is real-time."""
    now = scheduling.all_of(program.pid)
    assert {thread: now[thread] for thread in before if now.get(thread)} == \
           {thread: was for thread, was in before.items() if now.get(thread)}
    assert all(a[0] != scheduling.FIFO for a in now.values() if a)


def lend(program, **kwargs):
    """Traces until something was lent; how it ended. Now and then every thread has a CPU at once."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        probed = tracing.probe(program.pid, 0.05, **kwargs)
        if probed.status or "priority-lent" in probed.err:
            return probed
    raise AssertionError("nothing was lent")


def test_lent_priority_is_restored(program):
    before = scheduling.all_of(program.pid)
    with busy_machine():
        for _ in range(4):
            lend(program, fault="list").ok()
            assert_as_before(program, before)


@pytest.mark.parametrize("point", (
    "priority-lent", pytest.param("priority-lent:1", marks=pytest.mark.slow),
    pytest.param("priority-taken-back", marks=pytest.mark.slow)))
def test_killed_when_something_is_lent_gospect_leaves_it_to_its_guardian(program, point):
    before = scheduling.all_of(program.pid)
    with busy_machine():
        for _ in range(in_full(4, 2)):
            assert lend(program, fault=point).status == -signal.SIGKILL
            tracing.assert_cleaned_soon(program, 30)
            assert_as_before(program, before)


def without_guardian(program):
    """The places that a probe reports after its guardian was killed."""
    process = subprocess.run([tracing.PROBE, str(program.pid), "0.05"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                             timeout=60, check=False, text=True,
                             env={**os.environ, "GOSPECT_FAULT": "list", "GOSPECT_FAULT_UNGUARDED": "all-mapped"})
    return process.stderr.partition("fault-point all-mapped\n")[2]


def test_priority_is_not_lent_without_a_guardian(program):
    """The guardian was killed."""
    with busy_machine():
        lend(program, fault="list").ok()
        said = "".join(without_guardian(program) for _ in range(in_full(5, 2)))
    assert "fault-point" in said and "priority-lent" not in said, said
    tracing.clean(program.pid)


def test_own_real_time_priority_is_kept(program):
    """One of them: more would take all of the machine."""
    thread = scheduling.threads(program.pid)[-1]
    scheduling.set_to(thread, scheduling.FIFO, priority=3)
    before = scheduling.get(thread)
    try:
        tracing.probe(program.pid, 0.1).ok()
        assert scheduling.get(thread) in (before, None)
    finally:
        scheduling.set_to(thread, scheduling.OTHER)
