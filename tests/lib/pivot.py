#!/usr/bin/python3
"""Makes a folder the root of this mount namespace, with a /proc, and runs a command: ROOT COMMAND.

The folder of the old root is out of reach afterwards, as in a container.
"""

import ctypes
import os
import sys

MS_BIND, MS_REC, MNT_DETACH = 4096, 16384, 2
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}[os.uname().machine]

libc = ctypes.CDLL(None, use_errno=True)


def check(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


def enter(root):
    path = root.encode()
    check(libc.mount(path, path, None, MS_BIND | MS_REC, None), "bind")
    check(libc.mount(b"proc", path + b"/proc", b"proc", 0, None), "proc")
    os.chdir(root)
    check(libc.syscall(SYS_PIVOT_ROOT, b".", b"."), "pivot_root")
    check(libc.umount2(b".", MNT_DETACH), "umount")
    os.chdir("/")


if __name__ == "__main__":
    enter(sys.argv[1])
    os.execv(sys.argv[2], sys.argv[2:])
