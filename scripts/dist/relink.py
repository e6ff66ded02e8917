"""gospect-VERSION-relink.tar.gz: gospect's object files, and a script that links them with libraries of yours.

The licence of some libraries that are linked in asks for it: notices.py.
"""

import pathlib
import shutil

from dist import files
from dist.release import run

SCRIPT = """\
#!/bin/sh
# Links gospect anew. Your libraries come first when you name their folder:
#
#     ./relink [-L FOLDER]... [-o FILE]
set -eu
here=$(dirname "$0")
exec ${{CC:-{compiler}}} {flags} -o gospect "$@" "$here/gospect.o" \\
	-Wl,--start-group {libraries} -Wl,--end-group
"""


def is_own(build, word):
    """Whether gospect's build made it, with the libcurl that Debian does not have."""
    return not word.startswith("/") or build.curl in pathlib.Path(word).parents


def words(build):
    """What gospect was linked of: its own objects and archives, options, libraries of others."""
    own, flags, libraries = [], [], []
    line = build.command_line()
    line = line[:line.index("&&")] if "&&" in line else line
    skip = False
    for word in line[1:]:
        path = build.folder / word
        if skip or word == "-o":
            skip = word == "-o"
        elif word.endswith((".o", ".a")) and is_own(build, word) and path.exists():
            own.append(path)
        elif word.endswith(".a") and word.startswith("/"):
            libraries.append("-l" + pathlib.Path(word).stem.removeprefix("lib"))
        elif word.startswith("-l"):
            libraries.append(word)
        elif word == "-static-pie" or word.startswith("-Wl,-z"):
            flags.append(word)
    return own, flags, list(dict.fromkeys(libraries))


def add(build, folder):
    own, flags, libraries = words(build)
    folder.mkdir(parents=True)
    run(build.machine.compiler, "-r", "-nostdlib", "-o", folder / "gospect.o", "-Wl,--whole-archive", *own)
    run(build.binary("strip"), "--strip-debug", "-D", folder / "gospect.o")
    script = folder / "relink"
    script.write_text(SCRIPT.format(compiler=build.machine.triplet + "-gcc", flags=" ".join(flags),
                                    libraries=" ".join(libraries)))
    script.chmod(0o755)


def make(release, builds):
    top = release.work / "relink"
    shutil.rmtree(top, ignore_errors=True)
    for build in builds:
        add(build, top / build.machine.name)
    files.settle(top, release.date)
    name = f"gospect-{release.version}-relink"
    files.write_tar(release.out / f"{name}.tar.gz", top, name, release.date)
