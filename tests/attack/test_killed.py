"""Gospect is killed at any moment, hundreds of times: within seconds nothing is left of it.

It is three processes: gospect, which reads; its broker, which opens files; its surgeon, which stops the
target.
"""

import os
import pathlib
import random
import signal
import time

import pytest

from lib import golang, gospect, tracing
from lib.process import comm

KILLS = 500  # of both builds together
PARTS = ("gospect", "gospect-surgeon", "gospect-broker")


def part(pid, name):
    """That process of gospect's, or None."""
    if name == "gospect":
        return pid
    try:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return next((int(child) for child in children if comm(child) == name), None)
    except (FileNotFoundError, ProcessLookupError):
        return None


def kill_one(chance, program, tmp_path, name, number):
    """True: it was there to be killed."""
    verb, file = (("trace", "t.trace"), ("offcpu", "t.txt"))[number % 2]
    process = gospect.start(verb, "-p", program.pid, "-d", "0.1", "-o", tmp_path / file,
                            *(("--by", "request") if verb == "offcpu" else ()))
    time.sleep(chance.random() * 0.4)
    victim = part(process.pid, name)
    if victim:
        os.kill(victim, signal.SIGKILL)
    err = process.communicate(timeout=60)[1].decode()
    # The program serves no requests: offcpu says so at its end, when it may still be killed.
    ended = {0} if name != "gospect" else {0, -signal.SIGKILL}
    if name != "gospect" or "no call in the recording" in err:
        ended.add(1)
    assert process.returncode in ended, err
    tracing.assert_cleaned_soon(program)
    return victim is not None


@pytest.mark.slow
@pytest.mark.time_limit(3600)
@pytest.mark.parametrize("mode", (golang.PLAIN, tracing.CGO))
@pytest.mark.parametrize("name", PARTS)
def test_killed_at_any_moment_gospect_leaves_nothing(untouched, tmp_path, name, mode):
    program = untouched(tracing.hectic(golang.NEWEST, mode), "-calm")
    chance = random.Random(1)
    killed = sum(kill_one(chance, program, tmp_path, name, i) for i in range(KILLS // 2))
    print(f"{killed} killed")
    assert killed > KILLS // 20


@pytest.mark.parametrize("name", PARTS[1:])
def test_a_part_of_gospect_that_is_killed_leaves_nothing(untouched, tmp_path, name):
    program = untouched(tracing.hectic(golang.NEWEST), "-calm")
    chance = random.Random(2)
    assert any([kill_one(chance, program, tmp_path, name, i) for i in range(6)])


@pytest.mark.slow
@pytest.mark.time_limit(900)
@pytest.mark.parametrize("guarded", (True, False))
def test_a_surgeon_that_is_killed_at_any_place_leaves_nothing(untouched, guarded):
    """The process that reads goes on, and says that it has ended."""
    program = untouched(tracing.hectic(golang.NEWEST), "-calm", "-only=channels,births,files")
    listed = tracing.probe(program.pid, 0.05, fault="list").ok().err.splitlines()
    points = dict.fromkeys(line.removeprefix("fault-point ") for line in listed)
    assert len(points) > 10
    died = 0
    for point in points:
        probed = tracing.probe(program.pid, 0.05, fault=point, guarded=guarded, surgeon=True)
        died += probed.status == 1
        assert probed.status in (0, 1, -signal.SIGKILL), (point, probed.err)
        if not guarded:
            tracing.clean(program.pid)
        tracing.assert_cleaned_soon(program)
        tracing.probe(program.pid, 0.05, surgeon=True).sound()
    assert died > len(points) / 2
