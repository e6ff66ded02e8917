"""Starts programs that gospect must not trust, as a user without rights."""

import contextlib
import os
import pathlib
import select
import subprocess
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

    def __init__(self, completed, seconds, usage):
        super().__init__(completed)
        self.seconds = seconds
        self.cpu = usage.ru_utime + usage.ru_stime
        self.resident = usage.ru_maxrss * 1024


def measure(*args, seconds=60):
    """Runs gospect as gospect.run() does; after so many seconds it is killed."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.monotonic()
        process = subprocess.Popen(["timeout", "-s", "KILL", str(seconds), gospect.BINARY,
                                    *map(str, args)], stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        took = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return Measured(subprocess.CompletedProcess(args, process.returncode, out.read(),
                                                    err.read()), took, usage)
