"""Events that a trace loses in a burst:  tests/programs/burst, on a quiet machine and on a busy one.

Busy: four processes of other sessions use the CPUs, or two of other sessions and two of gospect's own, and the
program has precedence.
"""
import contextlib
import os
import pathlib
import subprocess
import tempfile
import time

from .build import say
from .tracing import Gospect

ROUNDS = 100000  # 1.2 million events
HOGS = 4
# Of them, in sessions of their own; None: there are no hogs.
CASES = (None, 4, 2)
PAUSE = 0.3


class Burst:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        start_new_session=True)
        self.pid = int(self.process.stdout.readline().split()[1])

    def burst(self):
        self.process.stdin.write(f"burst {ROUNDS}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def end(self):
        self.process.stdin.close()
        self.process.wait()


@contextlib.contextmanager
def crowd(program, others):
    hogs = [subprocess.Popen(["sh", "-c", "while :; do :; done"], start_new_session=i < others)
            for i in range(HOGS if others is not None else 0)]
    if hogs:
        with contextlib.suppress(OSError), open(f"/proc/{program.pid}/autogroup", "w", encoding="ascii") as group:
            group.write("-20")
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def await_agent(program):
    """On a busy machine gospect takes a while to attach."""
    while "memfd:gospect" not in pathlib.Path(f"/proc/{program.pid}/maps").read_text(encoding="utf-8"):
        time.sleep(PAUSE)


def measure_case(program, gospect, folder, others, bursts):
    busy = others is not None
    say(f"bursts: {bursts}{f', {HOGS} busy processes, {others} of other sessions' if busy else ''}")
    target, tracer = Burst(program), Gospect(gospect, folder)
    try:
        with crowd(target, others):
            tracer.start(target)
            await_agent(target)
            for _ in range(bursts):
                time.sleep(PAUSE)
                target.burst()
            found = tracer.stop(target)
    finally:
        target.end()
    return {"busy": busy, "others": others, "bursts": bursts, "events": int(found["events"]), "lost": int(found["lost"])}


def measure(programs, quick):
    program = programs.burst()
    with tempfile.TemporaryDirectory(dir=programs.made) as folder:
        return [measure_case(program, programs.gospect, folder, others, 3 if quick else 10)
                for others in CASES]
