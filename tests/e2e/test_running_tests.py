"""How the tests are run: what they leave behind when they are killed, and what xdist's workers are told."""

import importlib.machinery
import importlib.util
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

from lib import gospect
from lib.process import wait_until

TESTS = gospect.ROOT / "tests"

BEGINS_LOOPS = f"""
import os, pathlib, signal, sys
sys.path[:0] = [{str(TESTS)!r}]
from lib import process
with process.busy_loops(2, sessions=1):
    print(pathlib.Path("/proc/self/task", str(os.getpid()), "children").read_text(), flush=True)
    signal.pause()
"""


def test_busy_loops_end_with_the_tests_that_are_killed():
    tests = subprocess.Popen([sys.executable, "-c", BEGINS_LOOPS], stdout=subprocess.PIPE, text=True)
    loops = [int(pid) for pid in tests.stdout.readline().split()]
    assert len(loops) == 2 and os.getsid(loops[0]) == loops[0] and os.getsid(loops[1]) != loops[1]
    tests.kill()
    tests.communicate()
    wait_until(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in loops), what="their end")


@pytest.fixture(scope="module")
def runner():
    loader = importlib.machinery.SourceFileLoader("tests_run", str(TESTS / "run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tests_run", loader))
    loader.exec_module(module)
    return module


def test_whatever_a_run_began_is_found_in_any_session(runner):
    mine = subprocess.Popen(["sleep", "60"], start_new_session=True,
                            env={**os.environ, runner.MARK: str(os.getpid())})
    others = subprocess.Popen(["sleep", "60"], env={**os.environ, runner.MARK: "1"})
    try:
        wait_until(lambda: (mine.pid, "sleep") in runner.left_behind(), what="its environment")
        assert others.pid not in dict(runner.left_behind())
    finally:
        for process in mine, others:
            process.kill()
            process.wait()


def test_a_run_that_is_ended_ends_its_tests(runner, tmp_path):
    """Those that do not end by themselves are killed."""
    script = f"""
import importlib.machinery, importlib.util, pathlib
loader = importlib.machinery.SourceFileLoader("tests_run", {str(TESTS / "run")!r})
run = importlib.util.module_from_spec(importlib.util.spec_from_loader("tests_run", loader))
loader.exec_module(run)
run.SECONDS_TO_END = 0.5
run.run_all = lambda options, counts: run.Part("deaf", "sh", "-c",
    "trap '' INT; echo $$ >pid; setsid sleep 60; sleep 60").run(counts)
run.ROOT = pathlib.Path({str(tmp_path)!r})
run.main()
"""
    tests = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True)
    pid = tmp_path / "pid"
    wait_until(lambda: pid.exists() and pid.read_text().strip(), what="the test")
    tests.send_signal(signal.SIGTERM)
    _, words = tests.communicate(timeout=60)
    assert tests.returncode == 128 + signal.SIGTERM
    assert sorted(re.findall(r"left behind, and killed: (\w+) ", words)) == ["sh", "sleep"], words
    wait_until(lambda: not pathlib.Path(f"/proc/{int(pid.read_text())}").exists(), what="its end")


def test_workers_that_are_asked_for_their_python_run_tests():
    """`pytest -v` ended in an internal error: tests ran beside the main thread."""
    done = subprocess.run([sys.executable, "-m", "pytest", "-v", "-c", TESTS / "pytest.ini", f"--rootdir={TESTS}",
                           "--numprocesses=1", TESTS / "e2e" / "test_house.py", "-k", "circle_is_found"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and re.search(r"\b1 passed\b", done.stdout), done.stdout + done.stderr


FLAKY = """
import os
def test_needs_a_quiet_machine():
    again = os.path.exists("{folder}/ran")
    open("{folder}/ran", "w")
    assert again
def test_is_wrong():
    assert False
def test_is_right(): pass
"""


@pytest.fixture
def some_tests(runner, tmp_path, monkeypatch):
    """A function that runs these tests as tests/run does, and what failed once more; it gives the counts."""
    (tmp_path / "build").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "pytest.ini").write_text("[pytest]\njunit_family = xunit1\n")
    monkeypatch.setattr(runner, "ROOT", tmp_path)
    monkeypatch.setattr(runner, "TESTS", tmp_path / "tests")

    def run(text):
        (tmp_path / "tests" / "test_it.py").write_text(text)
        counts = runner.Counts()
        runner.pytest("some tests", "some.xml", "tests").run(counts)
        runner.run_again(counts)
        return counts.passed, counts.failed, counts.skipped

    return run


def test_a_test_that_failed_beside_others_runs_again_alone(some_tests, tmp_path, capfd):
    assert some_tests(FLAKY.format(folder=tmp_path)) == (2, 1, 0)
    assert re.findall(r"==== failed beside others, passed alone: (.*)", capfd.readouterr().out) == [
        "tests/test_it.py::test_needs_a_quiet_machine"]


def test_many_that_failed_do_not_run_again(some_tests, runner, tmp_path, capfd):
    many = "".join(f"def test_{i}():\n    assert False\n" for i in range(runner.MOST_AGAIN))
    assert some_tests(FLAKY.format(folder=tmp_path) + many) == (1, runner.MOST_AGAIN + 2, 0)
    assert "once more" not in capfd.readouterr().out


def test_a_unit_test_that_failed_runs_again(runner, tmp_path, monkeypatch):
    """A program with several tests, one of which failed, counts no more than before."""
    (tmp_path / "flaky").write_text(f"#!/bin/sh\necho 1..2; echo ok 1 - one\n[ -e {tmp_path}/ran ] || echo -n 'not '\n"
                                    f"echo ok 2 - two; touch {tmp_path}/ran\n")
    (tmp_path / "flaky").chmod(0o755)
    (tmp_path / "meson.build").write_text(
        "project('gospect')\ntest('flaky', find_program('./flaky'), protocol: 'tap', suite: 'unit')\n"
        "test('true', find_program('true'), suite: 'unit')\n")
    subprocess.run(["meson", "setup", "build"], cwd=tmp_path, check=True, capture_output=True)
    monkeypatch.setattr(runner, "ROOT", tmp_path)
    counts = runner.Counts()
    runner.unit_tests("unit tests", "build").run(counts)
    assert (counts.passed, counts.failed) == (2, 1)
    runner.run_again(counts)
    assert (counts.passed, counts.failed) == (3, 0)
