"""`gospect trace` of a program while the test makes that do something."""

import contextlib
import pathlib
import re
import signal

from lib import golang, gospect
from lib.process import PATIENCE, wait_until
from lib.tracing import is_patched

SUMMARY = re.compile(r"gospect: ([\d.]+) s, (\d+) events, (\d+) lost, (\d+) stacks"
                     r".*, the target paused for ([\d.]+) ms at most -> (\S+)")


def incidents(file, reason="*"):
    """The files of the flight `file`, oldest first."""
    found = file.parent.glob(f"{file.stem}-[0-9]*-{reason}{file.suffix}")
    return sorted(found, key=lambda path: path.stat().st_mtime_ns)


class Tracing:
    """gospect traces a program until the block ends."""

    def __init__(self, pid, file, *args):
        self.file = file
        self.process = gospect.start("trace", "-p", pid, "-o", file, *args)
        self.err = ""

    def end(self):
        self.process.send_signal(signal.SIGINT)
        return self.wait()

    def wait(self):
        self.err = self.process.communicate(timeout=PATIENCE)[1].decode()
        assert self.process.returncode == 0, self.err
        found = SUMMARY.search(self.err)
        assert found, self.err
        self.seconds, self.events, self.lost, self.stacks, self.pause = (
            float(found[1]), int(found[2]), int(found[3]), int(found[4]), float(found[5]))
        if "--flight" in self.process.args:
            self.file = self.file.parent / pathlib.Path(found[6]).name
        return self

    def has_begun(self):
        """The hooks are in: all at once, which on a busy machine is long after the agent is."""
        def is_traced():
            assert self.process.poll() is None, self.process.communicate()[1].decode()
            return is_patched(self.process.args[3])

        wait_until(is_traced, what="the hooks")
        return self


@contextlib.contextmanager
def tracing(program, file, *args):
    t = Tracing(program.pid, file, *args).has_begun()
    yield t
    t.end()


EXACT = {  # what a kind of goroutine of `counted` counts, and how a trace shows it
    "sleeper": ("sleeps", "Running->Waiting sleep"),
    "yielder": ("gosched", "Running->Runnable runtime.Gosched"),
    "caller": ("calls", "Running->Syscall"),
    "waiter": ("conds", "Running->Waiting sync.(*Cond).Wait"),
}


def times(g, words):
    return sum(n for key, n in g["events"].items() if key == words)


def assert_as_counted(did, trace, version):
    """The trace has for each goroutine of `counted` what that says it did."""
    goroutines = trace["goroutines"]
    kinds = {goid: counts["kind"] for goid, counts in did.items()}
    for goid, counts in did.items():
        g = goroutines[goid]
        assert times(g, "NotExist->Runnable") == 1, (goid, counts, g)
        assert times(g, "Running->NotExist") == 1, (goid, counts, g)
        if counts["kind"] in EXACT:
            count, words = EXACT[counts["kind"]]
            # One that is signalled between the unlocking in Wait and its parking does not park (sync/cond.go: Wait).
            early = counts[count] // 100 if counts["kind"] == "waiter" else 0
            assert 0 <= counts[count] - times(g, words) <= early, (goid, counts, g["events"])
    assert sum(kind == "child" for kind in kinds.values()) == 1000
    assert not [g for g in goroutines.values() if times(g, "Running->Runnable not traced")]
    for goid, kind in kinds.items():
        name = goroutines[goid]["name"]
        # Go 1.17 does not say what the wrapper of a go statement calls.
        assert name == f"main.{kind}" or (version == golang.OLDEST and "·dwrap·" in name)
