"""gospect record of several processes: one profile, in which each process has its labels."""

import collections
import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

from lib import golang, gospect, pprof
from lib.process import Program, wait_until

STAGES = ("main.stageSleep", "main.stageChannel", "main.stageMutex")
VERSIONS = (golang.OLDEST, golang.NEWEST)


@pytest.fixture
def started(tmp_path_factory):
    """Starts programs that have names of their own."""
    folder, programs = tmp_path_factory.mktemp("named"), []

    def start(name, program="split", version=golang.NEWEST, args=()):
        binary = shutil.copy(golang.build(program, version), folder / name)
        programs.append(Program(binary, *args))
        return programs[-1]

    start.programs = programs
    yield start
    for program in programs:
        program.assert_well()
        program.stop()


def of(profile, pid):
    """The profile of one process in a profile of several."""
    samples = [s for s in profile.samples if s.labels.get("pid") == str(pid)]
    return collections.namedtuple("Part", "samples time")(
        samples, lambda func: sum(s.values["wall"] for s in samples if func in s.stack))


def record(path, *args, seconds=2, budget=gospect.BUDGET):
    result = gospect.run("record", *args, "-d", seconds, *budget, "-o", path, seconds=seconds + 60).ok()
    assert result.out == b""
    return result.words


def targets_of(programs):
    return [arg for program in programs for arg in ("-p", program.pid)]


def spent(programs):
    return [json.loads(program.ask("times")) for program in programs]


def split(time_of):
    times = {stage: time_of(stage) for stage in STAGES}
    return {stage: times[stage] / sum(times.values()) for stage in STAGES}


def test_each_process_has_its_own_time_and_that_of_a_recording_of_it_alone(started, tmp_path):
    count = 5
    versions = [VERSIONS[i % len(VERSIONS)] for i in range(count)]
    programs = [started(f"split-{i}", version=v) for i, v in enumerate(versions)]
    before, began = spent(programs), time.monotonic()
    words = record(tmp_path / "all.pb.gz", *targets_of(programs), seconds=4)
    after, passed = spent(programs), time.monotonic() - began
    assert f"{count} processes" in words[-1]
    together = pprof.read(tmp_path / "all.pb.gz")
    # From the first begin to the last end.
    assert 3.99e9 <= together.duration_ns <= passed * 1e9
    assert {s.labels["pid"] for s in together.samples} == {str(p.pid) for p in programs}
    path_of = [tmp_path / f"alone-{i}.pb.gz" for i in range(count)]
    recordings = [gospect.start("record", "-p", program.pid, "-d", 2, *gospect.BUDGET, "-o", path)
                  for program, path in zip(programs, path_of)]
    for recording in recordings:
        _, words = recording.communicate(timeout=60)
        assert recording.returncode == 0, words
    for i, program in enumerate(programs):
        alone = pprof.read(path_of[i])
        part = of(together, program.pid)
        assert {s.labels["command"] for s in part.samples} == {f"split-{i}"}
        assert split(part.time) == pytest.approx(split(lambda f: after[i][f] - before[i].get(f, 0)), abs=0.06)
        for func in ("main.waitForever", "main.readForever"):
            assert part.time(func) / together.duration_ns == pytest.approx(
                alone.time_in(func) / alone.duration_ns, rel=0.03), func
        assert {s.labels.get("worker") for s in part.samples} == {s.labels.get("worker") for s in alone.samples}
        assert {m[2:] for m in alone.mappings} <= {m[2:] for m in together.mappings}


def test_host_is_all_go_processes_and_no_other(started, tmp_path):
    one, two = started("host-one", "states", args=("-only=chan",)), started("host-two", version=golang.OLDEST)
    other = subprocess.Popen(["sleep", "60"])
    try:
        record(tmp_path / "all.pb.gz", "--host", seconds=1)
    finally:
        other.kill()
        other.wait()
    profile = pprof.read(tmp_path / "all.pb.gz")
    commands = {s.labels["pid"]: s.labels["command"] for s in profile.samples}
    assert commands[str(one.pid)] == "host-one" and commands[str(two.pid)] == "host-two"
    assert str(other.pid) not in commands and str(os.getpid()) not in commands


