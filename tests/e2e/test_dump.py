"""gospect dump against what the programs themselves say."""

import collections
import json
import pathlib
import re
import signal
import sys
import time

import pytest

from lib import golang, gospect, pprof, traceback
from lib.params import every_build, every_version, in_full

SECCOMP = pathlib.Path(gospect.__file__).with_name("seccomp.py")
LABELS = {"user": "a b", "zone": "eu"}


def own_goroutine(goroutines):
    """The goroutine that answers us: running while it looks at itself, reading while we look."""
    return {g.id for g in traceback.having(goroutines, "main.control")}


def assert_same(inside, outside, version, **kwargs):
    found = traceback.differences(inside, outside, golang.minor(version), **kwargs)
    assert not found, f"{len(found)} differences:\n" + "\n".join(found[:40])


def compare_with_own_stack(program, version):
    outside = gospect.dump(program.pid)
    inside = traceback.parse(program.stack())
    assert len(inside) > 80
    assert_same(inside, outside, version, ignore=own_goroutine(inside),
                labels=golang.minor(version) >= (1, 27))


@every_build()
def test_dump_equals_runtime_stack(targets, version, mode):
    compare_with_own_stack(targets.keep("states", version, mode), version)


@every_build(modes=[golang.PIE], versions=[golang.OLDEST, golang.NEWEST])
def test_dump_reads_position_independent_programs(targets, version, mode):
    compare_with_own_stack(targets.keep("states", version, mode), version)


@every_version(["1.18.10", "1.19.13", "1.20.14", "1.21.13", "1.23.12", "1.24.13", "1.25.11",
                "1.26.8"])
def test_dump_reads_every_other_version(targets, version):
    compare_with_own_stack(targets.start("states", version, golang.LDFLAGS_SW), version)


def steady_dump(pid, *args):
    """A dump that two looks agree on, with the runtime's own goroutines at rest."""
    before = None
    for _ in range(150):
        now = gospect.dump(pid, *args)
        scavenger = traceback.one(now, "runtime.bgscavenge")
        if now == before and scavenger.state == "GC scavenge wait":
            return now
        before = now
        time.sleep(0.1)
    raise AssertionError("the program does not come to rest")


def dies_of_sigquit(program, tmp_path):
    program.idle()
    program.process.send_signal(signal.SIGQUIT)
    program.process.wait(60)
    return (tmp_path / "stderr").read_text()


@every_build()
def test_dump_all_equals_sigquit(targets, tmp_path, version, mode):
    with open(tmp_path / "stderr", "wb") as stderr:
        program = targets.start("states", version, mode, env={"GOTRACEBACK": "system"},
                                stderr=stderr)
    program.idle()
    outside = steady_dump(program.pid, "--all")
    program.assert_well()
    inside = traceback.parse(dies_of_sigquit(targets.forget(program), tmp_path))
    # Goroutine 0 is the thread that took the signal; were that thread in a system call, its
    # goroutine would be shown from its registers.
    first = re.search(r"^goroutine (\d+) ", (tmp_path / "stderr").read_text(), re.M)
    ignore = {0, int(first[1])}
    assert len(inside) > 85
    assert traceback.having(outside, "runtime.bgsweep")
    assert_same(inside, outside, version, ignore=ignore)


def test_runtime_and_all_print_the_same(targets):
    program = targets.keep("states", golang.NEWEST)
    ids = [set(gospect.dump(program.pid, option)) for option in ("--runtime", "--all")]
    usual = set(gospect.dump(program.pid))
    assert ids[0] == ids[1] and usual < ids[0]


