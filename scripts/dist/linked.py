"""What a static gospect contains of others: by the linker's map, and Debian's records."""

import dataclasses
import gzip
import pathlib
import re

from dist.release import run

# The licences as SPDX calls them, by the name of Debian's source package.
LICENCES = {
    "bzip2": "bzip2-1.0.6",
    "c-ares": "MIT",
    "capstone": "BSD-3-Clause AND NCSA",
    "curl": "curl",
    "elfutils": "LGPL-3.0-or-later OR GPL-2.0-or-later",
    "gcc-12": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "gcc-12-cross": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "glibc": "LGPL-2.1-or-later",
    "gmp": "LGPL-3.0-or-later OR GPL-2.0-or-later",
    "gnutls28": "LGPL-2.1-or-later",
    "json-c": "MIT",
    "libidn2": "LGPL-3.0-or-later OR GPL-2.0-or-later",
    "libmicrohttpd": "LGPL-2.1-or-later",
    "libseccomp": "LGPL-2.1-only",
    "libtasn1-6": "LGPL-2.1-or-later",
    "libunistring": "LGPL-3.0-or-later OR GPL-2.0-or-later",
    "libzstd": "BSD-3-Clause OR GPL-2.0-only",
    "ncurses": "X11-distribute-modifications-variant",
    "nettle": "LGPL-3.0-or-later OR GPL-2.0-or-later",
    "nghttp2": "MIT",
    "protobuf-c": "BSD-2-Clause",
    "xz-utils": "LicenseRef-public-domain",
    "zlib": "Zlib",
}

# The package whose source package the libcurl of a release is made of (curl.py).
CURL = "libcurl4-openssl-dev"


@dataclasses.dataclass(frozen=True, order=True)
class Source:
    """A source package of Debian's."""
    name: str
    version: str

    @property
    def licence(self):
        if self.name not in LICENCES:
            raise SystemExit(f"dist: scripts/dist/linked.py does not know the licence of {self.name}, which is linked in")
        return LICENCES[self.name]

    @property
    def is_lesser(self):
        """Whether its licence asks that gospect can be linked with another version of it."""
        return "LGPL" in self.licence


@dataclasses.dataclass(frozen=True, order=True)
class Package:
    """A binary package of Debian's, of which something is linked in."""
    name: str
    source: Source
    copyright: pathlib.Path


def archives(build):
    """The archives of others from which the linker took something."""
    text = (build.folder / "gospect.map").read_text()
    taken = re.search(r"Archive member included.*?\n\n(.*?)\n\n", text, re.S).group(1)
    found = {pathlib.Path(path).resolve() for path in re.findall(r"^(/\S+\.a)\(", taken, re.M)}
    return sorted(path for path in found if build.folder not in path.parents)


def owner(path):
    """The package of this machine that has the file."""
    return run("dpkg", "-S", path).split(":")[0]


def source_of_installed(package):
    name, version = run("dpkg-query", "-W", "-f", "${source:Package} ${source:Version}\\n", package).split("\n")[0].split()
    return Source(name, version)


def source_by_changelog(folder):
    with gzip.open(folder / "changelog.Debian.gz", "rt") as file:
        name, version = re.match(r"(\S+) \((.*?)\)", file.readline()).groups()
    return Source(name, version)


def unpacked(build, path):
    """The package of a file of build.root, where packages are unpacked and not installed."""
    name = owner("/" + str(path.relative_to(build.root)).replace(build.machine.triplet, "x86_64-linux-gnu"))
    folder = build.root / "usr" / "share" / "doc" / name
    return Package(name, source_by_changelog(folder), folder / "copyright")


def installed(name):
    return Package(name, source_of_installed(name), pathlib.Path("/usr/share/doc", name, "copyright"))


def package_of(build, path):
    if build.curl in path.parents:
        return installed(CURL)
    if build.cross and build.root in path.parents:
        return unpacked(build, path)
    return installed(owner(path))


def packages(build):
    """Those that the archives are of, sorted."""
    return sorted({package_of(build, path) for path in archives(build)})
