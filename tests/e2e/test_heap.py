"""gospect heap against the profiles that the programs write themselves."""

import collections
import json
import re
import signal
import subprocess
import time

import pytest

from lib import golang, gospect, pprof, rawprofile, traceback
from lib.params import every_build, every_version
from matrix import builds, checks

KINDS = ("heap", "allocs", "block", "mutex")


def kept(targets, version=golang.NEWEST, mode=golang.PLAIN, **env):
    return targets.keep("kept", version, mode, env={"GOGC": "off", **env})


def both(program, kind, tmp_path):
    """The program's own profile, and gospect's, which is taken next."""
    own, ours = tmp_path / f"own-{kind}.pb.gz", tmp_path / f"ours-{kind}.pb.gz"
    assert program.ask(f"write {kind} {own}") == "ok"
    gospect.run("heap", "-p", program.pid, "--kind", kind, "-o", ours).ok()
    return rawprofile.read(own), rawprofile.read(ours)


def lasting(raw, kind):
    """What is not zero, but for the runtime's own locks: they are contended for at any time."""
    return collections.Counter({
        (values, labels, stack): n for (values, labels, stack), n in raw.nonzero().items()
        if kind != "mutex" or not stack[0][1][0].startswith("runtime.")})


def assert_same(own, ours, kind="heap"):
    assert ours.header == own.header
    left, right = lasting(own, kind), lasting(ours, kind)
    assert len(left) >= {"mutex": 1, "block": 3}.get(kind, 4)
    assert left == right, "\n".join(rawprofile.differences(left, right))
    if kind == "mutex":
        return
    # Stacks of which nothing is published yet are there, too; writing the own one makes more.
    assert not own.samples - ours.samples


@every_build(modes=(golang.PLAIN, golang.STRIPPED, golang.PIE))
def test_profiles_are_those_that_the_program_writes(targets, tmp_path, version, mode):
    program = kept(targets, version, mode)
    assert program.ask("gc") == "ok"
    for kind in KINDS:
        assert_same(*both(program, kind, tmp_path), kind)


@pytest.mark.slow
@pytest.mark.time_limit(900)
@every_version(golang.NEWEST_OF_EACH)
@pytest.mark.parametrize("build", [b for b in builds.BUILDS if b.says_version], ids=lambda b: b.name)
def test_profiles_are_equal_in_every_build_of_the_matrix(tmp_path, version, build):
    if golang.minor(version) < build.since:
        pytest.skip(f"Go {version} has no such build")
    program = checks.start(builds.make(version, build, golang.TESTS / "programs" / "kept"), build)
    try:
        assert program.ask("gc") == "ok"
        for kind in KINDS:
            assert_same(*both(program, kind, tmp_path), kind)
        for kind in "goroutine", "threadcreate":
            own, ours = both(program, kind, tmp_path)
            assert ours.header == own.header
            if kind == "goroutine":
                left, right = counts(own, "main.main"), counts(ours, "main.main")
                assert left == right, "\n".join(rawprofile.differences(left, right))
        program.assert_well()
    finally:
        program.stop()


def raw_text(path):
    """go tool pprof -raw, without what differs from run to run: times and the addresses of mappings."""
    result = subprocess.run([golang.go_command(), "tool", "pprof", "-raw", "-symbolize=none", path],
                            capture_output=True, text=True, timeout=110,
                            env=golang.environment(golang.NEWEST))
    assert result.returncode == 0, result.stderr
    lines = result.stdout.partition("Mappings\n")[0].splitlines()
    return [line for line in lines if not line.startswith("Time:")]


def test_go_tool_pprof_says_the_same_of_both(targets, tmp_path):
    """The order of the samples and of the locations, too."""
    program = kept(targets)
    program.ask("gc")
    both(program, "block", tmp_path)
    own, ours = (raw_text(tmp_path / f"{who}-block.pb.gz") for who in ("own", "ours"))
    assert len(own) > 10
    assert ours == own


@pytest.mark.parametrize("version", [golang.OLDEST, golang.NEWEST])
def test_before_any_collection_all_allocations_count(targets, tmp_path, version):
    program = targets.start("kept", version, env={"GOGC": "off"})
    own, ours = both(program, "heap", tmp_path)
    assert_same(own, ours)


