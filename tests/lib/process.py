"""Starts programs, talks to them, and checks that they are unharmed."""

import contextlib
import ctypes
import os
import pathlib
import select
import signal
import subprocess
import threading
import time

PR_SET_PDEATHSIG = 1
PR_SET_PTRACER = 0x59616D61
PR_SET_PTRACER_ANY = ctypes.c_ulong(-1)

# What a test waits for happens soon, on a machine that has nothing else to do. Where others are at work all is
# slower, so this is no expectation: whoever has waited for so long waits for what does not happen.
SLOWER = int(os.environ.get("GOSPECT_SLOWER", 1))  # tests/arm64/pytest
PATIENCE = 60 * SLOWER

_libc = ctypes.CDLL(None, use_errno=True)


def _in_child():
    """A target dies with the tests; where Yama is strict, it lets itself be read."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    _libc.prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0)


def comm(pid):
    """The name of a process, whatever bytes it is made of."""
    return pathlib.Path(f"/proc/{pid}/comm").read_text(errors="replace").removesuffix("\n")


def status(pid):
    """/proc/PID/status as a dict."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def wait_until(condition, seconds=60, what="it"):
    end = time.monotonic() + seconds * SLOWER
    while not condition():
        assert time.monotonic() < end, f"waited {seconds * SLOWER} s for {what}"
        time.sleep(0.01)


class CpuMeter:
    """How much CPU time a program has used by any moment of the block, also of a recording that began late in it
    because the machine was busy."""

    def __init__(self, program, between=0.01):
        self._program, self._between = program, between
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on_reading)
        self._readings = []  # (time in ns since 1970, CPU seconds)

    def _read(self):
        self._readings.append((time.time_ns(), self._program.cpu_seconds()))

    def _go_on_reading(self):
        while not self._over.wait(self._between):
            self._read()

    def __enter__(self):
        self._read()
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()
        self._read()

    def _at(self, moment):
        for (before, used), (after, later) in zip(self._readings, self._readings[1:]):
            if before <= moment <= after:
                return used + (later - used) * (moment - before) / (after - before)
        raise AssertionError(f"no CPU time was read about {moment}: {self._readings[:1]} to {self._readings[-1:]}")

    def seconds_of(self, profile):
        """While the profile was recorded."""
        return self._at(profile.time_ns + profile.duration_ns) - self._at(profile.time_ns)


@contextlib.contextmanager
def busy_loops(count, sessions=0):
    """So many processes want a processor all the time, the first `sessions` of them in sessions of their own.
    Wherever they are, they end with the tests, also when those are killed."""
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"], preexec_fn=_in_child,
                              start_new_session=i < sessions) for i in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


class Program:
    """A running program of tests/programs. It says "ready PID", then answers lines. session: it has one
    of its own."""

    def __init__(self, binary, *args, env=None, stderr=None, seconds=60, session=False):
        self.binary = pathlib.Path(binary)
        self.process = subprocess.Popen(
            [binary, *map(str, args)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=stderr or subprocess.DEVNULL, env={**os.environ, **(env or {})},
            preexec_fn=_in_child, start_new_session=session)
        self.pid = self.process.pid
        self._buffer = b""
        self._seconds = seconds
        self._began = time.monotonic()
        ready = self.line()
        assert ready == f"ready {self.pid}", f"{self.binary.name} said {ready!r}"
        self.answer = self.ask("check")

    def _fill(self):
        stdout = self.process.stdout
        readable, _, _ = select.select([stdout], [], [], self._seconds * SLOWER)
        assert readable, f"{self.binary.name} has not answered for {self._seconds} s"
        data = os.read(stdout.fileno(), 1 << 16)
        assert data, f"{self.binary.name} ended"
        self._buffer += data

    def line(self):
        while b"\n" not in self._buffer:
            self._fill()
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()

    def bytes(self, count):
        while len(self._buffer) < count:
            self._fill()
        data, self._buffer = self._buffer[:count], self._buffer[count:]
        return data

    def send(self, command):
        self.process.stdin.write(command.encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, command):
        self.send(command)
        return self.line()

    def stack(self):
        """What its own runtime.Stack says."""
        return self.bytes(int(self.ask("stack"))).decode()

    def idle(self):
        """Waits until the goroutine that answers has gone back to its reading."""
        time.sleep(0.1)

    def cpu_seconds(self):
        """The CPU time of all its threads so far, user and system."""
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def age(self):
        """The seconds since it was started."""
        return time.monotonic() - self._began

    def running(self):
        return self.process.poll() is None

    def assert_well(self):
        """Alive, untraced,  not stopped, and still computing what it computed at first."""
        assert self.running(), f"{self.binary.name} died with {self.process.returncode}"
        fields = status(self.pid)
        assert fields["TracerPid"] == "0", "it is being traced"
        assert fields["State"][0] in "RSD", f"it is {fields['State']}"
        answer = self.ask("check")
        assert answer == self.answer, f"it says {answer!r}, not {self.answer!r}"

    def stop(self):
        if self.running():
            self.process.kill()
        self.process.wait(10)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass
