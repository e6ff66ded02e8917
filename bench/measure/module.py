"""The Go module beside fgprof, in one program: what a profile of itself costs it."""
import pathlib
import random

from . import machine, overhead
from .build import say
from .meter import Meter

MODES = ("nothing", "nothing again", "module", "fgprof")
WORKLOADS = ("http", "pingpong")


class Module:
    """gospect.Start in the target. The gospect that it starts is a child of the target."""

    def __init__(self):
        self.children = []

    def start(self, meter):
        meter.ask("module start")
        self.children = descendants(meter.pid)

    def cpu_ns(self):
        return sum(machine.process_cpu_ns(pid) for pid in self.children)

    @staticmethod
    def stop(meter):
        meter.ask("module stop")
        return {}


def descendants(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *descendants(int(child))]
    return found


def measure_case(program, work, parked, rounds, milliseconds):
    slices = {mode: [] for mode in MODES}
    profilers = {"nothing": overhead.Nothing, "nothing again": overhead.Nothing, "module": Module(),
                 "fgprof": overhead.InProcess}
    with Meter(program, parked, work) as meter:
        for _ in range(rounds):
            for mode in random.sample(MODES, len(MODES)):
                slices[mode].append(overhead.take_slice(meter, profilers[mode], milliseconds))
    return {"work": work, "parked": parked, "rounds": rounds, "modes": overhead.summarize(slices)}


def measure(programs, quick):
    program = programs.meter_with_module()
    rounds, milliseconds = (3, 1000) if quick else (8, 1500)
    cases = []
    for work in WORKLOADS:
        for parked in overhead.SIZES:
            say(f"the Go module beside fgprof: {work}, {parked} parked goroutines, {rounds} rounds")
            cases.append(measure_case(program, work, parked, rounds, milliseconds))
    return cases
