"""`report --by machine`, against what the program knows and what Go's own reader finds."""

import json
import os
import re
import subprocess
import time

import pytest

from lib import control_group, golang, gospect, gotrace
from lib.traced import tracing

N = 20


def machine(file):
    return json.loads(gospect.run("report", file, "--by", "machine", "-f", "json", "-n", 0)
                      .ok().text)


def functions(goroutine):
    return [frame["func"] for frame in goroutine["frames"]]


@pytest.fixture(params=("1.17.13", "1.22.12", golang.NEWEST), ids=lambda v: f"go{v}")
def known(request, targets, tmp_path):
    """The trace of a program, and its answers."""
    program = targets.start("machine", request.param)
    file = tmp_path / "machine.trace"
    with tracing(program, file) as t:
        answers = {what: json.loads(program.ask(f"{what} {N}"))
                   for what in ("stops", "latency", "syscalls")}
    assert t.lost == 0
    return request.param, file, answers


@pytest.mark.alone  # its goroutine must have a CPU while another waits for its P
def test_stops_waits_and_system_calls_are_those_of_the_program(known):
    version, file, answers = known
    seen = machine(file)
    check_stops(seen["stops"], answers["stops"], golang.minor(version))
    check_waits(seen["scheduling_latency"], answers["latency"])
    check_syscalls(seen["syscalls"], answers["syscalls"])
    for p in seen["ps"]:
        assert sum(p[f"{s}_ns"] for s in ("running", "syscall", "scheduling", "idle")) == \
            seen["duration_ns"]
    check_text(file, answers)
    assert_like_go(file)


def check_stops(stops, said, version):
    """Each lies within the program's own time of the call. One P spins: it gives up last."""
    ours = sorted((s for s in stops if s["by"]["id"] == said["by"]), key=lambda s: s["begin_ns"])
    if version >= (1, 27):
        ours = [s for s in ours if "main.stopWorld" in functions(s["by"])]
    elif version >= (1, 22):
        ours = [s for s in ours if s["reason"] == "read mem stats"]
    else:  # the first of all, but for a change of GOMAXPROCS to 2
        ours = ours[os.cpu_count() != 2:][:N]
    assert len(ours) == N
    for stop, took in zip(ours, said["took"]):
        assert stop["complete"] and 0 <= stop["stopping_ns"] <= stop["duration_ns"] <= took
        assert stop["reason"] == ("read mem stats" if version >= (1, 22) else "unknown")
        assert stop["ps_given_up"] == 1
        assert stop["last"]["id"] == said["spinner"] and "main.spin" in functions(stop["last"])


