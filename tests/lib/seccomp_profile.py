#!/usr/bin/python3
"""Runs a command under a seccomp profile in OCI's JSON, by libseccomp: seccomp_profile.py FILE COMMAND ARGS...

Also makes the profiles that Docker, containerd and systemd publish.
"""

import ctypes
import json
import os
import re
import subprocess
import sys

ALLOW, ERRNO = 0x7FFF0000, 0x00050000
EPERM = 1
OPERATORS = {"SCMP_CMP_NE": 1, "SCMP_CMP_LT": 2, "SCMP_CMP_LE": 3, "SCMP_CMP_EQ": 4, "SCMP_CMP_GE": 5, "SCMP_CMP_GT": 6,
             "SCMP_CMP_MASKED_EQ": 7}
UNKNOWN_CALL = -1  # __NR_SCMP_ERROR


class Argument(ctypes.Structure):
    """struct scmp_arg_cmp"""
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("datum_a", ctypes.c_uint64), ("datum_b", ctypes.c_uint64)]


def action(rule, key="action", number="errnoRet"):
    if rule[key] == "SCMP_ACT_ALLOW":
        return ALLOW
    assert rule[key] == "SCMP_ACT_ERRNO", rule[key]
    return ERRNO | rule.get(number, EPERM)


def arguments(rule):
    return [Argument(a["index"], OPERATORS[a["op"]], a["value"], a.get("valueTwo", 0)) for a in rule.get("args") or ()]


def add(library, context, rule, name, default):
    call = library.seccomp_syscall_resolve_name(name.encode())
    if call == UNKNOWN_CALL or action(rule) == default:
        return
    args = arguments(rule)
    failed = library.seccomp_rule_add_array(context, action(rule), call, len(args), (Argument * max(1, len(args)))(*args))
    assert not failed or call < 0, (name, failed)  # one that this machine does not have


def install(profile):
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_rule_add_array.argtypes = (ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)
    library.seccomp_load.argtypes = (ctypes.c_void_p,)
    library.seccomp_attr_set.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32)
    default = action(profile, "defaultAction", "defaultErrnoRet")
    context = library.seccomp_init(default)
    library.seccomp_attr_set(context, 3, 0)  # SCMP_FLTATR_CTL_NNP: runc does not set it, either
    for rule in profile["syscalls"]:
        for name in rule["names"]:
            add(library, context, rule, name, default)
    assert not library.seccomp_load(context)


def of_engine(maker, engine, capabilities):
    """`maker`: the program of tests/lib/profiles."""
    return json.loads(subprocess.run([maker, engine, *capabilities], capture_output=True, check=True).stdout)


def of_systemd(group):
    """What a service with SystemCallFilter=GROUP and SystemCallErrorNumber=EPERM may call."""
    text = subprocess.run(["systemd-analyze", "syscall-filter"], capture_output=True, text=True, check=True).stdout
    groups = {name: body.split() for name, body in re.findall(r"^(@\S+)\n((?:    .*\n)+)", re.sub(r"    #.*\n", "", text), re.M)}

    def expanded(name):
        return [call for word in groups[name] for call in (expanded(word) if word.startswith("@") else [word])]

    # systemd lets every service call these.
    names = [*expanded(group), *expanded("@default")]
    return {"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": names, "action": "SCMP_ACT_ALLOW"}]}


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        install(json.load(file))
    os.execvp(sys.argv[2], sys.argv[2:])
