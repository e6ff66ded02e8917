"""gospect heap --retained against a program whose objects are known one by one (tests/programs/owners)."""

import json
import re
import shutil
import subprocess

import pytest

from lib import golang, gospect, hprof, rawprofile
from lib.params import every_build

# Of each type: how many objects there are, and the bytes that an object takes.
OBJECTS = {
    "main.Node": (5000, 48),
    "main.Entry": (1000, 48),
    "main.Tree": (1023, 24),
    "main.Ring": (100, 24),
    "main.Message": (50, 24),
    "main.Record": (500, 64),
    "main.Box": (64, 1024),
    "main.Shared": (1, 80),
    "main.Lost": (2, 32),
}
NEW = {"main.Pair[main.Square]": (20, 16), "main.Pointed": (1, 96)}
SQUARES = 200 + 2 + 1000
NEW_SQUARES = 40  # of the pairs
# What a type retains: an entry has a name of 32 bytes and a body.
RETAINED = {"main.Entry": 1000 * (48 + 32 + 1024), "main.Node": 5000 * 48, "main.Ring": 100 * 24,
            "main.Message": 50 * (24 + 24 + 32), "main.Record": 500 * 64, "main.Box": 64 * (1024 + 8),
            "main.Lost": 2 * (32 + 106496)}


def retained(*args):
    return json.loads(gospect.run("heap", "--retained", "-f", "json", *args).ok().text)


def holder(found, *parts):
    """The first row whose path begins so, and which holds most of that."""
    rows = [row for row in found["holders"] if row["path"].startswith(" → ".join(parts))]
    assert rows, [row["path"] for row in found["holders"]]
    return rows[0]["retained_bytes"]


def expected(version):
    is_new = golang.minor(version) >= (1, 24)
    return {**OBJECTS, **(NEW if is_new else {}),
            "main.Square": (SQUARES + NEW_SQUARES * is_new, 48)}


def check_types(found, version):
    types = {t["name"]: t for t in found["types"]}
    # Tiny objects without pointers share a block, or are in one with the runtime's own.
    for name, (count, size) in expected(version).items():
        assert (types[name]["count"], types[name]["bytes"]) == (count, count * size), name
    for name, size in RETAINED.items():
        # The Go runtime puts integers of eight bytes into blocks of 16.
        if name != "main.Box":
            assert types[name]["retained_bytes"] == size, name
    assert types["[]uint8"]["bytes"] >= 1000 * 1024 + (2 << 20) + 7 * (128 << 10)
    assert types["chan *main.Message"]["count"] == 1
    assert types["map[string]*main.Entry"]["count"] == 1


def check_holders(found):
    entries = 1000 * (48 + 32 + 32 + 1024)
    assert entries < holder(found, "global main.server.cache → map[string]*main.Entry") < entries + 100_000
    assert holder(found, "global main.server.list → main.Node") == 5000 * 48
    names = 800 * (112 + 16)
    assert names <= holder(found, "global main.server.settings.names → []string") < names + 3000
    assert holder(found, "global main.tree → main.Tree") == 1023 * 24
    assert 1 << 20 < holder(found, "global main.handler → func main.fillOthers.func1") < (1 << 20) + 200
    # Go 1.17 starts a goroutine with a function of its own, main.main·dwrap·1.
    row = next(r for r in found["holders"] if re.match(r"goroutine \d+ \(main\.(hold|main·.*)\)", r["path"]))
    assert "variable held in main.hold → []uint8" in row["path"]
    assert (2 << 20) + 500 * 64 < row["retained_bytes"] < (2 << 20) + 500 * 64 + 4000
    row = next(r for r in found["holders"] if re.match(r"7 goroutines \(main\.", r["path"]))
    assert 7 * (128 << 10) < row["retained_bytes"] < 7 * (132 << 10)
    # The other one is given to its finalizer, which runs.
    assert 100 << 10 < holder(found, "finalizers, cleanups and weak pointers") < 150 << 10


def check_strings(found):
    first = found["strings"][0]
    assert (first["count"], first["length"], first["bytes"]) == (800, 100, 800 * 112)
    assert first["text"].startswith("copy copy ")
    assert first["wasted_bytes"] == 799 * 112


@every_build(modes=(golang.PLAIN,))
def test_objects_and_their_holders_are_those_of_the_program(targets, version, mode):
    program = targets.keep("owners", version, mode)
    found = retained(program.pid)
    check_types(found, version)
    check_holders(found)
    check_strings(found)
    assert not found["exact"] and found["error_percent"] < 1
    assert found["retained_bytes"] == sum(t["bytes"] for t in found["types"])
    assert found["objects"] == sum(t["count"] for t in found["types"])
    text = gospect.run("heap", "--retained", program.pid).ok().text
    assert re.search(r"^ +234 KiB +\d+\.\d +234 KiB +\d+\.\d +5000  main\.Node$", text, re.M)
    assert "This is an estimate: the program ran on" in text


