"""One gospect for a process at a time, whoever and wherever the others are.

An older gospect bound a socket for that: any user could do so first, and two gospects in different
namespaces took out each other's agent without a word.
"""

import os
import pathlib
import signal
import subprocess

import pytest

from lib import container, golang, gospect, tracing
from lib.nobody import COMMAND, Hostile
from lib.params import in_full
from lib.process import Program, wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root enters namespaces")

HECTIC = ("-calm", "-only=channels,births,files,garbage")
SQUATTER = """
import os, socket, sys, time
name, start = sys.argv[1], sys.argv[2]
held = socket.socket(socket.AF_UNIX)
held.bind(f"\\0gospect-trace-{os.stat('/proc/self/ns/pid').st_ino}-{name}-{start}")
print("bound", flush=True)
time.sleep(60)
"""


needs_namespaces = pytest.mark.skipif(bool(container.why_not()), reason=str(container.why_not()))


def trace_command(pid, seconds, path):
    return [str(gospect.BINARY), "trace", "-p", str(pid), "-d", str(seconds), "-o", str(path)]


def start_trace(pid, seconds, path, prefix=()):
    return subprocess.Popen([*prefix, *trace_command(pid, seconds, path)], text=True,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@pytest.fixture
def hectic(untouched):
    return untouched(tracing.hectic(golang.NEWEST), *HECTIC)


class Nested(Program):
    """A program that is process 1 of a pid namespace, with a /proc of its own. `pid` is ours."""

    def __init__(self, binary, *args):
        self.binary, self._buffer, self._seconds = binary, b"", 60
        self.process = subprocess.Popen(
            ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", binary, *args],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.line() == "ready 1"
        self.pid = next(container.descendants(self.process.pid))
        self.answer = self.ask("check")

    def beside(self, *command):
        """The command, to run in its namespaces, and in a network of its own."""
        return ["nsenter", "-t", str(self.pid), "-p", "-m", "unshare", "-n", *map(str, command)]


@pytest.fixture
def nested():
    program = Nested(tracing.hectic(golang.NEWEST), *HECTIC)
    yield program
    try:
        tracing.assert_untouched(program)
    finally:
        program.stop()


def test_a_socket_of_a_stranger_forbids_nothing(hectic, tmp_path):
    start = pathlib.Path(f"/proc/{hectic.pid}/stat").read_text().rpartition(")")[2].split()[19]
    stranger = subprocess.Popen([*COMMAND, "/usr/bin/python3", "-c", SQUATTER, str(hectic.pid), start],
                                stdout=subprocess.PIPE)
    try:
        assert stranger.stdout.readline() == b"bound\n"
        gospect.run("trace", "-p", hectic.pid, "-d", 0.1, "-o", tmp_path / "o.trace").ok()
    finally:
        stranger.kill()
        stranger.communicate()


@needs_namespaces
def test_a_gospect_beside_the_program_sees_the_one_on_the_host(nested):
    outer = tracing.start(nested.pid, 60)
    try:
        inner = subprocess.run(nested.beside(tracing.PROBE, 1, 0.1), capture_output=True, text=True,
                               timeout=60)
        assert f"process {outer.pid} of another pid namespace" in inner.stderr
        assert inner.returncode == 1
    finally:
        outer.send_signal(signal.SIGINT)
        _, error = outer.communicate(timeout=60)
    assert outer.returncode == 0, error


@needs_namespaces
def test_a_gospect_on_the_host_sees_the_one_beside_the_program(nested, tmp_path):
    path = tmp_path / "inner.trace"
    inner = subprocess.Popen(nested.beside(*trace_command(1, 4, path)), text=True,
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wait_until(lambda: tracing.is_patched(nested.pid))
    for _ in range(3):
        assert "of another pid namespace" in tracing.probe(nested.pid, 0.1).refused()
    assert tracing.is_patched(nested.pid)
    _, error = inner.communicate(timeout=60)
    assert inner.returncode == 0, error


@pytest.mark.parametrize("attempt", range(in_full(3, 1)))
def test_one_of_many_concurrent_traces_wins(hectic, tmp_path, attempt):
    traces = [start_trace(hectic.pid, 3, tmp_path / f"{i}.trace") for i in range(6)]
    errors = [process.communicate(timeout=60)[1] for process in traces]
    won = [process for process in traces if process.returncode == 0]
    lost = [error for process, error in zip(traces, errors) if process.returncode]
    assert len(won) == 1, errors
    assert all("is traced by" in error or "is already traced by" in error for error in lost), lost
    hectic.assert_well()


def test_a_killed_gospect_holds_nothing(hectic, tmp_path):
    for _ in range(3):
        process = tracing.start(hectic.pid, 60)
        process.kill()
        process.wait()
        gospect.run("trace", "-p", hectic.pid, "-d", 0.1, "-o", tmp_path / "o.trace").ok()


def test_a_program_that_says_it_is_being_traced_is_not_traced(tmp_path):
    program = Hostile(golang.build("forger", golang.NEWEST), "claim")
    try:
        failed = gospect.run("trace", "-p", program.pid, "-d", 0.1, "-o",
                             tmp_path / "o.trace").fails(1)
        assert "process 4711 of another pid namespace" in failed
        program.assert_well()
    finally:
        program.stop()


def disown(pid):
    """Takes the number out of the page by which a gospect says that it traces the process."""
    line = next(line for line in tracing.maps(pid) if "gospect-claim" in line[-1])
    with open(f"/proc/{pid}/map_files/{line[0]}", "r+b", 0) as page:
        page.write(bytes(4))


def test_removed_agent_is_reported_and_the_trace_kept(hectic, tmp_path):
    path = tmp_path / "first.trace"
    first = start_trace(hectic.pid, 3, path)
    wait_until(lambda: tracing.is_patched(hectic.pid))
    wait_until(lambda: path.with_name("first.trace.partial").exists())
    disown(hectic.pid)
    gospect.run("trace", "-p", hectic.pid, "-d", 0.1, "-o", tmp_path / "second.trace").ok()
    _, error = first.communicate(timeout=60)
    assert first.returncode == 1 and "removed it" in error, error
    assert path.stat().st_size > 1000


def test_the_gospect_that_is_named_is_the_one_that_was_started(hectic, tmp_path):
    """And not a process of its own that holds the claim."""
    first = start_trace(hectic.pid, 30, tmp_path / "first.trace")
    try:
        wait_until(lambda: tracing.is_patched(hectic.pid))
        assert f"already traced by gospect process {first.pid};" in tracing.probe(hectic.pid, 0.1).refused()
    finally:
        first.send_signal(signal.SIGINT)
        _, error = first.communicate(timeout=60)
    assert first.returncode == 0, error
