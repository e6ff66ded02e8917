"""Control groups of a test: without limits, in a hierarchy without a controller that limits."""

import pathlib

from lib.process import wait_until

ROOT = pathlib.Path("/sys/fs/cgroup")
# Of version 1 that of systemd has no controller, and that of pids limits nothing unless told to;
# then that of version 2.
HIERARCHIES = ("systemd", "pids", "unified", ".")


def make(name):
    """Makes a group, and those around it; OSError: that is not possible."""
    for hierarchy in HIERARCHIES:
        if (ROOT / hierarchy / "cgroup.procs").exists():
            group = ROOT / hierarchy / name
            group.mkdir(parents=True)
            return group
    raise OSError("no control groups are mounted")


def remove(group):
    """Removes it, and those around it, once no process is in it."""
    top = next(ROOT / h for h in HIERARCHIES if (ROOT / h / "cgroup.procs").exists())
    for pid in group.joinpath("cgroup.procs").read_text().split():
        top.joinpath("cgroup.procs").write_text(pid)
    while group != top:
        group.rmdir()
        group = group.parent


def with_quota(name, percent):
    """Makes a group whose processes get so many percent of one CPU; None: that is not possible."""
    for folder, file, value in ((ROOT / "cpu", "cpu.cfs_quota_us", f"{percent}000"),
                                (ROOT, "cpu.max", f"{percent}000 100000")):
        group = folder / name
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / file).write_text(value)
            return group
        except OSError:
            group.rmdir()
    return None


def throttled(group):
    """For how long its threads were throttled so far, in ns."""
    words = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
    return int(words["throttled_time"]) if "throttled_time" in words else 1000 * int(words["throttled_usec"])


def remove_quota(group, pid):
    """Removes the group, in which only this process is."""
    (group.parent / "cgroup.procs").write_text(str(pid))
    wait_until(lambda: not (group / "cgroup.procs").read_text(), what="an empty group")
    group.rmdir()
