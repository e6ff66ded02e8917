"""The cost of a recording and of a trace to a gRPC service."""
import random
import tempfile

from . import overhead, tracing
from .build import say
from .meter import Service
from .numbers import paired, spread

MODES = ("nothing", "nothing again", "record", "trace")


def summarize(slices):
    """Per mode: the values, and the changes against the first "nothing" of the same round."""
    base, summary = slices["nothing"], {}
    for mode, taken in slices.items():
        row = {}
        for key in ("throughput", "cpu_per_op", "p50_us", "p99_us"):
            row[key] = spread([s[key] for s in taken])
            row[key + "_change"] = paired([s[key] for s in taken], [s[key] for s in base])
        row["lost"] = sum(int(s.get("lost", 0)) for s in taken)
        summary[mode] = row
    return summary


def measure(programs, quick):
    program = programs.echo()
    rounds, milliseconds = (3, 1000) if quick else (10, 2000)
    say(f"what a gRPC service pays, {rounds} rounds")
    slices = {mode: [] for mode in MODES}
    with tempfile.TemporaryDirectory() as folder, Service(program) as service:
        tools = {"nothing": tracing.Nothing(), "nothing again": tracing.Nothing(),
                 "record": overhead.Gospect(programs.gospect, folder),
                 "trace": tracing.Gospect(programs.gospect, folder)}
        service.ask(f"slice {milliseconds}")  # connections are made
        for _ in range(rounds):
            for mode in random.sample(MODES, len(MODES)):
                slices[mode].append(tracing.take_slice(service, tools[mode], milliseconds))
    return {"rounds": rounds, "modes": summarize(slices)}
