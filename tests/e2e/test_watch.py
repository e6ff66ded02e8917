"""gospect watch: each incident is caught once, with its files, and nothing but that."""

import os
import re
import signal
import subprocess
import time

import pytest

from lib import golang, gospect, pprof
from lib.params import every_version
from lib.process import wait_until

NAME = re.compile(r"incident(-\d+)?-\d{8}-\d{6}(-\d+)?-(\w+)\.(\w+)\.(txt|html|pb\.gz)$")
UNFINISHED = re.compile(r"\.[0-9a-f]{8}$")


class Watch:
    """A gospect watch of a program as long as the with statement lasts."""

    def __init__(self, folder, *args):
        self.folder = folder
        self.words = ""
        self.errors = open(folder / "words", "wb")
        self.process = gospect.start("watch", "-o", folder / "incident", "--interval", "0.1", *args,
                                     stderr=self.errors)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self, number=signal.SIGINT):
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(30)
        self.process.stdout.close()
        self.errors.close()
        self.words = (self.folder / "words").read_text()
        return status

    def files(self, reason=""):
        found = [path for path in sorted(self.folder.iterdir()) if path.name.startswith("incident")]
        # What is not finished has another name as long as gospect runs, and no longer.
        if self.process.poll() is None:
            found = [path for path in found if not UNFINISHED.search(path.name)]
        assert all(NAME.match(path.name) for path in found), found
        return [path for path in found if reason in path.name]

    def wait_for(self, reason, count=1):
        wait_until(lambda: len(self.files(reason)) >= count, 30, f"{count} files of {reason}")
        return self.files(reason)[-1]


def conditions(*texts):
    return [word for text in texts for word in ("--when", text)]


@every_version([golang.OLDEST, golang.NEWEST])
def test_each_incident_is_caught_once(targets, tmp_path, version):
    program = targets.start("incidents", version)
    all_of = conditions("goroutines > 500", "growth > 300", "lock > 0.6s", "wait /main\\.held/ > 1s",
                        "heap > 300MB", "rss > 300MB")
    with Watch(tmp_path, "-p", program.pid, "--rest", "30s", *all_of) as watch:
        time.sleep(1)
        assert not watch.files()
        program.ask("lock 1500")
        path = watch.wait_for("-lock.")
        first, empty, *rest = path.read_text().splitlines()
        assert re.fullmatch(rf"gospect watch, process {program.pid}: goroutine \d+ has waited for a lock for "
                            r"[\d.]+ s in main\.waitForLock", first)
        assert empty == "" and any("main.waitForLock(" in line for line in rest)
        program.ask("hold 600")
        held = watch.wait_for("-goroutines.").read_text()
        watch.wait_for("-growth.")
        assert held.count("main.held(") >= 600
        waiting = watch.wait_for("-wait.").read_text().splitlines()[0]
        assert "main.held" in waiting and ", and 599 more" in waiting
        program.ask("release")
        program.ask("fill 320")
        watch.wait_for("-heap.")
        watch.wait_for("-rss.")
        program.ask("free")
        time.sleep(0.5)
        assert watch.end() == 0
    reasons = sorted(NAME.match(path.name)[3] for path in watch.files())
    assert reasons == ["goroutines", "growth", "heap", "lock", "rss", "wait"]
    assert re.search(r"\d+ looks, [\d.]+ % of a CPU; 6 incidents", watch.words)


def test_a_goroutine_without_a_p_is_an_incident(targets, tmp_path):
    """300 goroutines want the only P: each gets it for 10 ms in three seconds."""
    program = targets.start("incidents")
    with Watch(tmp_path, "-p", program.pid, *conditions("runnable > 1s")) as watch:
        program.ask("busy 1500")
        assert not watch.files()
        program.send("starve 6000")
        first = watch.wait_for("-runnable.").read_text().splitlines()[0]
        assert re.search(r": goroutine \d+ has been runnable for [\d.]+ s", first), first
        assert program.line() == "ok"


def test_each_action_writes_its_file(targets, tmp_path):
    program = targets.start("incidents", golang.NEWEST)
    actions = ("dump", "record", "waits", "heap", "memory", "why")
    with Watch(tmp_path, program.pid, *conditions("goroutines > 100"), "-d", "0.5",
               *[word for action in actions for word in ("--do", action)]) as watch:
        program.ask("hold 200")
        watch.wait_for(".why.")
        program.ask("release")
    files = {NAME.match(path.name)[4]: path for path in watch.files()}
    assert files.keys() == set(actions)
    assert pprof.read(files["heap"]).samples
    stems = {path.name.split(".")[0] for path in files.values()}
    assert len(stems) == 1
    for action in ("dump", "waits", "memory", "why"):
        text = files[action].read_text()
        assert text.startswith(f"gospect watch, process {program.pid}: there are 20")
    assert "<html" in files["record"].read_text()[:1000]


