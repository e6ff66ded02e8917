"""Who ended each wait, in `report` of a trace and in `offcpu`, against what the program wrote down."""

import collections
import json
import re
import signal

import pytest

from lib import golang, gospect, tracing
from lib.process import wait_until
from lib.traced import tracing as traced

WORKERS, ROUNDS = 8, 12
WAITS = ("main.waitMutex", "main.waitChannel", "main.waitSelect", "main.waitGroup",
         "main.waitTimer")


@pytest.fixture(params=("1.17.13", "1.22.12", golang.NEWEST), ids=lambda v: f"go{v}")
def convoy(request, targets, tmp_path):
    """The trace of a program, and the waits that it knows of."""
    program = targets.start("convoy", request.param)
    file = tmp_path / "convoy.trace"
    with traced(program, file) as t:
        waits = json.loads(program.ask(f"convoy {WORKERS} {ROUNDS}"))
    assert t.lost == 0
    return file, waits


def report(file, *args):
    return gospect.run("report", file, *args).ok()


def place(stack):
    """The function of the program in which it waits."""
    return next((f["func"] for f in stack["frames"] if f["func"] in WAITS), None)


def ended(rows):
    """(who waited, where, who ended it, where) of each wait that is in the rows."""
    found = collections.Counter()
    for row in rows:
        for stack in row["stacks"]:
            if stack["state"] != "waiting" or not place(stack):
                continue
            for by in stack["ended_by"]:
                assert not by["func"] or by["func"] in {f["func"] for f in by["frames"]}
                assert by["func"] or by["cause"] == "timer"
                found[row["goroutine"], place(stack), by["goroutine"], by["func"]] += by["count"]
            assert sum(by["count"] for by in stack["ended_by"]) == stack["count"], stack
            assert sum(by["ns"] for by in stack["ended_by"]) == stack["ns"], stack
    return found


def assert_as_written(rows, waits):
    """Each wait of the trace was ended by whom the program says. A goroutine that comes late to its
    wait, on a busy machine, does not wait at all: the trace may have fewer."""
    said = collections.Counter((w["waiter"], w["at"], w["by"], w["func"]) for w in waits)
    found = ended(rows)
    assert not found - said
    assert found.total() > 0.9 * said.total(), (found.total(), said.total())
    assert {key[1] for key in found} == set(WAITS)


def test_each_wait_was_ended_by_whom_the_program_says(convoy):
    file, waits = convoy
    assert len(waits) == ROUNDS * (WORKERS - 1 + 4 * WORKERS // 2)
    rows = json.loads(report(file, "--by", "label:worker", "-n", 0, "-f", "json").text)
    assert len(rows) == WORKERS
    assert_as_written(rows, waits)
    assert_said_in_words(report(file, "--by", "label:worker", "-n", 0).text, waits)
    assert_starts_have_it(file, rows)
    assert_drawn(file, rows)


def assert_said_in_words(text, waits):
    """Each row has its three longest waits: those for a mutex are among them."""
    said = re.findall(r"ended by main\.release(?:Odd|Even):\d+", text)
    assert len(said) > WORKERS / 2
    for goroutine in re.findall(r"ended by main\.send:\d+ \(goroutine (\d+)[,)]", text):
        assert int(goroutine) in {w["by"] for w in waits if w["func"] == "main.send"}


def assert_starts_have_it(file, rows):
    """By start function: the sum over all workers."""
    start, = (r for r in json.loads(report(file, "-n", 0, "-f", "json").text)
              if r["name"] == "main.run.func1")
    for reason, wakers in start["ended_by"].items():
        each = collections.Counter()
        for stack in (s for row in rows for s in row["stacks"] if s["wait"] == reason):
            for by in stack["ended_by"]:
                each[by["func"]] += by["count"]
        total = collections.Counter()
        for by in wakers:
            total[by["func"]] += by["count"]
        # Without the time before a worker had its label.
        assert not each - total and sum((total - each).values()) <= 2 * WORKERS, reason
    assert re.search(r"ended by main\.", report(file).text)


def assert_drawn(file, rows):
    """The waker graph: the stack of the wait, then that of whom ended it."""
    pairs = {(place(s), by["func"]) for row in rows for s in row["stacks"] if s.get("ended_by")
             for by in s["ended_by"] if place(s) and by["func"]}
    drawn, ns = set(), 0
    for line in report(file, "--wakers", "-f", "folded").text.splitlines():
        stack, _, value = line.rpartition(" ")
        ns += int(value)
        frames = stack.split(";")
        assert "[ended by]" in frames or frames[-1] == "[not ended]", line
        at = frames.index("[ended by]") if "[ended by]" in frames else len(frames)
        for waiter in (f for f in frames[:at] if f in WAITS):
            drawn |= {(waiter, f) for f in frames[at:] if (waiter, f) in pairs}
            if waiter == "main.waitTimer":
                assert frames[at + 1:] == ["[timer]"], line
    assert drawn == pairs
    only = report(file, "--by", "label:worker", "--wakers", "-f", "folded").text
    assert "[ended by];main.run.func1" in only
    waiting = sum(r["waiting_ns"] for r in json.loads(report(file, "-n", 0, "-f", "json").text))
    assert ns == pytest.approx(waiting / 1000, rel=0.01)


def test_offcpu_says_who_ended_a_wait(targets, tmp_path):
    program = targets.start("convoy")
    out = tmp_path / "rows.json"
    process = gospect.start("offcpu", "-p", program.pid, "--by", "label:worker", "-n", 0,
                            "-o", out, "-f", "json")
    wait_until(lambda: tracing.is_patched(program.pid), 30, what="the hooks")
    waits = json.loads(program.ask(f"convoy {WORKERS} 3"))
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0, process.stderr.read()
    assert_as_written(json.loads(out.read_text()), waits)


def test_a_waker_graph_needs_a_trace_and_a_format(targets, tmp_path):
    (tmp_path / "p.folded").write_text("main.main;main.wait 1\n")
    assert "--wakers makes a profile" in gospect.run("report", tmp_path / "p.folded",
                                                     "--wakers").fails(2)
    assert "an execution trace" in gospect.run(
        "report", tmp_path / "p.folded", "--wakers", "-f", "folded").fails(2)
    assert "--sampled" in gospect.run("offcpu", "-p", 1, "--sampled", "--wakers", "-o",
                                      "x.html").fails(2)
