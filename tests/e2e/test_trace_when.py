"""trace --flight --when: each incident has its file, which has what led to it."""

import json
import re
import time

import pytest

from lib import golang, gospect, gotrace
from lib.process import wait_until
from lib.traced import Tracing, incidents, tracing

FLIGHT = 2
CONDITIONS = ("request > 150ms route ^/none", "request > 150ms route ^/$", "lock > 150ms", "runnable > 30ms", "goroutines > 500", "heap > 60MB",
              "call ^main\\.unusual$", "panic")
# What is asked of the program, the reason in the file's name, and what is said.
HAPPEN = (
    ("request 200", "request", r"net/http\.serverHandler\.ServeHTTP of goroutine \d+ took 2\d\d ms"),
    ("lock 200", "lock", r"goroutine \d+ waited for a lock for 2\d\d ms in main\.waitForLock"),
    ("busy 60", "runnable", r"goroutine \d+ was runnable for \d+(\.\d)? ms"),
    ("spawn 600", "goroutines", r"there are 50\d goroutines"),
    ("fill 80", "heap", r"the heap has \d+(\.\d)? MB"),
    ("call 1", "call", r"goroutine 1 called main\.unusual"),
    ("panic", "panic", r"goroutine 1 panicked"),
)
NOT_YET = ("request 20", "lock 20", "spawn 20", "fill 8", "free")


def options(*conditions):
    return [word for condition in conditions for word in ("--when", condition)]


def reasons(file):
    return [re.search(r"-([a-z0-9]+)\.trace$", path.name)[1] for path in incidents(file)]


def has_new(program, file, before, reason):
    program.ask("check")  # of a program that does nothing, the heap is not read either
    return any(path.name.endswith(f"-{reason}.trace") for path in set(incidents(file)) - before)


def cause_all(program, file):
    for command in NOT_YET:
        program.ask(command)
    time.sleep(0.5)
    # A busy machine may keep a goroutine waiting for a CPU, and a request, too.
    assert set(reasons(file)) <= {"runnable", "request", "lock"}
    for command, reason, said in HAPPEN:
        if reason in ("runnable", "request", "lock"):
            time.sleep(FLIGHT + 0.5)  # the condition may rest
        before = set(incidents(file))
        program.ask(command)
        wait_until(lambda: has_new(program, file, before, reason), what=f"the file of {command}")


@pytest.mark.parametrize("version", [golang.NEWEST, pytest.param(golang.OLDEST, marks=pytest.mark.slow)])
def test_each_condition_writes_a_file(targets, tmp_path, version):
    program = targets.start("incidents", version)
    file = tmp_path / "t.trace"
    with tracing(program, file, "--flight", FLIGHT, *options(*CONDITIONS)) as t:
        cause_all(program, file)
    for _, reason, said in HAPPEN:
        assert re.search(said, t.err), (reason, t.err)
    for path in incidents(file):
        gotrace.read_valid(path)
    program.assert_well()


def test_resident_memory_is_a_condition(targets, tmp_path):
    program = targets.start("incidents")
    file = tmp_path / "t.trace"
    t = Tracing(program.pid, file, "--flight", "2", *options("rss > 200MB", "rss > 1000%")).has_begun()
    program.ask("fill 20")
    time.sleep(1.5)
    assert not incidents(file)
    program.ask("fill 230")
    wait_until(lambda: program.ask("check") and incidents(file), what="an incident's file")
    t.end()
    assert set(reasons(file)) <= {"rss", "interrupt"} and "rss" in reasons(file)
    assert re.search(r"the resident memory is 2\d\d MB", t.err)


def test_the_file_has_the_whole_request(targets, tmp_path):
    program = targets.start("incidents")
    file = tmp_path / "t.trace"
    t = Tracing(program.pid, file, "--flight", "5", *options("request /^net/http\\.server/ > 300ms",
                                                             "request /^main\\.no/ > 1ms")).has_begun()
    program.ask("request 400")
    wait_until(lambda: incidents(file), what="an incident's file")
    first, = incidents(file)
    rows = json.loads(gospect.run("report", first, "--by", "request", "-f", "json").out)
    assert [row for row in rows if row["whole"] and row["elapsed_ns"] >= 400e6]
    t.end()


def test_only_the_last_files_are_kept(targets, tmp_path):
    program = targets.start("incidents")
    file = tmp_path / "t.trace"
    (tmp_path / "t-20200101-000000-call.trace").write_text("of another run")
    t = Tracing(program.pid, file, "--flight", "0.3", "--keep", "2", *options("call ^main\\.unusual$")).has_begun()
    seen = set()
    end = time.monotonic() + 60
    while len(seen) < 4:
        assert time.monotonic() < end
        program.ask("call 1")
        time.sleep(0.7)
        seen |= {path.name for path in incidents(file)} - {"t-20200101-000000-call.trace"}
    t.end()
    left = {path.name for path in incidents(file)}
    assert "t-20200101-000000-call.trace" in left and len(left) == 3


@pytest.mark.parametrize("args", [("--when", "panic"), ("--keep", "3"), ("--flight", "3", "--when", "request > 5"),
                                  ("--flight", "3", "--when", "call ^main\\.none$")])
def test_what_cannot_be_watched_is_refused(states, tmp_path, args):
    result = gospect.run("trace", "-p", states.pid, "-o", tmp_path / "t.trace", *args)
    assert result.status in (1, 2) and len(result.err.splitlines()) == 1, result.err
    assert not list(tmp_path.iterdir())
