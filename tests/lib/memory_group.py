"""A memory cgroup, of version 1 or 2."""

import os
import pathlib
import tempfile

from lib.process import wait_until

ROOT = pathlib.Path("/sys/fs/cgroup")
V1 = ROOT / "memory"


def why_not():
    """Why there can be none here; None when there can."""
    if os.geteuid() != 0:
        return "only root makes cgroups"
    if os.access(V1 / "memory.limit_in_bytes", os.R_OK) or (V1 / "cgroup.procs").exists():
        return None
    controllers = ROOT / "cgroup.subtree_control"
    if controllers.exists() and "memory" in controllers.read_text().split():
        return None
    return "no memory cgroups here"


class MemoryGroup:
    def __init__(self):
        self.v1 = V1.exists()
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=V1 if self.v1 else ROOT, prefix="gospect."))

    def limit(self, size):
        (self.folder / ("memory.limit_in_bytes" if self.v1 else "memory.max")).write_text(str(size))

    def usage(self):
        name = "memory.usage_in_bytes" if self.v1 else "memory.current"
        return int((self.folder / name).read_text())

    def prefix(self):
        """Begins a command that is to run in it."""
        return ("sh", "-c", f'echo $$ > {self.folder}/cgroup.procs && exec "$0" "$@"')

    def remove(self):
        wait_until(lambda: not (self.folder / "cgroup.procs").read_text())
        self.folder.rmdir()
