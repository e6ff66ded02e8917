"""No mix of two moments is ever shown as a stack.

The program churn spells in the names of twelve frames its goroutine's id, a random number and a
checksum over both and over the way that it waits.
"""

import collections
import time

import pytest

from lib import golang, gospect, pprof
from lib.params import every_version

NODES = {f"main.node{digit:X}": digit for digit in range(16)}
LEAVES = ("main.leafChan", "main.leafSleep", "main.leafMutex", "main.leafSelect",
          "main.leafSyscall", "main.leafYield", "main.leafSpin")
DEPTH = 12
# Where a goroutine that waits for this reason may be.
WAITS = {"sleep": {"main.leafSleep"}, "select": {"main.leafSelect"},
         "sync.Mutex.Lock": {"main.leafMutex"},
         "chan receive": {"main.leafChan", "main.leafSelect"}}
SECONDS = 6


def checksum(*numbers):
    """As the program computes it: 32-bit FNV-1a, folded."""
    value = 2166136261
    for number in numbers:
        for byte in (number & 0xFF, number >> 8):
            value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return (value >> 16 ^ value) & 0xFFFF


def number(digits):
    return int("".join(f"{digit:x}" for digit in digits), 16)


class Checker:
    def __init__(self):
        self.counts = collections.Counter()
        self.torn = []

    def check(self, functions, goid=None, wait=None):
        """One stack, innermost first, as function names."""
        digits = [NODES[func] for func in reversed(functions) if func in NODES]
        leaves = [func for func in functions if func in LEAVES]
        if not digits:
            return
        wrong = self.wrong(digits, leaves, goid, wait)
        self.counts["whole" if len(digits) == DEPTH else "on the way"] += 1
        if wrong:
            self.torn.append(f"{wrong}: goroutine {goid} {wait} {functions}")

    def wrong(self, digits, leaves, goid, wait):
        if len(digits) > DEPTH or len(leaves) > 1:
            return "too many frames"
        if goid is not None and len(digits) >= 4 and number(digits[:4]) != goid & 0xFFFF:
            return "another goroutine's frames"
        if len(digits) < DEPTH:
            return "a leaf without all nodes" if leaves else None
        kinds = [LEAVES.index(leaves[0])] if leaves else range(len(LEAVES))
        ident, random, spelled = (number(digits[at:at + 4]) for at in (0, 4, 8))
        if spelled not in {checksum(ident, random, kind) for kind in kinds}:
            return "wrong checksum"
        if leaves and wait in WAITS and leaves[0] not in WAITS[wait]:
            return "a wait reason of another moment"
        return None

    def verdict(self, least):
        assert not self.torn, f"{len(self.torn)} torn of {self.counts}:\n" + "\n".join(
            self.torn[:5])
        assert self.counts["whole"] >= least, f"too few looked at: {self.counts}"


def test_the_checker_finds_mixed_frames():
    names = {digit: name for name, digit in NODES.items()}

    def stack(ident, random, kind, leaf):
        spelled = f"{ident:04x}{random:04x}{checksum(ident, random, kind):04x}"
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
    while time.monotonic() < end:
        for goroutine in gospect.dump_json(program.pid)["goroutines"]:
            checker.check([frame["func"] for frame in goroutine["frames"]],
                          goroutine["id"], goroutine.get("wait_reason"))
    checker.verdict(least=200)


@pytest.mark.time_limit(120)
@every_version([golang.MIDDLE, golang.NEWEST])
def test_record_never_counts_a_torn_stack(targets, tmp_path, version):
    program = targets.start("churn", version, args=("-workers=64",))
    gospect.run("record", "-p", program.pid, "-d", SECONDS, "-r", 1000, "--budget", 50,
                "-o", tmp_path / "churn.pb.gz").ok()
    checker = Checker()
    for sample in pprof.read(tmp_path / "churn.pb.gz").samples:
        checker.check(sample.stack, wait=sample.labels.get("wait"))
    checker.verdict(least=50000)
