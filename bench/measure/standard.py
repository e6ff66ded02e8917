"""What encoding/json's own benchmarks lose while gospect records them."""
import csv
import os
import re
import subprocess
import tempfile
import time

from .build import GO_VERSION, Failed, say

# Go 1.20.14 is the last of the version in which the benchmark was asked for.
VERSIONS = (GO_VERSION, "go1.20.14")
EACH = "100ms"
# Which benchmarks, and their environment. TypeFieldsCache has caches of 1 to 1,000 types, as on Go's own builders.
# Larger ones make a million types first, in each run: they are a section of their own.
ALL = (".", {"GO_BUILDER_NAME": "bench"})
LARGE_CACHES = ("TypeFieldsCache/(Miss|Hit)Types(10000|100000|1000000)$", {})
RATE = "100"


def run_once(programs, test, folder, which, profile):
    """One run of these benchmarks; the tool is started beside it when `profile` names its file."""
    with tempfile.TemporaryFile("w+") as errors:
        began = time.monotonic()
        process = subprocess.Popen([test, "-test.run", "^$", "-test.bench", which[0], "-test.benchtime", EACH],
                                   env={**os.environ, **which[1]}, cwd=folder,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=errors, text=True)
        tool = None
        if profile:
            tool = subprocess.Popen([programs.gospect, "record", "-p", str(process.pid), "-r", RATE, "-o", profile],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        text, _ = process.communicate()
        words = tool.communicate()[1] if tool else ""
        if process.returncode or tool and tool.returncode:
            errors.seek(0)
            raise Failed(f"encoding/json's benchmarks: {errors.read().strip()[-200:]} {words.strip()}")
    return text, words, time.monotonic() - began


def gospect_cpu(words):
    found = re.search(r"gospect used ([0-9.]+) %", words)
    return float(found[1]) if found else None


def measure(programs, quick):
    return [measure_version(programs, version, 6 if quick else 10) for version in VERSIONS]


def measure_caches(programs, quick):
    return [measure_version(programs, VERSIONS[-1], 4 if quick else 6, LARGE_CACHES)]


def measure_version(programs, version, rounds, which=ALL):
    benchstat = programs.benchstat()
    test, folder = programs.json_test(version)
    say(f"encoding/json's own benchmarks of {version}, {rounds} times without and with gospect")
    used = []
    with tempfile.TemporaryDirectory(prefix="gospect-bench-") as results:
        files = {mode: os.path.join(results, mode) for mode in ("nothing", "again", "gospect")}
        for i in range(rounds):
            for mode in sorted(files, key=lambda m: (i + list(files).index(m)) % len(files)):
                profile = os.path.join(results, "profile.pb.gz") if mode == "gospect" else None
                text, words, seconds = run_once(programs, test, folder, which, profile)
                with open(files[mode], "a", encoding="utf-8") as out:
                    out.write(text)
                if profile:
                    used.append(gospect_cpu(words))
        compared = {mode: compare(benchstat, files["nothing"], files[mode]) for mode in ("again", "gospect")}
    return {"version": version, "rounds": rounds, "each": EACH, "seconds": seconds, "own_cpu": sorted(used)[len(used) // 2],
            **compared}


def compare(benchstat, before, after):
    """What benchstat says of time per operation: the geometric means, and how many benchmarks differ."""
    done = subprocess.run([benchstat, "-format", "csv", before, after], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=True)
    return read_csv(done.stdout)


def read_csv(text):
    rows, in_time = [], False
    for row in csv.reader(text.splitlines()):
        if len(row) > 1 and row[0] == "" and "sec/op" in row:
            in_time = True
        elif len(row) < 6:
            in_time = in_time and bool(row) and row[0] != ""
        elif in_time:
            rows.append(row)
    named = {row[0]: row for row in rows}
    if "geomean" not in named:
        raise Failed("benchstat gave no geometric mean")
    mean = named.pop("geomean")
    changes = [row[5] for row in named.values()]
    return {"benchmarks": len(named), "geomean": float(mean[3]) / float(mean[1]) - 1,
            "slower": sum(c.startswith("+") for c in changes), "faster": sum(c.startswith("-") for c in changes),
            "rows": {name: {"before": float(row[1]), "after": float(row[3]), "change": row[5]}
                     for name, row in named.items()}}
