"""`gospect trace` on arm64, in an emulated machine: against what the program counts, by Go's own reader."""

import json
import os
import statistics

import pytest

from lib import arm64, golang, gospect, gotrace
from lib.params import every_version
from lib.requesting import assert_named
from lib.traced import assert_as_counted
from lib.traced_there import Tracing

pytestmark = pytest.mark.time_limit(600)

# Go 1.17 has arguments on the stack there.
VERSIONS = golang.NEWEST_OF_EACH if "ARM64_ALL" in os.environ else (golang.OLDEST, golang.NEWEST)


@pytest.fixture
def start(arm64_machine):
    """Starts a program there; it is well at the end, and has the code page alone of gospect."""
    programs = []

    def start_program(name, version, *args, mode=golang.PLAIN):
        binary = golang.build(name, version, mode, golang.ARM64)
        programs.append(arm64.Program(arm64_machine, binary, *args, seconds=300))
        return programs[-1]

    yield start_program
    try:
        for program in programs:
            program.assert_well()
            maps = arm64_machine.run(f"grep gospect /proc/{program.pid}/maps").text.splitlines()
            assert len(maps) <= 1 and all("gospect-code" in line for line in maps), maps
    finally:
        for program in programs:
            program.stop()


@arm64.TAKES_TIME
@every_version(VERSIONS)
def test_trace_has_as_many_events_as_the_program_counts(arm64_machine, start, version):
    program = start("counted", version)
    traced = Tracing(arm64_machine, program)
    did = json.loads(program.ask("work"))
    traced.end()
    assert_as_counted(did, gotrace.read_valid(traced.file), version)


@arm64.TAKES_TIME
@every_version(VERSIONS)
def test_each_request_has_its_name_route_status_and_trace(arm64_machine, start, version):
    program = start("named", version, mode=golang.STRIPPED)
    traced = Tracing(arm64_machine, program, verb="offcpu", args="-n 0 -f json")
    requests = json.loads(program.ask(f"serve http 300 4 {version[2:4]}"))
    result = traced.end()
    assert_named(requests, json.loads(result.out))


def rows_in_order(file, *by):
    rows = json.loads(gospect.run("report", file, *by, "-n", 0, "-f", "json", seconds=100).ok().out)
    return sorted(rows, key=lambda row: row["begin_ns"])


@arm64.TAKES_TIME
@every_version(VERSIONS)
def test_calls_of_named_functions_are_seen(arm64_machine, start, version):
    """Their number, and when each began, by the program's own clock."""
    program = start("handlers", version)
    root = r"^main\.fact$"
    traced = Tracing(arm64_machine, program, args=f"--root '{root}'")
    calls = sorted(json.loads(program.ask("call fact 100")), key=lambda call: call["began"])
    traced.end()
    rows = rows_in_order(traced.file, "--root", root)
    assert len(rows) == len(calls) == 100
    offset = statistics.median(row["begin_ns"] - call["began"] for call, row in zip(calls, rows))
    close = sum(abs(row["begin_ns"] - offset - call["began"]) < 1_000_000 for call, row in zip(calls, rows))
    assert close > 90, close


@arm64.TAKES_TIME
@every_version(VERSIONS)
def test_requests_are_seen_from_their_call_to_their_return(arm64_machine, start, version):
    program = start("handlers", version)
    traced = Tracing(arm64_machine, program)
    calls = sorted(json.loads(program.ask("serve http 100 1 200")), key=lambda call: call["began"])
    traced.end()
    rows = rows_in_order(traced.file, "--by", "request")
    assert len(rows) == len(calls)
    for call, row in zip(calls, rows):
        assert row["name"] == "net/http.serverHandler.ServeHTTP"
        assert call["ended"] - call["began"] < row["elapsed_ns"] + 2000 < call["answered"] - call["sent"] + 4000


@arm64.TAKES_TIME
@every_version(VERSIONS)
def test_a_trace_of_a_command_has_all_from_its_first_init_to_its_exit(arm64_machine, version):
    path = arm64_machine.put(golang.build("brief", version, golang.LDFLAGS_SW, golang.ARM64))
    result = arm64_machine.run(f"gospect trace -o brief.trace -- {path} 7", 120)
    assert result.status == 7 and result.text == "did 1012\n", result.err
    read = gotrace.read_valid(arm64_machine.folder / "brief.trace")
    assert gotrace.programs_logs(read) == {"goroutine of init=brief": 3, "init=brief": 7, "main=brief": 1,
                                           "child=brief": 1000, "last=brief": 1}
    assert sum(g["name"] == "main.child" for g in read["goroutines"].values()) == 20