@every_version()
def test_dump_shows_every_state_of_the_program(targets, version):
    program = targets.keep("states", version)
    goroutines = gospect.dump(program.pid)
    mutex = "sync.Mutex.Lock" if golang.minor(version) >= (1, 21) else "semacquire"
    expected = {
        "main.holdReceive": "chan receive", "main.holdSend": "chan send",
        "main.holdNilReceive": "chan receive (nil chan)",
        "main.holdNilSend": "chan send (nil chan)",
        "main.holdSelectNone": "select (no cases)", "main.holdSelectTwo": "select",
        "main.holdSelectSend": "select", "main.holdSleep": "sleep",
        "main.holdTimer": "chan receive",
        "main.holdMutex": mutex, "main.holdCond": "sync.Cond.Wait", "main.holdNetRead": "IO wait",
        "main.holdAccept": "IO wait", "main.holdPipeFile": "IO wait",
        "main.holdSyscallRead": "syscall", "main.holdLockedSyscall": "syscall",
        "main.holdLockedThread": "chan receive",
    }
    for func, state in expected.items():
        found = traceback.having(goroutines, func)
        assert found, func
        assert {g.state for g in found} == {state}, func
    for func in "main.holdLockedThread", "main.holdLockedSyscall":
        assert "locked to thread" in traceback.one(goroutines, func).details


@every_build(modes=[golang.PLAIN, golang.STRIPPED])
def test_shows_labels_of_every_version(targets, version, mode):
    program = targets.keep("states", version, mode)
    goroutines = gospect.dump(program.pid)
    labelled = [g.labels for g in traceback.having(goroutines, "main.holdLabels")]
    assert LABELS in labelled
    assert {"empty": "", "quote": 'x"y', "utf": "naïve"} in labelled
    many = {f"key-{c}": f"value of {c}" for c in "abcdefghijklmnop"}
    for func in "main.holdManyLabels", "main.holdInherited":
        assert traceback.one(goroutines, func).labels == many
    assert traceback.one(goroutines, "main.holdSleep").labels is None


def test_labels_are_printed_as_the_newest_go_prints_them(states):
    outside = gospect.run("dump", "-p", states.pid).ok().text
    inside = states.stack()
    pattern = re.compile(r"\] (\{.*\}):$", re.M)
    assert sorted(pattern.findall(outside)) == sorted(pattern.findall(inside))
    assert '{user: "a b", zone: eu}' in outside


def test_a_dump_reads_as_the_runtimes_own_text(states):
    """Not only the content: blank lines, tabs and order as in runtime.Stack."""
    text = gospect.run("dump", "-p", states.pid).ok().text
    blocks = text.rstrip("\n").split("\n\n")
    for block in blocks:
        lines = block.split("\n")
        assert traceback.HEADER.match(lines[0]), lines[0]
        assert len(lines) % 2 == 1 or any("elided" in line or line == traceback.UNAVAILABLE
                                          for line in lines)
        assert all(re.search(r"\(\.\.\.\)$", line) for line in lines[1:]
                   if not line.startswith(("\t", "created by ", "...")))
    assert text.endswith("\n") and not text.endswith("\n\n")


def spinning(pid, *args, **kwargs):
    return [g for g in gospect.dump(pid, *args, **kwargs).values()
            if g.created_by and g.created_by.func == "main.main" and
            g.state in ("running", "runnable")]


@pytest.mark.parametrize("version", golang.VERSIONS)
def test_a_running_goroutine_has_its_stack(targets, version):
    program = targets.start("states", version, args=("-only=chan", "-spin=2"),
                            env={"GOMAXPROCS": "4"})
    may_sample(program.pid)
    running = []
    for _ in range(5):
        found = spinning(program.pid)
        assert len(found) == 2
        running += [g for g in found if g.state == "running"]
    assert running
    for goroutine in running:
        assert goroutine.available
        assert goroutine.functions() == ["main.spin"]
    assert gospect.run("dump", "-p", program.pid).ok().err == ""


def may_sample(pid):
    result = gospect.run("dump", "-p", pid, "--state", "running").ok()
    if "perf_event_paranoid" in result.err or "no perf events" in result.err:
        pytest.skip("the kernel does not permit perf events here")


