"""`-- COMMAND`: gospect runs between a command and its parent, and changes nothing for either.

A command of an older gospect inherited that SIGPIPE is ignored, and neither heard a signal that
docker or systemd sent nor let gospect end by it.
"""

import os
import pty
import re
import signal
import subprocess
import time

import pytest

from lib import golang, gospect, tracing
from lib.process import wait_until

FILES = {"record": "x.folded", "trace": "x.trace"}
VERBS = pytest.mark.parametrize("verb", FILES)

LOOK = """
grep -E '^(Sig(Blk|Ign)|Cpus_allowed):' /proc/self/status
cat /proc/self/oom_score_adj
for fd in /proc/self/fd/*; do echo fd ${fd##*/}; done
ulimit -a
ulimit -aH
cut -d' ' -f18,19,40,41 /proc/self/stat
"""


def run(verb, *command, **kwargs):
    return gospect.start(verb, "-d", "0.5", "-o", FILES[verb], "--", *command, **kwargs)


def begun(process):
    line = process.stdout.readline()
    assert re.fullmatch(rb"ready \d+\n", line), line
    return int(line.split()[1])


def await_begin(pid, verb, command):
    """Until gospect records the command, or traces it."""
    wait_until(lambda: gospect.is_recording(pid) if verb == "record" else tracing.is_patched(command),
               what="gospect to begin")


@VERBS
def test_a_command_has_what_gospect_was_given(verb):
    binary = golang.build("split", golang.NEWEST)
    done = gospect.run(verb, "-d", "0.3", "-o", FILES[verb], "--", "sh", "-c",
                       f"{LOOK}\nexec '{binary}' -for=500ms")
    assert done.status == 3, done.err
    alone = subprocess.run(["sh", "-c", LOOK], stdin=subprocess.DEVNULL, capture_output=True,
                           text=True, check=True)
    assert done.text.partition("ready")[0] == alone.stdout


@VERBS
def test_a_command_dies_of_a_closed_pipe_as_without_gospect(verb):
    binary = golang.build("split", golang.NEWEST)
    script = f"yes | head -1; echo ${{PIPESTATUS[0]}}; exec '{binary}' -for=500ms"
    done = gospect.run(verb, "-d", "0.3", "-o", FILES[verb], "--", "bash", "-c", script)
    assert done.text.splitlines()[:2] == ["y", str(128 + signal.SIGPIPE)]


@VERBS
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=str)
@pytest.mark.parametrize("moment", ["during", "after"])
def test_a_signal_ends_the_command_too(verb, number, moment):
    """Once, and its exit status is gospect's."""
    process = gospect.start(verb, "-d", "0.5" if moment == "after" else "60", "-o", FILES[verb],
                            "--", golang.build("ending", golang.NEWEST))
    command = begun(process)
    if moment == "after":
        wait_until(lambda: os.path.exists(FILES[verb]), 30, "the recording to be written")
    else:
        await_begin(process.pid, verb, command)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 41, (process.returncode, out, err)
    assert os.path.getsize(FILES[verb]) > 0


@VERBS
def test_a_command_that_goes_on_does_not_hold_gospect(verb):
    process = run(verb, golang.build("ending", golang.NEWEST), "-stay")
    pid = begun(process)
    try:
        wait_until(lambda: os.path.exists(FILES[verb]), 30, "the recording to be written")
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == b"terminated\n"
        time.sleep(1.2)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == -signal.SIGTERM
    finally:
        os.kill(pid, signal.SIGKILL)
    assert b"second signal; the command continues" in process.communicate(timeout=60)[1]


@VERBS
def test_the_terminals_interrupt_reaches_the_command_once(verb):
    binary = golang.build("ending", golang.NEWEST)
    pid, tty = pty.fork()
    if not pid:
        os.execv(gospect.BINARY, ["gospect", verb, "-o", FILES[verb], "--", binary])
    said = b""
    while not re.search(rb"ready \d+\s", said):
        said += os.read(tty, 10000)
    await_begin(pid, verb, int(re.search(rb"ready (\d+)", said)[1]))
    os.write(tty, b"\x03")
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code == 41, os.read(tty, 10000)
    os.close(tty)
    assert os.path.getsize(FILES[verb]) > 0


def test_a_signal_while_a_command_becomes_go_ends_it():
    process = gospect.start("record", "-o", "x.folded", "--", "sleep", "30")
    wait_until(lambda: subprocess.run(["pgrep", "-P", str(process.pid)],
                                      capture_output=True, check=False).stdout)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and b"not a Go program" in err, err
