"""CPU samples in traces: whose they are and what ran, as the program was made and by Go's own CPU profile."""

import collections
import json
import math
import re
import sys

import pytest

from lib import cgo, golang, gospect, gotrace, perfetto, pprof
from lib.process import Program
from lib.traced import tracing

# Of a few hundred shares one is off by 4.5 standard errors once in 100,000 times.
SIGMAS = 4.5
OUTSIDE = {"[scheduler]", "[idle]", "[outside Go]", "[unknown]"}
HZ = 500
SECCOMP = gospect.ROOT / "tests" / "lib" / "seccomp.py"


@pytest.fixture(params=(("1.17.13", golang.PLAIN), ("1.22.12", golang.PLAIN), (golang.NEWEST, golang.STRIPPED)),
                ids=lambda param: f"go{param[0]}")
def sampled(request, targets, tmp_path):
    """The trace of a program, which goroutine did which request, and Go's own CPU profile."""
    version, mode = request.param
    program = targets.start("sampled", version, mode)
    file, own = tmp_path / "t.trace", tmp_path / "own.pb.gz"
    with tracing(program, file, f"--cpu={HZ}") as t:
        goroutines = json.loads(program.ask(f"run 3000 {own}"))
    if "no CPU samples" in t.err:
        pytest.skip("the kernel does not permit perf events here")
    return file, goroutines, pprof.read(own)


def deviation(some, all_, share):
    """In standard errors of a share of so many samples."""
    return abs(some / all_ - share) / math.sqrt(share * (1 - share) / all_)


def test_each_sample_is_of_the_goroutine_that_ran(sampled):
    file, goroutines, own = sampled
    trace = gotrace.read_valid(file)
    ours = collections.Counter()
    for sample in trace["samples"]:
        found = [re.fullmatch(r"main\.f(\d)", name) for name in sample["funcs"]]
        for match in filter(None, found):
            # A thread that is about to leave it may be of no goroutine any more.
            assert sample["g"] in (goroutines[f"r{match[1]}"], -1), sample
            ours[f"r{match[1]}"] += sample["g"] != -1
            ours["none"] += sample["g"] == -1
        if sample["g"] == -1 and not any(found):
            assert sample["funcs"][-1] in OUTSIDE or sample["funcs"][-1].startswith("runtime."), sample
    assert ours["none"] <= 0.01 * sum(ours.values()) + 1, ours
    assert sum(ours.values()) > 150, ours
    assert_like_own_profile(trace, goroutines, own)
    assert_split_by_function(file, goroutines, trace)


def assert_like_own_profile(trace, goroutines, own):
    """Requests have the shares of CPU time that Go's own labelled profile says."""
    theirs = collections.Counter()
    for sample in own.samples:
        if "request" in sample.labels:
            theirs[sample.labels["request"]] += sample.values["samples"]
    by_id = {g: name for name, g in goroutines.items()}
    ours = collections.Counter(by_id[s["g"]] for s in trace["samples"] if s["g"] in by_id)
    n, m = sum(ours.values()), sum(theirs.values())
    for name in goroutines:
        share = (ours[name] + theirs[name] + 1) / (n + m + 2)
        error = math.sqrt(share * (1 - share) * (1 / n + 1 / m))
        assert abs(ours[name] / n - theirs[name] / m) < SIGMAS * error, (name, ours, theirs)


def assert_split_by_function(file, goroutines, trace):
    """A quarter of a request's time is in main.shared, and the rest in a function of its own."""
    rows = {row["name"]: row for row in json.loads(gospect.run(
        "report", file, "--by", "label:request", "-f", "json", "-n", 0).ok().text)}
    assert set(rows) == set(goroutines)
    some = all_ = 0
    for name, row in rows.items():
        spent = {f["func"]: f for f in row["running"]}
        samples = sum(f["samples"] for f in row["running"])
        theirs = [s for s in trace["samples"] if s["g"] == goroutines[name]]
        assert len(theirs) - 2 <= samples <= len(theirs)
        if not samples:
            continue
        assert sum(f["ns"] for f in row["running"]) == pytest.approx(row["running_ns"], abs=50)
        own = spent.get("main.f" + name[1:])
        some += spent.get("main.shared", {"samples": 0})["samples"]
        all_ += samples
        assert own and own["ns"] == pytest.approx(row["running_ns"] * own["samples"] / samples, abs=2)
        assert abs(own["ns"] - 0.75 * row["running_ns"]) < SIGMAS / 1.96 * own["error_ns"], row["running"]
        running = [s for s in row["stacks"] if s["state"] == "running"]
        assert sum(s["count"] for s in running) == samples
        assert {s["frames"][0]["func"] for s in running} == set(spent)
    assert deviation(some, all_, 0.25) < SIGMAS
    assert_graph_shows_it(file, rows)
    assert_users(file, trace)


def assert_users(file, trace):
    """Each sample is of the program, of the runtime or of none, as Go's reader has it."""
    seen = json.loads(gospect.run("report", file, "--by", "machine", "-f", "json").ok().text)
    samples = {user["name"]: user["samples"] for user in seen["cpu"]}
    nobody = sum(n for name, n in samples.items() if name.startswith("[") or name == "between goroutines")
    assert sum(samples.values()) == len(trace["samples"])
    assert nobody == sum(s["g"] == -1 for s in trace["samples"])
    assert samples["goroutines of the program"] > 100
    assert sum(user["ns"] for user in seen["cpu"]) == pytest.approx(seen["kernel"]["cpu_ns"], abs=20)


