"""What one event of a trace costs the target on arm64, in instructions.

In an emulated machine with one processor, each of whose instructions takes a nanosecond of its clock (qemu's -icount): so the
CPU time of a process is the number of its instructions, its own and those of the kernel for it. The program switches the tracer
itself, as in switched.py. How long an instruction takes on a real processor, it does not say.
"""
import dataclasses
import json
import os

from lib import arm64, emulated

from .build import Failed, Unavailable, last_line, say
from .numbers import spread
from .tracing import Gospect

# Operations a slice: with gospect, and with its own tracer, which takes longer to start.
WORKLOADS = {"pingpong": (200, 20000), "deep": (200, 20000), "echo": (20, 1500), "http": (5, 400)}
# Of the emulated clock: ten times and more as long here. Its own tracer changes what the first requests cost.
SECONDS, QUICK_SECONDS = 2, 0.5
OWN_SECONDS = {"http": 8}
ROUNDS, QUICK_ROUNDS = 3, 1
TIMEOUT = 900


class Machine(emulated.Machine):
    def __init__(self):
        kind = arm64.kind()
        qemu = kind.qemu.replace("thread=multi", "thread=single") + " -icount shift=0,sleep=off"
        super().__init__(dataclasses.replace(kind, qemu=qemu), processors=1)


def run_there(machine, script):
    result = machine.run(script, TIMEOUT)
    if result.status:
        raise Failed(f"in the emulated machine: {last_line(result.err)}")
    return result


def gospect_costs(machine, program, work, seconds):
    """Instructions an event, and events an operation."""
    result = run_there(machine, f"""
        export GOGC=400
        {program} -work {work} -ops {WORKLOADS[work][0]} -seconds {seconds} > said &
        until grep -q ready said; do usleep 10000; done
        gospect trace -p $! -o bench.trace --max-size 4000 || exit 1
        wait""")
    found = json.loads((machine.folder / "said").read_text().splitlines()[1])
    summary = Gospect.summary(result.err)
    if summary["lost"]:
        raise Failed(f"{summary['lost']:.0f} of {summary['events']:.0f} events were lost")
    events = summary["events"] / found["ops_traced"]
    return found["difference"] / events, events


def own_costs(machine, program, work, seconds, events):
    seconds = OWN_SECONDS.get(work, seconds)
    said = run_there(machine, f"GOGC=400 {program} -work {work} -ops {WORKLOADS[work][1]} -seconds {seconds} -own").text
    return json.loads(said.splitlines()[1])["difference"] / events


def measure_work(machine, program, work, rounds, seconds):
    say(f"instructions of an event on arm64: {work}, {rounds} rounds")
    ours, own = [], []
    for _ in range(rounds):
        cost, events = gospect_costs(machine, program, work, seconds)
        ours.append(cost)
        own.append(own_costs(machine, program, work, seconds, events))
    return {"work": work, "events_per_op": events, "gospect": spread(ours), "own": spread(own),
            "share": spread([a / b for a, b in zip(ours, own)])}


def measure(programs, quick):
    reason = arm64.why_not()
    if reason:
        raise Unavailable(reason)
    rounds, seconds = (QUICK_ROUNDS, QUICK_SECONDS) if quick else (ROUNDS, SECONDS)
    machine = Machine()
    try:
        program = machine.put(programs.switcher_for_arm64())
        return [measure_work(machine, program, work, rounds, seconds) for work in WORKLOADS]
    finally:
        machine.stop()
