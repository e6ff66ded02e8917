"""What one event of a trace costs the target, by a program that switches the tracer itself.

As hooks.py, but slices are as short as half a millisecond, and there are thousands: a service's event is known to some
nanoseconds. Its own tracer takes long to start, so of that less is known.
"""
import json
import os
import subprocess
import tempfile

from . import machine
from .build import Failed, Unavailable, say
from .numbers import spread
from .tracing import GOSPECT_CORE, TARGET_CORE, Gospect

# Operations a slice: with gospect, and with its own tracer.
WORKLOADS = {"pingpong": (1000, 50000), "deep": (1000, 50000), "echo": (20, 1500), "http": (5, 400)}
TIMEOUT = 60


class Switcher:
    def __init__(self, program, work, ops, seconds, *options):
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            [*machine.on_core(TARGET_CORE), program, "-work", work, "-ops", str(ops), "-seconds", str(seconds), *options],
            env={**os.environ, "GOGC": "400"}, stdout=subprocess.PIPE, text=True)
        self.pid = int(self.process.stdout.readline().split()[1])

    def result(self):
        """Its output at the end."""
        line = self.process.stdout.readline()
        if not line:
            raise Failed("the switcher ended, see above")
        return json.loads(line)

    def end(self):
        self.process.stdout.close()
        self.process.wait(TIMEOUT)


def gospect_costs(program, gospect, folder, work, seconds):
    """ns an event, and events an operation."""
    target = Switcher(program, work, WORKLOADS[work][0], seconds)
    tracer = Gospect(gospect, folder, core=GOSPECT_CORE)
    tracer.start(target)
    found = target.result()
    target.end()
    _, words = tracer.process.communicate(timeout=TIMEOUT)
    events = tracer.summary(words)["events"] / found["ops_traced"]
    return found["difference"] / events, events


def own_costs(program, work, seconds, events):
    target = Switcher(program, work, WORKLOADS[work][1], seconds, "-own")
    found = target.result()
    target.end()
    return found["difference"] / events


def measure_work(program, gospect, work, rounds, seconds):
    say(f"what an event costs the target: {work}, which switches itself, {rounds} rounds")
    ours, own = [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            cost, events = gospect_costs(program, gospect, folder, work, seconds)
            ours.append(cost)
            own.append(own_costs(program, work, seconds, events))
    return {"work": work, "events_per_op": events, "gospect": spread(ours), "own": spread(own),
            "share": spread([a / b for a, b in zip(ours, own)])}


def measure(programs, quick):
    if len(os.sched_getaffinity(0)) <= GOSPECT_CORE:
        raise Unavailable("the target and gospect need a processor each")
    program = programs.switcher()
    rounds, seconds = (3, 3) if quick else (8, 8)
    return [measure_work(program, programs.gospect, work, rounds, seconds) for work in WORKLOADS]
