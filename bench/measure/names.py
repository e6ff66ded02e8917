"""The cost of naming a request:  a traced call of net/http's handler, with its names and without.

The names are method, path, peer and traceparent. The handler does nothing, so what a call takes is what the records
of its call, its name and its return take.
"""
import tempfile
import time

from .build import Failed, say
from .numbers import spread
from .tracing import GOSPECT_CORE, SETTLE, Gospect
from .uprobes import Probed

REQUESTS = ("no headers", "9 headers")
CALLS = 200_000  # of one answer


def traced(gospect, folder, target, *options):
    tracer = Gospect(gospect, folder, *options, core=GOSPECT_CORE)
    tracer.start(target)
    time.sleep(SETTLE)
    costs = target.costs()
    found = tracer.stop(target)
    if found["events"] < 2 * CALLS or found["lost"]:
        raise Failed(f"gospect saw {found['events']} events of {2 * CALLS} and lost {found['lost']}")
    return costs


def measure(programs, quick):
    rounds = 3 if quick else 10
    say(f"what naming a request costs, {rounds} rounds")
    found = {key: {name: [] for name in REQUESTS} for key in ("nothing", "unnamed", "named", "naming")}
    target = Probed(programs.named(), REQUESTS)
    try:
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(rounds):
                costs = {"nothing": target.costs(),
                         "unnamed": traced(programs.gospect, folder, target, "--no-names"),
                         "named": traced(programs.gospect, folder, target)}
                for name in REQUESTS:
                    for key, cost in costs.items():
                        found[key][name].append(cost[name])
                    found["naming"][name].append(costs["named"][name] - costs["unnamed"][name])
    finally:
        target.end()
    return {key: {name: spread(ns) for name, ns in of.items()} for key, of in found.items()}
