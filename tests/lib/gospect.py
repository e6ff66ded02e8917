"""Runs gospect."""

import json
import os
import pathlib
import signal
import subprocess

from lib import traceback
from lib.process import PATIENCE, SLOWER, _in_child, wait_until

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = pathlib.Path(os.environ.get("GOSPECT", ROOT / "build" / "gospect"))
# For a recording that is to look at each goroutine at each tick, on a slow machine too.
BUDGET = ("--budget", "5")


class Result:
    def __init__(self, completed):
        self.status = completed.returncode
        self.out = completed.stdout
        self.err = completed.stderr.decode(errors="replace")

    @property
    def text(self):
        return self.out.decode()

    @property
    def words(self):
        """The lines on standard error; each has to begin with "gospect: "."""
        lines = self.err.splitlines()
        strange = [line for line in lines if not line.startswith("gospect: ")]
        assert not strange, f"standard error has lines of no origin: {strange}"
        return lines

    def ok(self):
        assert self.status == 0, f"exit status {self.status}: {self.err}"
        return self

    def fails(self, expected):
        """It failed with that status, said so in one line, and wrote no data."""
        assert self.status == expected, f"exit status {self.status}, not {expected}: {self.err!r}"
        assert len(self.words) == 1, f"not one line: {self.err!r}"
        assert self.out == b"", f"wrote {self.out[:200]!r}"
        return self.words[0]


def run(*args, seconds=60, prefix=(), binary=BINARY, stdout=subprocess.PIPE, **kwargs):
    """Runs gospect to its end. A negative status is the signal that killed it."""
    command = [*prefix, binary, *map(str, args)]
    completed = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=stdout,
                               stderr=subprocess.PIPE, timeout=seconds * SLOWER, **kwargs)
    return Result(completed)


def start(*args, prefix=(), **kwargs):
    kwargs.setdefault("stdout", subprocess.PIPE)
    kwargs.setdefault("stderr", subprocess.PIPE)
    return subprocess.Popen([*map(str, prefix), BINARY, *map(str, args)], stdin=subprocess.DEVNULL,
                            preexec_fn=_in_child, **kwargs)


def _samples(pid):
    """Whether a process has events by which the kernel samples threads."""
    for fd in pathlib.Path(f"/proc/{pid}/fd").glob("*"):
        try:
            if "perf_event" in os.readlink(fd):
                return True
        except OSError:  # it is closed by now
            pass
    return False


def _and_children(pid):
    yield pid
    try:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:  # it has ended
        return
    for child in children:
        yield from _and_children(int(child))


def is_recording(pid, count=1):
    """Whether that gospect has opened the events of so many programs, which is the last before a recording begins.
    For what samples, where the kernel permits such events."""
    return sum(map(_samples, _and_children(pid))) >= count


def await_recording(process, count=1):
    """Until it is recording, or has ended."""
    wait_until(lambda: process.poll() is not None or is_recording(process.pid, count), what="the recording to begin")


def record_cpu(program, path, *args, seconds=1):
    """Records a program until it has used so many seconds of CPU time meanwhile, however long others keep it from
    the processors."""
    process = start("record", "-p", program.pid, "-d", 100, "-o", path, *args)
    await_recording(process)
    used = program.cpu_seconds() + seconds
    wait_until(lambda: process.poll() is not None or program.cpu_seconds() >= used, 100, f"{seconds} s of CPU time")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    return Result(subprocess.CompletedProcess(process.args, process.returncode, out, err))


def dump(pid, *args, **kwargs):
    """The goroutines of a dump, parsed."""
    result = run("dump", "-p", pid, *args, **kwargs).ok()
    return traceback.parse(result.text)


def dump_json(pid, *args, **kwargs):
    return json.loads(run("dump", "-p", pid, "-f", "json", *args, **kwargs).ok().text)
