"""Fetches Debian's packages into a folder of their own, of any suite and architecture. Nothing is installed:
neither root nor a foreign architecture of dpkg's is needed."""

import os
import pathlib
import shutil
import subprocess
import sys

# Of a kernel's dependencies none is needed to boot it, or to unpack its source.
WITHOUT_DEPENDENCIES = ("linux-image-", "linux-modules-", "linux-source-")
PARTS = ("linux-image-", "linux-binary-", "linux-modules-", "linux-source-")
MIRROR = "http://deb.debian.org/debian"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def cache():
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "gospect"


def run(*command, **kwargs):
    result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **kwargs)
    if result.returncode != 0:
        last = (result.stderr.strip() or result.stdout.strip()).split("\n")[-1]
        raise SystemExit(f"{command[0]} failed: {last}")
    return result.stdout


class Apt:
    """apt with a state of its own, in which nothing is installed. `suites`: lines of a sources.list behind "deb URL";
    without them, this machine's own sources."""

    def __init__(self, folder, architecture, suites=(), keyring=KEYRING):
        self.archives = folder / "archives"
        for name in "lists/partial", "archives/partial", "parts":
            (folder / name).mkdir(parents=True)
        (folder / "status").touch()
        options = {
            "APT::Architecture": architecture, "APT::Architectures::": architecture,
            "APT::Install-Recommends": "false", "APT::Sandbox::User": "",
            "Dir::State": folder, "Dir::State::lists": folder / "lists",
            "Dir::State::status": folder / "status", "Dir::Cache": folder,
            "Dir::Cache::archives": self.archives,
            "Acquire::Languages": "none", "Acquire::Retries": "3", "Debug::NoLocking": "true",
        }
        if suites:
            sources = folder / "sources.list"
            sources.write_text("".join(f"deb [signed-by={keyring}] {line}\n" for line in suites))
            options |= {"Dir::Etc::sourcelist": sources, "Dir::Etc::sourceparts": folder / "parts"}
        self.options = [f"-o{key}={value}" for key, value in options.items()] + ["-qq"]
        run("apt-get", *self.options, "update")

    def _depends(self, package):
        lines = run("apt-cache", *self.options, "depends", package).splitlines()
        return [line.split()[1] for line in lines if line.strip().startswith("Depends: ")]

    def kernel(self, package):
        """The packages of a kernel's image and modules that this one leads to, or is."""
        parts, left = set(), [package]
        while left:
            name = left.pop()
            if name not in parts and name.startswith(PARTS):
                parts.add(name)
                left += self._depends(name)
        return sorted(parts)

    def fetch(self, packages):
        alone = [part for p in packages if p.startswith(WITHOUT_DEPENDENCIES) for part in self.kernel(p)]
        others = [p for p in packages if not p.startswith(WITHOUT_DEPENDENCIES)]
        if others:
            run("apt-get", *self.options, "install", "--yes", "--download-only", *others)
        if alone:
            run("apt-get", *self.options, "download", *alone, cwd=self.archives)
        return sorted(self.archives.glob("*.deb"))


def make_links_relative(root):
    """Links to absolute names would lead out of the folder."""
    for folder, folders, files in os.walk(root):
        for link in (pathlib.Path(folder, name) for name in (*folders, *files)):
            if link.is_symlink() and os.readlink(link).startswith("/"):
                inside = str(root) + os.readlink(link)
                link.unlink()
                link.symlink_to(os.path.relpath(inside, folder))


def fetch(packages, folder, architecture, suites=(), keyring=KEYRING):
    """Makes the folder, whole or not at all: what the packages have is in folder/root."""
    partial = folder.with_name(f"{folder.name}.{os.getpid()}")
    print(f"fetching {' '.join(packages)}", file=sys.stderr)
    try:
        root = partial / "root"
        root.mkdir(parents=True)
        for package in Apt(partial / "apt", architecture, suites, keyring).fetch(packages):
            run("dpkg-deb", "-x", package, root)
        make_links_relative(root)
        shutil.rmtree(partial / "apt")
        (partial / "constants.ini").write_text(f"[constants]\nroot = '{folder / 'root'}'\n")
        if not folder.exists():  # else another process made it first
            partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder / "root"


def ubuntu_keyring():
    """The keys of Ubuntu's archive, from Debian 13: Debian 12 has no package with them."""
    folder = cache() / "ubuntu-keyring"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        fetch(["ubuntu-keyring"], folder, "amd64", [f"{MIRROR} trixie main"])
    return folder / "root/usr/share/keyrings/ubuntu-archive-keyring.gpg"