def test_an_action_that_fails_leaves_the_others(targets, tmp_path):
    program = targets.start("states", golang.NEWEST)
    with Watch(tmp_path, program.pid, *conditions("goroutines > 10"), "--do", "heap", "--do", "dump") as watch:
        watch.wait_for(".dump.")
    assert [NAME.match(path.name)[4] for path in watch.files()] == ["dump"]
    assert "heap: the program keeps no heap profile" in watch.words


def test_only_the_last_incidents_are_kept_and_the_condition_rests(targets, tmp_path):
    program = targets.start("incidents", golang.NEWEST)
    with Watch(tmp_path, program.pid, *conditions("goroutines > 100"), "--rest", "0.4s", "--keep", "2") as watch:
        seen = set()
        for _ in range(4):
            program.ask("hold 200")
            wait_until(lambda: {p.name for p in watch.files()} - seen, 30, "another file")
            seen |= {path.name for path in watch.files()}
            program.ask("release")
            time.sleep(2)
        assert len(watch.files()) == 2
    assert len(seen) >= 4


def test_a_condition_that_stays_true_is_told_once(targets, tmp_path):
    program = targets.start("incidents", golang.NEWEST)
    program.ask("hold 200")
    with Watch(tmp_path, program.pid, *conditions("goroutines > 100", "wait > 0.3s"), "--rest", "0.2s") as watch:
        watch.wait_for("-goroutines.")
        watch.wait_for("-wait.")
        time.sleep(3)
    assert len(watch.files()) == 2


def test_every_process_of_the_host_is_watched(targets, tmp_path):
    programs = [targets.start("incidents", golang.NEWEST), targets.start("incidents", golang.OLDEST)]
    with Watch(tmp_path, "--host", *conditions("wait /main\\.held/ > 0.2s")) as watch:
        time.sleep(2)
        for program in programs:
            program.ask("hold 3")
            watch.wait_for(f"-{program.pid}-")
    # And perhaps those of tests beside this one.
    assert {NAME.match(path.name)[1] for path in watch.files()} >= {f"-{p.pid}" for p in programs}


def test_it_ends_with_the_program(targets, tmp_path):
    program = targets.start("incidents", golang.NEWEST)
    with Watch(tmp_path, program.pid, *conditions("goroutines > 100")) as watch:
        time.sleep(1)
        targets.forget(program).stop()
        assert watch.process.wait(30) == 0
    assert f"process {program.pid} (incidents) has ended" in watch.words


@pytest.mark.parametrize("args,expected", [
    ((), "no condition"), (("--when", "lock > 1s"), "-o NAME"),
    (("--when", "stop > 1ms", "-o", "x"), "needs a trace"), (("--when", "growth > x", "-o", "x"), "growth > 10000"),
    (("--when", "rss > 80%", "-o", "x", "--do", "trace"), "unknown action 'trace'")])
def test_wrong_usage(states, args, expected):
    assert expected in gospect.run("watch", "-p", states.pid, *args).fails(2)


def test_a_trace_refuses_what_it_cannot_see(states, tmp_path):
    line = gospect.run("trace", "-p", states.pid, "--flight", "2s", "--when", "growth > 5", "-o",
                       tmp_path / "x.trace").fails(2)
    assert "use gospect watch" in line


@pytest.mark.slow
def test_memory_is_flat(targets, tmp_path):
    """Goroutines come and go with new stacks all the time; each set of stacks is given up after a while."""
    program = targets.start("churn", golang.NEWEST)
    with Watch(tmp_path, program.pid, *conditions("goroutines > 1000000", "wait > 60m")) as watch:
        def children():
            return subprocess.run(["pgrep", "-P", str(watch.process.pid)], capture_output=True, text=True).stdout.split()

        wait_until(children, 10, "the watcher")
        watcher = int(children()[0])

        def rss():
            return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{watcher}/status").read())[1])
        time.sleep(20)
        before = rss()
        time.sleep(60)
        assert rss() < before + 2000
        assert os.path.exists(f"/proc/{watcher}")
