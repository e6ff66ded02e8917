"""`gospect trace` on arm64, in an emulated machine: against what the program counts, by Go's own reader."""

import json
import os
import subprocess

import pytest

from lib import arm64, golang, gotrace
from lib.params import every_version
from lib.process import wait_until
from lib.traced import assert_as_counted

pytestmark = pytest.mark.time_limit(600)

REGISTERS = tuple(v for v in golang.NEWEST_OF_EACH if golang.minor(v) >= (1, 18))  # Go 1.17 has arguments on the stack
VERSIONS = REGISTERS if "ARM64_ALL" in os.environ else (REGISTERS[0], REGISTERS[-1])


@pytest.fixture
def start(arm64_machine):
    """Starts `counted` there; it is well at the end, and has the code page alone of gospect."""
    programs = []

    def start_program(version):
        binary = golang.build("counted", version, golang.PLAIN, golang.ARM64)
        programs.append(arm64.Program(arm64_machine, binary, seconds=300))
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


def casgstatus(binary):
    symbols = subprocess.run(["aarch64-linux-gnu-nm", binary], capture_output=True, text=True, check=True).stdout
    return int(next(line for line in symbols.splitlines() if line.endswith(" runtime.casgstatus")).split()[0], 16)


class Traced:
    """`gospect trace` there, from when its jumps are written until it is asked to end."""

    def __init__(self, machine, program):
        self.machine, self.file = machine, machine.folder / f"{program.pid}.trace"
        code = self._code(program)
        self.command = machine.start(f"gospect trace -p {program.pid} -o {self.file.name} & echo $! >/tmp/tracer; wait $!")
        wait_until(lambda: self._code(program) != code, 120, "the jumps")

    def _code(self, program):
        at = casgstatus(program.binary)
        return self.machine.run(f"dd if=/proc/{program.pid}/mem bs=4 skip={at // 4} count=8 2>/dev/null | od -x").text

    def end(self):
        self.machine.run("kill -INT $(cat /tmp/tracer)").ok()
        result = self.machine.wait(self.command, 120).ok()
        assert ", 0 lost, " in result.err, result.err
        return gotrace.read_valid(self.file)


@arm64.TAKES_TIME
@every_version(VERSIONS)
def test_trace_has_as_many_events_as_the_program_counts(arm64_machine, start, version):
    program = start(version)
    traced = Traced(arm64_machine, program)
    did = json.loads(program.ask("work"))
    assert_as_counted(did, traced.end(), version)


@arm64.TAKES_TIME
def test_go_1_17_is_refused_and_not_touched(arm64_machine, start):
    program = start(golang.OLDEST)
    result = arm64_machine.gospect("trace", "-p", program.pid, "-d", 1, "-o", "never.trace")
    assert result.status == 1
    assert "it passes arguments on the stack" in result.err
    assert not (arm64_machine.folder / "never.trace").exists()
