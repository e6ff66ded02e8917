"""gospect on arm64, in an emulated machine, against what the programs there say themselves."""

import json
import os
import re
import shlex
import shutil

import pytest

from lib import arm64, callers, crash, golang, gospect, pprof, traceback
from lib.params import every_build, every_version, newest_version

pytestmark = pytest.mark.time_limit(180)

# An emulated machine is slow: where gospect was built for arm64, `tests/run` has the oldest and the
# newest Go, and `make test-arm64` all.
ALL = "ARM64_ALL" in os.environ
VERSIONS = golang.VERSIONS if ALL else (golang.OLDEST, golang.NEWEST)
MODES = (golang.PLAIN, golang.LDFLAGS_SW) if ALL else (golang.LDFLAGS_SW,)
TAKES_TIME = arm64.TAKES_TIME
SECOND = 1_000_000_000
STAGES = ("main.stageSleep", "main.stageChannel", "main.stageMutex")
# One percent of an emulated core is nothing.
BUDGET = ("--budget", 50)


@pytest.fixture
def start(arm64_machine):
    """Starts programs there; each is well at the end."""
    programs = []

    def start_program(program, version, mode=golang.PLAIN, *args, **kwargs):
        binary = golang.build(program, version, mode, golang.ARM64)
        programs.append(arm64.Program(arm64_machine, binary, *args, **kwargs))
        return programs[-1]

    yield start_program
    try:
        for program in programs:
            program.assert_well()
    finally:
        for program in programs:
            program.stop()


@pytest.fixture
def record(arm64_machine):
    """Records a program there; `meanwhile` is a shell command that is run again and again."""
    folder = arm64_machine.folder / "record"
    folder.mkdir()

    def record_program(program, *args, seconds=4, meanwhile="true"):
        arm64_machine.run(f"""
            gospect record -p {program.pid} -d {seconds} {shlex.join(map(str, BUDGET + args))} \
                -o /share/record/p.pb.gz & recorder=$!
            while kill -0 $recorder; do {meanwhile}; usleep 100000; done 2>/dev/null
            wait $recorder""", seconds + 30).ok()
        assert [p.name for p in folder.iterdir()] == ["p.pb.gz"], "leftovers"
        return pprof.read(folder / "p.pb.gz")

    yield record_program
    shutil.rmtree(folder)


def dump(machine, pid, *args):
    return traceback.parse(machine.gospect("dump", "-p", pid, *args).ok().text)


def assert_same(inside, outside, version, **kwargs):
    found = traceback.differences(inside, outside, golang.minor(version), **kwargs)
    assert not found, f"{len(found)} differences:\n" + "\n".join(found[:40])


@every_build(VERSIONS, MODES)
def test_dump_is_what_runtime_stack_says(arm64_machine, start, version, mode):
    program = start("states", version, mode)
    outside = dump(arm64_machine, program.pid)
    inside = traceback.parse(program.stack())
    assert len(inside) > 80
    assert_same(inside, outside, version, labels=golang.minor(version) >= (1, 27),
                ignore={g.id for g in traceback.having(inside, "main.control")})


def ps_row(machine, pid):
    """The words of its row. ps allows 5 s of CPU time for each program, by the clock of a machine that loses
    its own processors to others: then the row has no version."""
    for _ in range(5):
        lines = machine.gospect("ps").ok().text.splitlines()
        (words,) = (line.split() for line in lines if line.split()[0] == str(pid))
        if words[1] != "-":
            break
    return words


@every_build(VERSIONS, MODES)
def test_ps_shows_version_build_and_goroutines(arm64_machine, start, version, mode):
    program = start("states", version, mode, "-only=chan", "-extra=1234")
    words = ps_row(arm64_machine, program.pid)
    build = "static,stripped" if mode == golang.LDFLAGS_SW else "static"
    assert words[1:4] == [f"go{version}", build, str(len(dump(arm64_machine, program.pid)))]


@TAKES_TIME
@every_version(VERSIONS)
def test_a_goroutine_that_spins_is_running_or_shown_where_it_was(arm64_machine, start, version):
    program = start("states", version, golang.PLAIN, "-only=chan", "-spin=2")
    found = [g for g in dump(arm64_machine, program.pid).values()
             if g.created_by and g.created_by.func == "main.main" and
             g.state in ("running", "runnable")]
    assert len(found) == 2
    assert all("main.spin" in g.functions() for g in found if g.available)


# record

def spent_until(times, moment):
    """The program's time in each place until then, interpolated between two of its reports."""
    before, after = next(pair for pair in zip(times, times[1:]) if pair[1]["now"] >= moment)
    part = (moment - before["now"]) / (after["now"] - before["now"])
    return {place: before.get(place, 0) + part * (after[place] - before.get(place, 0))
            for place in after}


