#!/usr/bin/env python3
"""Makes a C string of a script.

    embed.py HEADER NAME SCRIPT.js > NAME.c
"""
import pathlib
import sys

header, name, path = sys.argv[1:]
text = pathlib.Path(path).read_text()
rows = ["\t" + '"' + line.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t").replace("?", "\\?") + '\\n"'
        for line in text.splitlines()]
print(f'#include "{header}"\n\nconst char {name}[] =\n' + "\n".join(rows) + ";")
