"""THIRD-PARTY-NOTICES: what gospect contains of others, under which licences, and what follows from that."""

import gzip
import pathlib
import textwrap

COMMON = pathlib.Path("/usr/share/common-licenses")
LESSER = ("LGPL-2.1", "LGPL-3", "GPL-3")

HEAD = """\
gospect is linked statically with the libraries below, as Debian distributes them.

{libraries}

Under the GNU Lesser General Public License you may change these libraries: {lesser}.
You may link gospect with your version of them: gospect-{version}-relink.tar.gz has
gospect's object files and a script that links them. You may study and debug gospect for
that. Their source is that of Debian's source packages of these versions. `apt-get source
NAME=VERSION` fetches it, and so does scripts/lgpl-sources of gospect's source.
"""


def columns(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    return "\n".join(f"  {row[0]:{widths[0]}}  {row[1]:{widths[1]}}  {row[2]}" for row in rows)


def section(title, text):
    return f"\n{'=' * 80}\n{title}\n{'=' * 80}\n\n{text.strip()}\n"


def copyright_of(package):
    path = package.copyright
    packed = path.with_name(path.name + ".gz")
    if not path.exists() and packed.exists():
        return gzip.decompress(packed.read_bytes()).decode()
    return path.read_text(errors="replace")


def text(packages, version):
    sources = sorted({package.source for package in packages})
    lesser = ", ".join(source.name for source in sources if source.is_lesser)
    parts = [HEAD.format(libraries=columns([(s.name, s.version, s.licence) for s in sources]), version=version,
                         lesser=lesser)]
    for source in sources:
        package = next(p for p in packages if p.source == source)
        parts.append(section(f"{source.name} {source.version} ({package.name})", copyright_of(package)))
    for name in LESSER:
        parts.append(section(name, textwrap.dedent((COMMON / name).read_text())))
    return "".join(parts)
