"""Starts programs that gospect must not trust, as a user without rights."""

import contextlib
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import time

import pytest

from lib import gospect
from lib.process import _in_child

NOBODY = 65534
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to run a target as nobody")


def _ready(process):
    readable, _, _ = select.select([process.stdout], [], [], 30)
    assert readable, "the hostile program is not ready"
    assert process.stdout.readline() == f"ready {process.pid}\n".encode()


@contextlib.contextmanager
def running(*command, ready=True):
    """The pid of a program that runs as nobody; it ends with the block."""
    process = subprocess.Popen(
        list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, user=NOBODY, group=NOBODY, extra_groups=[],
        preexec_fn=_in_child)
    try:
        if ready:
            _ready(process)
        yield process.pid
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextlib.contextmanager
def folder(where="/tmp"):
    """A new directory that others may not enter."""
    with tempfile.TemporaryDirectory(dir=where) as path:
        os.chmod(path, 0o755)
        yield pathlib.Path(path)


class Measured(gospect.Result):
    """The answer of gospect, and its cost: seconds, CPU seconds, peak resident bytes."""

    def __init__(self, result, seconds, cpu, resident):
        self.status, self.out, self.err = result.status, result.out, result.err
        self.seconds, self.cpu, self.resident = seconds, cpu, resident


# A child's peak of memory begins with that of the process that it was forked from: so that one is small.
MEASURE = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[2:]).returncode
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(sys.argv[1], "w") as file:
    print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss, file=file)
sys.exit(status)
"""


def measure(*args, seconds=60):
    """Runs gospect as gospect.run() does; after so many seconds it is killed."""
    with tempfile.NamedTemporaryFile(mode="r") as usage:
        start = time.monotonic()
        result = gospect.run(*args, seconds=seconds + 60, prefix=(
            sys.executable, "-c", MEASURE, usage.name, "timeout", "-s", "KILL", str(seconds)))
        took = time.monotonic() - start
        cpu, resident = usage.read().split()
    return Measured(result, took, float(cpu), int(resident) * 1024)
