"""Many goroutines: gospect's own memory, and what dead ones cost."""

import re
import sys

import pytest

from lib import gospect, pprof

MB = 1 << 20


# A child begins with the peak of the process that it was forked from, and keeps it across exec: so
# it is forked by a small one.
MEASURE = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)
"""


def peak_memory(*args):
    """The largest resident set of gospect, in bytes."""
    result = gospect.run(*args, prefix=(sys.executable, "-c", MEASURE), seconds=120).ok()
    return int(result.text) * 1024


@pytest.mark.time_limit(180)
@pytest.mark.parametrize("alike", [True, False], ids=["alike", "all different"])
def test_a_recording_of_a_hundred_thousand_stays_small(targets, tmp_path, alike):
    program = targets.start("throng", args=("-parked=100000", *(["-alike"] if alike else [])),
                            seconds=120)
    # A page is written as it is made, but its tree of stacks is in memory: 62 to 78 MB in all.
    for name, budget, most in (("throng.pb.gz", 1, 64), ("throng.pb.gz", 100, 64), ("throng.html", 100, 80)):
        peak = peak_memory("record", "-p", program.pid, "-d", 2, "--budget", budget, "-o",
                           tmp_path / name)
        assert peak < most * MB, f"{name} at {budget} %: {peak / MB:.1f} MB"


@pytest.mark.time_limit(180)
def test_stacks_that_are_not_kept_are_counted_and_said(targets, tmp_path):
    program = targets.start("throng", args=("-parked=100000",), seconds=120)
    gospect.run("record", "-p", program.pid, "-d", 3, "--budget", 100, "-o",
                tmp_path / "throng.pb.gz", seconds=60).ok()
    profile = pprof.read(tmp_path / "throng.pb.gz")
    assert any("[other stacks]" in comment for comment in profile.comments)
    others = [s for s in profile.samples if s.stack[0] == "[other stacks]"]
    assert others and all(len(s.stack) == 2 and s.stack[1].startswith("main.") for s in others)
    total = profile.total("wall")
    assert total == pytest.approx(100001 * profile.duration_ns, rel=0.05)


def headers_in_a_tick(program, path):
    gospect.run("record", "-p", program.pid, "-d", 3, "--budget", 100, "-r", 50, "-o", path).ok()
    comments = "\n".join(pprof.read(path).comments)
    return float(re.search(r"([\d.]+) headers read in a tick", comments).group(1))


@pytest.mark.time_limit(120)
def test_after_a_burst_of_goroutines_the_cost_falls_back(targets, tmp_path):
    """A g is never freed; counted are headers read, which does not depend on the machine's load."""
    program = targets.start("throng", args=("-parked=10000", "-alike"))
    before = headers_in_a_tick(program, tmp_path / "before.pb.gz")
    program.send("burst 200000")
    assert program.line() == "over"
    after = headers_in_a_tick(program, tmp_path / "after.pb.gz")
    assert 10000 <= before < 12000
    assert after < 3 * before, f"{after} headers in a tick, {before} before the burst"
