"""What `make dist` has made, unpacked."""

import json
import os
import pathlib
import re
import subprocess
import tarfile

from lib import gospect
from lib.golang import ROOT

DIST = pathlib.Path(os.environ.get("GOSPECT_DIST", ROOT / "dist"))
VERSION = re.search(r"^  version: '(.*)'", (ROOT / "meson.build").read_text(), re.M)[1]
DEB_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


def archive(machine="amd64"):
    return DIST / f"gospect-{VERSION}-linux-{machine}.tar.gz"


def deb(machine="amd64"):
    return DIST / f"gospect_{VERSION}_{machine}.deb"


def rpm(machine="amd64"):
    return DIST / f"gospect-{VERSION}.{DEB_MACHINES[machine]}.rpm"


def image():
    return DIST / f"gospect-{VERSION}-oci.tar"


def unpack(folder, machine="amd64"):
    """The program of the archive."""
    with tarfile.open(archive(machine)) as tar:
        tar.extractall(folder, filter="data") if hasattr(tarfile, "data_filter") else tar.extractall(folder)
    return folder / f"gospect-{VERSION}-linux-{machine}" / "bin" / "gospect"


def sbom():
    return json.loads((DIST / "sbom.spdx.json").read_text())


def in_root(root):
    """The words before a command that runs it in that root, with /proc and nothing else."""
    (root / "proc").mkdir(exist_ok=True)
    return ("unshare", "--mount", "sh", "-ec", f'mount -t proc proc {root}/proc; exec chroot {root} "$@"', "sh")


def run(*command, seconds=120, **options):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds,
                          **options)
    return gospect.Result(done)
