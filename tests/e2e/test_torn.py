"""No mix of two moments is ever shown as a stack.

The program churn spells in the names of twelve frames its goroutine's id, the round that it is in
and a checksum over both and over the way that it waits. tests/soak/run looks at it for longer, with
every Go version.
"""

import json
import re
import subprocess
import time

import pytest

from lib import golang, gospect, pprof
from lib.churn import LEAVES, NODES, Checker, checksum
from lib.params import every_version, in_full, newest_version

PROBE = gospect.BINARY.parent / "tests" / "soak" / "torn_probe"
SECONDS = in_full(3, 1)


def test_the_checker_finds_mixed_frames():
    names = {digit: name for name, digit in NODES.items()}

    def stack(ident, stirred, kind, leaf):
        spelled = f"{ident:04x}{stirred:04x}{checksum(ident, stirred, kind):04x}"
        return [LEAVES[leaf], *(names[int(c, 16)] for c in reversed(spelled)), "main.live"]

    good, other = stack(18, 0x1234, 1, 1), stack(18, 0x4321, 1, 1)
    for functions, torn in ((good, 0), (stack(18, 7, 1, 2), 1), (stack(19, 7, 1, 1), 1),
                            (good[:6] + other[6:], 1), (good[5:], 0), (good[:1] + good[5:], 1)):
        checker = Checker()
        checker.check(functions, goid=18, wait="sleep")
        assert len(checker.torn) == torn, functions


@every_version()
@pytest.mark.parametrize("args", [("-workers=64",), ("-workers=8", "-life=5", "-grow=40")],
                         ids=["many", "short-lived"])
def test_dump_never_shows_a_torn_stack(targets, version, args):
    program = targets.start("churn", version, args=args)
    checker = Checker()
    end = time.monotonic() + SECONDS
    # Where others have the processors, that takes longer.
    while time.monotonic() < end or checker.counts["whole"] < 20:
        checker.check_dump(gospect.dump_json(program.pid))
    checker.verdict(least=20)


@pytest.mark.time_limit(120)
@every_version([golang.NEWEST])
def test_record_never_counts_a_torn_stack(targets, tmp_path, version):
    program = targets.start("churn", version, args=("-workers=64",))
    checker, least = Checker(), in_full(5000, 1500)
    for i in range(10):
        gospect.run("record", "-p", program.pid, "-d", SECONDS, "-r", 1000, "--budget", 50,
                    "-o", tmp_path / f"churn{i}.pb.gz").ok()
        checker.check_profile(pprof.read(tmp_path / f"churn{i}.pb.gz"))
        if checker.counts["whole"] >= least:
            break
    checker.verdict(least=least)


@newest_version(["1.19.13", "1.25.11", golang.NEWEST])
@pytest.mark.parametrize("args", [("-workers=64",), ("-workers=8", "-life=5", "-grow=40")],
                         ids=["many", "short-lived"])
def test_running_goroutine_is_never_shown_torn(targets, tmp_path, version, args):
    """Deep recursion, in duffzero too, the scheduler's switches, and the collector's assistants."""
    program = targets.start("churn", version, args=args)
    result = gospect.record_cpu(program, tmp_path / "churn.pb.gz", "-r", 5000, "--budget", 60, "--on-cpu",
                                seconds=SECONDS).ok()
    if "perf_event_paranoid" in result.err or "no perf events" in result.err:
        pytest.skip("the kernel does not permit perf events here")
    checker = Checker()
    checker.check_profile(pprof.read(tmp_path / "churn.pb.gz"))
    checker.verdict(least=300)


# Each kind of goroutine in a program of its own: what the reader sees then is of that kind alone.
LOADS = {
    "many": ("-workers=1000",),
    "short-lived": ("-workers=16", "-life=5", "-grow=40", "-collect=2ms"),
    "ping-pong": ("-workers=0", "-pairs=8", "-life=20000"),
    "system calls": ("-workers=0", "-nappers=16", "-life=20000"),
    "iter.Pull": ("-workers=0", "-pulls=8", "-life=20000"),
}


def probe(program, stacks, seconds, *mode):
    done = subprocess.run([PROBE, str(program.pid), str(stacks), str(seconds), *mode],
                          capture_output=True, text=True, timeout=seconds + 30)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("load,version,most",
                         [("many", golang.OLDEST, 250_000), ("many", golang.NEWEST, 250_000),
                          ("many", golang.MIDDLE, 250_000), ("short-lived", golang.NEWEST, 50_000),
                          ("ping-pong", golang.OLDEST, 50_000), ("ping-pong", golang.NEWEST, 50_000),
                          ("system calls", golang.NEWEST, 50_000), ("iter.Pull", golang.NEWEST, 50_000)])
def test_a_million_stacks_are_whole(targets, load, version, most):
    stacks = in_full(most, most // 5)
    program = targets.start("churn", version, args=LOADS[load])
    counts, torn = probe(program, stacks, 90)
    assert counts["torn"] == 0, torn
    assert counts["whole"] >= stacks, counts


def test_stacks_tear_and_the_probe_sees_it(targets):
    """The control: what is read once, and not checked, is torn now and then."""
    program = targets.start("churn", golang.NEWEST, args=("-workers=64",))
    for _ in range(10):
        counts, _ = probe(program, 10_000_000, 4, "careless")
        if counts["torn"]:
            return
    raise AssertionError(counts)


def in_class(sample, starts):
    """The start function may be shown as the wrapper that the compiler made for it."""
    return any(re.split(r"[.·](?:gowrap|dwrap)", func)[0] in starts for func in sample.stack)


@pytest.mark.alone
@newest_version([golang.OLDEST, golang.NEWEST])
def test_busy_goroutines_are_not_counted_less(targets, tmp_path, version):
    """The goroutines with the most torn stacks are busy half of the time, and know for how long."""
    program = targets.start("churn", version,
                            args=("-workers=0", "-pairs=4", "-nappers=8", "-rest=20ms"))
    before = json.loads(program.ask("times"))
    gospect.run("record", "-p", program.pid, "-d", 8, "-r", 500, "--budget", 50, "-o",
                tmp_path / "churn.pb.gz").ok()
    after = json.loads(program.ask("times"))
    profile = pprof.read(tmp_path / "churn.pb.gz")
    for kind, starts in (("pairs", ("main.serve", "main.answer")), ("nappers", ("main.nap",))):
        mine = [s for s in profile.samples if in_class(s, starts)]
        # A stack that is not known still has its state.
        rest = sum(s.values["wall"] for s in mine
                   if "main.leafRest" in s.stack or s.labels.get("wait") == "sleep")
        total = sum(s.values["wall"] for s in mine)
        busy, rested = (a - b for a, b in zip(after[kind], before[kind]))
        assert total == pytest.approx(8 * profile.duration_ns, rel=0.01), kind
        assert rest / total == pytest.approx(rested / (busy + rested), abs=0.02), kind
