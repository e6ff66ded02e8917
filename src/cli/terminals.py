#!/usr/bin/env python3
"""Makes terminals.c: descriptions of the terminals in use, in the form that the variable TERMINFO
may have (ncurses(3), "b64:"), as this machine's infocmp prints them.

    terminals.py > terminals.c
"""
import os
import re
import subprocess
import sys

# The descriptions, and beginnings of the names of terminals that each of them also fits.
TERMINALS = {
    "xterm-256color": ("xterm", "alacritty", "foot", "ghostty", "gnome", "konsole", "kitty", "putty", "rio",
                       "st-", "vte", "wezterm"),
    "screen-256color": ("screen",),
    "tmux-256color": ("tmux",),
    "rxvt-unicode-256color": ("rxvt",),
    "linux": ("linux", "fbterm"),
    "vt220": ("vt", "ansi"),
}
WITHOUT_OTHERS = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "HOME": "/nonexistent"}


def description(name):
    done = subprocess.run(["infocmp", "-Q2", "-q", name], capture_output=True, text=True, env=WITHOUT_OTHERS)
    text = "".join(done.stdout.split())
    if done.returncode != 0 or not re.fullmatch(r"b64:[\w+/=-]+", text):
        sys.exit(f"terminals.py: infocmp has no description of {name}: {done.stderr.strip()}")
    return text


def literal(text):
    return "\n".join(f'\t\t"{text[i:i + 80]}"' for i in range(0, len(text), 80))


def main():
    print('#include "cli/terminals.h"\n')
    print("const struct terminal terminals[] = {")
    for name, beginnings in TERMINALS.items():
        text = literal(description(name))
        for beginning in beginnings:
            print(f'\t{{"{beginning}", "{name}",\n{text}}},')
    print("\t{0},\n};")


main()
