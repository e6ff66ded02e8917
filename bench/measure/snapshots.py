"""One look at all goroutines: what it costs the reader."""
import json
import subprocess

from .build import Failed, say
from .meter import Meter

SIZES = (1000, 10000, 100000)


def measure(programs, quick):
    meter = programs.meter()
    rows = []
    for parked in SIZES:
        say(f"snapshots of {parked} goroutines")
        with Meter(meter, parked) as target:
            done = subprocess.run([programs.snapshot_bench, str(target.pid), "9" if quick else "25"],
                                  stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise Failed("snapshot_bench failed, see above")
        rows.append(json.loads(done.stdout))
    return rows
