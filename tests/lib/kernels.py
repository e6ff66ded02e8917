"""Other kernels of Debian and Ubuntu, in emulated machines. Packages are fetched once, by scripts/kernel-packages."""

import functools
import pathlib
import re
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


def number(release):
    """"6.12.117" of "6.12.117+deb13-arm64", with the size of its pages where that is unusual."""
    pages = " (64 KB)" if release.endswith("-64k") else ""
    return re.match(r"[0-9.]+", release)[0] + pages


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


def may_boot_again(ended, booted):
    """Kernels for amd64 replace parts of their own code while other processors run it, by a breakpoint. In the emulator
    a processor may come upon one that is gone already, and the kernel dies of it. Linux 7.3 does so while it boots."""
    return "Kernel panic" in ended.console and (not booted or "int3: 0000" in ended.console)


def in_machine(architecture, name, work, **kwargs):
    """What work(machine) gives; in another machine if the emulator let the first die."""
    for is_last in (False, True):
        machine = None
        try:
            machine = boot(architecture, name, **kwargs)
            return work(machine)
        except emulated.Ended as ended:
            if is_last or not may_boot_again(ended, machine is not None):
                raise
            print(f"{architecture} {name}: the kernel died in the emulator; once more", flush=True)
        finally:
            if machine:
                machine.stop()
