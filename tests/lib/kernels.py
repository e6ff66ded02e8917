"""Other kernels of Debian and Ubuntu, in emulated machines. Packages are fetched once, by scripts/kernel-packages."""

import functools
import pathlib
import shutil
import subprocess

from lib import arm64, emulated, gospect
from lib.golang import ROOT

AMD64 = "amd64"
QEMU = "qemu-system-x86_64"
# With five levels of page tables old kernels take minutes to boot here.
CPU = "max,la57=off"
LIBRARIES = tuple(pathlib.Path(name) for name in ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64"))


def names(architecture):
    listed = subprocess.run([ROOT / "scripts" / "kernel-packages", "--list"], capture_output=True, text=True, check=True)
    return next(line.split()[1:] for line in listed.stdout.splitlines() if line.split()[0] == architecture)


@functools.cache
def packages(architecture, name):
    result = subprocess.run([ROOT / "scripts" / "kernel-packages", architecture, name], capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(result.stderr.strip().split("\n")[-1])
    return pathlib.Path(result.stdout.strip())


def why_not(architecture):
    """Why there is no such machine here; None when there is one."""
    if architecture != AMD64:
        return arm64.why_not()
    missing = [name for name in (QEMU, "busybox", "setpriv", "unshare", "apparmor_parser", "checkpolicy") if not shutil.which(name)]
    return f"{missing[0]} is missing: scripts/install-deps kernels" if missing else None


def programs():
    """Of amd64: this machine's own."""
    return {"usr/bin/gospect": gospect.BINARY,
            **{f"usr/bin/{name}": pathlib.Path(shutil.which(name)) for name in ("setpriv", "unshare", "script")}}


def kind(architecture, name):
    root = packages(architecture, name)
    if architecture != AMD64:
        return arm64.kind(root=root)
    return emulated.Kind(
        qemu=f"{QEMU} -M q35 -cpu {CPU} -accel tcg,thread=multi", console="ttyS0", kernel=emulated.image(root), modules=root,
        busybox=pathlib.Path(shutil.which("busybox")), programs=programs(), folders=LIBRARIES)


def boot(architecture, name, **kwargs):
    return emulated.Machine(kind(architecture, name), **kwargs)