def test_a_process_that_is_killed_or_not_go_does_not_end_the_others(started, tmp_path):
    stays, dies = started("stays"), started("dies")
    other = subprocess.Popen(["sleep", "60"])
    running = gospect.start("record", *targets_of((stays, dies)), "-p", other.pid, "-d", 4,
                            "-o", tmp_path / "all.pb.gz")
    began = time.monotonic()
    try:
        gospect.await_recording(running, 2)
        time.sleep(1.5)
        dies.process.kill()
        started.programs.remove(dies)
        _, words = running.communicate(timeout=60)
    finally:
        other.kill()
        other.wait()
        dies.process.wait()
    assert running.returncode == 0, words
    lines = words.decode().splitlines()
    left_out = [line for line in lines if "is left out" in line]
    assert len(left_out) == 1 and str(other.pid) in left_out[0] and "sleep" in left_out[0]
    assert any(f"process {dies.pid} (dies): " in line and "is kept" in line for line in lines), lines
    profile = pprof.read(tmp_path / "all.pb.gz")
    stayed, gone = (of(profile, p.pid).time("main.waitForever") / 20e9 for p in (stays, dies))
    assert 3.9 < stayed <= time.monotonic() - began
    assert 0.3 < gone < stayed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_gospect_alone_ends_all_and_writes(started, tmp_path, number):
    programs = [started("first"), started("second")]
    running = gospect.start("record", *targets_of(programs), "-o", tmp_path / "all.pb.gz")
    began = time.monotonic()
    gospect.await_recording(running, 2)
    time.sleep(1)
    os.kill(running.pid, number)
    _, words = running.communicate(timeout=60)
    assert running.returncode == 0, words
    profile = pprof.read(tmp_path / "all.pb.gz")
    assert {s.labels["pid"] for s in profile.samples} == {str(p.pid) for p in programs}
    assert 0.5e9 < profile.duration_ns <= (time.monotonic() - began) * 1e9


def test_an_interrupt_at_the_terminal_ends_all_and_writes(started, tmp_path):
    """A terminal signals the workers, too."""
    programs = [started("first"), started("second")]
    running = gospect.start("record", *targets_of(programs), "-o", tmp_path / "all.pb.gz", start_new_session=True)
    gospect.await_recording(running, 2)
    time.sleep(1)
    os.killpg(running.pid, signal.SIGINT)
    _, words = running.communicate(timeout=60)
    assert running.returncode == 0, words
    profile = pprof.read(tmp_path / "all.pb.gz")
    assert {s.labels["pid"] for s in profile.samples} == {str(p.pid) for p in programs}


def test_a_worker_that_fails_costs_one_process(started, tmp_path):
    programs = [started("first"), started("second")]
    running = gospect.start("record", *targets_of(programs), "-o", tmp_path / "all.pb.gz")
    gospect.await_recording(running, 2)
    time.sleep(1)
    with open(f"/proc/{running.pid}/task/{running.pid}/children") as children:
        os.kill(int(children.read().split()[0]), signal.SIGKILL)
    time.sleep(0.5)
    running.terminate()
    _, words = running.communicate(timeout=60)
    assert running.returncode == 0 and b"is left out: its worker ended" in words, words
    assert len({s.labels["pid"] for s in pprof.read(tmp_path / "all.pb.gz").samples}) == 1


def test_killed_gospect_leaves_no_worker(started, tmp_path):
    programs = [started("first"), started("second")]
    running = gospect.start("record", *targets_of(programs), "-o", tmp_path / "all.pb.gz",
                            start_new_session=True)
    members = lambda: subprocess.run(["pgrep", "-s", str(running.pid)], capture_output=True).stdout.split()
    wait_until(lambda: len(members()) > 3, what="the workers")
    running.kill()
    running.communicate()
    wait_until(lambda: not members(), what="the end of the workers")
    assert not list(tmp_path.iterdir())


def test_all_share_one_budget(started, tmp_path):
    """A small part of it is not spent on ticks that read nothing."""
    programs = [started(f"many-{i}", "states", args=("-only=chan",)) for i in range(8)]
    words = record(tmp_path / "all.pb.gz", *targets_of(programs), seconds=6, budget=("--budget", 1))
    used = float(words[-1].split("gospect used ")[1].split(" %")[0])
    # The first looks are in it. With a budget for each it would be 6.
    assert 0 < used < 3
    rates = [line for line in pprof.read(tmp_path / "all.pb.gz").comments if "rate: " in line]
    assert len(rates) == 8 and all("Hz achieved of 50," in line for line in rates)
    words = record(tmp_path / "all.pb.gz", *targets_of(programs), seconds=1, budget=("--budget", 0.4))
    assert any("0.05 % of a core for each of 8 processes; --budget 0.8" in line for line in words), words
    words = gospect.run("record", *targets_of(programs), "-d", 1, "--budget", 0.04, "-o", "x.html").fails(1)
    assert "--budget 0.04 is too small for 8 processes; use --budget 0.08" in words


