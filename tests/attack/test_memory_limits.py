"""A target with little room for memory is not killed because it is traced.

An older gospect had a program that locks its memory make all of the trace's present, 140 MB, in its
own cgroup; and in a cgroup that both share it was the target that the kernel killed.
"""

import time

import pytest

from lib import golang, gospect, memory_group
from lib.process import Program

pytestmark = pytest.mark.skipif(bool(memory_group.why_not()), reason=str(memory_group.why_not()))

MB = 1 << 20


@pytest.fixture
def group():
    group = memory_group.MemoryGroup()
    yield group
    group.remove()


@pytest.fixture
def hoarder(group):
    programs = []

    def start(*args):
        binary = golang.build("hoarder", golang.NEWEST)
        programs.append(Program(*group.prefix(), binary, *args))
        return programs[-1]

    yield start
    for program in programs:
        program.stop()


def test_the_traces_memory_is_not_charged_to_a_program_that_locks_its_own(group, hoarder, tmp_path):
    program = hoarder(20, "lock")
    before = group.usage()
    trace = gospect.start("trace", "-p", program.pid, "-d", 1.5, "-o", tmp_path / "o.trace")
    most = 0
    while trace.poll() is None:
        most = max(most, group.usage())
        time.sleep(0.01)
    assert trace.returncode == 0, trace.communicate()
    assert most - before < 10 * MB
    program.assert_well()


def test_a_program_that_locks_its_memory_is_traced_where_there_is_little_room(group, hoarder,
                                                                            tmp_path):
    program = hoarder(20, "lock")
    group.limit(group.usage() + 20 * MB)
    gospect.run("trace", "-p", program.pid, "-d", 0.5, "-o", tmp_path / "o.trace").ok()
    program.assert_well()


@pytest.mark.parametrize("room", (40, 90, 140))
def test_gospect_in_the_targets_cgroup_is_killed_before_it(group, hoarder, tmp_path, room):
    program = hoarder(200)
    group.limit(group.usage() + room * MB)
    result = gospect.run("trace", "-p", program.pid, "-d", 2, "-o", tmp_path / "o.trace",
                         prefix=group.prefix(), seconds=90)
    assert result.status in (0, 1, -9), result.err
    program.assert_well()
