"""A sandbox of gVisor's (runsc), which has a kernel of its own: runs commands as an emulated machine does."""

import json
import pathlib
import shutil
import subprocess
import tempfile

from lib import emulated, kernels, process
from lib.golang import TESTS

NAME = "gVisor"
RUNSC = "runsc"
# ptrace: the platform that needs nothing of the machine.
FLAGS = ("--network=none", "--platform=ptrace", "--ignore-cgroups")
CAPABILITIES = [f"CAP_{name}" for name in ("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "KILL", "SETUID", "SETGID",
                                           "SETPCAP", "SYS_ADMIN", "SYS_PTRACE", "SYS_RESOURCE", "SYS_NICE")]


def why_not():
    """Why there is none here; None when there is."""
    missing = [name for name in (RUNSC, "busybox", "setpriv", "unshare", "script") if not shutil.which(name)]
    return f"{missing[0]} is missing: scripts/install-deps kernels" if missing else None


def config(folders):
    binds = [{"destination": f"/{name}", "type": "bind", "source": str(folder), "options": ["rbind", "rw"]}
             for name, folder in folders.items()]
    return {
        "ociVersion": "1.0.0",
        "process": {"user": {"uid": 0, "gid": 0}, "args": ["/init"], "cwd": "/", "env": ["PATH=/usr/bin:/bin", "HOME=/tmp"],
                    "capabilities": {kind: CAPABILITIES for kind in ("bounding", "effective", "permitted", "inheritable")}},
        "root": {"path": "rootfs"},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"},
                   {"destination": "/sys", "type": "sysfs", "source": "sysfs"},
                   {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
                   {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["mode=1777"]}, *binds],
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts", "network")]},
    }


class Machine(emulated.Machine):
    def __init__(self):  # pylint: disable=super-init-not-called
        self.temporary = pathlib.Path(tempfile.mkdtemp(dir="/tmp", prefix="gvisor."))
        self.control, self.folder, root = (self.temporary / name for name in ("control", "share", "rootfs"))
        self.console = self.temporary / "console"
        for folder in self.control, self.folder, root:
            folder.mkdir()
        self.name = self.temporary.name.replace(".", "-")
        archive = emulated.make_initramfs(self._kind(), TESTS / "kernels" / "gvisor-init")
        subprocess.run(["busybox", "cpio", "-id"], input=archive, cwd=root, capture_output=True, check=True)
        (self.temporary / "config.json").write_text(json.dumps(config({"control": self.control, "share": self.folder})))
        self.process = subprocess.Popen(self._runsc("run", "--bundle", self.temporary, self.name), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=process._in_child)
        self._begin()

    def _kind(self):
        """Files alone: it has a kernel of its own."""
        return emulated.Kind(qemu="", console="", kernel=None, modules=self.folder, busybox=pathlib.Path(shutil.which("busybox")),
                             programs=kernels.programs(), folders=kernels.LIBRARIES)

    def _runsc(self, *args):
        return [RUNSC, "--root", self.temporary / "state", *FLAGS, *args]

    def stop(self):
        subprocess.run(self._runsc("delete", "--force", self.name), capture_output=True, check=False)
        super().stop()