def test_a_budget_that_first_samples_exceed_is_reported(started, tmp_path):
    programs = [started("brief-one"), started("brief-two")]
    words = record(tmp_path / "p.pb.gz", *targets_of(programs), seconds=0.1, budget=("--budget", 1))
    assert any("2 processes alone take about 2 % of a core in 0.1 s, more than --budget 1" in w for w in words)
    words = record(tmp_path / "p.pb.gz", *targets_of(programs), seconds=1, budget=("--budget", 1))
    assert not any("alone take" in w for w in words)


def test_formats_without_labels_begin_with_the_process(started, tmp_path):
    programs = [started("root-one"), started("root-two")]
    record(tmp_path / "all.folded", *targets_of(programs), seconds=1)
    roots = {line.split(";")[0] for line in (tmp_path / "all.folded").read_text().splitlines()}
    assert roots == {f"{p.binary.name} (pid {p.pid})" for p in programs}
    began = time.monotonic()
    record(tmp_path / "all.html", *targets_of(programs), seconds=3)
    passed = time.monotonic() - began
    axis = re.search(r'"timeline":\{"width_ns":(\d+),"columns":(\d+)\}', (tmp_path / "all.html").read_text())
    # From the first begin to the last end: they begin when each is ready, and overlap.
    # A column is a second at most.
    assert 2.9e9 <= int(axis[1]) * int(axis[2]) <= (passed + 1) * 1e9
    rows = gospect.run("report", tmp_path / "all.html", "--by", "label:command").ok().text
    assert "root-one" in rows and "root-two" in rows


def test_filters_hold_for_each_process(started, tmp_path):
    programs = [started("filter-one"), started("filter-two")]
    record(tmp_path / "all.pb.gz", *targets_of(programs), "--func", "main.waitForever", seconds=1)
    profile = pprof.read(tmp_path / "all.pb.gz")
    assert len({s.labels["pid"] for s in profile.samples}) == 2
    assert all("main.waitForever" in s.stack for s in profile.samples)
    result = gospect.run("record", *targets_of(programs), "--func", "nobody.has.this", "-d", 1, "-o",
                         tmp_path / "none.pb.gz")
    assert result.status == 1 and "no goroutine of 2 processes matches the filter" in result.words[-1]
    assert not (tmp_path / "none.pb.gz").exists()


def test_processes_that_may_not_be_read_are_named(started, run_as_nobody):
    programs = [started("secret-one"), started("secret-two")]
    result = run_as_nobody("record", *targets_of(programs), "-d", 1, "-f", "folded")
    assert result.status == 1 and result.out == b""
    for program in programs:
        assert any(f"process {program.pid} (" in line and "permission denied" in line for line in result.words)
    assert "none of 2 processes could be recorded" in result.words[-1]


@pytest.mark.parametrize("args,words", [
    (("--host", "-p", "1"), "--host and a process are mutually exclusive"),
    (("1", "2", "--raw", "-o", "p.pb.gz"), "--raw is for one process"),
    (("1", "2", "--exe", "x"), "--exe is for one process"),
    (("-p", "1", "-p", "2", "--", "true"), "two targets"),
    ([str(i) for i in range(1, 259)], "too many targets: the limit is 256"),
], ids=lambda value: " ".join(value)[:20] if isinstance(value, tuple) else None)
def test_wrong_usage_of_several_is_said(args, words):
    assert words in gospect.run("record", *args).fails(2)


def named(folder, name, program="states"):
    return shutil.copy(golang.build(program, golang.NEWEST), folder / name)


def commands_of(path):
    return {s.labels["command"]: s.labels["pid"] for s in pprof.read(path).samples}


