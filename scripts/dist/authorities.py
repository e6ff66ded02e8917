"""The certificates of the image, for `gospect push` over TLS: those of Debian's package ca-certificates, as it came,
and none that this machine has added."""

import hashlib
import pathlib
import shutil

from dist.release import run

PACKAGE = "ca-certificates"
LICENCE = "MPL-2.0"
FOLDER = "/usr/share/ca-certificates/"
SUMS = pathlib.Path("/var/lib/dpkg/info/ca-certificates.md5sums")


def bundle():
    parts = []
    for line in sorted(SUMS.read_text().splitlines(), key=lambda text: text.split()[1]):
        expected, name = line.split()
        path = pathlib.Path("/", name)
        if not str(path).startswith(FOLDER) or path.suffix != ".crt":
            continue
        text = path.read_bytes()
        if hashlib.md5(text).hexdigest() != expected:
            raise SystemExit(f"dist: {path} is not that of Debian's package; reinstall {PACKAGE}")
        parts.append(text)
    if len(parts) < 50:
        raise SystemExit(f"dist: {PACKAGE} has only {len(parts)} certificates; reinstall it")
    return b"".join(parts)


def version():
    return run("dpkg-query", "-W", "-f", "${Version}", PACKAGE).strip()


def place(root):
    """Where gospect and other programs look for them first."""
    folder = root / "etc" / "ssl" / "certs"
    folder.mkdir(parents=True)
    (folder / "ca-certificates.crt").write_bytes(bundle())
    notices = root / "usr" / "share" / "doc" / PACKAGE
    notices.mkdir(parents=True)
    shutil.copy(f"/usr/share/doc/{PACKAGE}/copyright", notices)