@pytest.mark.parametrize("version", [golang.OLDEST, golang.NEWEST])
def test_stripped_program_shows_the_types_that_its_memory_names(targets, version):
    program = targets.keep("owners", version, golang.STRIPPED)
    result = gospect.run("heap", "--retained", "-f", "json", program.pid).ok()
    assert any("no DWARF" in line for line in result.words)
    found = json.loads(result.text)
    types = {t["name"]: t["count"] for t in found["types"]}
    truth = {name: count for name, (count, _) in expected(version).items()}
    # Nothing is taken for what it is not.
    assert all(types.get(name, 0) <= count for name, count in truth.items())
    # Values in interfaces say what they are, in every version; large objects from Go 1.22 on.
    assert types["main.Square"] >= 200
    if golang.minor(version) >= (1, 22):
        assert types["main.Box"] == 64 and types["main.Entry"] == 1000
    assert found["objects"] == sum(types.values())
    row = next(r for r in found["holders"] if re.match(r"goroutine \d+ ", r["path"]))
    assert "frame of main.hold" in row["path"] and row["retained_bytes"] > 2 << 20


def test_objects_of_unknown_type_have_the_function_that_allocated_them(targets):
    """As far as the heap profile samples them: here each."""
    program = targets.keep("kept", golang.NEWEST, golang.STRIPPED, env={"GOGC": "off"})
    assert program.ask("gc") == "ok"
    unknown = {t["name"]: t for t in retained(program.pid)["types"] if t["name"].startswith("unknown, ")}
    sites = {site["func"]: (site["sampled"], t["count"]) for t in unknown.values() for site in t.get("allocated_by", ())}
    assert all(sampled <= count for sampled, count in sites.values())
    assert any(func.startswith("main.") for func in sites), sites
    text = gospect.run("heap", "--retained", "-n", "0", program.pid).ok().text
    assert re.search(r"unknown, \d+ bytes(, no pointers)?, allocated by main\.", text)


@pytest.mark.slow  # --exact reads one point in time, too; gcore takes 5 s of CPU time
@pytest.mark.skipif(not shutil.which("gcore"), reason="gcore is part of gdb, which is not installed")
def test_core_file_is_exact(targets, tmp_path):
    program = targets.keep("owners", golang.NEWEST)
    subprocess.run(["gcore", "-o", tmp_path / "core", str(program.pid)], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    core = tmp_path / f"core.{program.pid}"
    found = retained("--core", core)
    check_types(found, golang.NEWEST)
    check_holders(found)
    check_strings(found)
    assert found["exact"] and found["error_percent"] == 0 and found["unread_bytes"] == 0


VIEWCORE = "golang.org/x/debug/cmd/viewcore@latest"


@pytest.fixture(scope="session")
def viewcore():
    """The core file viewer of the Go project, from the Go module proxy."""
    found = golang.CACHE / "viewcore"
    if not found.exists():
        done = subprocess.run([golang.go_command(), "install", VIEWCORE], cwd="/", capture_output=True, text=True,
                              check=False, env={**golang.environment(golang.NEWEST), "GOBIN": str(golang.CACHE)})
        if done.returncode:
            pytest.skip(f"the Go module proxy gives no {VIEWCORE}: {done.stderr.strip()[-300:]}")
    return found


@pytest.mark.slow
@pytest.mark.time_limit(900)
@pytest.mark.skipif(not shutil.which("gcore"), reason="gcore is part of gdb, which is not installed")
def test_viewcore_counts_the_same_objects_of_a_core_file(targets, viewcore, tmp_path):
    """It has no type for objects behind maps and static data."""
    program = targets.keep("owners", golang.NEWEST)
    subprocess.run(["gcore", "-o", tmp_path / "core", str(program.pid)], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    core = tmp_path / f"core.{program.pid}"
    said = subprocess.run([viewcore, core, "histogram"], check=True, capture_output=True, text=True).stdout
    theirs = {name: int(count) for count, name in re.findall(r"^ *(\d+) +\d+ +\d+ +(main\.\w+)$", said, re.M)}
    ours = {t["name"]: t["count"] for t in retained("--core", core)["types"]}
    for name in "main.Tree", "main.Record", "main.Ring":
        assert theirs[name] == ours[name], name
    assert all(count <= ours[name] for name, count in theirs.items())


def test_profiles_have_the_ways_from_the_roots_as_stacks(targets, tmp_path):
    program = targets.start("owners", golang.NEWEST)
    before, after = tmp_path / "before.pb.gz", tmp_path / "after.pb.gz"
    gospect.run("heap", "--retained", program.pid, "-o", before).ok()
    assert program.ask("add 1000") == "ok"
    gospect.run("heap", "--retained", program.pid, "-o", after).ok()
    raw = rawprofile.read(before)
    values = {tuple(line[0] for place in stack for line in place[1:]): values
              for values, _, stack in raw.samples}
    assert values["main.Node", "global main.server"] == (5000, 5000 * 48)
    assert any(stack[-1] == "goroutines (main.hold)" for stack in values)
    text = gospect.run("report", "--diff", before, after).ok().text
    grown = next(line for line in text.splitlines() if line.endswith("main.Node"))
    assert "46.9 KiB" in grown


def test_wrong_usage_is_said(targets):
    program = targets.keep("owners", golang.NEWEST)
    for args, said in ((("--kind", "heap"), "--retained and --kind are mutually exclusive"),
                       (("--live", "1s"), "--retained and --live are mutually exclusive"),
                       (("-f", "firefox"), "unknown format 'firefox'")):
        assert said in gospect.run("heap", "--retained", *args, program.pid).fails(2)


def test_exact_is_of_one_point_in_time(targets):
    program = targets.keep("owners", golang.NEWEST)
    result = gospect.run("heap", "--retained", "--exact", "-f", "json", program.pid).ok()
    assert any("was stopped for" in line for line in result.words)
    found = json.loads(result.text)
    check_types(found, golang.NEWEST)
    check_holders(found)
    assert found["exact"] and found["error_percent"] == 0


def test_page_has_the_holders_and_what_refers_to_their_objects(targets, tmp_path):
    program = targets.keep("owners", golang.NEWEST)
    path = tmp_path / "heap.html"
    gospect.run("heap", "--retained", program.pid, "-o", path).ok()
    data = json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(), re.S).group(1))

    def child(node, name):
        return next(part for part in node["children"] if part["name"] == name)

    server = child(data["tree"], "global main.server")
    assert sum(part["bytes"] for part in data["tree"]["children"]) == data["tree"]["bytes"]
    entry = child(child(server, "map[string]*main.Entry"), "main.Entry")
    assert entry["count"] == 1000 and entry["own"] == 48_000
    assert entry["referrers"] == [["map[string]*main.Entry (entries)", 1000]]
    assert ["main.Node", 4999] in child(server, "main.Node")["referrers"]


