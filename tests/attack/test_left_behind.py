"""However gospect ends, its agent does not stay in the program."""

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import sys
import time

import pytest

from lib import golang, gospect, tracing
from lib.process import Program, status, wait_until
from lib.traced import Tracing

PTRACE_SEIZE = 0x4206
PTRACE_INTERRUPT = 0x4207
PTRACE_DETACH = 17
WALL = 0x40000000
ENDING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGXCPU",
          "SIGVTALRM", "SIGSTKFLT", "SIGPROF", "SIGIO", "SIGPWR", "SIGRTMIN", "SIGRTMAX")

_libc = ctypes.CDLL(None, use_errno=True)


@pytest.fixture
def program(untouched):
    return untouched(tracing.hectic(golang.NEWEST), "-calm", "-only=channels,births,files")


@pytest.fixture(params=("trace", "offcpu"))
def traced(request, program, tmp_path):
    """A gospect that traces the program, which ends by itself after a minute."""
    name = "t.trace" if request.param == "trace" else "t.txt"
    options = ("--by", "request") if request.param == "offcpu" else ()
    process = gospect.start(request.param, "-p", program.pid, "-d", "60", "-o", tmp_path / name,
                            *options)
    wait_until(lambda: tracing.is_patched(program.pid), what="the hooks")
    yield process
    process.kill()
    process.wait()
    process.stdout.close()
    process.stderr.close()


@pytest.mark.parametrize("name", ENDING)
def test_a_signal_that_ends_programs_ends_a_trace_well(program, tmp_path, name):
    """SIGQUIT, SIGALRM and others ended gospect, and left the agent."""
    file = tmp_path / "t.trace"
    process = gospect.start("trace", "-p", program.pid, "-d", "60", "-o", file)
    wait_until(lambda: tracing.is_patched(program.pid), what="the hooks")
    process.send_signal(getattr(signal, name))
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert file.stat().st_size > 0 and not tracing.is_guarded(program.pid)
    tracing.assert_untouched(program)


def test_a_limit_of_the_files_size_ends_a_trace_well(program, tmp_path):
    """SIGXFSZ ended gospect, and left the agent."""
    process = gospect.start("trace", "-p", program.pid, "-d", "60", "-o", tmp_path / "t.trace")
    wait_until(lambda: tracing.is_patched(program.pid), what="the hooks")
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (4096, 4096))
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and b"File too large" in err, err
    tracing.assert_untouched(program)


def test_killed_gospect_leaves_no_agent(program, traced):
    """The agent stayed until somebody ran gospect again."""
    traced.kill()
    traced.wait()
    tracing.assert_cleaned_soon(program)


@contextlib.contextmanager
def crowded(cpu):
    """A busy loop on one CPU, of high priority: what has the lowest gets nothing of it for minutes."""
    loop = subprocess.Popen([sys.executable, "-c", f"import os; os.sched_setaffinity(0, {{{cpu}}}); os.nice(-10)\nwhile True: pass"])
    try:
        yield
    finally:
        loop.kill()
        loop.wait()


def idle_thread(pid):
    """The thread of lowest priority, which decodes; None: it has something urgent to do just now."""
    return next((thread for thread in map(int, os.listdir(f"/proc/{pid}/task"))
                 if os.sched_getscheduler(thread) == os.SCHED_IDLE), None)


@pytest.mark.alone
@pytest.mark.parametrize("traced", ("trace",), indirect=True)
def test_killed_gospect_ends_where_others_want_the_cpu(program, traced):
    """Its thread of the lowest priority had to get a CPU before its files were closed: up to 25 s."""
    wait_until(lambda: idle_thread(traced.pid), what="a thread of the lowest priority")
    cpu = max(os.sched_getaffinity(0))
    with crowded(cpu):
        time.sleep(0.5)
        os.sched_setaffinity(idle_thread(traced.pid), {cpu})
        traced.kill()
        traced.wait(timeout=5)
    tracing.assert_cleaned_soon(program)


def open_files(pid):
    found = []
    for entry in os.scandir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # it has just been closed
            found.append(os.readlink(entry.path))
    return found


def test_nobody_but_gospect_keeps_its_output_open(program, traced):
    """Also while its guardian cannot do its work: a debugger has the program."""
    wait_until(lambda: tracing.guardian(traced.pid), what="the guardian to have its name")
    guardian = tracing.guardian(traced.pid)
    wait_until(lambda: open_files(guardian).count("/dev/null") == 3, what="the guardian to close files")
    kept = open_files(guardian)
    assert sorted(kept) == sorted(3 * ["/dev/null"] + [f"/proc/{program.pid}", next(
        name for name in kept if name.endswith("/mem")), next(
            name for name in kept if name.startswith("socket:"))]), kept
    assert os.getsid(guardian) == guardian
    with debugged(program.pid):
        traced.kill()
        out, err = traced.communicate(timeout=5)
        assert not out, err
        assert tracing.mappings(program.pid)
    tracing.assert_cleaned_soon(program)