def check_waits(latency, said):
    """The waiter could run from the time on at which the spinner woke it, and the spinner had the
    only P. If that is preempted meanwhile, the waiter runs earlier."""
    ours = sorted((w for w in latency["longest"] if w["goroutine"]["id"] == said["by"]
                   and "main.waitForP" in functions(w["goroutine"])), key=lambda w: w["begin_ns"])
    longest = [w for w in ours if w["duration_ns"] > 1e6]
    assert len(longest) > N / 2
    assert sorted(w["duration_ns"] for w in longest)[len(longest) // 2] > 3_600_000
    for wait in longest:
        assert wait["why"] == "unblocked"
        assert wait["holder"]["id"] == said["spinner"], wait
        assert wait["holder_ns"] > 0.9 * (wait["duration_ns"] - wait["stopped_ns"])
    assert latency["p50_ns"] <= latency["p90_ns"] <= latency["p99_ns"] <= latency["max_ns"]
    assert sum(b["count"] for b in latency["histogram"]) == latency["count"]


def check_syscalls(syscalls, said):
    row, = (s for s in syscalls["stacks"]
            if any(f["func"] == "main.callSleep" for f in s["frames"]))
    # Go 1.17 has no frame for the function between.
    assert row["name"] in ("syscall.Nanosleep", "syscall.Syscall") and row["count"] == N
    least = sum(200_000 + i * 10_000 for i in range(N))
    assert least <= row["ns"] <= sum(said["took"])
    assert 200_000 + (N - 1) * 10_000 <= row["longest_ns"] <= max(said["took"])


def check_text(file, answers):
    text = gospect.run("report", file, "--by", "machine").ok().text
    assert "STOPS OF THE WORLD" in text and "LONGEST WAITS FOR A P" in text
    assert f"goroutine {answers['stops']['spinner']}" in text and "main.spin:" in text
    assert re.search(r"syscall\.\w+ in main\.callSleep:\d+", text)
    summary = gospect.run("report", file).ok().text
    assert "MACHINE (--by machine has the details)" in summary


def assert_like_go(file):
    """What Go's reader makes of the same file."""
    expected, = gotrace.read(file, newer=True)
    assert "error" not in expected
    go, seen = expected["machine"], machine(file)
    stops = sorted(seen["stops"], key=lambda s: s["begin_ns"])
    whole = [s for s in stops if s["begin_ns"] + s["duration_ns"] < seen["duration_ns"]]
    assert [(f"stop-the-world ({s['reason']})", s["by"]["id"]) for s in whole] == [
        (s["name"], s["g"]) for s in go["stops"]]
    for ours, theirs in zip(whole, go["stops"]):
        assert ours["duration_ns"] == pytest.approx(theirs["ns"], rel=0.001, abs=2000)
    latency = seen["scheduling_latency"]
    assert latency["count"] == go["waits"]
    assert latency["total_ns"] == pytest.approx(go["waited"], rel=0.001, abs=10 * go["waits"])
    assert latency["max_ns"] == pytest.approx(go["longest"], rel=0.001, abs=2000)
    assert seen["syscalls"]["count"] == go["syscalls"]
    assert seen["syscalls"]["ns"] == pytest.approx(go["in_syscalls"], rel=0.001,
                                                   abs=10 * go["syscalls"])
    held = {str(p["id"]): p["running_ns"] + p["syscall_ns"] + p["scheduling_ns"]
            for p in seen["ps"]}
    assert set(go["held"]) <= set(held)
    for p, ns in held.items():
        assert ns == pytest.approx(go["held"].get(p, 0), rel=0.001, abs=1e6), p
    gc = seen["gc"]
    assert sum(c["whole"] for c in gc["cycles"]) == len(go["cycles"])
    for ours, theirs in zip((c for c in gc["cycles"] if c["whole"]), go["cycles"]):
        assert ours["duration_ns"] == pytest.approx(theirs, rel=0.001, abs=2000)
    assert gc["assists"]["count"] == go["assists"]
    assert gc["assists"]["ns"] == pytest.approx(go["assisted"], rel=0.001,
                                                abs=2000 + 10 * go["assists"])
    assert gc["swept_bytes"] == expected["swept"]
    return go


@pytest.mark.parametrize("version", ("1.22.12", golang.NEWEST))
def test_a_trace_of_go_has_what_its_own_reader_finds(version, tmp_path):
    file = tmp_path / "go.trace"
    subprocess.run([golang.build("selftrace", version), file], check=True)
    go = assert_like_go(file)
    assert go["cycles"] and go["stops"] and go["waits"] and go["syscalls"]


def test_machine_is_asked_of_a_trace_alone(tmp_path):
    (tmp_path / "p.folded").write_text("main.main;main.wait 1\n")
    assert "need an execution trace" in gospect.run(
        "report", tmp_path / "p.folded", "--by", "machine").fails(2)
    assert "--by machine" in gospect.run("report", tmp_path / "p.folded", "--by", "machine",
                                         "-f", "folded").fails(2)
    assert "omit --sampled" in gospect.run("offcpu", "-p", 1, "--sampled", "--by",
                                           "machine").fails(2)


def test_the_kernel_s_counters_are_beside_it(targets, tmp_path):
    """Throttling is what the control group itself counts meanwhile, and the CPU time what the program uses."""
    group = control_group.with_quota(f"gospect-machine-{os.getpid()}", 3)
    if not group:
        pytest.skip("no control group with a CPU quota can be made here")
    program = targets.start("sampled")
    try:
        (group / "cgroup.procs").write_text(str(program.pid))
        with tracing(program, tmp_path / "t.trace"):
            before = control_group.throttled(group)
            began = time.monotonic_ns()
            program.ask(f"run 80 {tmp_path / 'own.pb.gz'}")
            after, took = control_group.throttled(group), time.monotonic_ns() - began
    finally:
        control_group.remove_quota(group, program.pid)
    kernel = machine(tmp_path / "t.trace")["kernel"]
    # The counters are read once a second, before and after.
    assert 0.4e9 < kernel["duration_ns"]
    share = min(1, kernel["duration_ns"] / took)
    assert 1 <= kernel["throttled_periods"] <= kernel["periods"]
    assert 0.3 * share * (after - before) < kernel["throttled_ns"] < 1.5 * (after - before) + 1e9
    assert 0 < kernel["cpu_ns"] <= 0.03 * kernel["duration_ns"] + 0.1e9
    assert 0 <= kernel["steal_ns"] <= kernel["machine_ns"]
    summary = gospect.run("report", tmp_path / "t.trace").ok().text
    assert "throttled by the CPU quota in" in summary
    assert int(re.search(r"with a CPU for (\d+)% of it", summary)[1]) < 30


def test_the_kernel_s_counters_of_an_idle_program_in_a_short_trace(targets, tmp_path):
    """No goroutine runs when they are read, neither at the beginning nor at the end; Go's reader takes them."""
    program = targets.start("relay")
    gospect.run("trace", "-p", program.pid, "-d", "0.4s", "-o", tmp_path / "t.trace").ok()
    kernel = machine(tmp_path / "t.trace")["kernel"]
    assert 0.3e9 < kernel["duration_ns"] < 5e9
    assert kernel["machine_ns"] > 0.3e9
    assert kernel["cpu_ns"] < 0.1 * kernel["duration_ns"]
    assert gotrace.read(tmp_path / "t.trace")


def test_cycles_of_the_collector_have_their_phases(targets, tmp_path):
    """Two stops, and marking between them; the goroutine that began the cycle."""
    program = targets.start("churn")
    with tracing(program, tmp_path / "t.trace"):
        time.sleep(0.5)
    seen = machine(tmp_path / "t.trace")
    stops = {s["begin_ns"]: s for s in seen["stops"]}
    whole = [c for c in seen["gc"]["cycles"] if c["whole"]]
    assert whole
    for cycle in whole:
        first, last = cycle["sweep_termination"], cycle["mark_termination"]
        assert stops[first["begin_ns"]]["reason"] == "GC sweep termination"
        assert stops[last["begin_ns"]]["reason"] == "GC mark termination"
        assert first["begin_ns"] <= cycle["begin_ns"] <= first["begin_ns"] + first["duration_ns"]
        assert cycle["mark_ns"] == last["begin_ns"] - first["begin_ns"] - first["duration_ns"]
        assert cycle["begun_by"] == stops[first["begin_ns"]]["by"]
    assert "CYCLES OF THE COLLECTOR" in gospect.run("report", tmp_path / "t.trace", "--by", "machine").ok().text
