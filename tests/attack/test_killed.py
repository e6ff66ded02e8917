"""Gospect is killed at any moment, hundreds of times: within seconds nothing is left of it."""

import random
import time

import pytest

from lib import golang, gospect, tracing

KILLS = 500  # of both builds together


@pytest.mark.slow
@pytest.mark.time_limit(3600)
@pytest.mark.parametrize("mode", (golang.PLAIN, tracing.CGO))
def test_killed_at_any_moment_gospect_leaves_nothing(untouched, tmp_path, mode):
    program = untouched(tracing.hectic(golang.NEWEST, mode), "-calm")
    chance = random.Random(1)
    for i in range(KILLS // 2):
        verb, name = (("trace", "t.trace"), ("offcpu", "t.txt"))[i % 2]
        process = gospect.start(verb, "-p", program.pid, "-d", "0.1", "-o", tmp_path / name,
                                *(("--by", "request") if verb == "offcpu" else ()))
        time.sleep(chance.random() * 0.4)
        process.kill()
        process.communicate()
        tracing.assert_cleaned_soon(program)
