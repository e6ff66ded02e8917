"""gospect ps finds Go programs by what they are."""

import json
import os
import re
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


def test_json_has_what_the_table_has(states):
    rows = json.loads(gospect.run("ps", "-f", "json").ok().text)
    (row,) = [row for row in rows if row["pid"] == states.pid]
    (line,) = ps(states.pid)
    assert row["name"] == "states" and row["go_version"] == line.split()[1] and row["problem"] == ""
    assert str(row["goroutines"]) in line and str(row["threads"]) in line and row["command"] in line


def test_a_user_who_may_not_read_a_process_is_told_which_and_why(states, run_as_nobody):
    with subprocess.Popen(["sleep", "100"]) as process:
        try:
            rows = json.loads(run_as_nobody("ps", "-f", "json").ok().text)
        finally:
            process.kill()
    (row,) = [row for row in rows if row["pid"] == process.pid]
    assert row["name"] == "sleep" and "belongs to root" in row["problem"] and "run gospect" in row["problem"]
    words = run_as_nobody("ps").ok().words
    assert any(re.match(r"gospect: cannot read \d+ \(.*\).*: permission denied: it belongs to root", line) for line in words)


def test_sudo_is_advised_where_it_helps_alone(states, run_as_nobody):
    assert run_as_nobody("ps").ok().words[-1].endswith("with sudo")
    words = run_as_nobody("ps", more=("--no-new-privs",)).ok().words[-1]
    assert "sudo" not in words and "CAP_SYS_PTRACE" in words


def test_numbers_of_json_have_the_digits_that_they_have(states, tmp_path):
    text = gospect.run("dump", states.pid, "-f", "json").ok().text
    seconds = re.findall(r'"wait_seconds": ?([\d.e-]+)', text)
    assert seconds and all(len(number.replace(".", "").lstrip("0")) <= 9 for number in seconds), seconds
    gospect.run("record", states.pid, "-d", "200ms", "-o", tmp_path / "p.pb.gz").ok()
    text += gospect.run("report", tmp_path / "p.pb.gz", "--by", "func", "-f", "json").ok().text
    assert "/" in text and "\\/" not in text