def assert_graph_shows_it(file, rows):
    """The flame graph of a label's value divides its running time, to the nanosecond, by the same samples."""
    row = max(rows.values(), key=lambda row: sum(f["samples"] for f in row["running"]))
    lines = gospect.run("report", file, "--by", "label:request", "--only", row["name"], "-f", "folded-state").ok().text
    found = [line.rpartition(" ") for line in lines.splitlines() if ";[running] " in line]
    spent = collections.Counter()
    for stack, _, us in found:
        spent[stack.split(";")[-2]] += int(us)
    assert sum(spent.values()) == pytest.approx(row["running_ns"] / 1000, rel=0.01, abs=5)
    own = next(f for f in row["running"] if f["func"] == "main.f" + row["name"][1:])
    assert spent[own["func"]] == pytest.approx(own["ns"] / 1000, abs=2 * own["error_ns"] / 1000 + 0.1 * own["ns"] / 1000)


@pytest.mark.parametrize("version", ("1.22.12", golang.NEWEST))
def test_c_code_has_its_names_and_the_goroutine_that_called_it(version, tmp_path):
    """By the calls in the code of the program: Go calls C, which calls Go."""
    program = Program(cgo.program(version), "back")
    try:
        gospect.run("trace", "-p", program.pid, "-d", 1, "-o", tmp_path / "t.trace", f"--cpu={HZ}").ok()
        program.assert_well()
    finally:
        program.stop()
    trace = gotrace.read_valid(tmp_path / "t.trace")
    if not trace["samples"]:
        pytest.skip("the kernel does not permit perf events here")
    burns = [s for s in trace["samples"] if "main.goBurn" in s["funcs"]]
    whose = collections.Counter(s["g"] for s in burns)
    # On its way out of a system call, without a P, the thread may be of no goroutine.
    assert whose.pop(-1, 0) <= 0.1 * len(burns) + 1
    assert len(burns) > 10 and len(whose) == 1, whose
    whole = ("main.goBurn", "c_calls_go", "c_back", "main.burnInGoUnderC")
    orders = collections.Counter(
        tuple(name for name in sample["funcs"] if name in (*whole, "[truncated]")) for sample in burns)
    # C's frames are read after the sample. If the thread has left C by then, [truncated] stands for them.
    cut = [order for order in orders if "[truncated]" in order]
    for order in cut:
        assert [n for n in order if n in whole] == [n for n in whole if n in order], orders
    assert sum(map(orders.pop, cut)) <= 0.02 * len(burns) + 1, orders
    assert set(orders) == {whole}, orders


def test_perfetto_shows_them_as_samples_of_threads(targets, tmp_path):
    """While a goroutine is on a thread's track, the samples of the thread are of its function."""
    if not perfetto.protos():
        pytest.skip("the package perfetto cannot be had from PyPI")
    program = targets.start("sampled")
    with tracing(program, tmp_path / "t.pftrace", f"--cpu={HZ}") as t:
        goroutines = json.loads(program.ask(f"run 200 {tmp_path / 'own.pb.gz'}"))
    if "no CPU samples" in t.err:
        pytest.skip("the kernel does not permit perf events here")
    trace = perfetto.Trace((tmp_path / "t.pftrace").read_bytes())
    assert not trace.wrong, trace.wrong[:3]
    right = 0
    for time, thread, functions in trace.samples:
        found = [re.fullmatch(r"main\.f(\d)", name) for name in functions]
        for match in filter(None, found):
            names = {name for track in trace.tracks.values() if track.name == f"thread {thread}"
                     for name, begin, end in track.slices if begin <= time <= end}
            right += any(name.startswith(f"G{goroutines[f'r{match[1]}']} ") for name in names)
            assert "main.serve" in functions
    ours = sum(any(name.startswith("main.f") for name in functions) for _, _, functions in trace.samples)
    assert ours > 20 and right >= 0.98 * ours, (ours, right)
    assert_reported(tmp_path / "t.pftrace", goroutines, ours)


def assert_reported(file, goroutines, ours):
    """Requests ran the functions that they are made of."""
    rows = json.loads(gospect.run("report", file, "--by", "label:request", "-f", "json", "-n", 0).ok().text)
    assert {row["name"] for row in rows} == set(goroutines)
    known = 0
    for row in rows:
        spent = {f["func"]: f["samples"] for f in row["running"] if re.fullmatch(r"main\.(f\d|shared|used)", f["func"])}
        assert set(spent) <= {"main.f" + row["name"][1:], "main.shared", "main.used"}, row["running"]
        known += sum(spent.values())
    assert known >= 0.98 * ours, (known, ours)


def test_without_permission_a_trace_says_so_once_and_goes_on(targets, tmp_path):
    program = targets.start("sampled")
    file = tmp_path / "t.trace"
    result = gospect.run("trace", "-p", program.pid, "-d", 0.3, "-o", file, "--cpu",
                         prefix=(sys.executable, str(SECCOMP), "perf_event_open", "EACCES")).ok()
    assert result.err.count("the trace has no CPU samples") == 1, result.err
    assert not gotrace.read_valid(file)["samples"]


@pytest.mark.parametrize("option", ((), ("--cpu", "--stack-depth", "0")))
def test_a_trace_has_none_without_cpu_or_stacks(option, targets, tmp_path):
    program = targets.start("sampled")
    with tracing(program, tmp_path / "t.trace", *option) as t:
        program.ask(f"run 200 {tmp_path / 'own.pb.gz'}")
    assert not gotrace.read_valid(tmp_path / "t.trace")["samples"]
    assert "CPU samples" not in t.err
