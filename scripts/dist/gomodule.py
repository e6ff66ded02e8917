"""The Go module: the sources of go/ and the command for each kind of machine, packed."""

import hashlib
import io
import json
import pathlib
import re
import shutil
import time
import zipfile

from dist import files

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SOURCE = ROOT / "go"


def path():
    """The module's path, of go.mod."""
    return re.search(r"^module (\S+)$", (SOURCE / "go.mod").read_text(), re.M)[1]


def pack(folder, commands):
    """A folder of the module; `commands` has a gospect for each Go architecture."""
    shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("gospect.gz", "gospect.sha256"))
    shutil.copyfile(ROOT / "LICENSE", folder / "LICENSE")
    for arch, command in commands.items():
        content = pathlib.Path(command).read_bytes()
        (folder / "bin" / arch / "gospect.gz").write_bytes(files.compress(content))
        (folder / "bin" / arch / "gospect.sha256").write_text(hashlib.sha256(content).hexdigest() + "\n")
    return folder


def proxied(module, version, date, folder):
    """The files of a Go module proxy for one version, in `folder`."""
    versions = folder / path() / "@v"
    versions.mkdir(parents=True)
    (versions / "list").write_text(f"{version}\n")
    (versions / f"{version}.mod").write_bytes((module / "go.mod").read_bytes())
    (versions / f"{version}.info").write_text(json.dumps(
        {"Version": version, "Time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(date))}) + "\n")
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        for file in sorted(f for f in module.rglob("*") if f.is_file()):
            entry = zipfile.ZipInfo(f"{path()}@{version}/{file.relative_to(module)}", time.gmtime(date)[:6])
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, file.read_bytes())
    (versions / f"{version}.zip").write_bytes(raw.getvalue())


def make(release, staged):
    """gospect-VERSION-go.tar: a folder for GOPROXY. `staged`: (machine, tree) of each kind of machine."""
    work = release.work / "go"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    module = pack(work / "module", {machine.name: tree / "usr" / "bin" / "gospect" for machine, tree in staged})
    proxied(module, f"v{release.version}", release.date, work / "proxy")
    files.settle(work / "proxy", release.date)
    files.write_tar(release.out / f"gospect-{release.version}-go.tar", work / "proxy", "", release.date)
