"""gospect record against programs that know where they spend their time."""

import json
import os
import re
import resource
import signal
import subprocess
import time

import pytest

from lib import golang, gospect, pprof
from lib.process import wait_until

STAGES = ("main.stageSleep", "main.stageChannel", "main.stageMutex")
SECOND = 1_000_000_000


@pytest.fixture
def split(targets):
    return targets.keep("split", golang.NEWEST)


def record(program, path, *args, seconds=2):
    """Records into the file; gives the summary line."""
    result = gospect.run("record", "-p", program.pid, "-d", seconds, *gospect.BUDGET, "-o", path,
                         *args, seconds=seconds + 20).ok()
    assert result.out == b""
    assert path.stat().st_size > 0
    assert [p.name for p in path.parent.iterdir()] == [path.name], "leftovers"
    return result.words[-1]


class Recorded:
    """Four seconds of the program split: as pprof and as folded stacks, of the same time; and how long it was
    where meanwhile, by its own clock. `passed`: how long the recordings took, in nanoseconds."""

    def __init__(self, program, folder):
        before, began = json.loads(program.ask("times")), time.monotonic_ns()
        running = [gospect.start("record", "-p", program.pid, "-d", 4, *gospect.BUDGET, "-o", folder / name)
                   for name in ("split.pb.gz", "split.folded")]
        for process in running:
            _, words = process.communicate(timeout=60)
            assert process.returncode == 0, words
        after, self.passed = json.loads(program.ask("times")), time.monotonic_ns() - began
        self.spent = {place: after[place] - before.get(place, 0) for place in after}
        self.profile = pprof.read(folder / "split.pb.gz")
        self.stacks = folded(folder / "split.folded")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Recordings of programs, each made once."""
    made = {}

    def record_it(program):
        if program.pid not in made:
            made[program.pid] = Recorded(program, tmp_path_factory.mktemp("recorded"))
        return made[program.pid]

    return record_it


@pytest.mark.parametrize("version,mode", [(golang.OLDEST, golang.PLAIN),
                                          (golang.MIDDLE, golang.STRIPPED),
                                          (golang.NEWEST, golang.PLAIN)])
def test_time_is_where_the_program_says_it_was(targets, recorded, version, mode):
    made = recorded(targets.keep("split", version, mode))
    spent, profile = made.spent, made.profile
    assert 3.99 * SECOND <= profile.duration_ns <= made.passed
    pipeline = sum(profile.time_in(stage) for stage in STAGES)
    assert pipeline == pytest.approx(profile.duration_ns, rel=0.05)
    for stage in STAGES:
        expected = spent[stage] / sum(spent[s] for s in STAGES)
        assert profile.time_in(stage) / pipeline == pytest.approx(expected, abs=0.06), stage
    assert profile.time_in("main.waitForever") == pytest.approx(20 * profile.duration_ns, rel=0.02)
    assert profile.time_in("main.readForever") == pytest.approx(profile.duration_ns, rel=0.02)
    paused = spent["main.pause"] / (spent["main.pause"] + spent["main.burn"])
    assert profile.time_in("main.pause") / profile.duration_ns == pytest.approx(paused, abs=0.08)


def test_states_waits_and_labels_are_labels(split, tmp_path):
    record(split, tmp_path / "split.pb.gz")
    profile = pprof.read(tmp_path / "split.pb.gz")
    assert {s.labels["state"] for s in profile.samples} <= {"running", "runnable", "syscall",
                                                            "waiting"}
    waits = {stage: {s.labels.get("wait") for s in profile.samples if stage in s.stack}
             for stage in STAGES}
    assert "sleep" in waits["main.stageSleep"]
    assert "chan receive" in waits["main.stageChannel"]
    assert "sync.Mutex.Lock" in waits["main.stageMutex"]
    for func, worker in (("main.stageSleep", "pipeline"), ("main.pause", "burner"),
                         ("main.readForever", "reader")):
        found = {s.labels.get("worker") for s in profile.samples if func in s.stack}
        assert found == {worker}, func
    reading = [s for s in profile.samples if "main.readForever" in s.stack]
    assert {s.labels["state"] for s in reading} == {"syscall"}
    assert all(s.values["cpu"] == 0 for s in profile.samples if s.labels["state"] == "waiting")


def test_a_running_goroutine_is_counted_under_its_start_function(split, recorded):
    spent, profile = recorded(split).spent, recorded(split).profile
    burner = [s for s in profile.samples if s.labels.get("worker") == "burner"]
    running = [s for s in burner if s.labels["state"] == "running"]
    assert running
    share = sum(s.values["wall"] for s in running) / sum(s.values["wall"] for s in burner)
    burning = spent["main.burn"] / (spent["main.pause"] + spent["main.burn"])
    assert share == pytest.approx(burning, abs=0.08)
    for sample in running:
        # What it was started with is a wrapper around a call with arguments.
        assert sample.stack[-1] == "runtime/pprof.Do" or "gowrap" in sample.stack[-1]
        assert sample.stack[0] == "[running]" or "main.burner" in sample.stack


def test_a_pprof_profile_says_what_it_is(split, tmp_path):
    record(split, tmp_path / "split.pb.gz")
    profile = pprof.read(tmp_path / "split.pb.gz")
    assert profile.sample_types == [("samples", "count"), ("wall", "nanoseconds"),
                                    ("cpu", "nanoseconds")]
    assert profile.default_type == "wall"
    assert profile.period == SECOND // 100
    assert any(file.endswith("split") and build_id for _, _, file, build_id in profile.mappings)
    comments = "\n".join(profile.comments)
    for part in (f"go{golang.NEWEST}", "rate", "missed", "goroutines", "torn", "truncated"):
        assert part in comments, part
    assert len(profile.comments) == 3, "tools print them above each table"
    seen, sampled = map(float, re.search(r"goroutines: (\d+) seen, ([\d.]+) sampled in a tick", comments).groups())
    assert 0 < sampled <= seen
    assert not any(func.startswith("runtime.goexit") for func, _, _ in profile.lines)
    assert any(file.endswith("main.go") and line > 0 for _, file, line in profile.lines)


def test_the_rate_is_the_one_asked_for(split, tmp_path):
    """Ticks that a busy machine leaves no time for are counted, too."""
    for rate in 20, 200:
        summary = record(split, tmp_path / f"{rate}.pb.gz", "-r", rate, "--budget", 20)
        missed = int(re.search(r"(\d+) ticks missed", summary)[1])
        profile = pprof.read(tmp_path / f"{rate}.pb.gz")
        count = profile.total("samples", lambda s: "main.readForever" in s.stack)
        assert count > rate / 2
        assert count + missed == pytest.approx(rate * profile.duration_ns / SECOND, rel=0.1)
        assert profile.time_in("main.readForever") == pytest.approx(profile.duration_ns, rel=0.05)
        (tmp_path / f"{rate}.pb.gz").unlink()


def test_the_summary_says_how_it_went(split, tmp_path):
    summary = record(split, tmp_path / "split.folded", seconds=1)
    assert summary.startswith("gospect: ")
    for part in (r"\b1(\.\d+)? s", r"goroutines", r"samples", r"Hz", r"dropped", r"CPU|of a core"):
        assert re.search(part, summary), f"{part} is not in {summary!r}"


# pprof as Go reads it

def go_pprof(*args):
    return golang.go(golang.MIDDLE, "tool", "pprof", *args)


def test_go_tool_pprof_reads_it(split, tmp_path):
    path = tmp_path / "split.pb.gz"
    record(split, path)
    top = go_pprof("-top", "-nodecount=40", str(path))
    assert "Type: wall" in top
    for func in STAGES:
        assert func in top
    samples = go_pprof("-top", "-sample_index=samples", str(path))
    assert "Type: samples" in samples
    raw = go_pprof("-raw", str(path))
    assert "samples/count wall/nanoseconds" in raw
    assert "state:[waiting]" in raw.replace(" ", "")


def test_go_tool_pprof_focuses_on_labels(split, tmp_path):
    path = tmp_path / "split.pb.gz"
    record(split, path)
    top = go_pprof("-top", "-tagfocus=worker=pipeline", str(path))
    assert "main.stageSleep" in top
    assert "main.pause" not in top and "main.waitForever" not in top
    sleeping = go_pprof("-top", "-tagfocus=wait=^sleep$", str(path))
    assert "main.stageSleep" in sleeping and "main.stageChannel" not in sleeping


def test_raw_has_addresses_only(split, tmp_path):
    record(split, tmp_path / "raw.pb.gz", "--raw")
    profile = pprof.read(tmp_path / "raw.pb.gz")
    assert not any(func.startswith(("main.", "runtime.", "time.")) for func, _, _ in profile.lines)
    start, limit, _, _ = next(m for m in profile.mappings if m[2].endswith("split"))
    addresses = [a for s in profile.samples for a in s.addresses if a]
    assert addresses and any(start <= a < limit for a in addresses)


# Other formats

def folded(path):
    stacks = {}
    for line in path.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        stacks[tuple(stack.split(";"))] = int(count)
    return stacks


def test_folded_stacks_are_outermost_first(split, recorded):
    stacks = recorded(split).stacks
    time_in = {stage: sum(n for stack, n in stacks.items() if stage in stack) for stage in STAGES}
    spent = recorded(split).spent
    expected = spent["main.stageSleep"] / sum(spent[stage] for stage in STAGES)
    assert time_in["main.stageSleep"] / sum(time_in.values()) == pytest.approx(expected, abs=0.07)
    for stack in stacks:
        if "main.stageSleep" in stack and "main.pipeline" in stack:
            assert stack.index("main.pipeline") < stack.index("main.stageSleep")
            break
    else:
        raise AssertionError("no stack of the pipeline")


def test_folded_stacks_end_in_the_state_that_the_program_is_in(split, tmp_path):
    """The program blocks main.waitForever on a channel that nobody sends to, and main.burn computes."""
    record(split, tmp_path / "split.txt", "-f", "folded-state")
    stacks = folded(tmp_path / "split.txt")
    assert stacks and all(re.fullmatch(r"\[[^]]+\]", stack[-1]) for stack in stacks)
    forever = {stack[-1] for stack in stacks if "main.waitForever" in stack}
    assert forever == {"[chan receive]"}
    assert any(stack[-1] == "[running]" for stack in stacks if "main.burn" in stack)
    assert gospect.run("report", tmp_path / "split.txt", "--by", "wait", "-f", "json").ok()
    rows = json.loads(gospect.run("report", tmp_path / "split.txt", "--by", "state", "-f",
                                  "json").ok().text)
    waiting = sum(n for stack, n in stacks.items()
                  if stack[-1] not in ("[running]", "[runnable]", "[syscall]"))
    assert {row["name"]: row["wall_ns"] for row in rows}["waiting"] == 1000 * waiting


def test_speedscope_json_is_complete(split, tmp_path):
    record(split, tmp_path / "split.json")
    data = json.loads((tmp_path / "split.json").read_text())
    assert data["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = data["shared"]["frames"]
    assert any(frame["name"] == "main.stageSleep" for frame in frames)
    assert data["profiles"]
    for profile in data["profiles"]:
        assert profile["type"] == "sampled"
        assert profile["unit"] in ("nanoseconds", "microseconds", "milliseconds", "seconds")
        assert len(profile["samples"]) == len(profile["weights"]) > 0
        assert all(0 <= i < len(frames) for stack in profile["samples"] for i in stack)
        assert profile["endValue"] - profile["startValue"] == pytest.approx(sum(profile["weights"]))


def test_html_needs_no_network(split, tmp_path):
    record(split, tmp_path / "split.html")
    text = (tmp_path / "split.html").read_text()
    assert text.lstrip().lower().startswith("<!doctype html") and "</html>" in text
    assert "main.stageSleep" in text or "stageSleep" in text
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", text)


@pytest.mark.parametrize("name,format,magic", [
    ("pprof", "pprof", b"\x1f\x8b"), ("data", "folded", b""), ("page.txt", "html", b"<"),
    ("x.folded", "speedscope", b"{")])
def test_the_format_asked_for_wins_over_the_files_name(split, tmp_path, name, format, magic):
    record(split, tmp_path / name, "-f", format, seconds=0.5)
    assert (tmp_path / name).read_bytes().startswith(magic)


def test_data_goes_to_standard_output(split):
    result = gospect.run("record", "-p", split.pid, "-d", 1, "-f", "folded", "-o", "-").ok()
    assert b"main.stageSleep" in result.out
    assert len(result.words) == 1


# What to record

def test_off_cpu_leaves_out_what_ran(split, tmp_path):
    record(split, tmp_path / "off.pb.gz", "--off-cpu")
    states = {s.labels["state"] for s in pprof.read(tmp_path / "off.pb.gz").samples}
    assert "waiting" in states and "running" not in states


@pytest.mark.parametrize("args,inside,outside", [
    (("--func", "main.readForever"), "main.readForever", "main.stageSleep"),
    (("--label", "worker=pipeline"), "main.stageSleep", "main.pause"),
    (("--state", "syscall"), "main.readForever", "main.stageSleep"),
    (("--wait", "sleep"), "main.stageSleep", "main.stageChannel"),
])
def test_filters_choose_goroutines(split, tmp_path, args, inside, outside):
    record(split, tmp_path / "some.pb.gz", *args, seconds=1)
    profile = pprof.read(tmp_path / "some.pb.gz")
    assert profile.time_in(inside) > 0
    assert profile.time_in(outside) == 0
    value = args[1] if args[0] == "--state" else f"'{args[1]}'"
    assert f"filter: {args[0]} {value}" in profile.comments


@pytest.mark.time_limit(90)
def test_the_budget_is_kept_and_totals_stay_right(targets, tmp_path):
    program = targets.start("states", args=("-only=chan", "-extra=30000"))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    record(program, tmp_path / "many.pb.gz", "--budget", 1, seconds=6)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert used < 0.06 + 0.6, "more than the budget and what starting and ending takes"
    profile = pprof.read(tmp_path / "many.pb.gz")
    assert profile.time_in("main.waitForChannel") == \
        pytest.approx(30000 * profile.duration_ns, rel=0.05)


# How it ends

def start_recording(pid, path, *args):
    """It has gone on for a second."""
    process = gospect.start("record", "-p", pid, "-o", path, *args)
    gospect.await_recording(process)
    time.sleep(1)
    return process


def ended(process):
    out, err = process.communicate(timeout=60)
    return process.returncode, err.decode().splitlines()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_early_and_it_writes(split, tmp_path, number):
    began = time.monotonic_ns()
    process = start_recording(split.pid, tmp_path / "cut.pb.gz")
    process.send_signal(number)
    status, words = ended(process)
    assert status == 0 and words[-1].startswith("gospect: ")
    profile = pprof.read(tmp_path / "cut.pb.gz")
    # It may have got no CPU between its events and its first look.
    assert 0.5 * SECOND <= profile.duration_ns <= time.monotonic_ns() - began
    assert profile.time_in("main.readForever") > 0


def test_killed_it_leaves_nothing(split, tmp_path):
    process = start_recording(split.pid, tmp_path / "never.pb.gz")
    process.kill()
    process.communicate(timeout=60)
    assert list(tmp_path.iterdir()) == []


def test_a_target_that_ends_is_written_and_said(targets, tmp_path):
    program = targets.start("split")
    process = start_recording(program.pid, tmp_path / "ended.pb.gz", "-d", 30)
    targets.forget(program).send("end")
    status, words = ended(process)
    program.stop()
    assert status == 0
    assert len(words) >= 1 and any(re.search("end|exit|gone", line) for line in words)
    assert pprof.read(tmp_path / "ended.pb.gz").time_in("main.stageSleep") > 0


def test_a_target_that_becomes_another_program_is_written_and_said(tmp_path):
    binary = golang.build("restless", golang.NEWEST)
    program = subprocess.Popen([binary, "-times=0", "-pause=4s", "-then=/bin/sleep 60"],
                               stdout=subprocess.PIPE)
    try:
        assert program.stdout.readline().startswith(b"ready")
        time.sleep(0.2)
        status, words = ended(start_recording(program.pid, tmp_path / "x.folded", "-d", 30))
        assert status == 0 and words
        assert "main.wait" in (tmp_path / "x.folded").read_text()
        assert program.poll() is None
    finally:
        program.kill()
        program.communicate()


def test_a_command_is_recorded_to_its_end_and_its_status_passed_on(tmp_path):
    binary = golang.build("split", golang.NEWEST)
    began = time.monotonic_ns()
    result = gospect.run("record", "-o", tmp_path / "run.pb.gz", "--", binary, "-for=1500ms")
    passed = time.monotonic_ns() - began
    assert result.status == 3
    assert b"ready" in result.out
    profile = pprof.read(tmp_path / "run.pb.gz")
    # It is held until the recording begins, and sleeps until its end.
    assert 1.4 * SECOND < profile.duration_ns <= passed
    assert profile.time_in("main.waitForever") > 15 * SECOND


def test_an_interrupted_command_is_ended_too(tmp_path):
    binary = golang.build("split", golang.NEWEST)
    process = gospect.start("record", "-o", tmp_path / "run.folded", "--", binary, "-for=60s",
                            start_new_session=True)
    assert process.stdout.readline().startswith(b"ready")
    gospect.await_recording(process)
    time.sleep(1)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert "main.waitForever" in (tmp_path / "run.folded").read_text()
    wait_until(lambda: not group_members(process.pid), what="the command to end")


def group_members(group):
    members = subprocess.run(["pgrep", "-g", str(group)], capture_output=True, text=True)
    return members.stdout.split()
