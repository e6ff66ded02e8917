"""Profiles for the Firefox Profiler: their tables are valid, and say what the program does.

The rules are those of src/types/profile.ts and docs-developer/CHANGELOG-formats.md (version 57) of
firefox-devtools/profiler. The Firefox Profiler's own code reads a file, too: its package for the
command line, from npm, upgrades the format and finds functions and markers."""

import collections
import json
import os
import shutil
import subprocess
import tempfile
import time

import pytest

from lib import golang, gospect
from lib.process import wait_until

WRITER = gospect.ROOT / "build" / "src" / "profile" / "write_made_up_profile"
SECOND_MS = 1000

NUMBER = (int, float)
NULL = type(None)
# Each column of a thread's tables: the types of its values, and what an index leads to.
TABLES = {
    "frameTable": {"address": (int,), "inlineDepth": (int,), "category": (int,),
                   "subcategory": (int,), "func": "funcTable", "nativeSymbol": (NULL,),
                   "innerWindowID": (int,), "line": (int, NULL), "column": (int, NULL)},
    "funcTable": {"name": "strings", "isJS": (bool,), "relevantForJS": (bool,), "resource": (int,),
                  "fileName": "strings?", "lineNumber": (int, NULL), "columnNumber": (int, NULL)},
    "stackTable": {"frame": "frameTable", "prefix": "stackTable?"},
    "resourceTable": {"lib": (), "name": (), "host": (), "type": ()},
    "nativeSymbols": {"libIndex": (), "address": (), "name": (), "functionSize": ()},
    "samples": {"stack": "stackTable", "time": NUMBER, "weight": NUMBER},
    "markers": {"data": (dict,), "name": "strings", "startTime": NUMBER, "endTime": NUMBER,
                "phase": (int,), "category": (int,)},
}
COLORS = {"transparent", "grey", "purple", "green", "orange", "yellow", "lightblue", "blue", "brown",
          "magenta", "red", "lightred", "darkgrey"}


def check_column(values, rule, thread, strings):
    if isinstance(rule, str):
        target = rule.rstrip("?")
        limit = len(strings) if target == "strings" else thread[target]["length"]
        for value in values:
            assert (value is None and rule.endswith("?")) or \
                (type(value) is int and 0 <= value < limit)
    else:
        assert all(type(value) in rule for value in values)


def check_thread(thread, profile):
    strings = profile["shared"]["stringArray"]
    categories = profile["meta"]["categories"]
    for name, columns in TABLES.items():
        table = thread[name]
        assert set(columns) <= set(table), name
        for column, rule in columns.items():
            assert len(table[column]) == table["length"], (name, column)
            check_column(table[column], rule, thread, strings)
    prefixes = thread["stackTable"]["prefix"]
    assert all(prefix is None or prefix < i for i, prefix in enumerate(prefixes))
    for category, sub in zip(thread["frameTable"]["category"], thread["frameTable"]["subcategory"]):
        assert sub < len(categories[category]["subcategories"])
    samples, markers = thread["samples"], thread["markers"]
    assert samples["weightType"] in ("samples", "tracing-ms")
    assert samples["time"] == sorted(samples["time"])
    schemas = {schema["name"] for schema in profile["meta"]["markerSchema"]}
    for i, data in enumerate(markers["data"]):
        assert data["type"] in schemas
        assert 0 <= data["cause"]["stack"] < thread["stackTable"]["length"]
        assert markers["phase"][i] == 1 and markers["startTime"][i] < markers["endTime"][i]
        assert markers["category"][i] < len(categories)
    assert isinstance(thread["pid"], str) and isinstance(thread["tid"], (int, str))
    assert thread["processType"] == "default" and isinstance(thread["isMainThread"], bool)
    assert thread["pausedRanges"] == [] and thread["registerTime"] == 0


