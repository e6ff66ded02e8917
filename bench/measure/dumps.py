"""A dump from outside, against the target's own debug=2."""
import subprocess
import tempfile

from . import tool
from .build import say
from .meter import Meter
from .numbers import spread

SIZES = (1000, 10000, 100000)


def measure(programs, quick):
    meter = programs.meter()
    return [measure_size(programs, meter, parked, rounds_for(parked, quick)) for parked in SIZES]


def rounds_for(parked, quick):
    if quick:
        return 2
    return 3 if parked >= 100000 else 7


def measure_size(programs, meter, parked, rounds):
    say(f"dumps of {parked} goroutines, {rounds} times")
    ours, own = [], []
    with Meter(meter, parked) as target, tempfile.TemporaryFile("w+") as errors:
        for _ in range(rounds):
            ours.append(tool.run([programs.gospect, "dump", "-p", str(target.pid), "-o", "-"], errors,
                                 stdout=subprocess.DEVNULL))
            own.append(target.ask("dump"))
    return {
        "goroutines": target.about["goroutines"],
        "frames": target.about["frames"],
        "gospect_ms": spread([1000 * r.wall for r in ours]),
        "gospect_cpu_ms": spread([1000 * r.cpu for r in ours]),
        "gospect_rss_mb": spread([r.rss_mb for r in ours]),
        "own_ms": spread([d["ms"] for d in own]),
        "own_mb": max(d["bytes"] for d in own) / 1e6,
    }
