"""What one event of a trace costs the target: the hooks switched off and on by turns, in one attach.

Two slices with 20 ms in between find the same machine; of slices with an attach in between that cannot be said.
"""
import os
import random
import struct
import tempfile
import time

from .build import Failed, Unavailable, say
from .meter import Meter
from .numbers import spread
from .tracing import GOSPECT_CORE, PARKED, SETTLE, TARGET_CORE, Gospect, take_slice

WORKLOADS = ("pingpong", "deep", "syscalls", "http")
SLICE_MS = 25
WARM = 0.02
# The collector runs once in many slices, not once or twice in each.
LARGE_HEAP, GOGC = 64, "400"


def switch_of(pid):
    """The address of the hooks' switch: at the beginning of the page behind the agent's code (docs/internals/trace.md)."""
    behind = None
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps:
        for words in map(str.split, maps):
            first, last = (int(number, 16) for number in words[0].split("-"))
            if first == behind and words[1] == "rw-p":
                return first
            behind = last if len(words) > 5 and "gospect-code" in words[5] else None
    raise Failed("the target has no agent")


class Hooks:
    """gospect's, in the target all the time."""

    def __init__(self, program, folder):
        self.tracer = Gospect(program, folder, core=GOSPECT_CORE)
        self.memory, self.address = None, 0

    def begin(self, meter):
        self.tracer.start(meter)
        time.sleep(SETTLE)
        self.address = switch_of(meter.pid)
        self.memory = open(f"/proc/{meter.pid}/mem", "r+b", buffering=0)  # pylint: disable=consider-using-with
        self.off(meter)

    def _switch(self, value):
        self.memory.seek(self.address)
        self.memory.write(struct.pack("I", value))

    def on(self, _meter):
        self._switch(1)

    def off(self, _meter):
        self._switch(0)

    def end(self, meter):
        self.on(meter)
        self.memory.close()
        self.tracer.stop(meter)


class Own:
    """The runtime's, started and stopped."""

    def begin(self, meter):
        pass

    def on(self, meter):
        meter.ask("trace start")

    def off(self, meter):
        meter.ask("trace stop")

    def end(self, meter):
        pass


def cpu_per_op(meter):
    time.sleep(WARM)
    found = meter.ask(f"slice {SLICE_MS}")
    return found["cpu_ns"] / max(found["ops"], 1)


def cost_per_op(meter, tracer, pairs):
    """The median of what a slice takes more than the mean of those before and behind it."""
    costs = []
    tracer.begin(meter)
    before = cpu_per_op(meter)
    for _ in range(pairs):
        tracer.on(meter)
        traced = cpu_per_op(meter)
        tracer.off(meter)
        behind = cpu_per_op(meter)
        costs.append(traced - (before + behind) / 2)
        before = behind
    tracer.end(meter)
    return spread(costs)[0]


def events_per_op(meter, program, folder):
    taken = take_slice(meter, Gospect(program, folder, core=GOSPECT_CORE), 1000)
    return taken["events_a_second"] / taken["throughput"]


def measure_work(programs, meter_program, work, rounds, pairs):
    say(f"what an event costs the target: {work}, {rounds} rounds of {pairs} pairs")
    costs = {"gospect": [], "own": []}
    with tempfile.TemporaryDirectory() as folder, \
            Meter(meter_program, PARKED, work, LARGE_HEAP, TARGET_CORE, GOGC=GOGC) as meter:
        tracers = {"gospect": Hooks(programs.gospect, folder), "own": Own()}
        for _ in range(rounds):
            for mode in random.sample(sorted(tracers), len(tracers)):
                costs[mode].append(cost_per_op(meter, tracers[mode], pairs))
        events = events_per_op(meter, programs.gospect, folder)
    shares = [ours / own for ours, own in zip(costs["gospect"], costs["own"])]
    return {"work": work, "events_per_op": events, "share": spread(shares),
            **{mode: spread([cost / events for cost in taken]) for mode, taken in costs.items()}}


def measure(programs, quick):
    if len(os.sched_getaffinity(0)) <= GOSPECT_CORE:
        raise Unavailable("the target and gospect need a processor each")
    meter_program = programs.meter()
    return [measure_work(programs, meter_program, work, *((3, 6) if quick else (8, 10))) for work in WORKLOADS]
