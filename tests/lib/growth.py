"""How much memory gospect takes while it traces."""

import pathlib
import re
import time

# What is larger is the backlog, which has 128 MB and never more, and is full when the machine is busy;
# and what gospect shares with the traced program.
BACKLOG_KB = 100_000
MAPPING = re.compile(r"^Size: +(\d+) kB.*?^Anonymous: +(\d+) kB", re.M | re.S)


def resident_kb(pid):
    """Of its own memory, without the backlog."""
    text = pathlib.Path(f"/proc/{pid}/smaps").read_text()
    return sum(int(used) for size, used in MAPPING.findall(text) if int(size) < BACKLOG_KB)


def sample(pid, seconds, between=0.1):
    """Its memory, at equal distances of time."""
    end = time.monotonic() + seconds
    samples = []
    while time.monotonic() < end:
        samples.append(resident_kb(pid))
        time.sleep(between)
    return samples


def of_tenths(samples):
    """The most in the first tenth and in the last."""
    n = max(1, len(samples) // 10)
    return max(samples[:n]), max(samples[-n:])