def check(profile):
    meta = profile["meta"]
    assert meta["preprocessedProfileVersion"] == 57
    assert isinstance(meta["interval"], NUMBER) and meta["interval"] > 0
    assert isinstance(meta["startTime"], NUMBER) and isinstance(meta["product"], str)
    assert meta["categories"][0]["color"] == "grey"
    for category in meta["categories"]:
        assert category["color"] in COLORS and category["subcategories"][0] == "Other"
        assert all(isinstance(name, str) for name in category["subcategories"])
    for schema in meta["markerSchema"]:
        assert all({"key", "format"} <= set(field) for field in schema["fields"])
    assert profile["libs"] == [] and isinstance(profile["threads"], list)
    assert all(isinstance(text, str) for text in profile["shared"]["stringArray"])
    for thread in profile["threads"]:
        check_thread(thread, profile)
    return profile


def made_up(name):
    text = subprocess.run([WRITER, name, "firefox"], check=True, stdout=subprocess.PIPE).stdout
    return check(json.loads(text))


def stack_of(profile, thread, at):
    """The functions, innermost first."""
    stack = []
    while at is not None:
        function = thread["frameTable"]["func"][thread["stackTable"]["frame"][at]]
        stack.append(profile["shared"]["stringArray"][thread["funcTable"]["name"][function]])
        at = thread["stackTable"]["prefix"][at]
    return stack


def samples_of(profile):
    """The state, the stack, the time and the weight of each sample."""
    for thread in profile["threads"]:
        samples = thread["samples"]
        for at, time, weight in zip(samples["stack"], samples["time"], samples["weight"]):
            yield thread["name"], stack_of(profile, thread, at), time, weight


@pytest.mark.parametrize("name", ["small", "service", "waits", "hostile", "idle", "nothing",
                                  "recursive", "hour"])
def test_every_table_is_valid(name):
    made_up(name)


def test_samples_have_their_weights_and_times():
    """made_up_bursts(): ten goroutines wait for a lock from 0.5 s to 1 s of every two seconds."""
    weights = collections.Counter()
    for state, stack, time, weight in samples_of(made_up("bursts")):
        weights[state, stack[0]] += weight
        if stack[0] == "sync.(*Mutex).Lock":
            assert stack[1:] == ["main.store", "main.handler", "main.main"]
            assert 500 <= time % 2000 < 1000
        if stack[0] == "main.compute":
            assert not 500 <= time % 2000 < 1000
    assert {key: pytest.approx(value, abs=1e-3) for key, value in weights.items()} == {
        ("running", "main.compute"): 7.5 * SECOND_MS,
        ("waiting", "sync.(*Mutex).Lock"): 25 * SECOND_MS,
        ("waiting", "runtime.gopark"): 10 * SECOND_MS}


def test_waits_are_markers_with_their_stacks():
    profile = made_up("bursts")
    waiting = next(thread for thread in profile["threads"] if thread["name"] == "waiting")
    markers = waiting["markers"]
    found = sorted(
        (profile["shared"]["stringArray"][markers["name"][i]], markers["startTime"][i],
         markers["endTime"][i], markers["data"][i]["goroutines"],
         stack_of(profile, waiting, markers["data"][i]["cause"]["stack"])[-2])
        for i in range(markers["length"]))
    assert found == [("select", 0, 10000, 1, "runtime.selectgo")] + [
        ("sync.Mutex.Lock", s + 500, s + 1000, 10, "main.handler")
        for s in range(0, 10000, 2000)]


def test_it_is_what_the_program_does(targets, tmp_path):
    """`split` keeps 20 goroutines in main.waitForever, on a channel."""
    program = targets.keep("split", golang.NEWEST)
    file = tmp_path / "split.firefox.json"
    began = time.monotonic()
    gospect.run("record", "-p", program.pid, "-d", 2, *gospect.BUDGET, "-o", file).ok()
    passed = SECOND_MS * (time.monotonic() - began)
    profile = check(json.loads(file.read_text()))
    samples = list(samples_of(profile))
    forever = [s for s in samples if "main.waitForever" in s[1]]
    assert {s[0] for s in forever} == {"waiting"}
    # On a busy machine it may end later than it should.
    assert 0.95 * 20 * 2 * SECOND_MS <= sum(s[3] for s in forever) <= 20 * passed
    assert 0.95 * 2 * SECOND_MS <= max(s[2] for s in samples) <= passed
    waiting = next(thread for thread in profile["threads"] if thread["name"] == "waiting")
    strings = profile["shared"]["stringArray"]
    assert {strings[name] for name in waiting["markers"]["name"]} >= {"chan receive", "sleep"}
    rows = json.loads(gospect.run("report", file, "--by", "state", "-f", "json").ok().text)
    for row in rows:
        spent = sum(s[3] for s in samples if s[0] == row["name"])
        assert row["wall_ns"] == pytest.approx(spent * 1e6, abs=10 * len(samples))


