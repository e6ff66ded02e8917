"""Archives and files whose bytes depend on their contents only."""

import gzip
import hashlib
import io
import os
import tarfile


def compress(data):
    out = io.BytesIO()
    with gzip.GzipFile(filename="", fileobj=out, mode="wb", compresslevel=9, mtime=0) as packed:
        packed.write(data)
    return out.getvalue()


def settle(tree, date):
    """Gives everything in a folder the modes and the time that it has in a package."""
    for folder, _, names in os.walk(tree):
        for name in names:
            path = os.path.join(folder, name)
            os.chmod(path, 0o755 if os.access(path, os.X_OK) else 0o644)
            os.utime(path, (date, date))
        os.chmod(folder, 0o755)
        os.utime(folder, (date, date))


def write_tar(path, tree, prefix, date):
    """The contents of a folder, owned by root, in the order of their names; compressed if so named."""
    def entry(info):
        info.uid = info.gid = 0
        info.uname = info.gname = "root"
        info.mtime = date
        return info

    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for file in [tree, *sorted(tree.rglob("*"))]:
            name = os.path.normpath(os.path.join(prefix, file.relative_to(tree)))
            if name != ".":
                tar.add(file, name, recursive=False, filter=entry)
    path.write_bytes(compress(raw.getvalue()) if path.suffix == ".gz" else raw.getvalue())


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_sums(folder):
    """SHA256SUMS, as sha256sum prints it."""
    sums = [f"{sha256(path)}  {path.name}\n" for path in sorted(folder.iterdir()) if path.name != "SHA256SUMS"]
    (folder / "SHA256SUMS").write_text("".join(sums))