# ---- heap dumps ----

def test_heap_dump_has_all_objects_and_no_dangling_reference(targets, tmp_path):
    program = targets.keep("owners", golang.NEWEST)
    path = tmp_path / "heap.hprof"
    gospect.run("heap", "--retained", program.pid, "-o", path).ok()
    dump = hprof.read(path)
    for name, (count, size) in expected(golang.NEWEST).items():
        assert dump.counts[name] == count, name
        assert size >= 8 * len(dump.fields[name]) >= size - 8, name  # a box has a header
    assert dump.fields["main.Entry"] == [("name", "object"), ("name", "long"), ("body", "object"),
                                         ("body", "long"), ("body", "long"), ("more", "object")]
    assert not dump.dangling
    assert "main.server" in dump.globals and "main.hold" in dump.frames
    assert b"copy copy copy " in path.read_bytes()


NETBEANS = "org.netbeans.modules:org-netbeans-lib-profiler:RELEASE190"


@pytest.fixture(scope="session")
def netbeans():
    """The library with which VisualVM opens heap dumps, from Maven Central."""
    if not shutil.which("java") or not shutil.which("mvn"):
        pytest.skip("java or mvn is missing: install openjdk-17-jdk-headless and maven")
    get = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
    for goal in ((f"{get}:get", "-Dtransitive=false", f"-Dartifact={NETBEANS}"),
                 (f"{get}:copy", f"-Dartifact={NETBEANS}", f"-DoutputDirectory={golang.CACHE}")):
        done = subprocess.run(["mvn", "-q", "-B", *goal], cwd=golang.CACHE, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"Maven has no {NETBEANS}: {done.stdout[-300:]}")
    return golang.CACHE / "org-netbeans-lib-profiler-RELEASE190.jar"


@pytest.mark.slow
@pytest.mark.time_limit(600)
def test_heap_dump_is_one_for_the_library_of_visualvm(targets, netbeans, tmp_path):
    program = targets.keep("owners", golang.NEWEST)
    path = tmp_path / "heap.hprof"
    gospect.run("heap", "--retained", program.pid, "-o", path).ok()
    look = gospect.ROOT / "tests" / "lib" / "java" / "Look.java"
    said = subprocess.run(["java", "-cp", netbeans, look, path], check=True, capture_output=True, text=True).stdout
    lines = said.splitlines()
    for name, (count, _) in expected(golang.NEWEST).items():
        assert f"class {count} {name}" in lines
    assert lines.count("root thread object") > 8 and "root sticky class" in lines
    assert "field object name" in lines and "global main.server" in lines
