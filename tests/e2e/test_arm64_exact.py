"""`--exact` on arm64, in an emulated machine: the program's memory at one point in time, and it does not notice."""

import json

import pytest

from lib import arm64, golang
from lib.params import every_version
from lib.process import wait_until
from lib.snapshots import POINTS, assert_right

pytestmark = [pytest.mark.time_limit(900), arm64.TAKES_TIME]

VERSIONS = (golang.OLDEST, *(v for v in golang.NEWEST_OF_EACH if golang.minor(v) == (1, 22)), golang.NEWEST)


@pytest.fixture
def parent(arm64_machine):
    programs = []

    def start(version=golang.NEWEST, mode=golang.PLAIN):
        binary = golang.build("parent", version, mode, golang.ARM64)
        programs.append(arm64.Program(arm64_machine, binary, seconds=300))
        return programs[-1]

    yield start
    for program in programs:
        program.stop()


def ask(program, word="tell"):
    return json.loads(program.ask(word))


def copies(program):
    """State and exit code of each child without an exit signal."""
    found = []
    for line in program.machine.run("cat /proc/[0-9]*/stat 2>/dev/null").text.splitlines():
        fields = line.rpartition(")")[2].split()
        if int(fields[1]) == program.pid and fields[35] == "0":
            found.append((fields[0], int(fields[-1])))
    return found


def is_mapped(program):
    return program.machine.run(f"grep -q gospect /proc/{program.pid}/maps").status == 0


def assert_unnoticed(program):
    """It waits for any child, and got its own alone; a thread that waits in read(2) goes on."""
    now = ask(program)
    assert not now["Strange"] and not now["Errors"]
    wait_until(lambda: all(ask(program)[count] > now[count] for count in ("Reaped", "Echoes", "Moves")), 60)
    assert not copies(program) and not is_mapped(program)
    program.assert_well()


def probe(program, point, guarded=True):
    """The status of one that takes a snapshot and kills itself at that place."""
    path = program.machine.put(arm64.BUILD / "src/collect/trace_probe")
    unguarded = "" if guarded else "GOSPECT_FAULT_UNGUARDED=1"
    return program.machine.run(f"PROBE_SNAPSHOT=fork GOSPECT_FAULT={point} {unguarded} {path} {program.pid} 0.05",
                               200).status


@pytest.mark.parametrize("how, mode", (("--exact", golang.STRIPPED), ("--exact=stop", golang.PLAIN)))
@every_version(VERSIONS)
def test_what_always_moves_is_found_and_what_is_leaked_is_certain(parent, version, how, mode):
    program = parent(version, mode)
    before = ask(program, "rest")
    result = program.machine.gospect("leaks", how, "-f", "json", program.pid, seconds=200).ok()
    now = ask(program)
    assert_right(json.loads(result.out), result.err, now, how == "--exact")
    assert now["Signals"] == before["Signals"] and not now["Strange"] and not now["Errors"]
    ask(program, "go on")
    assert_unnoticed(program)


def test_retained_memory_is_exact(parent):
    program = parent()
    result = program.machine.gospect("heap", "--retained", "--exact", "-f", "json", program.pid, seconds=200).ok()
    found = json.loads(result.out)
    assert found["exact"] and found["error_percent"] == 0 and "its fork existed" in result.err
    assert_unnoticed(program)


def test_a_pause_that_is_too_long_is_refused(parent):
    program = parent()
    for how in ("--exact", "--exact=stop"):
        result = program.machine.gospect("leaks", how, "--max-pause", "1us", program.pid, seconds=200)
        assert result.status == 1 and "--max-pause allows 0.001 ms" in result.err
    assert_unnoticed(program)


def test_killed_anywhere_gospect_leaves_nothing_behind_its_guardian(parent):
    program = parent()
    for point in POINTS:
        assert probe(program, point) == 128 + 9, point
        wait_until(lambda: not copies(program) and not is_mapped(program), 60, f"it to be cleaned at {point}")
    assert_unnoticed(program)


def test_killed_with_its_guardian_it_leaves_what_the_next_one_removes(parent):
    """A copy that loses its tracer too early to die with it runs to its end, and not into a fault."""
    program = parent()
    left = {}
    for point in POINTS:
        assert probe(program, point, guarded=False) == 128 + 9, point
        program.assert_well()
        left[point.partition(":")[0]] = copies(program)
        program.machine.gospect("doctor", "-p", program.pid, seconds=200)
        wait_until(lambda: not copies(program) and not is_mapped(program), 60, f"it to be cleaned at {point}")
    assert left["fork-born"] == [("Z", 0)]
    assert {copy for found in left.values() for copy in found} <= {("Z", 0), ("Z", 9)}, left
    assert_unnoticed(program)
