"""A part of gospect that hangs, by a target that it does not get to the end of or because somebody stopped it, does
not keep the others from ending.

An older gospect waited for ever, and a signal did not end it: `watch` for a watcher, `serve` for its HTTP process.
"""

import contextlib
import os
import pathlib
import signal
import time

import pytest

from lib import gospect, process
from lib.process import wait_until
from lib.served import Served


def children(pid):
    text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: process.status(pid)["State"].startswith("T"), what="it to be stopped")
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("number", (signal.SIGINT, signal.SIGTERM), ids=str)
def test_a_watcher_that_hangs_does_not_hold_watch_up(states, tmp_path, number):
    watch = gospect.start("watch", states.pid, "-o", tmp_path / "w", "--when", "goroutines > 1000000")
    wait_until(lambda: children(watch.pid), what="a watcher")
    watcher, = children(watch.pid)
    wait_until(lambda: process.status(watcher)["Seccomp"] == "2", what="it to be confined")
    with stopped(watcher):
        watch.send_signal(number)
        began = time.monotonic()
        err = watch.communicate(timeout=60)[1].decode()
        took = time.monotonic() - began
    assert watch.returncode == 0 and "that took too long" in err, err
    assert 4 < took < 20
    assert not pathlib.Path(f"/proc/{watcher}").exists()


def serving(server, name):
    """The process of that name, once it is there."""
    def find():
        return [pid for pid in children(server.process.pid) if process.comm(pid) == name]
    wait_until(find, what=name)
    return find()[0]


def test_an_http_process_that_hangs_does_not_hold_serve_up(states):
    server = Served("-p", states.pid)
    front = serving(server, "gospect-http")
    with stopped(front):
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < 20
    assert not pathlib.Path(f"/proc/{front}").exists()


@pytest.mark.slow
@pytest.mark.time_limit(200)
def test_a_worker_of_the_history_that_hangs_is_replaced(states):
    with Served("-p", states.pid) as server:
        worker = serving(server, "gospect-watch")
        with stopped(worker):
            wait_until(lambda: not pathlib.Path(f"/proc/{worker}").exists(), 150, "its end")
            assert serving(server, "gospect-watch") != worker
