#!/usr/bin/python3
"""Runs a command under a seccomp filter: seccomp.py CALL[,CALL...] ERRNO COMMAND ARGS...

The calls named fail with that errno, as in a container engine's seccomp profile.
"""

import ctypes
import errno
import os
import platform
import struct
import sys

# linux/audit.h, asm/unistd.h
MACHINES = {
    "x86_64": (0xC000003E, {"process_vm_readv": 310, "perf_event_open": 298,
                            "memfd_create": 319, "ptrace": 101, "bpf": 321,
                            "flock": 73, "linkat": 265, "renameat": 264}),
    "aarch64": (0xC00000B7, {"process_vm_readv": 270, "perf_event_open": 241,
                             "memfd_create": 279, "ptrace": 117, "bpf": 280,
                             "flock": 32, "linkat": 37, "renameat": 38}),
}
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38
SECCOMP_MODE_FILTER = 2
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K


class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def instructions(calls, error):
    machine, numbers = MACHINES[platform.machine()]
    yield LOAD, 0, 0, 4  # seccomp_data.arch
    yield EQUAL, 1, 0, machine
    yield RETURN, 0, 0, ALLOW
    yield LOAD, 0, 0, 0  # seccomp_data.nr
    for call in calls:
        yield EQUAL, 0, 1, numbers[call]
        yield RETURN, 0, 0, ERRNO | error
    yield RETURN, 0, 0, ALLOW


def install(calls, error):
    code = b"".join(struct.pack("HBBI", *i) for i in instructions(calls, error))
    program = Program(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0 and libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS")
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "PR_SET_SECCOMP")


if __name__ == "__main__":
    install(sys.argv[1].split(","), getattr(errno, sys.argv[2]))
    os.execvp(sys.argv[3], sys.argv[3:])
