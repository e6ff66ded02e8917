"""Recordings of very many goroutines with the default budget: what they cost and how right they are."""
import os
import re
import subprocess
import tempfile

from lib import golang, pprof

from . import tool
from .build import Failed, say
from .numbers import spread

SIZES = (100000, 1000000)
SECONDS = 10
PLACES = 20
# tests/programs/crowd: one in so many goes from place to place.
MOVING = 50


class Crowd:
    """tests/programs/crowd: goroutines in 20 places, in shares that are known."""

    def __init__(self, count):
        self.process = subprocess.Popen(
            [str(golang.build("crowd", golang.NEWEST)), f"-goroutines={count}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        words = self.process.stdout.readline().split()
        if len(words) != 2:
            raise Failed("the crowd ended")
        self.pid = int(words[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def expected(count):
    """Share of time in each place, by the program's own rules (crowd's main and wander)."""
    settled = [0.0] * PLACES
    for i in range(count):
        if i % MOVING:
            settled[place_of(i // 100 % 210)] += 1
    roam = [0.0] * PLACES
    for a in range(20):
        for b in range(20):
            roam[a * b // 20] += 1 / 400
    movers = count - sum(settled)
    return [(s + movers * r) / count for s, r in zip(settled, roam)]


def place_of(step):
    place = 0
    while step > place:
        step -= place + 1
        place += 1
    return place


def shares(path):
    with open(path, "rb") as file:
        profile = pprof.parse(file.read())
    time = [0] * PLACES
    for sample in profile.samples:
        for func in sample.stack:
            found = re.fullmatch(r"main\.place(\d+)", func)
            if found:
                time[int(found[1])] += sample.values["wall"]
    return [t / max(sum(time), 1) for t in time]


def number(words, pattern):
    found = re.search(pattern, words)
    if not found:
        raise Failed(f"gospect record said: {words}")
    return float(found[1])


def measure(programs, quick):
    return [measure_size(programs, count, *options, 2 if quick else 3)
            for count in SIZES for options in ((), ("--budget", "10"))]


def measure_size(programs, count, *options_and_rounds):
    *options, rounds = options_and_rounds
    say(f"recordings of {count} goroutines {' '.join(options)}, {rounds} times {SECONDS} s")
    truth, runs, errors = expected(count), [], []
    with Crowd(count) as crowd, tempfile.TemporaryDirectory(prefix="gospect-bench-") as folder:
        out = os.path.join(folder, "crowd.pb.gz")
        for _ in range(rounds):
            runs.append(tool.run(programs, [programs.gospect, "record", "-p", crowd.pid, "-d", SECONDS, "-o", out,
                                            *options]))
            errors.append(max(abs(seen - true) for seen, true in zip(shares(out), truth)))
    return {
        "goroutines": count,
        "budget": options[1] if options else "1",
        "cpu": spread([number(r.words, r"gospect used ([0-9.]+) %") for r in runs]),
        "cpu_s": spread([r.cpu for r in runs]),
        "told": spread([number(r.words, r"accurate to ±([0-9.]+) points") for r in runs]),
        "wrong": spread([100 * e for e in errors]),
        "looks": spread([number(r.words, r"sampled ([0-9.]+) times a second") for r in runs]),
        "rss_mb": spread([r.rss_mb for r in runs]),
    }
