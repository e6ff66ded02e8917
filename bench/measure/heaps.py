"""What it costs to see a program's heap: gospect, goref and viewcore from outside, the program's own /debug/pprof/heap and
debug.WriteHeapDump from inside. The target serves HTTP meanwhile.
"""
import os
import subprocess
import tempfile
import time

from . import machine, tool
from .build import Failed, Unavailable, last_line, say
from .meter import Meter
from .numbers import spread

SIZES, QUICK = (100, 1000, 8000), (100, 1000)
# A round of the largest takes minutes.
ROUNDS, QUICK_ROUNDS = {100: 5, 1000: 3, 8000: 1}, 1
PARKED = 1000
# Each is used again and again for so long, so that the target's throughput says something; a tool that takes longer is used once.
# One that takes longer than the limit counts as failed.
LEAST_S = 2
LIMIT_S, QUICK_LIMIT_S = 600, 120
# The collector's garbage, what a core file takes of the page cache, and the tools.
ROOM = 2.5


def available_mb():
    with open("/proc/meminfo", encoding="ascii") as info:
        return next(int(line.split()[1]) for line in info if line.startswith("MemAvailable")) / 1024


class Inside:
    """A command of the target's: it has no process of its own."""

    def __init__(self, *words):
        self.words = words

    def run(self, _programs, target):
        before = machine.process_cpu_ns(target.pid)
        found = target.ask(" ".join(self.words))
        return {"wall": found["ms"] / 1e3, "mb": found["bytes"] / 1e6, "cpu": (machine.process_cpu_ns(target.pid) - before) / 1e9}


class Outside:
    """Commands, one after the other; PID stands for the target's."""

    def __init__(self, *commands, limit=LIMIT_S, removes=()):
        self.commands, self.limit, self.removes = commands, limit, removes

    def run(self, programs, target):
        runs = []
        for command in self.commands:
            words = [str(target.pid) if word == "PID" else word.replace("PID", str(target.pid)) for word in command]
            runs.append(tool.run(programs, ["timeout", self.limit, *words]))
        for path in self.removes:
            os.unlink(path.replace("PID", str(target.pid)))
        return {"wall": sum(r.wall for r in runs), "cpu": sum(r.cpu for r in runs), "rss_mb": max(r.rss_mb for r in runs)}


class Nothing:
    def run(self, _programs, _target):
        time.sleep(LEAST_S)
        return {"wall": LEAST_S, "cpu": 0}


def has_option(gospect, verb, option):
    words = subprocess.run([gospect, verb, "--help"], capture_output=True, text=True, check=False)
    return option in words.stdout


def others(programs, folder, limit):
    """goref and viewcore, or why not."""
    found = {}
    try:
        found["goref"] = Outside([programs.goref(), "attach", "PID", "-o", os.path.join(folder, "grf.out")], limit=limit)
    except Unavailable as why:
        found["goref"] = why
    try:
        core = os.path.join(folder, "core")
        found["viewcore"] = Outside(["gcore", "-o", core, "PID"], [programs.viewcore(), core + ".PID", "histogram"],
                                    limit=limit, removes=[core + ".PID"])
    except Unavailable as why:
        found["viewcore"] = why
    return found


def ways(programs, folder, limit):
    gospect, out = programs.gospect, os.path.join(folder, "out")
    found = {
        "nothing": Nothing(),
        "gospect heap": Outside([gospect, "heap", "PID", "-f", "pprof", "-o", out]),
        "gospect memory": Outside([gospect, "memory", "PID", "-f", "json", "-o", out]),
        "gospect leaks": Outside([gospect, "leaks", "PID", "-f", "json", "-o", out]),
    }
    if has_option(gospect, "heap", "--retained"):
        found["gospect heap --retained"] = Outside([gospect, "heap", "--retained", "PID", "-f", "json", "-o", out])
    found["its own /debug/pprof/heap"] = Inside("profile")
    found["its own debug.WriteHeapDump"] = Inside("heapdump", os.path.join(folder, "heapdump"))
    return {**found, **others(programs, folder, limit)}


def use(way, programs, target):
    """Uses it for a while; what the target did meanwhile."""
    runs, began = [], time.monotonic()
    busy, own = machine.busy_seconds(), machine.process_cpu_ns(target.pid)
    target.ask("begin")
    while not runs or time.monotonic() - began < LEAST_S:
        runs.append(way.run(programs, target))
    found = target.ask("end")
    wall = found["wall_ns"] / 1e9
    mine = (machine.process_cpu_ns(target.pid) - own) / 1e9 + sum(r["cpu"] for r in runs if not isinstance(way, Inside))
    return {"runs": runs, "throughput": found["ops"] / wall, "p999_us": found["p999_us"], "max_us": found["max_us"],
            "others": max(machine.busy_seconds() - busy - mine, 0) / wall}


def summarize(taken, base):
    runs = [run for one in taken for run in one["runs"]]
    row = {"ms": spread([1000 * r["wall"] for r in runs]), "cpu_ms": spread([1000 * r["cpu"] for r in runs]),
           "times": len(runs)}
    for key in ("rss_mb", "mb"):
        if key in runs[0]:
            row[key] = spread([r[key] for r in runs])
    for key in ("throughput", "p999_us", "max_us", "others"):
        row[key] = spread([t[key] for t in taken])
    row["throughput_change"] = spread([t["throughput"] / base - 1 for t in taken])
    return row


def why_not(error, limit):
    return f"it took longer than {limit} s" if ": status 124" in error else last_line(error)


def measure_size(programs, meter, mb, rounds, limit, folder):
    say(f"heaps of {mb} MB, {rounds} rounds")
    modes, base = {}, None
    with Meter(meter, PARKED, "http", mb, mixed=True, GOGC="50") as target, open(f"/proc/{target.pid}/status", encoding="ascii") as status:
        rss = next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024
        target.ask("slice 1000")
        for name, way in ways(programs, folder, limit).items():
            if isinstance(way, Unavailable):
                modes[name] = {"skipped": str(way)}
                continue
            say(f"  {name}")
            try:
                taken = [use(way, programs, target) for _ in range(rounds)]
            except Failed as why:
                modes[name] = {"skipped": why_not(str(why), limit)}
                target.ask("end")
                continue
            base = base or spread([t["throughput"] for t in taken])[0]
            modes[name] = summarize(taken, base)
    return {"mb": mb, "rss_mb": rss, "rounds": rounds, "modes": modes}


def measure(programs, quick):
    meter, rows = programs.meter(), []
    for mb in QUICK if quick else SIZES:
        if available_mb() < ROOM * mb:
            rows.append({"mb": mb, "skipped": f"{available_mb():.0f} MB of memory are free, and {ROOM * mb} are needed"})
            continue
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            rows.append(measure_size(programs, meter, mb, *((QUICK_ROUNDS, QUICK_LIMIT_S) if quick else (ROUNDS[mb], LIMIT_S)),
                                     folder))
    return rows
