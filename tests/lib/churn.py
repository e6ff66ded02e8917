"""Decodes the stacks of the program churn, as tests/soak/churn.c does."""

import collections

NODES = {f"main.node{digit:X}": digit for digit in range(16)}
LEAVES = ("main.leafChan", "main.leafSleep", "main.leafMutex", "main.leafSelect",
          "main.leafSyscall", "main.leafYield", "main.leafSpin", "main.leafGrow", "main.leafNap",
          "main.leafServe", "main.leafAnswer", "main.leafRest", "main.leafTake", "main.leafGive")
DEPTH = 12
# Where a goroutine that waits for this reason may be.
WAITS = {"sleep": {"main.leafSleep", "main.leafRest"}, "select": {"main.leafSelect"},
         "sync.Mutex.Lock": {"main.leafMutex"},
         "chan receive": {"main.leafChan", "main.leafSelect", "main.leafServe", "main.leafAnswer"},
         "coroutine": {"main.leafTake", "main.leafGive"},
         "chan send": {"main.leafServe", "main.leafAnswer"}}
STIR = 0x9E37


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
        self.rounds = {}

    def check_dump(self, dump):
        for goroutine in dump["goroutines"]:
            self.check([frame["func"] for frame in goroutine["frames"]], goroutine["id"],
                       goroutine.get("wait_reason"))

    def check_profile(self, profile):
        """What a profile does not say is which goroutine a stack is of, and when it was."""
        for sample in profile.samples:
            self.check(sample.stack, wait=sample.labels.get("wait"))

    def goes_on(self, goid, round):
        """Rounds only go up while a goroutine lives."""
        before = self.rounds.get(goid, 0)
        self.rounds[goid] = round
        return round >= before

    def check(self, functions, goid=None, wait=None):
        """One stack, innermost first, as function names."""
        digits = [NODES[func] for func in reversed(functions) if func in NODES]
        leaves = [func for func in functions if func in LEAVES]
        if not digits:
            return
        if leaves and len(digits) < DEPTH and "[truncated]" in functions:
            # It says that frames are missing; what there is cannot be held against a checksum.
            self.counts["cut"] += 1
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
        ident, stirred, spelled = (number(digits[at:at + 4]) for at in (0, 4, 8))
        if spelled not in {checksum(ident, stirred, kind) for kind in kinds}:
            return "wrong checksum"
        if goid is not None and not self.goes_on(goid, stirred * pow(STIR, -1, 1 << 16) & 0xFFFF):
            return "an older round than before"
        if leaves and wait in WAITS and leaves[0] not in WAITS[wait]:
            return "a wait reason of another moment"
        return None

    def verdict(self, least):
        assert not self.torn, f"{len(self.torn)} torn of {self.counts}:\n" + "\n".join(
            self.torn[:5])
        # Where nothing proves the outer frames they are left out, and said to be. That is rare, or it
        # would be a way to find nothing torn.
        assert self.counts["cut"] <= 0.01 * self.counts["whole"], self.counts
        assert self.counts["whole"] >= least, f"too few looked at: {self.counts}"
