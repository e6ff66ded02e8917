"""How long the world stands still: for the garbage collector, for fgprof, for a dump of the runtime's own.

The target serves HTTP; gospect traces it, and the trace has each stop of the world with its reason.
"""
import collections
import re
import tempfile
import time

from .build import say
from .meter import Meter
from .numbers import spread
from .tracing import SETTLE, Gospect

SIZES = (1000, 10000)
NAME = re.compile(r'Range(Begin|End) Time=(\d+) .*?Name="?stop-the-world(?: \(([^)]*)\))?')


def stops(programs, path):
    """{reason: [ms, ...]} of a trace: they never overlap."""
    found, begun, why = collections.defaultdict(list), None, ""
    for line in programs.go("tool", "trace", "-d=parsed", path, folder="/").splitlines():
        if event := NAME.search(line):
            kind, time, reason = event.groups()
            if kind == "Begin":
                begun, why = int(time), reason or "?"
            elif begun is not None:
                found[why].append((int(time) - begun) / 1e6)
                begun = None
    return found


def attached(pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
        return "gospect-data" in maps.read()


def traced(programs, meter, folder, milliseconds, before=None, after=None):
    """The stops of a slice that is traced, and how many seconds the trace has."""
    if before:
        meter.ask(before)
    tracer = Gospect(programs.gospect, folder)
    tracer.start(meter)
    until = time.monotonic() + 20
    while not attached(meter.pid) and time.monotonic() < until:
        time.sleep(0.02)
    time.sleep(SETTLE)
    meter.ask(f"slice {milliseconds}")
    said = tracer.stop(meter)
    if after:
        meter.ask(after)
    return stops(programs, tracer.out), said["events"] / said["events_a_second"]


def measure_size(programs, parked, rounds):
    say(f"how long the world stands still, {parked} goroutines parked, {rounds} rounds")
    found = {name: collections.defaultdict(lambda: {"count": [], "total": [], "longest": []}) for name in ("nothing", "fgprof")}
    with tempfile.TemporaryDirectory() as folder, Meter(programs.meter(), parked, "http") as meter:
        for _ in range(rounds):
            for name, commands in (("nothing", ()), ("fgprof", ("fgprof start", "fgprof stop"))):
                by_reason, seconds = traced(programs, meter, folder, 1500, *commands)
                for reason, ms in by_reason.items():
                    row = found[name][reason]
                    row["count"].append(len(ms) / seconds)
                    row["total"].append(sum(ms) / seconds)
                    row["longest"].append(max(ms))
    return {"parked": parked,
            "modes": {name: {reason: {key: spread(values) for key, values in row.items()} for reason, row in rows.items()}
                      for name, rows in found.items()}}


def measure(programs, quick):
    return [measure_size(programs, parked, 2 if quick else 6) for parked in SIZES]