def test_sampled_objects_are_scaled_as_the_runtime_scales_them(targets, tmp_path):
    program = kept(targets, RATE="524288")
    program.ask("gc")
    own, ours = both(program, "heap", tmp_path)
    assert_same(own, ours)
    assert ours.header["period"] == 524288


def counts(raw, hidden):
    """Without the goroutine or thread that writes the program's own profile."""
    return collections.Counter({
        (values, labels, stack): n for (values, labels, stack), n in raw.samples.items()
        if not any(hidden == line[0] for place in stack for line in place[1:])})


@pytest.mark.parametrize("version", golang.VERSIONS)
def test_goroutines_and_threads_are_those_that_the_program_writes(targets, tmp_path, version):
    program = kept(targets, version)
    own, ours = both(program, "goroutine", tmp_path)
    assert ours.header == own.header
    left, right = counts(own, "main.main"), counts(ours, "main.main")
    assert len(left) >= 4
    assert left == right, "\n".join(rawprofile.differences(left, right))
    assert any(("zone", "eu west") in labels for _, labels, _ in right)
    own, ours = both(program, "threadcreate", tmp_path)
    assert ours.header == own.header
    assert sum(s[0][0] for s in ours.samples.elements()) == sum(
        s[0][0] for s in own.samples.elements())


def rows(text):
    """{function: (self, total, objects)} of a table."""
    lines = text.splitlines()
    assert lines[0].split() == ["SELF", "%", "TOTAL", "%", "OBJECTS", "FUNCTION"]
    return {line.split()[-1]: line.split() for line in lines[1:]}


def test_table_sums_up_what_the_profile_has(targets, tmp_path):
    program = kept(targets)
    program.ask("gc")
    path = tmp_path / "heap.pb.gz"
    gospect.run("heap", program.pid, "-o", path).ok()
    profile = pprof.read(path)
    table = gospect.run("heap", program.pid, "-n", "0").ok().text
    listed = json.loads(gospect.run("heap", program.pid, "-n", "0", "-f", "json").ok().text)
    by_name = {row["name"]: row for row in listed}
    inner = sum(s.values["inuse_space"] for s in profile.samples if s.stack and s.stack[0] == "main.inner")
    assert by_name["main.inner"]["self_bytes"] == inner > 1 << 20
    assert by_name["main.main"]["bytes"] == profile.time_in("main.main", "inuse_space")
    assert set(rows(table)) == {*by_name, "(all)"}
    assert rows(table)["main.inner"][0] == f"{inner / (1 << 20):.3g}"
    # The file gives the same table.
    assert gospect.run("report", path, "-n", "0").ok().text == table
    folded = gospect.run("heap", program.pid, "-f", "folded").ok().text
    assert sum(int(line.rpartition(" ")[2]) for line in folded.splitlines()) == profile.total(
        "inuse_space")


def test_report_compares_two_heaps(targets, tmp_path):
    program = targets.start("kept", env={"GOGC": "off", "RATE": "1"})
    before, after = tmp_path / "before.pb.gz", tmp_path / "after.pb.gz"
    for path in before, after:
        program.ask("gc")
        gospect.run("heap", program.pid, "-o", path).ok()
        program.ask("more")
    text = gospect.run("report", "--diff", before, after, "-f", "json").ok().text
    grown = {row["name"]: row["change_bytes"] for row in json.loads(text)}
    assert grown["main.grow"] == 1 << 20
    table = gospect.run("report", "--diff", before, after).ok().text
    assert "+1 MiB" in table
    gospect.run("report", "--diff", before, after, "-o", tmp_path / "diff.html").ok()


@pytest.mark.parametrize("version", [pytest.param(golang.OLDEST, marks=pytest.mark.slow), golang.NEWEST])
def test_live_shows_what_is_allocated_meanwhile(targets, tmp_path, version):
    program = targets.start("kept", version, env={"GOGC": "off", "RATE": "1"})
    path = tmp_path / "live.pb.gz"
    # What it makes before the first look is over does not count, and nobody says when that is.
    for patience in 1, 5, 20:
        with gospect.start("heap", program.pid, "--live", "60s", "-o", path) as process:
            time.sleep(patience)
            assert program.ask("more") == "ok"
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        profile = pprof.read(path)
        if profile.time_in("main.grow", "alloc_space"):
            break
    assert profile.default_type == "alloc_space"
    assert profile.time_in("main.grow", "alloc_space") == 1 << 20
    assert profile.time_in("main.allocate", "alloc_space") == 0
    assert 0.1e9 < profile.duration_ns < 60e9