def test_children_are_recorded_also_those_that_come_later(tmp_path):
    """A shell starts a program, and a later one by another shell. They end when their standard input does."""
    first, later, out = named(tmp_path, "child"), named(tmp_path, "grandchild", "split"), tmp_path / "all.pb.gz"
    script = f"sleep 60 | {first} -only=chan & (sleep 2; sleep 60 | {later}) & wait"
    shell = subprocess.Popen(["sh", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        result = gospect.run("record", "-p", shell.pid, "--children", "-d", "6s", "-o", out, *gospect.BUDGET, seconds=90).ok()
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
    assert "left out" not in result.err and re.search(r"\b2 processes\b", result.words[-1]), result.words
    assert set(commands_of(out)) == {"child", "grandchild"}
    profile = pprof.read(out)
    of_child = of(profile, commands_of(out)["child"]).time("main.main") / 1e9
    assert of_child == pytest.approx(profile.duration_ns / 1e9, abs=0.5)
    assert 0 < of(profile, commands_of(out)["grandchild"]).time("main.main") / 1e9 < profile.duration_ns / 1e9 - 1


def test_the_go_programs_of_a_command_are_recorded_to_its_end(tmp_path):
    program, out = named(tmp_path, "inner"), tmp_path / "all.pb.gz"
    began = time.monotonic()
    result = gospect.run("record", "--children", "-o", out, *gospect.BUDGET, "--", "sh", "-c",
                         f"sleep 4 | {program} -only=chan >/dev/null; exit 7", seconds=90)
    assert result.status == 7 and time.monotonic() - began < 60, result.words
    assert set(commands_of(out)) == {"inner"}


def test_a_name_is_followed_from_one_process_to_the_next(tmp_path):
    binary, out = named(tmp_path, "restarts"), tmp_path / "all.pb.gz"
    running = gospect.start("record", "--follow", "restarts", "-o", out, *gospect.BUDGET)
    pids = []
    for _ in range(2):
        program = Program(binary, "-only=chan")
        pids.append(str(program.pid))
        gospect.await_recording(running)
        time.sleep(1)
        assert running.poll() is None
        program.assert_well()
        program.stop()
    running.send_signal(signal.SIGINT)
    words = running.communicate(timeout=60)[1].decode()
    assert running.returncode == 0, words
    profile = pprof.read(out)
    assert {s.labels["pid"] for s in profile.samples} == set(pids)
    assert all(of(profile, pid).time("main.main") > 0.5e9 for pid in pids)


def test_every_file_of_a_followed_name_has_what_ran(tmp_path):
    binary = named(tmp_path, "comes")
    running = gospect.start("record", "--follow", "comes", "--every", "1s", "-o", tmp_path / "f.pb.gz", *gospect.BUDGET)
    time.sleep(2.5)
    assert running.poll() is None and not list(tmp_path.glob("f-*"))
    program = Program(binary, "-only=chan")
    wait_until(lambda: list(tmp_path.glob("f-*")), what="a file")
    program.assert_well()
    program.stop()
    running.send_signal(signal.SIGTERM)
    words = running.communicate(timeout=60)[1].decode()
    assert running.returncode == 0, words
    assert commands_of(min(tmp_path.glob("f-*"))) == {"comes": str(program.pid)}


@pytest.mark.parametrize("args,words", [
    (("--follow", "x", "-p", "1"), "--follow and another target"),
    (("--follow", "12"), "--follow needs a name, not '12'"),
    (("--host", "--children"), "--children and --host"),
    (("1", "--children", "--raw", "-o", "p.pb.gz"), "--raw is for one process"),
    (("--follow", "x", "--exe", "x"), "--exe is for one process"),
])
def test_wrong_usage_of_later_processes_is_said(args, words):
    assert words in gospect.run("record", *args).fails(2)


def test_nothing_of_a_name_or_of_children_is_said(tmp_path):
    result = gospect.run("record", "--follow", "nobody-has-this", "-d", "0.3s", "-o", tmp_path / "x.pb.gz")
    assert result.status == 1 and len(result.words) == 2 and "waiting for a process named 'nobody-has-this'" in result.words[0]
    assert "no Go process named 'nobody-has-this' ran" in result.words[1]
    assert "the target is not a Go program, and it started none" in gospect.run(
        "record", "--children", "-o", tmp_path / "x.pb.gz", "--", "true").fails(1)
    assert not list(tmp_path.iterdir())
