"""A target puts other files in the place of those that gospect has it make.

gospect has a thread of the target make files in memory, and opens them by the target's descriptors.
The target's other threads run meanwhile. An older gospect truncated and overwrote root's files.
"""

import os
import pathlib

import pytest

from lib import golang, gospect, hostile, tracing
from lib.nobody import USER, Hostile

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="only root can be made to do it"),
              pytest.mark.time_limit(400)]

SECRET = b"root's own\n" * 500
# Where the machine has much to do the program gets its CPU too late, mostly.
TRIES = 80
FILES = ("gospect-claim", "gospect-data", "gospect-code")

every_file = pytest.mark.parametrize("name", FILES)


@pytest.fixture
def swapper():
    """Its threads come before all others, or it would be too slow for gospect where others are at work."""
    with open("stderr", "wb") as stderr:
        program = Hostile(golang.build("swapper", golang.NEWEST), stderr=stderr)
    for thread in os.listdir(f"/proc/{program.pid}/task"):
        os.setpriority(os.PRIO_PROCESS, int(thread), -10)
    yield program
    program.stop()
    print(pathlib.Path("stderr").read_text(errors="replace"))


@pytest.fixture
def victim():
    """A file that others may open neither for writing nor for reading. It may be named, and taken by O_PATH."""
    with hostile.folder() as folder:
        path = folder / "victim"
        path.write_bytes(SECRET)
        path.chmod(0o600)
        yield path


def trace(program, tmp_path, seconds=0.1):
    return gospect.run("trace", "-p", program.pid, "-d", seconds, "-o", tmp_path / "o.trace")


def assert_nothing_left(program):
    assert tracing.mappings(program.pid) in ([], [4096], [8192])
    assert tracing.changed_bytes(program) == 0
    program.assert_well()


def swapped(program, kind, name, file, tmp_path):
    """gospect's result, when the program was fast enough; else None."""
    before = int(program.ask("done"))
    assert program.ask(f"arm {kind} {name} {file}") == "armed"
    result = trace(program, tmp_path)
    assert program.ask("disarm") == "disarmed"
    return result if int(program.ask("done")) > before else None


def assert_refused(program, kind, name, file, tmp_path):
    """Traced until it was fast enough."""
    refused = 0
    for _ in range(TRIES):
        result = swapped(program, kind, name, file, tmp_path)
        assert file.read_bytes() == SECRET
        refused += result is not None and "replaced the memory file" in result.err
        if refused:
            break
    assert refused > 0, "it was never fast enough"
    assert_nothing_left(program)


@every_file
def test_root_does_not_write_to_a_file_that_the_target_may_not_open(swapper, victim, tmp_path, name):
    assert_refused(swapper, "path", name, victim, tmp_path)


@every_file
def test_root_does_not_write_to_a_file_that_the_target_has_open(swapper, tmp_path, name):
    file = swapper.folder / "own"
    file.write_bytes(SECRET)
    os.chown(file, USER, USER)
    assert_refused(swapper, "open", name, file, tmp_path)


def test_shared_memory_that_the_target_makes_shorter_does_not_kill_gospect(swapper, tmp_path):
    for _ in range(TRIES):
        assert swapper.ask("arm shrink gospect-data /dev/null") == "armed"
        result = trace(swapper, tmp_path, 1)
        assert result.status in (0, 1), result.err
        assert swapper.ask("disarm") == "disarmed"
        if swapper.ask("done") != "0":
            break
    assert swapper.ask("done") != "0", "it was never fast enough"
    assert_nothing_left(swapper)


def test_memory_that_the_target_enlarges_does_no_harm(swapper, tmp_path):
    for name in FILES:
        result = swapped(swapper, "grow", name, "/dev/null", tmp_path)
        assert result is None or result.status in (0, 1), result.err
    assert_nothing_left(swapper)


@pytest.mark.slow
@pytest.mark.time_limit(300)
@every_file
def test_root_does_not_write_to_it_in_many_traces_either(swapper, victim, tmp_path, name):
    for _ in range(60):
        swapped(swapper, "path", name, victim, tmp_path)
        assert victim.read_bytes() == SECRET
    assert_nothing_left(swapper)