class Profiler:
    """The Firefox Profiler at the command line, with one file. A process of it keeps the file."""

    PACKAGE = "@firefox-devtools/profiler-cli@0.10.0"

    def __init__(self, folder, file):
        fetched = subprocess.run(["npm", "pack", self.PACKAGE], cwd=folder, capture_output=True, timeout=60)
        if fetched.returncode:
            pytest.skip(f"npm cannot fetch {self.PACKAGE}")
        subprocess.run(["tar", "xzf", *folder.glob("*.tgz")], cwd=folder, check=True)
        self.program = folder / "package" / "dist" / "profiler-cli.js"
        # The path of its socket must be short.
        self.sessions = tempfile.mkdtemp(prefix="fx-")
        self.env = {**os.environ, "PROFILER_CLI_SESSION_DIR": self.sessions, "PROFILER_CLI_NO_SYMBOLICATE": "1"}
        self.run("load", file)
        wait_until(lambda: self.run("status").returncode == 0, 60, "the profiler has the file")

    def run(self, *args):
        return subprocess.run(["node", self.program, *args], env=self.env, capture_output=True, text=True, timeout=60)

    def ask(self, *args):
        said = self.run(*args, "--json")
        assert said.returncode == 0, said.stderr
        return json.loads(said.stdout)

    def end(self):
        self.run("stop", "--all")
        shutil.rmtree(self.sessions)


def test_the_firefox_profilers_own_code_reads_it(tmp_path):
    """made_up_bursts(): as test_samples_have_their_weights_and_times() and test_waits_are_markers_..."""
    if not shutil.which("npm"):
        pytest.skip("npm is not installed: no Firefox Profiler to read the file with")
    with open(tmp_path / "bursts.json", "wb") as out:
        subprocess.run([WRITER, "bursts", "firefox"], check=True, stdout=out)
    profiler = Profiler(tmp_path, tmp_path / "bursts.json")
    try:
        spent = {}
        for thread in ("t-0", "t-1"):
            said = profiler.ask("thread", "functions", "--thread", thread, "--include-idle")
            assert said["weightType"] == "tracing-ms"
            spent[said["friendlyThreadName"]] = {f["name"]: f["selfSamples"] for f in said["functions"] if f["selfSamples"]}
        markers = profiler.ask("thread", "markers", "--thread", "t-1")
    finally:
        profiler.end()
    assert spent == {"running": {"main.compute": pytest.approx(7.5 * SECOND_MS, abs=1)},
                     "waiting": {"sync.(*Mutex).Lock": pytest.approx(25 * SECOND_MS, abs=1),
                                 "runtime.gopark": pytest.approx(10 * SECOND_MS, abs=1)}}
    assert markers["totalMarkerCount"] == 6
    assert {group["markerName"]: group["count"] for group in markers["byType"]} == {"select": 1, "sync.Mutex.Lock": 5}


@pytest.mark.parametrize("change", [
    lambda p: p["threads"][0]["stackTable"].update(prefix=[0] * len(
        p["threads"][0]["stackTable"]["prefix"])),
    lambda p: p["threads"][0]["samples"].update(stack=[1 << 40] * len(
        p["threads"][0]["samples"]["stack"])),
    lambda p: p["threads"][0]["frameTable"].update(func=[]),
    lambda p: p["threads"][0].pop("samples"),
    lambda p: p.pop("shared"),
], ids=["cycle", "index", "cut", "samples", "strings"])
def test_a_damaged_file_is_refused(change, tmp_path):
    profile = made_up("bursts")
    change(profile)
    (tmp_path / "x.json").write_text(json.dumps(profile))
    gospect.run("report", tmp_path / "x.json").fails(1)
