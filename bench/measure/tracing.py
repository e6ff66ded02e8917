"""The cost of an execution trace to the target: by gospect, and by its own runtime."""
import os
import random
import re
import resource
import signal
import subprocess
import tempfile
import time

from lib import gotrace

from . import machine
from .build import Failed, say
from .meter import Meter
from .numbers import spread

# In "flood" nothing but events happens, as many as there can be.
WORKLOADS = ("pingpong", "deep", "http", "paced", "yield", "flood")
# Requests differ, and what delays a few of them is rare: short slices say nothing of it.
SLICE_MS = {"http": 10000, "paced": 10000}
BYTES_MS = 1000  # Go's reader takes several times as long
# With a core each, target and gospect are not in each other's way: what the hooks cost.
APART = ("pingpong", "deep", "http", "flood")
TARGET_CORE, GOSPECT_CORE = 0, 1
SMALL_HEAP = 1  # MB: runtime.GC() sweeps span by span, and lets all others run in between
PARKED = 1000
MODES = ("nothing", "gospect", "gospect without stacks", "own")
SETTLE = 0.4
SUMMARY = r"([0-9.]+) s, (\d+) events, (\d+) lost, .* paused for ([0-9.]+) ms"


class Nothing:
    def start(self, meter):
        pass

    def stop(self, meter):
        return {}


class Own:
    """runtime/trace, inside the target; its bytes go nowhere, or to a file."""

    def __init__(self, out=""):
        self.out = out

    def start(self, meter):
        meter.ask(f"trace start {self.out}")

    def stop(self, meter):
        return meter.ask("trace stop")


def children_ns():
    """The CPU of all that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (usage.ru_utime + usage.ru_stime) * 1e9


class Gospect:
    """gospect trace beside the target."""

    def __init__(self, program, folder, *options, core=None):
        self.out = os.path.join(folder, "bench.trace")
        self.command = [*machine.on_core(core), program, "trace", "-o", self.out, "--max-size", "4000", *options]
        self.process = None

    def start(self, meter):
        self.process = subprocess.Popen([*self.command, "-p", str(meter.pid)], stderr=subprocess.PIPE, text=True)

    def stop(self, _meter):
        before = children_ns()
        self.process.send_signal(signal.SIGINT)
        _, words = self.process.communicate(timeout=60)
        cpu = children_ns() - before  # to the end: what waits to be decoded then is part of it
        found = self.summary(words)
        return {**found, "own_ms": cpu / found["events"]}

    @staticmethod
    def summary(words):
        """Parses its summary."""
        found = re.search(SUMMARY, words)
        if not found:
            raise Failed(f"gospect trace said: {words}")
        seconds, events, lost, pause = (float(x) for x in found.groups())
        return {"events_a_second": (events + lost) / seconds, "events": events, "lost": lost, "pause_ms": pause}


def take_slice(meter, tracer, milliseconds):
    tracer.start(meter)
    began = time.monotonic()
    time.sleep(SETTLE)
    result = meter.ask(f"slice {milliseconds}")
    result["traced_seconds"] = time.monotonic() - began
    result.update(tracer.stop(meter))
    seconds = result["wall_ns"] / 1e9
    result["throughput"] = result["ops"] / seconds
    result["cpu_per_op"] = result["cpu_ns"] / max(result["ops"], 1)
    return result


def bytes_per_event(meter, tracer, milliseconds):
    """Counts of a trace in a file, by the events that Go's own reader finds there."""
    take_slice(meter, tracer, milliseconds)
    found, = gotrace.read(tracer.out, newer=True)
    if "error" in found:
        raise Failed(f"Go's reader of {tracer.out}: {found['error']}")
    return os.path.getsize(tracer.out) / found["events"]


def summarize(slices):
    base = spread([s["cpu_per_op"] for s in slices["nothing"]])[0]
    events = spread([s["events_a_second"] / s["throughput"] for s in slices["gospect"]])[0]
    modes = {}
    for mode, taken in slices.items():
        row = {key: spread([s[key] for s in taken]) for key in ("cpu_per_op", "throughput", "p999_us")}
        row["per_event"] = spread([(s["cpu_per_op"] - base) / events for s in taken])
        for key in ("own_ms", "pause_ms", "events_a_second"):
            if key in taken[0]:
                row[key] = spread([s[key] for s in taken])
        row["lost"] = sum(int(s.get("lost", 0)) for s in taken)
        row["lost_share"] = row["lost"] / max(row["lost"] + sum(s.get("events", 0) for s in taken), 1)
        modes[mode] = row
    return {"events_per_op": events, "modes": modes}


def measure_work(programs, meter_program, work, rounds, milliseconds, apart=False):
    core = GOSPECT_CORE if apart else None
    name = work + (", a core for itself" if apart else "")
    say(f"what the target pays for a trace: {name}, {rounds} rounds")
    slices = {mode: [] for mode in MODES}
    with tempfile.TemporaryDirectory() as folder, \
            Meter(meter_program, PARKED, work, *((SMALL_HEAP, TARGET_CORE) if apart else ())) as meter:
        tracers = {"nothing": Nothing(), "own": Own(), "gospect": Gospect(programs.gospect, folder, core=core),
                   "gospect without stacks": Gospect(programs.gospect, folder, "--stack-depth", "0", core=core)}
        for _ in range(rounds):
            for mode in random.sample(MODES, len(MODES)):
                slices[mode].append(take_slice(meter, tracers[mode], milliseconds))
        sizes = {mode: bytes_per_event(meter, tracer, min(milliseconds, BYTES_MS))
                 for mode, tracer in (("gospect", tracers["gospect"]), ("own", Own(os.path.join(folder, "own.trace"))))}
    return {"work": name, "rounds": rounds, "bytes_per_event": sizes, **summarize(slices)}


def measure(programs, quick):
    meter_program = programs.meter()
    rounds, usual = (3, 1000) if quick else (6, 1500)
    lengths = {} if quick else SLICE_MS
    cases = [measure_work(programs, meter_program, work, rounds, lengths.get(work, usual)) for work in WORKLOADS]
    if len(os.sched_getaffinity(0)) > GOSPECT_CORE:
        cases += [measure_work(programs, meter_program, work, *((5, 400) if quick else (24, 300)), apart=True)
                  for work in APART]
    return cases