def test_profile_of_a_program_that_collects_all_the_time_is_whole(targets, tmp_path):
    """Each object that main.list makes has 32 bytes: a torn counter would not agree."""
    program = targets.start("kept", env={"RATE": "1"})
    assert program.ask("churn") == "ok"
    before = 0
    for _ in range(10):
        gospect.run("heap", program.pid, "--kind", "allocs", "-o", tmp_path / "now.pb.gz").ok()
        profile = pprof.read(tmp_path / "now.pb.gz")
        listed = [s for s in profile.samples if s.stack and s.stack[0] == "main.list"]
        assert all(s.values["alloc_space"] == 32 * s.values["alloc_objects"] for s in listed)
        assert all(s.values["inuse_objects"] >= 0 for s in profile.samples)
        now = profile.total("alloc_objects")
        assert now >= before
        before = now


def records(text):
    """The header of a text of debug=1, how often each record is in it, and the lines behind the records."""
    body, _, rest = text.partition("\n# runtime.MemStats\n")
    first = re.search(r"^-?\d+.* @", body, re.M).start()
    parts = re.split(r"\n\n(?=-?\d)", body[first:].rstrip("\n"))
    return body[:first], collections.Counter(parts), rest.splitlines()


def is_empty(record):
    return record.startswith("0: 0 [0: 0] @")


@every_build(modes=(golang.PLAIN, golang.STRIPPED))
def test_text_is_that_of_debug_1(targets, tmp_path, version, mode):
    program = kept(targets, version, mode)
    assert program.ask("gc") == "ok"
    for kind in ("heap", "block", "mutex", "goroutine", "threadcreate"):
        path = tmp_path / kind
        text = gospect.run("heap", program.pid, "--kind", kind, "-f", "debug1").ok().text
        ours_head, ours, ours_statistics = records(text)
        assert program.ask(f"text {kind} {path}") == "ok"
        head, own, statistics = records(path.read_text())
        if kind == "heap":
            # To write the own one makes stacks of which nothing is published yet.
            assert not {r for r in ours if is_empty(r)} - set(own)
            own, ours = ({r: n for r, n in all_.items() if not is_empty(r)} for all_ in (own, ours))
            check_statistics(statistics, ours_statistics)
        elif kind == "goroutine":
            own, ours = ({r: n for r, n in all_.items() if "main.main+" not in r} for all_ in (own, ours))
        elif kind == "mutex":
            # The runtime's own locks are contended for at any time.
            own, ours = ({r: n for r, n in all_.items() if not re.search(r" @.*\n#\t0x\w+\truntime\.", r)}
                         for all_ in (own, ours))
        assert ours == own, kind
        assert own
        if kind in ("heap", "mutex"):
            assert ours_head == head


def check_statistics(own, ours):
    """The program reads its own a moment later."""
    about = {"Alloc", "TotalAlloc", "Mallocs", "HeapAlloc", "HeapObjects", "HeapInuse", "Sys", "OtherSys"}
    moving = about | {"Frees", "HeapIdle", "HeapReleased", "HeapSys", "Stack", "MSpan", "BuckHashSys", "GCSys",
                      "MaxRSS", "NextGC"}
    own, ours = ([line.removeprefix("# ").split(" = ") for line in lines] for lines in (own, ours))
    assert [name for name, _ in ours] == [name for name, _ in own]
    for (name, value), (_, other) in zip(own, ours):
        if name not in moving:
            assert other == value, name
        elif name in about:
            assert int(other) == pytest.approx(int(value), rel=0.1), name
        elif name == "NextGC":
            assert int(other) == pytest.approx(int(value), rel=0.01)


