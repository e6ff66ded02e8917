"""Three ways to find the callers on a stack: how often all are right, and what each costs.

For accuracy each sample of a running program is unwound by two methods, from the same registers and
bytes; pcsp itself is held against single steps (tests/e2e/test_single_step.py). Labels are read a
moment after a sample: how much time keeps them.
"""
import json
import os
import shutil
import subprocess
import tempfile

from lib import cgo, golang, pprof
from lib.process import Program

from .build import Failed, Unavailable, say

VERSIONS = ((1, 19), (1, 23), (1, 27))
HZ = 999
# Name, program of tests/programs, its arguments.
PROGRAMS = (("callers", "callers", ()), ("ping-pong", "profiled", ("pingpong",)),
            ("http", "profiled", ("http",)), ("json", "profiled", ("json",)),
            ("allocates", "switches", ("alloc",)), ("91 frames deep", "switches", ("deep",)),
            ("301 frames deep", "switches", ("deeper",)))
LABEL_HZ = (100, 1000)


def bench(programs, pid, seconds):
    done = subprocess.run([programs.unwind_bench, str(pid), str(seconds), str(HZ)], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        raise (Unavailable if "perf_event" in done.stderr else Failed)(done.stderr.strip())
    return json.loads(done.stdout)


def share(seen):
    return {key: n / max(seen["samples"], 1) if key != "samples" else n for key, n in seen.items()}


def look_at(programs, version, name, binary, args, seconds):
    say(f"unwinding {name} on Go {version}, 3 times {seconds} s")
    program = Program(binary, *args)
    try:
        running = bench(programs, program.pid, seconds)["running"]
    finally:
        program.stop()
    return {"version": version, "name": name, **{m: share(seen) for m, seen in running.items()}}


def cost(programs, version):
    program = Program(golang.build("states", version))
    try:
        return {"version": version, **bench(programs, program.pid, 0.1)["parked"]}
    finally:
        program.stop()


def kept_labels(programs, seconds):
    """The share of the CPU time under pprof.Do that has the label it sets."""
    say(f"labels, {len(LABEL_HZ)} times {seconds} s")
    program = Program(golang.build("profiled", golang.NEWEST), "http")
    shares = {}
    try:
        with tempfile.TemporaryDirectory(prefix="gospect-bench-") as folder:
            for hz in LABEL_HZ:
                out = os.path.join(folder, "p.pb.gz")
                subprocess.run([programs.gospect, "record", "-p", str(program.pid), "-d", str(seconds), "-r",
                                str(hz), "--budget", "100", "--on-cpu", "-o", out], check=True,
                               stderr=subprocess.DEVNULL)
                with open(out, "rb") as file:
                    profile = pprof.parse(file.read())
                under = [s for s in profile.samples if "runtime/pprof.Do" in s.stack]
                total = sum(s.values["cpu"] for s in under)
                shares[hz] = sum(s.values["cpu"] for s in under if "work" in s.labels) / max(total, 1)
    finally:
        program.stop()
    return shares


def measure(programs, quick):
    seconds = 1 if quick else 4
    versions = [v for v in golang.NEWEST_OF_EACH if golang.minor(v) in VERSIONS]
    rows = [look_at(programs, version, name, golang.build(program, version), args, seconds)
            for version in versions for name, program, args in PROGRAMS]
    if shutil.which("gcc"):
        rows += [look_at(programs, version, f"cgo: {what}", cgo.program(version), (what,), seconds)
                 for version in versions for what in ("c", "back")]
    return {"programs": rows, "costs": [cost(programs, version) for version in versions],
            "labels": kept_labels(programs, 2 * seconds)}
