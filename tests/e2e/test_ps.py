"""gospect ps finds Go programs by what they are."""

import os
import shutil
import subprocess

from lib import golang, gospect
from lib.params import every_build
from lib.process import Program


def ps(pid, **kwargs):
    """The lines about a process."""
    text = gospect.run("ps", **kwargs).ok().text
    return [line for line in text.splitlines() if line.split()[:1] == [str(pid)]]


@every_build()
def test_shows_version_and_goroutines(targets, version, mode):
    program = targets.keep("states", version, mode)
    lines = ps(program.pid)
    assert len(lines) == 1
    assert f"go{version}" in lines[0] or version in lines[0].split()
    assert "states" in lines[0]
    assert ("stripped" in lines[0]) == (mode != golang.PLAIN)


def test_counts_goroutines_and_threads(targets):
    program = targets.start("states", args=("-only=chan", "-extra=1234"))
    (line,) = ps(program.pid)
    threads = len(os.listdir(f"/proc/{program.pid}/task"))
    goroutines = len(gospect.dump(program.pid))
    numbers = [int(word) for word in line.split() if word.isdigit()]
    assert goroutines in numbers
    assert threads in numbers


def test_shows_that_a_program_is_position_independent(targets):
    program = targets.keep("states", golang.NEWEST, golang.PIE)
    assert "pie" in ps(program.pid)[0]


def test_finds_a_program_whose_name_says_nothing(targets, tmp_path):
    binary = golang.build("states", golang.NEWEST)
    copy = shutil.copy(binary, tmp_path / "sh")
    program = Program(copy, "-only=chan")
    try:
        assert len(ps(program.pid)) == 1
        program.assert_well()
    finally:
        program.stop()


def test_finds_a_program_whose_file_was_deleted(tmp_path):
    copy = shutil.copy(golang.build("states", golang.NEWEST, golang.STRIPPED), tmp_path / "gone")
    program = Program(copy, "-only=chan")
    try:
        copy.unlink()
        assert len(ps(program.pid)) == 1
        assert len(gospect.dump(program.pid)) > 3
        program.assert_well()
    finally:
        program.stop()


def test_leaves_out_what_is_not_go():
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        assert ps(sleeper.pid) == []
    finally:
        sleeper.kill()
        sleeper.wait()


def test_another_users_program_is_left_out_or_explained(states, run_as_nobody):
    result = run_as_nobody("ps").ok()
    lines = [line for line in result.text.splitlines() if line.split()[:1] == [str(states.pid)]]
    for line in lines:
        assert "denied" in line or "permission" in line.lower() or "root" in line


def test_sudo_is_advised_where_it_helps_alone(states, run_as_nobody):
    assert run_as_nobody("ps").ok().words[-1].endswith("run gospect with sudo")
    (words,) = run_as_nobody("ps", more=("--no-new-privs",)).ok().words
    assert "sudo" not in words and "CAP_SYS_PTRACE" in words
