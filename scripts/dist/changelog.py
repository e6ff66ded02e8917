"""CHANGELOG.md, and the same as Debian and rpm want it."""

import email.utils
import re
import time

from dist.release import MAINTAINER, ROOT


def entries(text=None):
    """(version, items) of each, the newest first."""
    text = text if text is not None else (ROOT / "CHANGELOG.md").read_text()
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        head, _, body = part.partition("\n")
        items = [" ".join(item.split()) for item in re.split(r"^- ", body, flags=re.M)[1:]]
        yield head.split()[0], [item.replace("**", "").replace("`", "") for item in items]


def check(version):
    newest = next(entries())[0]
    if newest != version:
        raise SystemExit(f"dist: CHANGELOG.md begins with {newest}, and meson.build says {version}")


def wrapped(item, first, rest, width=78):
    lines, line = [], first
    for word in item.split():
        if len(line) + len(word) + 1 > width:
            lines.append(line.rstrip())
            line = rest
        line += word + " "
    return "\n".join([*lines, line.rstrip()])


def debian(date):
    """All have the date of this release: CHANGELOG.md has none."""
    return "\n".join(f"gospect ({version}) unstable; urgency=medium\n\n"
                     + "\n".join(wrapped(item, "  * ", "    ") for item in items)
                     + f"\n\n -- {MAINTAINER}  {email.utils.formatdate(date)}\n"
                     for version, items in entries())


def rpm(date):
    day = time.strftime("%a %b %d %Y", time.gmtime(date))
    return "\n".join(f"* {day} {MAINTAINER} - {version}-1\n" + "\n".join(wrapped(item, "- ", "  ") for item in items)
                     + "\n" for version, items in entries()).replace("%", "%%")
