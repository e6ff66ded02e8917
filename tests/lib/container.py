"""Programs in containers: what a container engine does, with unshare(1) and a few system calls.

A container here is a root of its own (an overlay of a folder, by pivot_root), its own mount, pid,
network, IPC and host name namespaces, its own /proc, and a user namespace of its own in which a
user of the host is root.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile

from lib.process import Program, _in_child

NAMESPACES = ("--mount", "--pid", "--net", "--ipc", "--uts")
HOST_USER = 100000  # who root of the container's user namespace is outside

PIVOT = pathlib.Path(__file__).with_name("pivot.py")
PYTHON = "/usr/bin/python3"  # that every user can run


def why_not():
    """Why no container can be made here; None when one can."""
    if os.geteuid() != 0:
        return "only root can make containers"
    for tool in "unshare", "setpriv", "nsenter":
        if not shutil.which(tool):
            return f"{tool} is missing"
    tried = subprocess.run(["unshare", "--user", "--map-root-user", *NAMESPACES, "--fork", "true"],
                           capture_output=True, text=True)
    return f"no namespaces: {tried.stderr.strip()}" if tried.returncode != 0 else None


def descendants(pid):
    for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        yield int(child)
        yield from descendants(int(child))


class Contained(Program):
    """A program in a container. `pid` is what the host calls it, `inner` what it calls itself."""

    def __init__(self, binary, *args, user_namespace=True, seconds=60):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir="/tmp", prefix="container."))
        self.folder.chmod(0o755)
        self.binary = pathlib.Path(binary)
        self.path = f"/app/{self.binary.name}"
        for name in "image/app", "image/proc", "image/tmp", "layer", "root":
            (self.folder / name).mkdir(parents=True)
        (self.folder / "image/tmp").chmod(0o1777)
        shutil.copy(binary, self.folder / "image/app")
        shutil.copy(PIVOT, self.folder)
        self.process = subprocess.Popen(
            ["unshare", "--mount", "sh", "-ec", self._script(user_namespace), "sh", self.path,
             *map(str, args)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            preexec_fn=_in_child)
        self._buffer = b""
        self._seconds = seconds
        try:
            self._await_ready()
        except BaseException:
            self.stop()
            raise

    def _await_ready(self):
        ready = self.line().split()
        assert ready[0] == "ready", f"{self.binary.name} said {ready!r}"
        self.inner = int(ready[1])
        self.pid = list(descendants(self.process.pid))[-1]
        self.answer = self.ask("check")

    def _script(self, user_namespace):
        user = ""
        flags = " ".join(NAMESPACES)
        if user_namespace:
            user = f"setpriv --reuid={HOST_USER} --regid={HOST_USER} --clear-groups"
            flags += " --user --map-root-user"
        return f"""
            mount -t tmpfs none {self.folder}/layer
            mkdir -m 755 {self.folder}/layer/upper {self.folder}/layer/work
            mount -t overlay none -o lowerdir={self.folder}/image \
                -o upperdir={self.folder}/layer/upper,workdir={self.folder}/layer/work \
                {self.folder}/root
            exec {user} unshare {flags} --fork --kill-child \
                {PYTHON} {self.folder}/{PIVOT.name} {self.folder}/root "$@"
        """

    def put(self, file):
        """Copies a file into the container; its path there."""
        name = f"/tmp/{pathlib.Path(file).name}"
        shutil.copy(file, f"/proc/{self.pid}/root{name}")
        return name

    def stop(self):
        super().stop()
        shutil.rmtree(self.folder, ignore_errors=True)
