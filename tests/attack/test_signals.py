"""Signals: ssh drops, timeout(1), Ctrl-\\, limits. None loses a capture or leaves an agent behind.

An older gospect lost a recording to SIGHUP, SIGQUIT and timeout(1), and left its agent in the
target when trace got SIGQUIT, SIGUSR1, SIGALRM or SIGXCPU.
"""

import array
import fcntl
import os
import pathlib
import random
import resource
import signal
import subprocess
import termios
import time

import pytest

from lib import golang, gospect, pprof, terminal, tracing
from lib.params import in_full
from lib.process import Program, status, wait_until

ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGXCPU,
          signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGPROF, signal.SIGRTMIN + 3]


def start(verb, pid, *args, **kwargs):
    process = gospect.start(verb, "-p", pid, *args, **kwargs)
    wait_until(lambda: catches(process.pid, signal.SIGTERM), what="gospect to handle signals")
    return process


def catches(pid, number, field="SigCgt"):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        masks = dict(line.split(":\t") for line in file.read().splitlines() if line[:3] == "Sig")
    return int(masks[field], 16) >> (number - 1) & 1


def end(process, seconds=60):
    err = process.communicate(timeout=seconds)[1].decode()
    return process.returncode, err


@pytest.mark.parametrize("number", ENDING, ids=str)
def test_a_recording_ends_and_is_written(states, number):
    # On a busy machine it may have hardly begun after the first of these.
    for seconds in 0.7, 2, 6:
        process = start("record", states.pid, "-o", "cut.pb.gz")
        time.sleep(seconds)
        process.send_signal(number)
        code, err = end(process)
        assert code == 0, err
        profile = pprof.read(pathlib.Path("cut.pb.gz"))
        assert profile.duration_ns / 1e9 < 20
        if profile.duration_ns / 1e9 > seconds / 4:
            return
    assert False, f"{profile.duration_ns} ns of {seconds} s"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A trace and a recording, for the verbs that read files."""
    folder = tmp_path_factory.mktemp("recorded")
    program = Program(tracing.hectic(golang.NEWEST), "-calm")
    try:
        gospect.run("trace", "-p", program.pid, "-d", "1", "-o", folder / "t.trace").ok()
        gospect.run("record", "--raw", "-p", program.pid, "-d", "0.5", "-o", folder / "raw.pb.gz").ok()
    finally:
        program.stop()
    return folder


VERBS = {
    "ps": [], "doctor": ["-p", "PID"], "dump": ["-p", "PID", "--all"], "stack": ["-p", "PID", "-g", "1"],
    "record": ["-p", "PID", "-d", "60", "-o", "r.pb.gz"], "trace": ["-p", "PID", "-d", "60", "-o", "t.trace"],
    "offcpu": ["-p", "PID", "-d", "60", "--by", "request"],
    "report": ["RECORDED/t.trace"], "symbolize": ["RECORDED/raw.pb.gz"],
    "dump --values": ["-p", "PID", "--values", "--locals"], "waits": ["-p", "PID"], "memory": ["-p", "PID"],
    "why": ["-p", "PID"], "leaks --exact": ["-p", "PID"], "heap --retained": ["-p", "PID"],
    "heap --retained --exact": ["-p", "PID", "-o", "h.hprof"],
    "record --children": ["-p", "PID", "-d", "60", "-o", "r.pb.gz"],
    "watch": ["-p", "PID", "-o", "w", "--when", "goroutines > 1000000"],
    "push": ["-p", "PID", "--to", "pyroscope", "http://127.0.0.1:9", "--spool", "spool"],
    "serve": ["-p", "PID", "--listen", "127.0.0.1:0"],
    "trace --cpu": ["-p", "PID", "-d", "60", "-o", "t.pftrace"],
}
QUICK = ("ps", "doctor", "dump", "stack", "record", "trace", "offcpu", "report", "symbolize", "watch", "leaks --exact")


@pytest.mark.parametrize("verb", [verb if verb in QUICK else pytest.param(verb, marks=pytest.mark.slow)
                                  for verb in VERBS])
def test_every_verb_obeys_a_signal_at_any_time(untouched, recorded, verb):
    """Before it handles signals, while it parses, attaches, records or writes."""
    program = untouched(tracing.hectic(golang.NEWEST), "-calm", "-only=channels,births")
    args = [a.replace("PID", str(program.pid)).replace("RECORDED", str(recorded)) for a in VERBS[verb]]
    chance = random.Random(verb)
    for i in range(in_full(20, 7)):
        process = gospect.start(*verb.split(), *args)
        time.sleep(chance.random() ** 2 * 0.5)
        process.send_signal((signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[i % 3])
        end(process, 5)  # longer is an error
        tracing.assert_cleaned_soon(program)


@pytest.mark.parametrize("number", ENDING, ids=str)
def test_a_trace_ends_is_written_and_leaves_the_target(untouched, number):
    program = untouched(golang.build("counted", golang.NEWEST))
    process = start("trace", program.pid, "-o", "cut.trace")
    wait_until(lambda: tracing.is_patched(program.pid))
    program.ask("work")
    process.send_signal(number)
    code, err = end(process)
    assert code == 0, err
    assert os.path.getsize("cut.trace") > 1000
    tracing.assert_untouched(program)


@pytest.mark.parametrize("verb, name", [("record", "x.folded"), ("trace", "x.trace")])
def test_timeout_signals_twice_and_nothing_is_lost(states, verb, name):
    """First the process, then its group."""
    # On a busy machine it may not have begun by then.
    for seconds in "2", "8", "30":
        done = subprocess.run(["timeout", seconds, gospect.BINARY, verb, "-p", str(states.pid), "-d", "100",
                               "-o", name], capture_output=True, text=True, timeout=60)
        if os.path.exists(name):
            break
    assert done.returncode == 124 and os.path.getsize(name) > 100, done.stderr


def test_signals_within_a_second_count_as_one(states):
    process = start("record", states.pid, "-o", "cut.folded")
    gospect.await_recording(process)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        process.send_signal(number)
        time.sleep(0.01)
    code, err = end(process)
    assert code == 0 and os.path.exists("cut.folded"), err


def waiting_bytes(pipe):
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_later_signal_aborts_and_says_so(states, number):
    """Writing waits for a reader who never reads."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    process = start("record", states.pid, "-f", "html")
    wait_until(lambda: status(process.pid)["Seccomp"] == "2", 30, "gospect to be confined")
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    wait_until(lambda: waiting_bytes(process.stdout) > 32768, 30, "the pipe to be full")
    time.sleep(1.2)
    assert process.poll() is None
    process.send_signal(number)
    assert process.wait(5) == -number
    assert b"aborted by a second signal" in process.stderr.read()
    process.stdout.close()
    process.stderr.close()


