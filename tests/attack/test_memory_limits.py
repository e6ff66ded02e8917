"""A target with little room for memory is not killed because it is traced.

An older gospect had a program that locks its memory make all of the trace's present, 140 MB, in its
own cgroup; and in a cgroup that both share it was the target that the kernel killed.
"""

import pathlib
import re
import signal
import time

import pytest

from lib import golang, gospect, memory_group, tracing
from lib.process import Program, comm, wait_until

MB = 1 << 20


@pytest.fixture
def group():
    if memory_group.why_not():
        pytest.skip(memory_group.why_not())
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


@pytest.mark.parametrize("room", (pytest.param(40, marks=pytest.mark.slow), 90, pytest.param(140, marks=pytest.mark.slow)))
def test_gospect_in_the_targets_cgroup_is_killed_before_it(group, hoarder, tmp_path, room):
    program = hoarder(200)
    group.limit(group.usage() + room * MB)
    result = gospect.run("trace", "-p", program.pid, "-d", 2, "-o", tmp_path / "o.trace",
                         prefix=group.prefix(), seconds=90)
    assert result.status in (0, 1, -9), result.err
    program.assert_well()


def memory_flags(pid):
    """The mappings that gospect has made there, by their names."""
    text = pathlib.Path(f"/proc/{pid}/smaps").read_text()
    return re.findall(r"/memfd:(gospect-\w+)[^\n]*\n(?:(?!VmFlags|[0-9a-f]+-)[^\n]*\n)*VmFlags:([^\n]*)",
                      text)


def test_shared_memory_is_in_no_core_file_and_in_no_child(untouched, tmp_path):
    """It has gigabytes of addresses."""
    program = untouched(tracing.hectic(golang.NEWEST), "-calm")
    trace = gospect.start("trace", "-p", program.pid, "-d", 60, "-o", tmp_path / "o.trace")
    wait_until(lambda: tracing.is_patched(program.pid), 30)
    flags = memory_flags(program.pid)
    trace.send_signal(signal.SIGINT)
    assert trace.wait(60) == 0, trace.communicate()
    data = [words.split() for name, words in flags if name == "gospect-data"]
    assert data and all("dd" in words and "dc" in words for words in data), flags


@pytest.mark.parametrize("verb, name", [("trace", "o.trace"), ("offcpu", "o.txt")])
def test_gospect_and_its_surgeon_offer_themselves_to_be_killed_first(untouched, tmp_path, verb, name):
    program = untouched(tracing.hectic(golang.NEWEST), "-calm")
    before = pathlib.Path(f"/proc/{program.pid}/oom_score_adj").read_text()
    process = gospect.start(verb, "-p", program.pid, "-d", 60, "-o", tmp_path / name)
    wait_until(lambda: tracing.is_patched(program.pid), 30)
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    scores = {comm(pid): pathlib.Path(f"/proc/{pid}/oom_score_adj").read_text().strip()
              for pid in (process.pid, *children)}
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert scores["gospect"] == scores["gospect-surgeon"] == "1000", scores
    assert pathlib.Path(f"/proc/{program.pid}/oom_score_adj").read_text() == before
