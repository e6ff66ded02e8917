"""The files of a release as they lie below usr/, from which every package is made."""

import shutil

from dist import files, notices
from dist.release import ROOT


def make(release, build, packages):
    """Returns the folder, with usr/ in it."""
    tree = release.work / f"tree-{build.machine.name}"
    build.install(tree)
    share = tree / "usr" / "share"
    for manual in sorted((share / "man" / "man1").glob("*.1")):
        (manual.parent / f"{manual.name}.gz").write_bytes(files.compress(manual.read_bytes()))
        manual.unlink()
    documents = share / "doc" / "gospect"
    documents.mkdir(parents=True)
    for name in "LICENSE", "CHANGELOG.md", "SECURITY.md":
        shutil.copyfile(ROOT / name, documents / name)
    (documents / "THIRD-PARTY-NOTICES").write_text(notices.text(packages, release.version))
    files.settle(tree, release.date)
    return tree


def copy(release, tree, name):
    """Another one, for a package to change."""
    other = release.work / name
    shutil.rmtree(other, ignore_errors=True)
    shutil.copytree(tree, other)
    return other


def archive(release, tree, machine):
    name = f"gospect-{release.version}-linux-{machine.name}"
    files.write_tar(release.out / f"{name}.tar.gz", tree / "usr", name, release.date)