class debugged:
    """A debugger has the program's first thread meanwhile, and lets it run."""

    def __init__(self, pid):
        self.pid = pid

    def __enter__(self):
        assert _libc.ptrace(PTRACE_SEIZE, self.pid, 0, 0) == 0

    def __exit__(self, *_):
        assert _libc.ptrace(PTRACE_INTERRUPT, self.pid, 0, 0) == 0
        while True:
            _, stopped = os.waitpid(self.pid, WALL)
            taken = os.WSTOPSIG(stopped) if stopped >> 16 == 0 else 0
            if stopped >> 16 == 128:
                break
            _libc.ptrace(7, self.pid, 0, taken)
        _libc.ptrace(PTRACE_DETACH, self.pid, 0, 0)


def test_failed_removal_is_reported_and_left_to_the_guardian(program, traced):
    with debugged(program.pid):
        traced.send_signal(signal.SIGINT)
        _, err = traced.communicate(timeout=60)
        assert traced.returncode == 1
        text = err.decode()
        assert f"process {os.getpid()}" in text and "keeps trying" in text, text
        assert tracing.mappings(program.pid)
    tracing.assert_cleaned_soon(program)


def test_a_guardian_ends_with_the_program(tmp_path):
    program = Program(tracing.hectic(golang.NEWEST), "-calm", "-only=channels")
    process = tracing.start(program.pid, 60)
    assert _libc.ptrace(PTRACE_SEIZE, program.pid, 0, 0) == 0
    process.kill()
    process.communicate()
    assert tracing.is_guarded(program.pid)
    program.stop()
    wait_until(lambda: not tracing.is_guarded(program.pid), 5, "the guardian's end")


@pytest.mark.parametrize("traced", ("trace",), indirect=True)
def test_no_agent_is_on_ten_seconds_after_all_of_gospects_processes_are_killed(program, traced):
    wait_until(lambda: tracing.is_switched_on(program.pid), what="the agent to be on")
    killed = tracing.kill_all(traced)
    assert len(killed) >= 3, killed  # broker, surgeon, guardian
    wait_until(lambda: not tracing.is_switched_on(program.pid), 10, "the agent to be off")
    program.assert_well()
    assert tracing.clean(program.pid) == "cleaned"
    tracing.assert_untouched(program)


@pytest.mark.parametrize("kinds", ("channels,births", "timers", "files"))
def test_agent_switches_itself_off_when_all_of_gospect_is_killed(untouched, kinds):
    program = untouched(tracing.hectic(golang.NEWEST), "-calm", f"-only={kinds}")
    process = tracing.start(program.pid, 60)
    assert tracing.is_switched_on(program.pid)
    tracing.kill_unguarded(process)
    wait_until(lambda: not tracing.is_switched_on(program.pid), 10, "the agent to be off")
    program.assert_well()
    assert tracing.clean(program.pid) == "cleaned"


def test_agent_resumes_when_gospect_does(program, tmp_path):
    """It was stopped, as a container is paused."""
    traced = Tracing(program.pid, tmp_path / "t.trace").has_begun()
    traced.process.send_signal(signal.SIGSTOP)
    wait_until(lambda: not tracing.is_switched_on(program.pid), 10, "the agent to be off")
    traced.process.send_signal(signal.SIGCONT)
    wait_until(lambda: tracing.is_switched_on(program.pid), what="the agent to be on")
    assert "got no CPU time for seconds, 1 times" in traced.end().err


@pytest.mark.parametrize("point", ("all-stopped", "remote-registers-set", "restored-one"))
def test_sigstop_does_not_stop_the_target_with_gospect(program, point):
    """It cannot be blocked: gospect goes on until it has let go of the target, and stops then."""
    process = tracing.start_until(program.pid, point)
    try:
        wait_until(lambda: status(program.pid)["TracerPid"] == "0", 2, "the target to go on")
        program.assert_well()
        wait_until(lambda: status(process.pid)["State"][0] in "TZ", what="gospect to stop, or end")
    finally:
        process.send_signal(signal.SIGCONT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err


def test_killed_surgeon_leaves_no_agent_and_keeps_the_trace(program, tmp_path):
    file = tmp_path / "t.trace"
    traced = Tracing(program.pid, file).has_begun()
    surgeon = next(int(pid) for pid in os.listdir("/proc") if pid.isdigit()
                   and tracing.is_surgeon_of(int(pid), traced.process.pid))
    os.kill(surgeon, signal.SIGKILL)
    tracing.assert_cleaned_soon(program)
    traced.process.send_signal(signal.SIGINT)
    _, err = traced.process.communicate(timeout=60)
    assert traced.process.returncode == 1 and b"has exited" in err, err
    assert file.stat().st_size > 0