def test_json_has_the_frames_of_running_goroutines(targets):
    program = targets.start("callers")
    may_sample(program.pid)
    for _ in range(5):
        for goroutine in gospect.dump_json(program.pid, "--state", "running")["goroutines"]:
            assert "no_stack" not in goroutine
            functions = [frame["func"] for frame in goroutine["frames"]]
            assert functions[-1] == "main.burn"
            assert all(frame["line"] and frame["file"] for frame in goroutine["frames"])


def test_dump_without_perf_shows_running_goroutines_without_a_stack(targets):
    program = targets.start("states", args=("-only=chan", "-spin=2"), env={"GOMAXPROCS": "4"})
    refused = (sys.executable, SECCOMP, "perf_event_open", "EPERM")
    for goroutine in spinning(program.pid, prefix=refused):
        assert goroutine.available == (goroutine.state == "runnable")
    words = gospect.run("dump", "-p", program.pid, "--state", "running", prefix=refused).ok().words
    assert len(words) == 1
    assert words[0].startswith("gospect: no on-CPU stacks: ")
    assert gospect.run("dump", "-p", program.pid, "--state", "waiting", prefix=refused).ok().err == ""


@pytest.mark.time_limit(150)
def test_wait_times_are_shown_in_minutes(resting):
    inside = traceback.parse(resting.stack())
    outside = gospect.dump(resting.pid)
    ignore = own_goroutine(inside)
    assert sum(g.minutes >= 1 for g in inside.values()) > 60
    assert {i: g.minutes for i, g in outside.items() if i not in ignore} == \
        {i: g.minutes for i, g in inside.items() if i not in ignore}


# JSON

@every_build(modes=[golang.STRIPPED])
def test_json_says_what_the_text_says(targets, version, mode):
    program = targets.keep("states", version, mode)
    program.idle()
    text = gospect.dump(program.pid)
    data = gospect.dump_json(program.pid)
    assert {g["id"] for g in data["goroutines"]} == set(text)
    for goroutine in data["goroutines"]:
        assert_json_is_text(goroutine, text[goroutine["id"]])


def assert_json_is_text(goroutine, expected):
    assert set(goroutine) >= {"id", "state", "wait_reason", "labels", "created_by", "thread",
                              "frames"}
    if goroutine["state"] == "waiting":
        # In a bubble the runtime's text has a remark behind the reasons that have none themselves.
        assert goroutine["wait_reason"].replace(" (durable)", "") == \
            expected.state.replace(" (durable)", "")
    else:
        assert goroutine["state"] == expected.state
    assert (goroutine["labels"] or None) == expected.labels
    # JSON has the whole of a stack that the text shortens.
    deep = len(expected.frames) > traceback.MAX_FRAMES - 10
    for frame, shown in zip(goroutine["frames"], expected.frames[:50 if deep else None]):
        assert frame["func"].replace("runtime.gopanic", "panic") == shown.func
        assert (frame["file"], frame["line"]) == (shown.file, shown.line)
        assert frame["inlined"] == (shown.offset is None)
    assert deep or len(goroutine["frames"]) == len(expected.frames)
    created = goroutine["created_by"]
    if expected.created_by:
        assert (created["func"], created["file"], created["line"]) == \
            (expected.created_by.func, expected.created_by.file, expected.created_by.line)
        assert (created.get("goroutine") or None) == expected.creator


def test_json_has_the_process_and_the_threads_of_goroutines(states):
    data = gospect.dump_json(states.pid)
    assert data["process"]["pid"] == states.pid
    assert any(golang.NEWEST in str(value) for value in data["process"].values())
    locked = [g for g in data["goroutines"]
              if any(f["func"] == "main.holdLockedSyscall" for f in g["frames"])]
    assert len(locked) == 1
    assert isinstance(locked[0]["thread"], int) and locked[0]["thread"] > 0


def test_a_file_name_that_ends_in_json_gives_json(states, tmp_path):
    gospect.run("dump", "-p", states.pid, "-o", tmp_path / "dump.json").ok()
    assert json.loads((tmp_path / "dump.json").read_text())["goroutines"]
    assert [p.name for p in tmp_path.iterdir()] == ["dump.json"]


