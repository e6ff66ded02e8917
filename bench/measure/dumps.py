"""A dump from outside, against the target's own debug=2 and delve's."""
import subprocess

from . import tool
from .build import Unavailable, say
from .meter import Meter
from .numbers import spread

# Goroutines, heap in MB, rounds, rounds of them in which the target's own dump and delve's are taken.
# Delve takes a minute for each 100,000, in which the target stands still.
SIZES = ((1000, 64, 7, 7, 3), (10000, 64, 7, 7, 3), (100000, 64, 5, 3, 1), (1000000, 0, 5, 1, 0))
QUICK = ((1000, 64, 2, 2, 1), (10000, 64, 2, 2, 1), (100000, 64, 2, 1, 0), (1000000, 0, 2, 0, 0))
DEPTH = "20"


def measure(programs, quick):
    meter = programs.meter()
    try:
        delve = programs.delve()
    except Unavailable as why:
        say(f"no delve: {why}")
        delve = None
    return [measure_size(programs, meter, delve, *size) for size in (QUICK if quick else SIZES)]


def ask_delve(programs, delve, pid):
    return tool.run(programs, [delve, "attach", pid, "--allow-non-terminal-interactive=true",
                               "--check-go-version=false"],
                    stdout=subprocess.DEVNULL, said=f"goroutines -t {DEPTH}\nexit\nn\n")


def measure_size(programs, meter, delve, parked, heap, rounds, own_rounds, delve_rounds):
    say(f"dumps of {parked} goroutines, {rounds} times")
    ours, own, theirs = [], [], []
    with Meter(meter, parked, heap=heap) as target:
        for i in range(rounds):
            ours.append(tool.run(programs, [programs.gospect, "dump", "-p", target.pid, "-o", "-"]))
            if i < own_rounds:
                own.append(target.ask("dump"))
            if delve and i < delve_rounds:
                theirs.append(ask_delve(programs, delve, target.pid))
        about = target.about
    result = {
        "goroutines": about["goroutines"],
        "frames": about["frames"],
        "gospect_ms": spread([1000 * r.wall for r in ours]),
        "gospect_cpu_ms": spread([1000 * r.cpu for r in ours]),
        "gospect_rss_mb": spread([r.rss_mb for r in ours]),
    }
    if own:
        result["own_ms"] = spread([d["ms"] for d in own])
        result["own_mb"] = max(d["bytes"] for d in own) / 1e6
    if theirs:
        result["delve_ms"] = spread([1000 * r.wall for r in theirs])
        result["delve_rss_mb"] = spread([r.rss_mb for r in theirs])
    return result
