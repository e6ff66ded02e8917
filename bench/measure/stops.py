"""How long the world stands still: for the garbage collector, for fgprof, for a dump of the runtime's own.

The target serves HTTP. gospect traces it. The trace has each stop of the world, with its reason and the stack of the
goroutine that asked for it, and the moment when each P stopped.
"""
import collections
import re
import statistics
import subprocess
import tempfile
import time

from .build import Failed, say
from .meter import Meter
from .numbers import spread
from .tracing import SETTLE, Gospect

SIZES = (1000, 10000)
SLICE_MS = 800
# Of the text, which has a million events a second with their stacks, this lets through what is read here.
FILTER = r"""/^M=/ { world = /stop-the-world/; if (world || /Running->Idle/) print; next } world"""
EVENT = re.compile(r"M=\S+ P=\S+ G=\S+ (\w+) Time=(\d+) ?(.*)")
NAME = re.compile(r'Name="?stop-the-world(?: \(([^)]*)\))?')
FRAME = re.compile(r"\t(\S+) @ 0x")
ITSELF = ("runtime.", "runtime/", "internal/")

KEYS = ("count", "total", "median", "until_all", "longest")

Stop = collections.namedtuple("Stop", "reason ms until_all_ms who")


def events(lines):
    """(name, ns, rest, functions of the stack, innermost first) of each event."""
    name = None
    for line in lines:
        if found := EVENT.match(line):
            if name:
                yield name, time_ns, rest, stack
            name, time_ns, rest, stack = found[1], int(found[2]), found[3], []
        elif name and (frame := FRAME.match(line)):
            stack.append(frame[1])
    if name:
        yield name, time_ns, rest, stack


def asker(stack):
    """The innermost function that is not the runtime's own; else the outermost."""
    others = [f for f in stack if not f.startswith(ITSELF)]
    return others[0] if others else stack[-1] if stack else "?"


def parsed(programs, trace):
    """The lines of `go tool trace -d=parsed` that FILTER lets through."""
    command, env = programs.go_command()
    with subprocess.Popen([command, "tool", "trace", "-d=parsed", trace], stdout=subprocess.PIPE, cwd="/", env=env) as go, \
         subprocess.Popen(["awk", FILTER], stdin=go.stdout, stdout=subprocess.PIPE, text=True, errors="replace") as awk:
        go.stdout.close()
        yield from awk.stdout
    if go.returncode or awk.returncode:
        raise Failed(f"go tool trace -d=parsed {trace}: status {go.returncode}, awk: {awk.returncode}")


def read_stops(lines):
    """Each Stop in the lines of `go tool trace -d=parsed`. They never overlap. The world stands when the last P that
    ran Go code beside the one that asked is idle."""
    begun = None
    for name, now, rest, stack in events(lines):
        found = NAME.search(rest)
        if name == "RangeBegin" and found:
            begun, last, why, who = now, now, found[1] or "?", asker(stack)
        elif name == "StateTransition" and begun is not None and "ProcID=" in rest and "Running->Idle" in rest:
            last = now
        elif name == "RangeEnd" and found and begun is not None:
            yield Stop(why, (now - begun) / 1e6, (last - begun) / 1e6, who)
            begun = None


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
    found = collections.defaultdict(list)
    for stop in read_stops(parsed(programs, tracer.out)):
        found[stop.reason].append(stop)
    return found, said["events"] / said["events_a_second"]


def measure_size(programs, parked, rounds):
    say(f"how long the world stands still, {parked} goroutines parked, {rounds} rounds")
    found = {name: collections.defaultdict(lambda: {**{key: [] for key in KEYS}, "who": collections.Counter()}) for name in ("nothing", "fgprof")}
    with tempfile.TemporaryDirectory() as folder, Meter(programs.meter(), parked, "http") as meter:
        for _ in range(rounds):
            for name, commands in (("nothing", ()), ("fgprof", ("fgprof start", "fgprof stop"))):
                by_reason, seconds = traced(programs, meter, folder, SLICE_MS, *commands)
                for reason, all_of_it in by_reason.items():
                    add_round(found[name][reason], all_of_it, seconds)
    return {"parked": parked,
            "modes": {name: {reason: summarize(row) for reason, row in rows.items()} for name, rows in found.items()}}


def add_round(row, all_of_it, seconds):
    ms = [stop.ms for stop in all_of_it]
    row["count"].append(len(ms) / seconds)
    row["total"].append(sum(ms) / seconds)
    row["longest"].append(max(ms))
    row["median"].append(statistics.median(ms))
    row["until_all"].append(statistics.median(stop.until_all_ms for stop in all_of_it))
    row["who"].update(stop.who for stop in all_of_it)


def summarize(row):
    return {**{key: spread(row[key]) for key in KEYS}, "who": row["who"].most_common(1)[0][0]}


def measure(programs, quick):
    return [measure_size(programs, parked, 2 if quick else 5) for parked in SIZES]