def test_a_recording_that_nohup_started_goes_on(states):
    process = subprocess.Popen(
        ["nohup", gospect.BINARY, "record", "-p", str(states.pid), "-d", "2", "-o", "x.pb.gz"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wait_until(lambda: catches(process.pid, signal.SIGTERM))
    process.send_signal(signal.SIGHUP)
    code, err = end(process)
    assert code == 0, err
    assert pprof.read(pathlib.Path("x.pb.gz")).duration_ns > 1.9e9


@pytest.mark.parametrize("verb, args, name", [("record", ("-f", "html"), "x.html"),
                                              ("trace", ("--max-size", "8"), "x.trace")])
def test_a_limit_of_file_size_is_an_error_in_words(untouched, verb, args, name):
    program = untouched(golang.build("hectic", golang.NEWEST))
    process = gospect.run(verb, "-p", program.pid, "-d", "1", *args, "-o", name,
                          prefix=("prlimit", "--fsize=8192"))
    assert process.status == 1 and "File too large" in process.err, process.err
    tracing.assert_untouched(program)


def test_a_reader_that_leaves_is_an_error_in_words(states):
    reader, writer = os.pipe()
    os.close(reader)
    result = gospect.run("record", "-p", states.pid, "-d", "0.3", stdout=writer)
    os.close(writer)
    assert result.status == 1 and "Broken pipe" in result.err, result.err


def test_a_dump_into_a_file_outlives_the_terminal(targets):
    program = targets.start("crowd", args=("-goroutines", "100000"))
    process = start("dump", program.pid, "-o", "all.txt")
    process.send_signal(signal.SIGHUP)
    code, err = end(process)
    assert code == 0, err
    with open("all.txt", encoding="utf-8") as file:
        assert sum(line.startswith("goroutine ") for line in file) > 100000


@pytest.mark.skipif(terminal.why_not() is not None, reason="tmux is not installed")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGSEGV,
                                    signal.SIGABRT, signal.SIGBUS], ids=str)
def test_top_gives_the_terminal_back(states, number):
    """By a signal that ends it, and by one of a crash."""
    with terminal.Terminal("sh", "-c", f"ulimit -c 0; '{gospect.BINARY}' top -p {states.pid}; "
                           "code=$?; stty -a | grep -o '.icanon'; exit $code") as t:
        t.wait_for("goroutines")
        shell = t.pid
        top = subprocess.run(["pgrep", "-P", str(shell)], capture_output=True, text=True,
                             check=True).stdout.split()[0]
        os.kill(int(top), number)
        crashed = number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS)
        assert t.status() == (128 + number if crashed else 0)
        screen = t.screen()
        assert " icanon" in screen and "-icanon" not in screen, screen
