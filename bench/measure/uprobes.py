"""The cost of a call while something is attached to the function:  a uprobe, or a hook of gospect.

A uprobe on an instruction that the kernel cannot emulate is single-stepped; most of Go's functions begin with one.
The uprobe counts and does no more, so this is the least that a tool on uprobes pays. gospect records each call and
each return, with their times.
"""
import ctypes
import json
import os
import struct
import subprocess
import tempfile
import time

from . import machine
from .build import Failed, Unavailable, say
from .numbers import spread
from .tracing import GOSPECT_CORE, SETTLE, TARGET_CORE, Gospect

TYPE = "/sys/bus/event_source/devices/uprobe/type"
PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
PERF_FLAG_FD_CLOEXEC = 8
FUNCTIONS = ("checked", "unchecked")


class Probed:
    def __init__(self, program, functions=FUNCTIONS):
        self.functions = functions
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            [*machine.on_core(TARGET_CORE), program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        about = self._answer()
        self.pid, self.offsets = about["pid"], about["offsets"]

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise Failed("the probed program ended, see above")
        return json.loads(line)

    def costs(self):
        """ns a call, of each function."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return dict(zip(self.functions, self._answer()))

    def end(self):
        self.process.stdin.close()
        self.process.wait(10)


class Uprobe:
    """A counting uprobe on a place of a file, on all processors."""

    def __init__(self, path, offset):
        with open(TYPE, encoding="ascii") as file:
            kind = int(file.read())
        libc = ctypes.CDLL(None, use_errno=True)
        name = ctypes.create_string_buffer(os.fsencode(path))
        # type, size, config, period, sample_type, read_format, flags, wakeup, bp_type, path, offset
        attr = struct.pack("=IIQQQQQIIQQ", kind, 128, 0, 0, 0, 0, 0, 0, 0, ctypes.addressof(name), offset).ljust(128, b"\0")
        self.files = []
        for cpu in sorted(os.sched_getaffinity(0)):
            fd = libc.syscall(PERF_EVENT_OPEN[os.uname().machine], attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC)
            if fd < 0:
                self.close()
                raise Unavailable(f"uprobes: {os.strerror(ctypes.get_errno())}")
            self.files.append(fd)

    def count(self):
        return sum(struct.unpack("=Q", os.read(fd, 8))[0] for fd in self.files)

    def close(self):
        for fd in self.files:
            os.close(fd)


def by_uprobe(program, target, function):
    probe = Uprobe(program, target.offsets[function])
    try:
        cost = target.costs()[function]
        if not probe.count():
            raise Failed(f"the uprobe on {function} was never hit")
    finally:
        probe.close()
    return cost


def by_gospect(gospect, folder, target):
    tracer = Gospect(gospect, folder, "--root", r"^main\.checked$", core=GOSPECT_CORE)
    tracer.start(target)
    time.sleep(SETTLE)
    cost = target.costs()["checked"]
    calls = tracer.stop(target)["events"]
    if calls < 100000:
        raise Failed(f"gospect saw {calls} events of 200,000")
    return cost


def measure(programs, quick):
    if not os.path.exists(TYPE):
        raise Unavailable("this kernel has no uprobes")
    program, rounds = programs.probed(), 3 if quick else 10
    say(f"what a call costs with a uprobe or a hook on its function, {rounds} rounds")
    extra = {"checked": [], "unchecked": [], "gospect": []}
    bare = {name: [] for name in FUNCTIONS}
    target = Probed(program)
    try:
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(rounds):
                nothing = target.costs()
                for name in FUNCTIONS:
                    bare[name].append(nothing[name])
                    extra[name].append(by_uprobe(program, target, name) - nothing[name])
                extra["gospect"].append(by_gospect(programs.gospect, folder, target) - nothing["checked"])
    finally:
        target.end()
    return {"bare": {name: spread(ns) for name, ns in bare.items()}, "extra": {name: spread(ns) for name, ns in extra.items()}}
