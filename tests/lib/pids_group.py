"""A cgroup that limits the number of processes, of version 1 or 2."""

import os
import pathlib
import tempfile

from lib.process import wait_until

ROOT = pathlib.Path("/sys/fs/cgroup")
V1 = ROOT / "pids"


def why_not():
    """Why there can be none here; None when there can."""
    if os.geteuid() != 0:
        return "only root makes cgroups"
    if (V1 / "cgroup.procs").exists():
        return None
    controllers = ROOT / "cgroup.subtree_control"
    if controllers.exists() and "pids" in controllers.read_text().split():
        return None
    return "no cgroups of pids here"


class PidsGroup:
    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=V1 if V1.exists() else ROOT, prefix="gospect."))

    def limit(self, count):
        (self.folder / "pids.max").write_text(str(count))

    def count(self):
        return int((self.folder / "pids.current").read_text())

    def prefix(self):
        """Begins a command that is to run in it."""
        return ("sh", "-c", f'echo $$ > {self.folder}/cgroup.procs && exec "$0" "$@"')

    def remove(self):
        wait_until(lambda: not (self.folder / "cgroup.procs").read_text())
        self.folder.rmdir()
