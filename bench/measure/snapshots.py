"""One pass over all goroutines: its cost to the reader."""
import json
import subprocess

from .build import Failed, say
from .meter import Meter

# Goroutines, heap in MB, rounds.
SIZES = ((1000, 64, 25), (10000, 64, 25), (100000, 64, 25), (1000000, 0, 7))


def measure(programs, quick):
    meter = programs.meter()
    rows = []
    for parked, heap, rounds in SIZES:
        say(f"snapshots of {parked} goroutines")
        with Meter(meter, parked, heap=heap) as target:
            done = subprocess.run([programs.snapshot_bench, str(target.pid), str(rounds // 3 if quick else rounds)],
                                  stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise Failed("snapshot_bench failed, see above")
        rows.append(json.loads(done.stdout))
    return rows
