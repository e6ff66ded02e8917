"""What a snapshot of a program's memory (--exact) must be, on any machine."""

import re

FORKED = re.compile(r"process (\d+) was stopped for ([\d.e+]+) ms; its fork existed for ([\d.]+) s, and the kernel "
                    r"copied ([\d.]+) MB for it")
# Where gospect is killed.
POINTS = ("claim-mapped:0", "stopped-to-fork:0", "fork-born:0", "forked:0", "snapshot-made:0", "fork-killed:0",
          "fork-reaped:0")


def ids(groups):
    return sorted(n for group in groups for n in group["goroutines"])


def assert_right(found, err, truth, forked):
    """`found` is the output of `leaks --exact`, `truth` what the program parent says of itself."""
    assert ids(found["leaked"]) == sorted(truth["Leaked"]), err
    assert found["looks"] == 1 and not set(ids(found["suspects"])) & set(truth["Healthy"])
    assert bool(FORKED.search(err)) == forked, err
