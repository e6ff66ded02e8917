"""Finding leaked goroutines in heaps of several sizes: what it costs, and what the target does meanwhile.

bench/targets/held has a heap of small objects. Every millisecond it changes 20 of them, and measures how long that takes.
"""
import json
import re
import subprocess
import time

from . import tool
from .build import Failed, say
from .numbers import spread

SIZES, QUICK = (100, 1000), (100,)
ROUNDS, QUICK_ROUNDS = 5, 2
WAYS = (("nothing", None), ("leaks", ()), ("leaks --exact", ("--exact",)), ("leaks --exact=stop", ("--exact=stop",)))
PAUSE = re.compile(r"was stopped for ([\d.e+]+) ms")
COPIED = re.compile(r"copied ([\d.e+]+) MB")
TOLD = re.compile(r"is stopped for about ([\d.e+]+) ms")


class Held:
    def __init__(self, program, megabytes):
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            [program, "-megabytes", str(megabytes)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = int(self._line().split()[1])

    def _line(self):
        line = self.process.stdout.readline()
        if not line:
            raise Failed("held ended, see above")
        return line

    def start(self):
        self._say("start")

    def stop(self):
        self._say("stop")
        return json.loads(self._line())

    def _say(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def end(self):
        self.process.kill()
        self.process.communicate()


def number(pattern, words):
    found = pattern.search(words)
    return float(found.group(1)) if found else None


def look(programs, target, how):
    target.start()
    if how is None:
        time.sleep(1)
        return {"target": target.stop()}
    run = tool.run(programs, [programs.gospect, "leaks", *how, "-f", "json", target.pid])
    return {"target": target.stop(), "ms": 1000 * run.wall, "cpu_ms": 1000 * run.cpu, "rss_mb": run.rss_mb,
            "told": number(TOLD, run.words), "pause": number(PAUSE, run.words), "copied": number(COPIED, run.words)}


def summary(looks):
    row = {"ops": spread([seen["target"]["ops"] / seen["target"]["seconds"] for seen in looks]),
           "p999": spread([seen["target"]["p999_us"] for seen in looks]),
           "longest": spread([seen["target"]["longest_us"] / 1000 for seen in looks])}
    for key in ("ms", "cpu_ms", "rss_mb", "told", "pause", "copied"):
        values = [seen[key] for seen in looks if seen.get(key) is not None]
        if values:
            row[key] = spread(values)
    return row


def measure(programs, quick):
    program, rows = programs.held(), []
    for megabytes in QUICK if quick else SIZES:
        say(f"leaks in a heap of {megabytes} MB")
        target = Held(program, megabytes)
        try:
            looks = {name: [] for name, _ in WAYS}
            for _ in range(QUICK_ROUNDS if quick else ROUNDS):
                for name, how in WAYS:
                    looks[name].append(look(programs, target, how))
        finally:
            target.end()
        rows += [{"megabytes": megabytes, "way": name, **summary(seen)} for name, seen in looks.items()]
    return rows