def looks(profile):
    """How often each goroutine was looked at, as the profile says."""
    (per_second,) = (float(found[1]) for found in
                     (re.search(r"each ([0-9.]+) times a second", c) for c in profile.comments)
                     if found)
    return per_second * profile.duration_ns / SECOND


@TAKES_TIME
@every_build(VERSIONS, MODES)
def test_time_is_where_the_program_says_it_was(start, record, version, mode):
    program = start("split", version, mode)
    profile = record(program, meanwhile=program.sending("times"))
    if looks(profile) < 100:
        pytest.skip("the machine is too busy: an emulated one hardly runs")
    times = [json.loads(line) for line in program.lines()]
    first = spent_until(times, profile.time_ns)
    last = spent_until(times, profile.time_ns + profile.duration_ns)
    assert profile.time_in("main.waitForever") == pytest.approx(20 * profile.duration_ns, rel=0.02)
    assert profile.time_in("main.readForever") == pytest.approx(profile.duration_ns, rel=0.02)
    # What moved while it was read has its time but no stack, and a look takes milliseconds here.
    for places in STAGES, ("main.pause", "main.burn"):
        spent = {place: last[place] - first.get(place, 0) for place in places}
        known = {place: profile.time_in(place) for place in places}
        assert sum(known.values()) > 0.3 * profile.duration_ns
        for place in places:
            assert known[place] / sum(known.values()) == pytest.approx(
                spent[place] / sum(spent.values()), abs=0.04 + 1.5 / looks(profile) ** 0.5), place


@TAKES_TIME
@every_build(VERSIONS, MODES)
def test_every_caller_of_what_runs_is_right(start, record, version, mode):
    program = start("callers", version, mode)
    profile = record(program, "--on-cpu", "-r", 200)
    right, wrong = callers.judge(profile)
    assert right > SECOND / 2, "it hardly ran"
    assert not wrong


@TAKES_TIME
@every_version(VERSIONS)
def test_running_stacks_end_at_the_start_function(start, record, version):
    profile = record(start("callers", version), "--on-cpu", "-r", 200)
    total = profile.total("wall")
    # The scheduler's time and what is idle have roots of their own; a signal handler ends at
    # sigtramp (docs/internals/on-cpu.md).
    nobodys = profile.total("wall", lambda sample: sample.stack[-1].startswith("["))
    handlers = profile.total("wall", lambda sample: sample.stack[-1] == "runtime.sigtramp")
    whole = profile.total("wall", lambda sample: sample.stack[-1] == "main.burn")
    assert total == pytest.approx(profile.duration_ns, rel=0.15)
    assert handlers < 0.03 * total
    assert whole / (total - nobodys - handlers) > 0.98


@pytest.mark.skipif(not ALL, reason="make test-arm64 has it")
@pytest.mark.parametrize("what, most", [("time", 0.02), ("alloc", 0.05)])
def test_stacks_are_whole_across_the_vdso_and_the_system_stack(start, record, what, most):
    program = start("switches", golang.NEWEST, golang.PLAIN, what)
    profile = record(program, "--on-cpu", "-r", 100)
    cut = profile.total("cpu", lambda sample: "[truncated]" in sample.stack)
    assert cut <= most * profile.total("cpu")
    if what == "time":
        assert profile.time_in("__kernel_clock_gettime", "cpu") > 0


# Core files

@newest_version(VERSIONS)
def test_a_core_reads_alike_on_either_machine(arm64_machine, tmp_path, version):
    binary = golang.build("crash", version, golang.PLAIN, golang.ARM64)
    arm64_machine.run(f"""
        mkdir /tmp/core && cd /tmp/core && echo core >/proc/sys/kernel/core_pattern
        ulimit -c unlimited
        GOTRACEBACK=crash GODEBUG=asyncpreemptoff=1 GOMAXPROCS=4 \
            {arm64_machine.put(binary)} nil spin 2>/share/stderr
        mv core* /share/core; cd /; rmdir /tmp/core""", seconds=150).ok()
    core = arm64_machine.folder / "core"
    try:
        there = arm64_machine.gospect("dump", "--core", "/share/core", "--all").ok()
        here = gospect.run("dump", "--core", core, "--exe", binary, "--all").ok()
    finally:
        core.unlink()
    assert here.text == there.text
    assert "gospect: panic: runtime error: invalid memory address or nil pointer dereference" in \
        here.words
    said = (arm64_machine.folder / "stderr").read_text()
    inside = crash.said(said.replace("Aborted (core dumped)\n", ""))
    outside = traceback.parse(here.text)
    assert len(inside) > 20
    found = crash.differences(inside, outside, version)
    assert not found, "\n".join(found[:40])
