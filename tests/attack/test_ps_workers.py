"""Somebody stops or kills a worker of `gospect ps` while it looks at a process: one row says so."""

import contextlib
import os
import re
import signal
import struct
import time

import pytest

from lib import golang, gospect, hostile, madeelf
from lib.process import Program

pytestmark = hostile.NEEDS_ROOT

# Bytes of heads of function tables that belong to no program: a worker looks for tenths of a second.
LARGE = 32 << 20
OTHERS = 10


def slow_program(path):
    heads = struct.pack("<IHBBQ", 0xFFFFFFF1, 0, 1, 8, 1000) * (LARGE // 16)
    data = madeelf.build_information() + heads
    return madeelf.write(path, [madeelf.segment(madeelf.READ_WRITE, madeelf.DATA_AT,
                                                madeelf.DATA_BASE, len(data))],
                         [(madeelf.DATA_AT, data)], madeelf.DATA_AT + len(data))


@pytest.fixture(scope="module")
def slow():
    with hostile.folder() as folder:
        with hostile.running(slow_program(folder / "slow"), ready=False) as pid:
            yield pid


@pytest.fixture(scope="module")
def others():
    """Their pids are beside the slow one's: a part of them is looked at after it."""
    binary = golang.build("states", golang.NEWEST)
    with contextlib.ExitStack() as stack:
        programs = [Program(binary, "-only=chan") for _ in range(OTHERS)]
        for program in programs:
            stack.callback(program.stop)
        yield [program.pid for program in programs]


def open_files(pid):
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                yield os.readlink(f"/proc/{pid}/fd/{fd}")


def worker_of(process, target):
    """The child that has the target's memory open; None: ps ended before we saw it."""
    while process.poll() is None:
        with contextlib.suppress(OSError), open(f"/proc/{process.pid}/task/{process.pid}/children",
                                                encoding="ascii") as children:
            for child in children.read().split():
                if f"/proc/{target}/mem" in open_files(child):
                    return int(child)
    return None


def ps_with_signal(target, number):
    for _ in range(10):
        start = time.monotonic()
        process = gospect.start("ps")
        worker = worker_of(process, target)
        if worker:
            os.kill(worker, number)
        out, err = process.communicate(timeout=60)
        if worker and re.search(rf"^ *{target} .*\n +reading it ", out.decode(), re.M):
            assert not os.path.exists(f"/proc/{worker}")
            return process.returncode, out.decode(), err.decode(), time.monotonic() - start
    raise AssertionError("no worker was seen while it looked at the slow program")


def assert_rows(text, slow, others):
    rows = [line.split() for line in text.splitlines()]
    for pid in others:
        row, = (row for row in rows if row[:1] == [str(pid)])
        assert row[3].isdigit() and int(row[3]) > 0, row
    assert sum(row[:1] == [str(slow)] for row in rows) == 1


def test_a_killed_worker_costs_one_row(slow, others):
    status, out, err, _ = ps_with_signal(slow, signal.SIGKILL)
    assert status == 0, err
    assert_rows(out, slow, others)
    assert re.search(rf"^ *{slow} .*\n +reading it failed \(Killed\)", out, re.M), out


def test_a_stopped_worker_is_awaited_for_seconds_and_costs_one_row(slow, others):
    status, out, err, seconds = ps_with_signal(slow, signal.SIGSTOP)
    assert status == 0, err
    assert_rows(out, slow, others)
    assert re.search(rf"^ *{slow} .*\n +reading it takes too long", out, re.M), out
    assert seconds < 20
