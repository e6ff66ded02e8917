"""For how long trace stops a program: as gospect says, and as the program sees it.

bench/targets/gaps reads the clock on two threads; others sleep. Beside it runs nothing, or busy loops: two a core.
"""
import contextlib
import os
import subprocess
import tempfile

from .build import Failed, say
from .numbers import spread
from .tracing import Gospect

# Threads that sleep, and whether the machine is busy.
CASES = ((10, False), (10, True), (1000, False), (10000, False))
HOGS = 2
SECONDS = "0.2"


class Gaps:
    def __init__(self, program, sleepers):
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            [program, "-sleepers", str(sleepers)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = int(self.process.stdout.readline().split()[1])
        self.await_threads(sleepers)

    def await_threads(self, count):
        while len(os.listdir(f"/proc/{self.pid}/task")) < count:
            self.longest_ms()

    def longest_ms(self):
        """For how long one of its threads stood still, since this was asked last."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise Failed("gaps ended, see above")
        return int(line) / 1000

    def end(self):
        self.process.kill()
        self.process.communicate()


@contextlib.contextmanager
def hogs(count):
    processes = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def trace(gospect, pid, file):
    """For how long it stopped all threads, at most: ms."""
    command = [gospect, "trace", "-p", str(pid), "-d", SECONDS, "-o", file]
    return Gospect.summary(subprocess.run(command, stderr=subprocess.PIPE, text=True, check=True).stderr)["pause_ms"]


def measure_case(program, gospect, folder, case, rounds):
    sleepers, busy = case
    say(f"pauses: {sleepers} threads that sleep{', a busy machine' if busy else ''}, {rounds} rounds")
    said, seen = [], []
    target = Gaps(program, sleepers)
    try:
        with hogs(HOGS * (os.cpu_count() or 1) if busy else 0):
            for _ in range(rounds):
                target.longest_ms()
                said.append(trace(gospect, target.pid, os.path.join(folder, "t.trace")))
                seen.append(target.longest_ms())
    finally:
        target.end()
    return {"sleepers": sleepers, "busy": busy, "said": spread(said), "seen": spread(seen)}


def measure(programs, quick):
    program = programs.gaps()
    with tempfile.TemporaryDirectory() as folder:
        return [measure_case(program, programs.gospect, folder, case, 5 if quick else 15) for case in CASES]
