"""The CPU time of gospect for an event, from the ring to the trace:  bench/trace_bench.c, without a target."""
import json
import os
import subprocess

from .build import Unavailable, say
from .numbers import spread

WORKLOADS = ("pingpong", "http")
STAGES = ("collect", "read", "decode", "write")


def measure(programs, quick):
    program = os.path.join(programs.made, "bench", "trace_bench")
    if not os.access(program, os.X_OK):
        raise Unavailable("there is no trace_bench: it takes cmocka")
    cases = []
    for work in WORKLOADS:
        say(f"decoding: {work}")
        runs = [json.loads(subprocess.run([program, work], stdout=subprocess.PIPE, check=True).stdout)
                for _ in range(1 if quick else 3)]
        cases.append({"work": work, **{stage: spread([run[stage] for run in runs]) for stage in STAGES}})
    return cases
