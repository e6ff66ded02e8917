"""An emulated arm64 machine: about 12 times slower than what it runs on. Packages are fetched once, by
scripts/arm64-packages."""

import os
import pathlib
import shutil
import subprocess

import pytest

from lib import emulated
from lib.emulated import SETPRIV, Program
from lib.golang import ROOT

BUILD = pathlib.Path(os.environ.get("GOSPECT_ARM64_BUILD", ROOT / "build-arm64"))
QEMU = "qemu-system-aarch64"
CPU = "cortex-a72"
# How long an emulated machine takes for anything depends on what else runs on the real one.
TAKES_TIME = pytest.mark.slow


def packages(word):
    """The folder with these packages of Debian's."""
    result = subprocess.run([ROOT / "scripts" / "arm64-packages", word], capture_output=True,
                            text=True)
    if result.returncode != 0:
        raise RuntimeError(result.stderr.strip().split("\n")[-1])
    return pathlib.Path(result.stdout.strip())


def why_not():
    """Why there is no such machine here; None when there is one."""
    if not shutil.which(QEMU):
        return f"{QEMU} is missing: scripts/install-deps arm64"
    if not (BUILD / "gospect").exists():
        return f"{BUILD / 'gospect'} is missing: make arm64"
    try:
        packages("machine"), packages("libraries")
    except RuntimeError as error:
        return str(error)
    return None


def kind(cpu=CPU, root=None, programs=None, files=None):
    """Debian's kernel, or another one: `root` is the folder with its files. `programs`, `files`: what else it has."""
    machine, libraries = packages("machine"), packages("libraries")
    return emulated.Kind(
        qemu=f"{QEMU} -M virt -cpu {cpu} -accel tcg,thread=multi", console="ttyAMA0",
        kernel=emulated.image(root or machine), modules=root or machine,
        busybox=machine / "bin/busybox",
        programs={"usr/bin/gospect": BUILD / "gospect", "usr/bin/setpriv": machine / "usr/bin/setpriv",
                  "usr/bin/unshare": machine / "usr/bin/unshare",
                  "usr/bin/script": machine / "usr/bin/script", **(programs or {})},
        files=files or {},
        folders=tuple(root / name for root in (libraries, machine, *((packages("python"),) if programs else ()))
                      for name in ("lib/aarch64-linux-gnu", "usr/lib/aarch64-linux-gnu")))


class Machine(emulated.Machine):
    def __init__(self, share=None, cpu=CPU, programs=None, files=None, **kwargs):
        super().__init__(kind(cpu, None, programs, files), share, **kwargs)
