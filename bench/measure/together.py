"""The cost of a trace to the machine:  target and gospect on the same two processors, which the target takes all of.

Each slice of a round is with another tracer, in random order. CPU is that of the target and of gospect's threads while
the slice lasts; what gospect decodes afterwards is a column of its own.
"""
import contextlib
import os
import random
import tempfile
import time

from .build import say
from .meter import Meter
from .numbers import paired, spread
from .tracing import PARKED, SETTLE, Gospect, Nothing, Own

WORKLOADS = ("pingpong", "http")
MODES = ("nothing", "gospect", "own")
SLICE_MS = {"pingpong": 1500, "http": 4000}


def cpu_ns(pid):
    """The sum over all threads of a process, so far."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as stat:
            total += int(stat.read().split()[0])
    return total


def take_slice(meter, tracer, milliseconds):
    tracer.start(meter)
    time.sleep(SETTLE)
    pid = tracer.process.pid if isinstance(tracer, Gospect) else None
    before = cpu_ns(pid) if pid else 0
    result = meter.ask(f"slice {milliseconds}")
    own = (cpu_ns(pid) if pid else 0) - before
    result.update(tracer.stop(meter))
    ops = max(result["ops"], 1)
    result.update(throughput=result["ops"] / result["wall_ns"] * 1e9, cpu_per_op=(result["cpu_ns"] + own) / ops,
                  own_per_op=own / ops)
    return result


def summarize(slices):
    base = slices["nothing"]
    modes = {}
    for mode, taken in slices.items():
        row = {key: spread([s[key] for s in taken]) for key in ("throughput", "cpu_per_op", "own_per_op")}
        for key in ("throughput", "cpu_per_op"):
            row[key + "_change"] = paired([s[key] for s in taken], [s[key] for s in base])
        modes[mode] = row
    ours = slices["gospect"]
    return {"modes": modes, "lost": sum(int(s["lost"]) for s in ours), "events": sum(int(s["events"]) for s in ours),
            "to_the_end": spread([s["own_ms"] for s in ours])}


def measure_work(programs, meter_program, work, rounds, milliseconds):
    say(f"what a trace costs the machine: {work}, {rounds} rounds")
    slices = {mode: [] for mode in MODES}
    # Beside the output: not in memory, where /tmp may be.
    with tempfile.TemporaryDirectory(dir=programs.made) as folder, Meter(meter_program, PARKED, work) as meter:
        tracers = {"nothing": Nothing(), "own": Own(), "gospect": Gospect(programs.gospect, folder)}
        for _ in range(rounds):
            for mode in random.sample(MODES, len(MODES)):
                slices[mode].append(take_slice(meter, tracers[mode], milliseconds))
    return {"work": work, **summarize(slices)}


def measure(programs, quick):
    meter_program = programs.meter()
    return [measure_work(programs, meter_program, work, 3 if quick else 9, SLICE_MS[work] // (2 if quick else 1))
            for work in WORKLOADS]