# Groups and filters

def test_group_merges_equal_stacks_and_shows_the_most_frequent_first(targets):
    program = targets.start("states", args=("-only=chan", "-extra=50"))
    text = gospect.run("dump", "-p", program.pid, "--group").ok().text
    blocks = text.strip("\n").split("\n\n")
    assert "50" in blocks[0].split("\n")[0]
    assert "main.waitForChannel(...)" in blocks[0]
    assert text.count("main.waitForChannel(...)") == 1
    assert text.count("main.holdReceive(...)") == 1


def filtered(program, *args):
    return gospect.dump(program.pid, *args)


def test_filter_by_state(states):
    found = filtered(states, "--state", "syscall")
    assert found and {g.state for g in found.values()} == {"syscall"}
    assert traceback.having(found, "main.holdSyscallRead")
    waiting = filtered(states, "--state", "waiting")
    assert waiting and not set(waiting) & set(found)


def test_filter_by_wait_reason(states):
    found = filtered(states, "--wait", "sleep")
    assert [g.state for g in found.values()] == ["sleep"]
    assert traceback.one(found, "main.holdSleep")


def test_filter_by_function(states):
    found = filtered(states, "--func", r"^main\.hold(Mutex|Accept)$")
    assert len(found) == 3
    assert all(traceback.having({0: g}, "main.holdMutex") or
               traceback.having({0: g}, "main.holdAccept") for g in found.values())


def test_filter_by_label(states):
    assert [g.labels for g in filtered(states, "--label", "user=a b").values()] == [LABELS]
    assert [g.labels for g in filtered(states, "--label", "zone").values()] == [LABELS]
    assert len(filtered(states, "--label", "key-c")) == 2
    assert "user=nobody" in gospect.run("dump", "-p", states.pid, "--label", "user=nobody").fails(1)


def test_filter_by_goroutine(states):
    goid = traceback.one(gospect.dump(states.pid), "main.holdSleep").id
    assert list(filtered(states, "-g", goid)) == [goid]


def test_filters_narrow_each_other(states):
    everything = gospect.dump(states.pid)
    none = gospect.run("dump", "-p", states.pid, "--func", "main.block", "--wait", "chan receive", "--label", "user")
    assert f"0 of {len(everything)} goroutines match" in none.fails(1)
    some = filtered(states, "--func", r"main\.holdLabels", "--label", "user")
    assert set(some) < set(everything) and len(some) == 1


# Other formats

def test_folded_counts_every_goroutine_once(states):
    states.idle()
    goroutines = gospect.dump(states.pid)
    lines = gospect.run("dump", "-p", states.pid, "-f", "folded").ok().text.splitlines()
    counts = collections.Counter()
    for line in lines:
        stack, _, count = line.rpartition(" ")
        counts[stack.split(";")[-1]] += int(count)
        assert "" not in stack.split(";")
    assert sum(counts.values()) == len(goroutines)
    assert any("main.holdMutex" in line for line in lines)


def test_pprof_counts_every_goroutine_once(states, tmp_path):
    states.idle()
    goroutines = gospect.dump(states.pid)
    gospect.run("dump", "-p", states.pid, "-o", tmp_path / "dump.pb.gz").ok()
    profile = pprof.read(tmp_path / "dump.pb.gz")
    assert profile.total("samples") == len(goroutines)
    inlined = [s for s in profile.samples if "main.inlineOuter" in s.stack]
    assert len(inlined) == 1
    calls = inlined[0].stack
    first = calls.index("main.inlineInner")
    assert calls[first:first + 3] == ["main.inlineInner", "main.inlineMiddle", "main.inlineOuter"]
    assert [s.labels["user"] for s in profile.samples if "user" in s.labels] == ["a b"]


def test_a_dump_does_not_disturb_a_busy_program(targets):
    program = targets.start("states", args=("-spin=2",))
    for _ in range(in_full(100, 30)):
        gospect.run("dump", "-p", program.pid, "-f", "json").ok()
