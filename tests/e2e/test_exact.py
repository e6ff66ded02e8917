"""A snapshot of a program's memory (--exact): it is of one point in time, and the program does not notice."""

import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

from lib import golang, gospect, memory_group, pids_group, tracing
from lib.params import every_version
from lib.process import PATIENCE, SLOWER, Program, status, wait_until
from lib.snapshots import FORKED, POINTS, assert_right, ids
from matrix import builds

ENDS = (golang.OLDEST, golang.NEWEST)


def ask(program, word="tell"):
    return json.loads(program.ask(word))


def children(pid, of=lambda fields: True):
    """Its children whatever their exit signal, as the kernel lists them."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid and of(fields):
            found.append(int(path.parent.name))
    return found


def copies(pid):
    """Those without an exit signal."""
    return children(pid, lambda fields: fields[35] == "0")


def assert_no_copy(program):
    assert not copies(program.pid)
    assert status(program.pid)["TracerPid"] == "0"
    assert not tracing.mappings(program.pid)
    program.assert_well()


def exact(program, *args, how="--exact"):
    result = gospect.run("leaks", how, "-f", "json", *args, program.pid)
    return json.loads(result.ok().text), result.err


def probe(pid, seconds=0.05, how="fork", **kwargs):
    os.environ["PROBE_SNAPSHOT"] = how
    try:
        return tracing.probe(pid, seconds, **kwargs)
    finally:
        del os.environ["PROBE_SNAPSHOT"]


@pytest.fixture
def parent(targets):
    def start(version=golang.NEWEST, mode=golang.PLAIN, *args, **kwargs):
        return targets.start("parent", version, mode, args=args, **kwargs)
    return start


def assert_unnoticed(program):
    """It waits for any child, and got its own alone."""
    now = ask(program)
    assert not now["Strange"] and not now["Errors"]
    wait_until(lambda: ask(program)["Reaped"] > now["Reaped"], what="children")
    wait_until(lambda: ask(program)["Echoes"] > now["Echoes"] and ask(program)["Moves"] > now["Moves"])
    assert_no_copy(program)


@pytest.mark.parametrize("how, mode", (("--exact", golang.STRIPPED), ("--exact=stop", golang.PLAIN)))
@every_version(ENDS)
def test_what_always_moves_is_found_and_what_is_leaked_is_certain(parent, version, how, mode):
    """The only pointers to 50 channels move from one place to another all the time."""
    program = parent(version, mode)
    truth = ask(program)
    found, err = exact(program, how=how)
    assert_right(found, err, truth, how == "--exact")
    assert_unnoticed(program)


def test_without_it_nothing_is_certain_of_a_program_that_always_runs(parent):
    program = parent()
    assert not json.loads(gospect.run("leaks", "-f", "json", program.pid).ok().text)["leaked"]
    assert_no_copy(program)


def test_a_program_without_children_sees_none_and_gets_no_signal(parent):
    program = parent()
    before = ask(program, "rest")
    for _ in range(2):
        _, err = exact(program)
        assert FORKED.search(err)
    now = ask(program)
    assert now["Signals"] == before["Signals"] and not now["Strange"] and not now["Errors"]
    ask(program, "go on")
    assert_unnoticed(program)


def test_a_writing_program_copies_pages_and_is_told_how_many(parent):
    program = parent(golang.NEWEST, golang.PLAIN, "64")
    _, err = exact(program)
    pid, pause, lived, copied = FORKED.search(err).groups()
    assert int(pid) == program.pid and 0 < float(pause) < 1000 * float(lived)
    assert 1 <= float(copied) <= 200
    assert_unnoticed(program)


@every_version(ENDS)
def test_programs_that_do_everything_are_copied_and_left_as_they_were(untouched, version):
    program = untouched(tracing.hectic(version, tracing.CGO), "-calm")
    for how in ("fork", "stop"):
        probe(program.pid, how=how).ok()
    assert_no_copy(program)


@pytest.mark.slow
@pytest.mark.time_limit(1200)
@pytest.mark.parametrize("mode", (tracing.CGO, tracing.RACE, tracing.SHARED, golang.PIE, golang.STRIPPED))
@every_version()
def test_many_times_they_are_copied_and_left_as_they_were(untouched, version, mode):
    host = [builds.host()] if mode == tracing.SHARED else []
    program = untouched(*host, tracing.hectic(version, mode), "-calm")
    for i in range(40):
        probe(program.pid, how=("fork", "stop")[i % 2]).ok()
    exact(program)
    assert_no_copy(program)


def test_what_leaks_between_two_looks_is_growth(parent):
    program = parent()
    ask(program, "leak")
    process = gospect.start("leaks", "--exact", "--growth", "2s", "-f", "json", program.pid, text=True)
    for line in process.stderr:
        if "its fork existed" in line:
            break
    ask(program, "leak")
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    growth = {group["count"]: group["growth"] for group in json.loads(out)["leaked"]}
    assert growth[14]["goroutines"] == 7 and growth[50]["goroutines"] == 0
    assert all(1.9e9 < group["ns"] < 60e9 for group in growth.values())
    text = gospect.run("leaks", "--exact", "--growth", "100ms", program.pid).ok().text
    assert re.search(r"wait for channel \(receive\) in main.wait .*, \+0 in 0\.[0-9]+ s$|, \+0 in [0-9.]+ s$", text, re.M)
    assert "--core" in gospect.run("leaks", "--growth", "1s", "--core", "x").fails(2)
    assert_unnoticed(program)


def test_a_program_that_is_stopped_meanwhile_is_cleaned_and_stays_stopped(parent):
    program = parent()
    process = subprocess.Popen([tracing.PROBE, str(program.pid), str(SLOWER)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, env={**os.environ, "PROBE_SNAPSHOT": "fork"})
    try:
        wait_until(lambda: len(copies(program.pid)) == 1, what="a copy")
        os.kill(program.pid, signal.SIGSTOP)
        _, err = process.communicate(timeout=PATIENCE)
        wait_until(lambda: not copies(program.pid) and not tracing.is_guarded(program.pid), what="it to be cleaned")
        assert process.returncode == 0 and status(program.pid)["State"][0] == "T", err
    finally:
        os.kill(program.pid, signal.SIGCONT)
    assert_unnoticed(program)


# ---- limits ----

def test_a_pause_that_is_too_long_is_refused(parent):
    program = parent()
    for how in ("--exact", "--exact=stop"):
        line = gospect.run("leaks", how, "--max-pause", "1us", program.pid).fails(1)
        assert "--max-pause allows 0.001 ms" in line and f"process {program.pid} " in line
    assert "--max-pause needs --exact" in gospect.run("leaks", "--max-pause", "1s", program.pid).fails(2)
    exact(program, "--max-pause", "10s")
    assert_unnoticed(program)


@pytest.mark.skipif(memory_group.why_not() is not None, reason=str(memory_group.why_not()))
def test_in_a_small_cgroup_it_is_stopped_instead():
    group = memory_group.MemoryGroup()
    group.limit(100 << 20)
    program = Program(*group.prefix(), golang.build("parent", golang.NEWEST), "60")
    try:
        wait_until(lambda: int(status(program.pid)["RssAnon"].split()[0]) > 60 << 10, what="60 MB of memory")
        _, err = exact(program)
        assert re.search(r"cannot be forked \(it might take \d+ MB more, and its memory cgroup has \d+ MB left\)", err)
        assert re.search(r"was stopped for [\d.]+ ms: no fork, ", err)
        assert_no_copy(program)
    finally:
        program.stop()
        group.remove()


@pytest.mark.skipif(pids_group.why_not() is not None, reason=str(pids_group.why_not()))
def test_near_the_limit_of_processes_it_is_stopped_instead():
    group = pids_group.PidsGroup()
    program = Program(*group.prefix(), golang.build("parent", golang.NEWEST))
    try:
        group.limit(group.count() + 8)
        _, err = exact(program)
        assert "cannot be forked (pids.max of its cgroup permits fewer than 32 processes more)" in err
        assert_no_copy(program)
    finally:
        program.stop()
        group.remove()


# ---- whoever dies ----

def test_killed_anywhere_gospect_leaves_nothing_behind_its_guardian(parent):
    program = parent()
    points = {line.removeprefix("fault-point ") for line in probe(program.pid, fault="list").ok().err.splitlines()}
    assert {point.split(":")[0] for point in POINTS} <= points
    for point in POINTS:
        assert probe(program.pid, fault=point).status == -signal.SIGKILL, point
        tracing.assert_cleaned_soon(program)
        assert_no_copy(program)
    assert_unnoticed(program)


def test_killed_with_its_guardian_it_leaves_what_the_next_one_removes(parent):
    program = parent()
    for i, point in enumerate(POINTS):
        assert probe(program.pid, fault=point, guarded=False).status == -signal.SIGKILL, point
        program.assert_well()
        assert tracing.clean(program.pid) == "cleaned" if i % 2 else probe(program.pid).ok()
        assert_no_copy(program)
    assert_unnoticed(program)


def test_a_stopped_program_runs_on_when_gospect_is_killed(parent):
    program = parent()
    for guarded in (True, False):
        assert probe(program.pid, how="stop", fault="snapshot-made", guarded=guarded).status == -signal.SIGKILL
        program.assert_well()
        tracing.clean(program.pid)
    assert_unnoticed(program)


@pytest.mark.parametrize("number", (
    signal.SIGINT, signal.SIGKILL, *(pytest.param(number, marks=pytest.mark.slow)
                                     for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT))))
def test_signals_at_any_moment_leave_nothing(parent, number):
    program = parent()
    for i in range(3):
        process = subprocess.Popen([gospect.BINARY, "leaks", "--exact", str(program.pid)], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        time.sleep(0.03 + 0.07 * i)
        process.send_signal(number)
        process.wait(timeout=PATIENCE)
        wait_until(lambda: not copies(program.pid) and not tracing.mappings(program.pid)
                   and not tracing.is_guarded(program.pid), what="it to be cleaned")
    assert_unnoticed(program)


def test_a_copy_that_is_killed_is_an_error(parent):
    program = parent()
    process = subprocess.Popen([tracing.PROBE, str(program.pid), "20"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, env={**os.environ, "PROBE_SNAPSHOT": "fork"})
    wait_until(lambda: len(copies(program.pid)) == 1, what="a copy")
    os.kill(copies(program.pid)[0], signal.SIGKILL)
    out, err = process.communicate(timeout=PATIENCE)
    assert "ended_early 1" in out and f"the copy of process {program.pid} has ended" in err
    assert_unnoticed(program)


def test_a_program_that_ends_leaves_no_copy(targets):
    program = Program(golang.build("parent", golang.NEWEST))
    process = subprocess.Popen([tracing.PROBE, str(program.pid), "20"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, env={**os.environ, "PROBE_SNAPSHOT": "fork"})
    wait_until(lambda: len(copies(program.pid)) == 1, what="a copy")
    copy = copies(program.pid)[0]
    program.stop()
    process.communicate(timeout=PATIENCE)
    wait_until(lambda: not os.path.exists(f"/proc/{copy}"), what="the copy to be gone")


def test_two_at_once_are_told_of_each_other(parent):
    program = parent()
    command = [gospect.BINARY, "leaks", "--exact", "-f", "json", str(program.pid)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    ended = [(process.communicate(timeout=PATIENCE), process.returncode) for process in both]
    good = [json.loads(out) for (out, _), code in ended if code == 0]
    for (_, err), code in ended:
        assert code == 0 or "gospect" in err.splitlines()[-1], err
    for found in good:
        assert ids(found["leaked"]) == sorted(ask(program)["Leaked"])
    assert_unnoticed(program)
