"""Program ledger, which knows where its time went, against a recording of it.

Differences are in percentage points of the time of all workers of a kind.
"""

import dataclasses
import json
import math
import os
import re
import subprocess
import time

from lib import golang, gospect, pprof
from lib.process import Program

# What the execution trace calls the waits of the ledger's places.
TRACE_WAITS = {"sleep": "sleep", "chan receive": "chan receive", "sync": "lock",
               "network": "netpoll"}
GOSPECT_WAITS = {"sleep": "sleep", "chan receive": "chan receive", "semacquire": "lock",
                 "sync.Mutex.Lock": "lock", "IO wait": "netpoll"}
COMPUTING = ("main.crunch", "main.mash")


@dataclasses.dataclass
class Row:
    kind: str
    place: str
    what: str  # wall, cpu or a state
    truth: float  # percent
    seen: float
    stays: int

    @property
    def difference(self):
        return self.seen - self.truth


@dataclasses.dataclass
class Outcome:
    rows: list
    ticks: int
    missed: int
    looks: float  # at each goroutine
    seconds: float
    workers: int

    def worst(self):
        return max(self.rows, key=lambda row: abs(row.difference))

    def tolerance(self, row):
        """Five standard errors of the time in a place.

        A stay has two ends, each between two looks that are a period apart on average, at random
        moments: the variance of an end is period^2 / 8. The looks are those that were made: a tick
        that the budget left no look for is none.
        """
        period, total = self.seconds / self.looks, self.seconds * self.workers
        return 500 * math.sqrt(row.stays / 4) * period / total

    def cpu_tolerance(self, row):
        """Five standard errors of a CPU time that is counted in samples of 10 ms."""
        total = self.seconds * self.workers
        return 500 * math.sqrt(row.truth / 100 * total / 0.01) * 0.01 / total

    def computing(self):
        """The wall time of both places that compute, as one: how it is divided between them is
        known from samples of CPU time alone."""
        both = [row for row in self.rows if row.what == "wall" and row.place in COMPUTING]
        return Row("burner", "computing", "wall", sum(row.truth for row in both),
                   sum(row.seen for row in both), sum(row.stays for row in both))


def compare(version, path, seconds, each=3, procs=None, trace=None, args=()):
    """Records the program for so long; with `trace` (a path) its own execution trace is compared."""
    env = {"GOMAXPROCS": str(procs)} if procs else None
    program = Program(golang.build("ledger", version), f"-each={each}", env=env)
    try:
        return compare_program(program, path, seconds, each, trace, args)
    finally:
        program.stop()


def compare_program(program, path, seconds, each, trace, args):
    time.sleep(0.3)
    if trace:
        assert program.ask(f"trace {trace}") == "ok"
        time.sleep(0.3)
    result = gospect.run("record", "-p", program.pid, "-d", seconds, "-o", path, *args,
                         seconds=seconds + 60).ok()
    if trace:
        assert program.ask("stop") == "ok"
    profile = pprof.read(path)
    interval = profile.time_ns, profile.time_ns + profile.duration_ns
    truth = json.loads(program.ask("times {} {}".format(*interval)))
    program.assert_well()
    rows = compare_places(profile, truth)
    if trace:
        rows += compare_states(profile, truth, read_trace(trace, *interval))
    missed = int(re.search(r"(\d+) ticks missed", result.words[-1])[1])
    rate = float(re.search(r"at ([0-9.]+) Hz", result.words[-1])[1])
    seconds = profile.duration_ns / 1e9
    return Outcome(rows, round(rate * seconds), missed, looks(result.words[-1], seconds), seconds,
                   each)


def looks(line, seconds):
    """How often each goroutine was sampled, by what a recording says at its end."""
    return float(re.search(r"each sampled ([0-9.]+) times a second", line)[1]) * seconds


def of_kind(profile, kind):
    return [s for s in profile.samples if s.labels.get("worker") == kind]


def compare_places(profile, truth):
    rows = []
    for kind, places in truth.items():
        samples = of_kind(profile, kind)
        total = sum(s.values["wall"] for s in samples)
        true_total = sum(spent["wall"] for spent in places.values())
        for place, spent in places.items():
            for what in ("wall", "cpu") if spent["cpu"] and place != "main.rest" else ("wall",):
                seen = sum(s.values[what] for s in samples if place in s.stack)
                rows.append(Row(kind, place, what, 100 * spent[what] / true_total,
                                100 * seen / total, spent["stays"]))
    return rows


def state_of(sample):
    if sample.labels["state"] != "waiting":
        return sample.labels["state"]
    return GOSPECT_WAITS.get(sample.labels["wait"], sample.labels["wait"])


def compare_states(profile, truth, trace):
    rows = []
    for kind, places in truth.items():
        samples = of_kind(profile, kind)
        total = sum(s.values["wall"] for s in samples)
        true_total = sum(spent["wall"] for spent in places.values())
        for place, spent in places.items():
            true, seen = {}, {}
            for state, ns in trace.get(f"{kind} {place}", {}).items():
                state = "runnable" if state == "preempted" else TRACE_WAITS.get(state, state)
                true[state] = true.get(state, 0) + ns
            for s in samples:
                if place in s.stack:
                    seen[state_of(s)] = seen.get(state_of(s), 0) + s.values["wall"]
            for state in sorted(true.keys() | seen.keys()):
                rows.append(Row(kind, place, state, 100 * true.get(state, 0) / true_total,
                                100 * seen.get(state, 0) / total, spent["stays"]))
    return rows


def read_trace(path, begin, end):
    """{region: {state: ns}} of that interval."""
    tool = build_tracetimes()
    text = subprocess.run([tool, path, str(begin), str(end)], check=True,
                          stdout=subprocess.PIPE).stdout
    return json.loads(text)


def build_tracetimes():
    source = golang.TESTS / "programs" / "tracetimes"
    binary = golang.CACHE / f"tracetimes-{golang.digest(source)}"
    with golang.building(binary):
        if not binary.exists():
            partial = binary.with_suffix(f".{os.getpid()}")
            golang.go(golang.NEWEST, "build", "-o", partial, ".", cwd=source)
            partial.rename(binary)
    return binary


def table(rows, least=0.5):
    """Markdown; what is under `least` percent on both sides is left out."""
    lines = ["| worker | place | what | truth, % | gospect, % | difference, pp |",
             "| --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        if max(row.truth, row.seen) >= least:
            lines.append(f"| {row.kind} | {row.place} | {row.what} | {row.truth:.2f} | "
                         f"{row.seen:.2f} | {row.difference:+.2f} |")
    return "\n".join(lines)