@pytest.mark.slow
@pytest.mark.time_limit(1800)
@pytest.mark.parametrize("version", (golang.OLDEST, golang.NEWEST))
def test_a_million_buckets_under_load_have_no_torn_counter(targets, version):
    """All objects of a bucket have one size: a torn counter would not be a multiple of it."""
    program = targets.start("kept", version, env={"RATE": "1"})
    assert program.ask("churn") == "ok"
    looks = used = 0
    while looks < 1_000_000:
        text = gospect.run("heap", program.pid, "-f", "debug1").ok().text
        for record in re.finditer(r"^(\d+): (\d+) \[(\d+): (\d+)\] @", text, re.M):
            objects, in_use, allocated, space = map(int, record.groups())
            size = space // allocated if allocated else 0
            assert space == size * allocated and in_use == size * objects, record[0]
            looks += 1
            used += allocated > 0
    assert used > looks / 4


@pytest.mark.slow
@pytest.mark.time_limit(600)
@every_build((golang.OLDEST, golang.NEWEST), (golang.PLAIN, golang.STRIPPED, golang.PIE))
def test_core_file_has_the_same_profiles(targets, tmp_path, version, mode):
    program = kept(targets, version, mode)
    program.ask("gc")
    for kind in (*KINDS, "goroutine"):
        assert program.ask(f"write {kind} {tmp_path / kind}") == "ok"
    subprocess.run(["gcore", "-o", tmp_path / "core", str(program.pid)], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300)
    core = tmp_path / f"core.{program.pid}"
    for kind in KINDS:
        ours = tmp_path / f"{kind}.pb.gz"
        gospect.run("heap", "--core", core, "--kind", kind, "-o", ours, seconds=100).ok()
        assert_same(rawprofile.read(tmp_path / kind), rawprofile.read(ours), kind)
    gospect.run("heap", "--core", core, "--kind", "goroutine", "-o", tmp_path / "g.pb.gz", seconds=100).ok()
    own, ours = (counts(rawprofile.read(path), "main.main")
                 for path in (tmp_path / "goroutine", tmp_path / "g.pb.gz"))
    assert own == ours, "\n".join(rawprofile.differences(own, ours))


@every_version()
def test_debug_2_is_that_of_the_program(targets, tmp_path, version):
    """It is the text of debug=1, but for goroutines, which it prints as a panic does."""
    program = kept(targets, version)
    for kind in "block", "threadcreate":
        text = gospect.run("heap", program.pid, "--kind", kind, "-f", "debug2").ok().text
        assert program.ask(f"debug2 {kind} {tmp_path / kind}") == "ok"
        assert records(text)[1] == records((tmp_path / kind).read_text())[1]
    text = gospect.run("heap", program.pid, "--kind", "goroutine", "-f", "debug2").ok().text
    assert program.ask(f"debug2 goroutine {tmp_path / 'all'}") == "ok"
    own, ours = traceback.parse((tmp_path / "all").read_text()), traceback.parse(text)
    ignore = {g.id for g in traceback.having(own, "main.main")}
    assert len(own) > 12 and len(ignore) == 1
    found = traceback.differences(own, ours, golang.minor(version), ignore=ignore)
    assert not found, "; ".join(found[:3])


def test_page_shows_bytes(targets, tmp_path):
    program = kept(targets)
    gospect.run("heap", program.pid, "-o", tmp_path / "heap.html").ok()
    text = (tmp_path / "heap.html").read_text()
    assert '"unit":"bytes"' in text and "main.inner" in text


def test_missing_profile_is_said_with_a_remedy(targets):
    program = targets.start("states", golang.NEWEST)
    assert "the Go linker turned it off" in gospect.run("heap", program.pid).fails(1)
    quiet = targets.start("kept", env={"EVENTS": "off", "RATE": "0"})
    assert "runtime.MemProfileRate is 0" in gospect.run("heap", quiet.pid).fails(1)
    assert "did not call runtime.SetBlockProfileRate" in gospect.run(
        "heap", quiet.pid, "--kind", "block").fails(1)
    assert "did not call runtime.SetMutexProfileFraction" in gospect.run(
        "heap", quiet.pid, "--kind", "mutex").fails(1)


@pytest.mark.parametrize("arguments", [
    ("--kind", "stacks"), ("--live", "1s", "--kind", "block"), ("-f", "firefox"), ("-f", "gif")])
def test_wrong_options_are_refused(targets, arguments):
    gospect.run("heap", kept(targets).pid, *arguments).fails(2)
