"""The cost of a profile to the target."""
import os
import random
import re
import signal
import subprocess
import tempfile
import time

from lib import pprof

from . import machine
from .build import Failed, say
from .meter import Meter
from .numbers import paired, spread

WORKLOADS = ("http", "json", "pingpong")
SIZES = (1000, 10000)
# The second "nothing" shows how large a difference by chance is.
MODES = ("nothing", "nothing again", "gospect", "gospect --budget 100", "fgprof")
SETTLE = 0.4  # seconds between a profiler's start and the slice


class Gospect:
    """gospect record beside the target."""

    def __init__(self, program, folder, *options):
        self.program, self.out = program, os.path.join(folder, "bench.pb.gz")
        self.options = options
        self.process = self.errors = None

    def start(self, meter):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [self.program, "record", "-p", str(meter.pid), "-r", "100", "-o", self.out, *self.options],
            stdout=self.errors, stderr=self.errors)

    def cpu_ns(self):
        return machine.process_cpu_ns(self.process.pid)

    def stop(self, _meter):
        self.process.send_signal(signal.SIGINT)
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.errors.seek(0)
        words = self.errors.read()
        self.errors.close()
        if self.process.returncode:
            raise Failed(f"gospect record: {words}")
        with open(self.out, "rb") as file:
            profile = pprof.parse(file.read())
        seconds = profile.duration_ns / 1e9
        return {"hz": said(profile, r"rate: ([0-9.]+) Hz achieved"),
                "looks": said(profile, r"each ([0-9.]+) times a second"),
                "whole_cpu": (usage.ru_utime + usage.ru_stime) / seconds}


def said(profile, pattern):
    """A number from the profile's comments."""
    for comment in profile.comments:
        found = re.search(pattern, comment)
        if found:
            return float(found.group(1))
    raise Failed(f"the profile does not say {pattern}: " + "; ".join(profile.comments))


class InProcess:
    """fgprof, started inside the target."""

    @staticmethod
    def start(meter):
        meter.ask("fgprof start")

    @staticmethod
    def cpu_ns():
        return None  # it is part of the target's

    @staticmethod
    def stop(meter):
        hz = meter.ask("fgprof stop")["hz"]
        return {"hz": hz, "looks": hz}


class Nothing:
    @staticmethod
    def start(_meter):
        pass

    @staticmethod
    def cpu_ns():
        return None

    @staticmethod
    def stop(_meter):
        return {}


def take_slice(meter, profiler, milliseconds):
    profiler.start(meter)
    time.sleep(SETTLE)
    before, busy = profiler.cpu_ns(), machine.busy_seconds()
    result = meter.ask(f"slice {milliseconds}")
    own = 0 if before is None else profiler.cpu_ns() - before
    busy = machine.busy_seconds() - busy
    result.update(profiler.stop(meter))
    if before is not None:
        result["own_cpu"] = own / result["wall_ns"]
    seconds = result["wall_ns"] / 1e9
    return {
        **result,
        "throughput": result["ops"] / seconds,
        "cpu_per_op": (result["cpu_ns"] + own) / max(result["ops"], 1),
        "others": max(0, busy - (result["cpu_ns"] + own) / 1e9) / seconds,
    }


def summarize(slices):
    """Per mode: the values, and the changes against the first "nothing" of the same round."""
    base = slices["nothing"]
    summary = {}
    for mode, taken in slices.items():
        row = {"others": spread([s["others"] for s in taken])}
        for key in ("throughput", "cpu_per_op", "p999_us"):
            row[key] = spread([s[key] for s in taken])
            if mode != "nothing":
                row[key + "_change"] = paired([s[key] for s in taken], [s[key] for s in base])
        for key in ("hz", "looks", "own_cpu", "whole_cpu"):
            if key in taken[0]:
                row[key] = spread([s[key] for s in taken])
        summary[mode] = row
    return summary


def measure_case(meter_program, profilers, work, parked, rounds, milliseconds):
    slices = {mode: [] for mode in MODES}
    with Meter(meter_program, parked, work) as meter:
        for _ in range(rounds):
            for mode in random.sample(MODES, len(MODES)):
                slices[mode].append(take_slice(meter, profilers[mode], milliseconds))
        about = meter.about
    return {"work": work, "parked": parked, "about": about, "rounds": rounds, "modes": summarize(slices)}


def measure(programs, quick):
    meter = programs.meter()
    rounds, milliseconds = (3, 1000) if quick else (6, 1500)
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        profilers = {"nothing": Nothing, "nothing again": Nothing, "fgprof": InProcess,
                     "gospect": Gospect(programs.gospect, folder),
                     "gospect --budget 100": Gospect(programs.gospect, folder, "--budget", "100")}
        for work in WORKLOADS:
            for parked in SIZES:
                say(f"what the target pays: {work}, {parked} parked goroutines, {rounds} rounds")
                cases.append(measure_case(meter, profilers, work, parked, rounds, milliseconds))
    return cases
