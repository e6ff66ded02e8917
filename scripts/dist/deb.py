"""Debian's package, by dpkg-deb."""

import hashlib
import textwrap

from dist import changelog, files, tree
from dist.release import DESCRIPTION, MAINTAINER, SUMMARY, run

# It is what the package is for: one file for every release of Debian and Ubuntu, and for containers.
OVERRIDES = """\
# One package runs on every release of Debian and Ubuntu, so nothing is linked dynamically.
# THIRD-PARTY-NOTICES and Built-Using name what is linked in.
gospect: shared-library-lacks-prerequisites [usr/bin/gospect]
gospect: embedded-library *
# The units confine gospect by what systemd alone has. Elsewhere, users run the commands.
gospect: package-supports-alternative-init-but-no-init.d-script [usr/lib/systemd/system/*]
"""

COPYRIGHT = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: gospect
Comment: /usr/share/doc/gospect/THIRD-PARTY-NOTICES has the copyright and licences of the
 libraries that are linked in.

Files: *
Copyright: 2026 gospect maintainers
License: Apache-2.0
 On Debian systems the text of the Apache License 2.0 is in
 /usr/share/common-licenses/Apache-2.0.
"""


def control(release, machine, packages, kilobytes):
    using = ", ".join(f"{s.name} (= {s.version})" for s in sorted({p.source for p in packages}))
    description = textwrap.indent(DESCRIPTION, " ")
    return (f"Package: gospect\nVersion: {release.version}\nArchitecture: {machine.name}\n"
            f"Maintainer: {MAINTAINER}\nInstalled-Size: {kilobytes}\nBuilt-Using: {using}\n"
            f"Section: devel\nPriority: optional\nMulti-Arch: foreign\n"
            f"Description: {SUMMARY}\n{description}\n")


def place_documents(release, root):
    share = root / "usr" / "share"
    documents = share / "doc" / "gospect"
    (documents / "LICENSE").unlink()
    (documents / "CHANGELOG.md").unlink()
    (documents / "copyright").write_text(COPYRIGHT)
    (documents / "changelog.gz").write_bytes(files.compress(changelog.debian(release.date).encode()))
    (share / "zsh" / "site-functions").rename(share / "zsh" / "vendor-completions")
    overrides = share / "lintian" / "overrides"
    overrides.mkdir(parents=True)
    (overrides / "gospect").write_text(OVERRIDES)


def md5sums(root):
    return "".join(f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n"
                   for path in sorted(root.rglob("*")) if path.is_file())


def make(release, staged, machine, packages):
    root = tree.copy(release, staged, f"deb-{machine.name}")
    place_documents(release, root)
    sums = md5sums(root)
    size = sum(-(-path.stat().st_size // 1024) if path.is_file() else 1 for path in root.rglob("*"))
    (root / "DEBIAN").mkdir()
    (root / "DEBIAN" / "control").write_text(control(release, machine, packages, size))
    (root / "DEBIAN" / "md5sums").write_text(sums)
    files.settle(root, release.date)
    run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", root,
        release.out / f"gospect_{release.version}_{machine.name}.deb")
