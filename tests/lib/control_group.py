"""Control groups of a test: without limits, in a hierarchy without a controller that limits."""

import pathlib

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
