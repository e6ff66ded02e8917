"""How much memory gospect takes while it traces."""

import pathlib
import re
import statistics
import time

MAPPING = re.compile(r"^[0-9a-f]+-[0-9a-f]+ (\S+).*?^Size: +(\d+) kB.*?^Anonymous: +(\d+) kB"
                     r".*?^VmFlags:([^\n]*)", re.M | re.S)


def resident_kb(pid):
    """Of its own memory, without the backlog: that has 128 MB, or a quarter of a small memory
    cgroup, and never more, and is as full as the machine is busy. Of what is mapped without being
    reserved ("nr") it is the largest. What gospect shares with the traced program is not its own."""
    text = pathlib.Path(f"/proc/{pid}/smaps").read_text()
    mappings = [(int(size), int(used), access.startswith("rw") and " nr" in flags)
                for access, size, used, flags in MAPPING.findall(text)]
    backlog = max((m for m in mappings if m[2]), default=(0, 0, False))
    return sum(used for _, used, _ in mappings) - backlog[1]


def sample(pid, is_over, between=0.05):
    """Its memory, again and again until that is so."""
    samples = []
    while not is_over():
        samples.append(resident_kb(pid))
        time.sleep(between)
    return samples


def of_tenths(samples):
    """The median of the first tenth and of the last: what is there for a moment, while a generation
    is completed, is in one of them or not by chance."""
    n = max(1, len(samples) // 10)
    return statistics.median(samples[:n]), statistics.median(samples[-n:])
