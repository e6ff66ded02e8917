"""Debian's source packages, in exactly the versions of this machine, by its own sources of apt."""

import pathlib
import tempfile

from dist.release import run

FORMAT = "$(REPO_URI) $(RELEASE) $(COMPONENT) $(SIGNED_BY)"


def source_lines():
    targets = run("apt-get", "indextargets", "--format", FORMAT, "Created-By: Packages")
    for line in sorted(set(targets.splitlines())):
        uri, release, component, *key = line.split()
        signed = f"[signed-by={key[0]}] " if key and key[0].startswith("/") else ""
        yield f"deb-src {signed}{uri} {release} {component}\n"


def download(folder, *packages):
    """Each as NAME=VERSION, into the folder, which exists. apt checks the sums by the signed lists, which are its own."""
    with tempfile.TemporaryDirectory() as own_folder:
        lists, sources = pathlib.Path(own_folder, "lists"), pathlib.Path(own_folder, "sources.list")
        (lists / "partial").mkdir(parents=True)
        sources.write_text("".join(source_lines()))
        own = ["-qq", f"-oDir::State::lists={lists}", f"-oDir::Etc::sourcelist={sources}",
               "-oDir::Etc::sourceparts=/dev/null", "-oAPT::Sandbox::User=", "-oAcquire::Retries=3"]
        run("apt-get", *own, "update")
        run("apt-get", *own, "source", "--download-only", *packages, cwd=folder)


def unpack(folder, to):
    """The source package of the folder, with Debian's patches."""
    run("dpkg-source", "--no-check", "-x", next(folder.glob("*.dsc")), to)
