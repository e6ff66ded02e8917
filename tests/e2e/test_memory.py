"""gospect memory against the kernel's and the runtime's own numbers."""

import json
import shutil
import subprocess

import pytest

from lib import cgo, golang, gospect, pprof, process
from lib.params import every_build

FILE_BYTES = 4 << 20
# What the kernel counts in batches (percpu counters of the resident set) and a page of bookkeeping.
CLOSE = 0.01


@pytest.fixture(scope="session")
def mapped_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("weighed") / "mapped file"
    path.write_bytes(bytes(range(256)) * (FILE_BYTES // 256))
    return path


def weighed(targets, mapped_file, version=golang.NEWEST, mode=golang.PLAIN):
    return targets.keep("weighed", version, mode, args=(str(mapped_file),), env={"GOGC": "100"})


def take(program, *options):
    return json.loads(gospect.run("memory", program.pid, "-f", "json", *options).ok().text)


def check_sums(node):
    """Each part is the sum of its children; returns how many parts have some."""
    if not node["children"]:
        return 0
    assert sum(child["bytes"] for child in node["children"]) == node["bytes"], node["name"]
    return 1 + sum(map(check_sums, node["children"]))


def part(tree, *path):
    """The bytes of a part, by its names below the root."""
    for name in path:
        tree = next((child for child in tree["children"] if child["name"] == name), None)
        if not tree:
            return 0
    return tree["bytes"]


def resident(program):
    return int(process.status(program.pid)["VmRSS"].split()[0]) << 10


def assert_sums_to_rss(program):
    """The program allocates little meanwhile: the kernel's number before and after is about the same."""
    before = resident(program)
    found = take(program)
    after = resident(program)
    assert found["tree"]["bytes"] == found["rss_bytes"]
    assert check_sums(found["tree"]) >= 5
    low, high = min(before, after), max(before, after)
    assert low * (1 - CLOSE) <= found["rss_bytes"] <= high * (1 + CLOSE)
    return found


def metrics(program):
    return json.loads(program.ask("metrics"))


def quiet_look(program):
    """What gospect says between two looks of the program at itself that are the same."""
    for _ in range(20):
        before, found, after = metrics(program), take(program), metrics(program)
        if before == after:
            return before, found
    raise AssertionError(f"the program's own counters change all the time: {before} {after}")


def assert_same_counters(own, found):
    """All of them, line by line."""
    classes = {name: value for name, value in own.items() if name.startswith("/memory/")}
    assert len(classes) >= 14
    assert found["runtime_metrics"] == classes
    gc = found["gc"]
    assert gc["goal_bytes"] == own["/gc/heap/goal:bytes"]
    assert gc["cycles"] == own["/gc/cycles/total:gc-cycles"]
    if "/gc/heap/live:bytes" in own:
        assert gc["marked_bytes"] == own["/gc/heap/live:bytes"]
    assert gc["gogc"] == 100


def assert_parts_are_what_the_program_made(program, mapped_file, found):
    tree = found["tree"]
    assert part(tree, "mapped files", str(mapped_file)) == FILE_BYTES
    # Every second object of 64 bytes is kept.
    small = next(c for c in found["size_classes"] if c["object_bytes"] == 64)
    assert small["objects"] >= 1 << 17
    assert small["free_slots"] >= (1 << 17) * 9 // 10
    assert part(tree, "Go heap", "objects", "objects of 64 bytes") >= 64 << 17
    assert part(tree, "Go heap", "free slots in spans (fragmentation)", "objects of 64 bytes") >= 7 << 20
    assert part(tree, "Go heap", "objects", "large objects") >= 8 << 20
    size, calls = map(int, program.ask("frames").split()[1:])
    assert part(tree, "stacks of goroutines", "frames of goroutines", "main.deep") == size * calls
    creator = found["stacks_by_creator"][0]
    assert (creator["created_by"], creator["goroutines"]) == ("main.main", 2000)
    assert creator["stack_bytes"] >= creator["frame_bytes"] >= size * calls


@every_build(modes=(golang.PLAIN, golang.STRIPPED, golang.PIE))
def test_tree_sums_to_rss_and_agrees_with_the_runtime(targets, mapped_file, version, mode):
    program = weighed(targets, mapped_file, version, mode)
    found = assert_sums_to_rss(program)
    assert_parts_are_what_the_program_made(program, mapped_file, found)
    assert_same_counters(*quiet_look(program))


@pytest.fixture
def with_c():
    if not shutil.which("gcc"):
        pytest.skip("there is no C compiler")
    program = process.Program(cgo.program(golang.NEWEST), "c")
    yield program
    program.assert_well()
    program.stop()


def test_memory_of_c_code_and_libraries_is_shown(with_c):
    found = assert_sums_to_rss(with_c)
    names = {node["name"]: node for node in found["tree"]["children"]}
    assert {"libraries", "C heap (malloc)", "program", "Go heap"} <= set(names)
    assert any("libc" in child["name"] for child in names["libraries"]["children"])


def test_limit_on_memory_decides_the_goal(targets, mapped_file):
    program = targets.start("weighed", golang.NEWEST, args=(str(mapped_file),),
                            env={"GOGC": "off", "GOMEMLIMIT": "64MiB"})
    own, found = quiet_look(program)
    assert found["gc"]["limit_decides"]
    assert found["gc"]["gogc"] == -1
    assert found["gc"]["memory_limit_bytes"] == own["/gc/gomemlimit:bytes"] == 64 << 20
    assert found["gc"]["goal_bytes"] == own["/gc/heap/goal:bytes"]


def test_all_formats_have_the_same_tree(targets, mapped_file, tmp_path):
    program = weighed(targets, mapped_file)
    paths = {end: tmp_path / f"memory.{end}" for end in ("pb.gz", "html", "json", "folded")}
    for path in paths.values():
        gospect.run("memory", program.pid, "-o", path).ok()
    tree = json.loads(paths["json"].read_text())["tree"]
    profile = pprof.read(paths["pb.gz"])
    assert profile.total("resident_space") == pytest.approx(tree["bytes"], rel=CLOSE)
    assert profile.time_in("mapped files", "resident_space") == FILE_BYTES
    page = paths["html"].read_text()
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    assert check_sums(data["tree"]) >= 5
    assert "http" not in page.replace("http-equiv", "")
    folded = sum(int(line.rpartition(" ")[2]) for line in paths["folded"].read_text().splitlines())
    assert folded == pytest.approx(tree["bytes"], rel=CLOSE)
    text = gospect.run("memory", program.pid).ok().text
    assert text.splitlines()[1].endswith("resident memory")
    assert "mapped file" in text and "GOGC=100" in text


@pytest.mark.slow
def test_core_file_shows_what_was_mapped(targets, mapped_file, tmp_path):
    program = weighed(targets, mapped_file)
    live = take(program)
    subprocess.run(["gcore", "-o", tmp_path / "core", str(program.pid)], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)
    result = gospect.run("memory", "--core", tmp_path / f"core.{program.pid}", "-f", "json").ok()
    found = json.loads(result.text)
    assert any("does not say which pages were resident" in line for line in result.words)
    assert check_sums(found["tree"]) >= 5
    assert found["process"]["is_core"] and found["cgroup"]["charge_bytes"] is None
    for path in (("Go heap", "objects"), ("stacks of goroutines", "frames of goroutines", "main.deep")):
        assert part(found["tree"], *path) == pytest.approx(part(live["tree"], *path), rel=CLOSE)


@pytest.mark.parametrize("arguments,words", [
    (("-f", "dot"), "unknown format 'dot'"), (("-n", "many"), "invalid number of rows 'many'")])
def test_wrong_options_are_refused(targets, mapped_file, arguments, words):
    program = weighed(targets, mapped_file)
    assert words in gospect.run("memory", program.pid, *arguments).fails(2)
