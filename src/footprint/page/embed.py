#!/usr/bin/env python3
"""Makes a C file of a page's sources: style and script go into the HTML, which is then cut in two at the
place of the data.

    embed.py ROOM/NAME_page.h NAME NAME.html STYLE.css... SCRIPT.js... > NAME_page.c
"""
import pathlib
import sys


def c_array(name, data):
    rows = [", ".join(str(b) for b in data[i:i + 24]) for i in range(0, len(data), 24)]
    return (f"const unsigned char {name}[] = {{\n" + ",\n".join(rows) + "\n};\n"
            f"const size_t {name}_size = sizeof({name});\n")


def main(header, prefix, *paths):
    page, *parts = [pathlib.Path(p) for p in paths]
    style = "".join(p.read_text() for p in parts if p.suffix == ".css")
    script = "".join(p.read_text() for p in parts if p.suffix == ".js")
    if "</script" in script or "</style" in style:
        sys.exit("embed.py: a source closes its own element")
    html = page.read_text().replace("/*STYLE*/", style).replace("/*SCRIPT*/", script)
    before, after = html.split("/*DATA*/")
    print(f'#include "{header}"\n')
    print(c_array(f"{prefix}_before_data", before.encode()))
    print(c_array(f"{prefix}_after_data", after.encode()))


main(*sys.argv[1:])
