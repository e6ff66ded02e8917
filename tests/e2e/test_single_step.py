"""Every instruction of small functions, on every Go version: the unwinder sees the calls that really
happened."""

import platform
import re
import subprocess

import pytest

from lib import golang, gospect
from lib.params import every_version

STEPPER = gospect.BINARY.parent / "tests" / "single_step" / "single_step"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="it reads amd64 instructions")
@pytest.mark.time_limit(150)
@every_version(golang.NEWEST_OF_EACH)
def test_every_instruction(targets, version):
    # Without signals of the runtime's own, and with a stack that is small again in each program.
    program = targets.start("steps", version, env={"GODEBUG": "asyncpreemptoff=1", "GOGC": "off"})
    tid = program.ask("tid")
    with subprocess.Popen([STEPPER, str(program.pid), tid], stdout=subprocess.PIPE,
                          text=True) as stepper:
        try:
            assert stepper.stdout.readline() == "seized\n"
            program.ask("go")
            output = stepper.stdout.read()
        finally:
            stepper.kill()
    summary = re.search(r"instructions (\d+) compared (\d+) wrong (\d+) functions (\d+)", output)
    assert summary, output
    _, compared, wrong, functions = map(int, summary.groups())
    assert not wrong, output
    assert compared > 1000 and functions >= 9, output
    methods = {found[1]: list(map(int, found.groups()[1:])) for found in re.finditer(
        r"^(fp|dwarf) right (\d+) lost (\d+) twice (\d+) other (\d+)$", output, re.M)}
    assert methods["dwarf"] == [compared, 0, 0, 0], output
    # In leaves, prologues and epilogues the caller has no record yet, or none any more; before Go
    # 1.26 a call of duffzero or duffcopy has one too many.
    right, lost, twice, other = methods["fp"]
    assert right + lost + twice + other == compared
    assert 0.2 < lost / compared < 0.4 and twice + other <= 0.02 * compared, output
    assert (twice + other > 0) == (golang.minor(version) < (1, 26)), output
