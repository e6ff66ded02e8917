"""What `report --by` and `offcpu` say of each request, against what the program knows of each."""

import collections
import json
import re
import signal
import time

import pytest

from lib import golang, gospect, gotrace, tracing
from lib.params import every_version, in_full, newest_version
from lib.process import wait_until
from lib.traced import incidents

REQUESTS, WORKERS = 4000, 8
# What only waits; asking another goroutine, or making one, is work as well.
WAITS = {"mutex": "main.doMutex", "channel": "main.doChannel", "sleep": "main.doSleep",
         "syscall": "main.doSyscall"}
OPERATIONS = {**WAITS, "ask": "main.doAsk", "cpu": "main.doCPU", "child": "main.doChild"}


def tolerance(ns):
    return max(20_000, ns / 100)


class Traced:
    """gospect, in a process of its own, works on a program until the block ends."""

    def __init__(self, *args, pid):
        self.process = gospect.start(*args)
        wait_until(lambda: tracing.is_patched(pid), 30, what="the agent")

    def end(self):
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, err.decode()
        return out.decode(), err.decode()


def trace(program, file, *commands):
    """The answers to the commands, given while the program is traced."""
    t = Traced("trace", "-p", program.pid, "-o", file, pid=program.pid)
    answers = [program.ask(command) for command in commands]
    _, err = t.end()
    program.assert_well()
    return answers, err


def report(file, *args):
    return gospect.run("report", file, *args, seconds=100).ok()


def rows_of(file, *args):
    return json.loads(report(file, *args, "-n", 0, "-f", "json").out)


def by_operation(row):
    """ns in which a request did not run, by what it was at; "between": beside one of its clocks."""
    spent = collections.Counter()
    for place in row["stacks"]:
        functions = {frame["func"] for frame in place["frames"]}
        for name, function in OPERATIONS.items():
            if function in functions:
                spent[name] += place["ns"]
                break
        else:
            spent["between"] += place["ns"]
    return spent


def length(interval):
    return interval[1] - interval[0]


def wrong_with(request, row):
    """Checks a row against the request's own times. A request's clock is read around what it
    does, so it has in it what is run to begin and to end a wait, and whatever interrupts that:
    the trace tells it as running, of which the request knows what it meant to."""
    least = request["unset"][0] - request["set"][1]
    most = request["unset"][1] - request["set"][0]
    states = sum(row[f"{s}_ns"] for s in ("running", "runnable", "syscall", "waiting"))
    spent, did = by_operation(row), request["did"]
    overhead = row["running_ns"] + spent["between"] - (length(did["cpu"]) - spent["cpu"])
    missing = {name: length(did[name]) - spent[name] for name in did if name != "cpu"}

    if row["goroutines"] != 1 + request["children"]:
        yield f"{row['goroutines']} goroutines"
    if not row["whole"] or states != row["wall_ns"]:
        yield f"{states} ns in all states of {row['wall_ns']}"
    # A child has answered last of all, and may be gone only after that: when, nobody knows.
    latest = most + tolerance(most) if not request["children"] else float("inf")
    if not least - tolerance(least) <= row["elapsed_ns"] <= latest:
        yield f"elapsed {row['elapsed_ns']}, not {least} to {most}"
    for name, ns in missing.items():
        if not -tolerance(length(did[name])) <= ns <= overhead + tolerance(length(did[name])):
            yield f"{name} {spent[name]}, not {length(did[name])}; ran {overhead} besides"
    if sum(missing.values()) > overhead + tolerance(most):
        yield f"{sum(missing.values())} of waits are missing, and {overhead} ran besides"


def exact_waits(request, row):
    spent = by_operation(row)
    return all(abs(length(request["did"][name]) - spent[name])
               <= tolerance(length(request["did"][name]))
               for name in WAITS if name in request["did"])


@newest_version()
def test_each_request_did_what_it_says(targets, version, tmp_path):
    program = targets.start("requests", version)
    file = tmp_path / "out.trace"
    (answer,), err = trace(program, file, f"serve {REQUESTS} {WORKERS}")
    assert " 0 lost" in err, err
    requests = json.loads(answer)
    found = rows_of(file, "--by", "label:trace_id")
    rows = {row["name"]: row for row in found}
    assert len(found) == len(rows) == len(requests) == REQUESTS
    wrong = [f"{r['id']}: {what}" for r in requests for what in wrong_with(r, rows[r["id"]])]
    assert not wrong, f"{len(wrong)}: {wrong[:5]}"
    exact = sum(exact_waits(r, rows[r["id"]]) for r in requests)
    assert exact > 0.95 * REQUESTS, f"{REQUESTS - exact} have waits that ran for long"
    assert [r["elapsed_ns"] for r in found] == sorted((r["elapsed_ns"] for r in found),
                                                      reverse=True)


def test_percentiles_are_those_of_the_requests(targets, tmp_path):
    program = targets.start("requests")
    file = tmp_path / "out.trace"
    trace(program, file, "serve 900 4")
    rows = rows_of(file, "--by", "label:trace_id", "--per", "label:route")
    each = rows_of(file, "--by", "label:trace_id", "--per", "all")
    assert [(r["count"], r["cut"]) for r in each] == [(900, 0)]
    assert {r["name"]: r["count"] for r in rows} == {"/fast": 300, "/slow": 300,
                                                     "/with space=%": 300}
    slow = sorted(r["elapsed_ns"] for r in rows_of(file, "--by", "label:trace_id")
                  if int(r["name"][1:]) % 3 == 1)
    row, = (r for r in rows if r["name"] == "/slow")
    assert (row["p50_ns"], row["p90_ns"], row["p99_ns"], row["max_ns"]) == (
        slow[149], slow[269], slow[296], slow[299])


def test_offcpu_needs_no_file(targets):
    program = targets.start("requests")
    t = Traced("offcpu", "-p", program.pid, "--by", "label:trace_id", "-n", 0, "-f", "json",
               pid=program.pid)
    requests = json.loads(program.ask("serve 500 4"))
    out, _ = t.end()
    rows = {row["name"]: row for row in json.loads(out)}
    assert len(rows) == 500
    wrong = [f"{r['id']}: {what}" for r in requests for what in wrong_with(r, rows[r["id"]])]
    assert not wrong, wrong[:5]
    program.assert_well()


def test_one_request_makes_a_flame_graph(targets, tmp_path):
    program = targets.start("requests")
    file, page, profile = (tmp_path / name for name in ("out.trace", "one.html", "all.pb.gz"))
    trace(program, file, "serve 100 4")
    only = ("--by", "label:trace_id", "--only", "r7")
    row, = (r for r in rows_of(file, "--by", "label:trace_id") if r["name"] == "r7")
    folded = report(file, *only, "-f", "folded").text
    total = sum(int(line.rpartition(" ")[2]) for line in folded.splitlines())
    assert abs(total - row["wall_ns"]) < 1000 * len(folded.splitlines()) or total > 0
    assert "main.doMutex" in folded and "main.doChild" not in folded
    report(file, *only, "-o", page)
    assert page.read_text().startswith("<!DOCTYPE html>")
    report(file, "-o", profile)
    by = rows_of(profile, "--by", "label:trace_id")
    assert {r["name"]: r["wall_ns"] for r in by}["r7"] == row["wall_ns"]
    assert gospect.run("report", file, "--by", "label:trace_id", "--only", "r100").fails(1)


def test_a_recording_agrees_within_its_error(targets):
    program = targets.start("requests")
    process = gospect.start("offcpu", "-p", program.pid, "--by", "label:route", "-n", 0,
                            "-f", "json", "--sampled", "--budget", 100, "-r", 500)
    gospect.await_recording(process)
    requests = json.loads(program.ask("serve 6000 8"))
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    error = float(re.search(r"accurate to ±([\d.e+]+) ms", err.decode())[1]) * 1e6
    rows = {row["name"]: row for row in json.loads(out)}
    assert set(rows) == {"/fast", "/slow", "/with space=%"}
    for route in rows:
        # A child has its labels too; when it was made and was gone, its parent does not know.
        took = sum(r["unset"][1] - r["set"][0] for r in requests if r["route"] == route)
        child = sum(length(r["did"]["child"]) for r in requests
                    if r["route"] == route and r["children"])
        seen = rows[route]["wall_ns"]
        # It says 95 % confidence; twice the error always holds.
        assert took - 2 * error < seen < took + child + 2 * error, (route, took, seen, error)
    program.assert_well()


def test_labels_from_before_the_trace_are_known(targets, tmp_path):
    program = targets.start("requests")
    program.ask("labels early")
    file, flight = tmp_path / "out.trace", tmp_path / "flight.trace"
    trace(program, file, "labels late")
    rows = {row["name"]: row for row in rows_of(file, "--by", "label:bad")}
    assert set(rows) == {"early", "late"}
    assert rows["early"]["begin_ns"] == 0 and not rows["early"]["whole"]
    assert rows["late"]["begin_ns"] > 0
    t = Traced("trace", "-p", program.pid, "-o", flight, "--flight", 1, pid=program.pid)
    time.sleep(3)
    t.end()
    rows = {row["name"]: row for row in rows_of(*incidents(flight), "--by", "label:bad")}
    assert set(rows) == {"early", "late"}
    assert all(row["begin_ns"] < 20e6 and row["elapsed_ns"] > 0.8e9 for row in rows.values())


BAD = {
    "control": "con%1B[31mtrol%0A=a%EF%BF%BDb",
    "empty": "=",
    "megabyte": "huge=" + "v" * 100,
    "thousand": "key0042=value42",
}


@every_version((golang.OLDEST, golang.NEWEST))
def test_invalid_labels_are_truncated_and_counted(targets, version, tmp_path):
    program = targets.start("requests", version)
    file = tmp_path / "out.trace"
    _, err = trace(program, file, *(f"labels {kind}" for kind in BAD), "check")
    rows = {row["name"]: row for row in rows_of(file, "--by", "label:bad")}
    # Of a map with a thousand labels, which are left out is chance (up to Go 1.23).
    sure = set(BAD) - ({"thousand"} if golang.minor(version) < (1, 24) else set())
    assert sure <= set(rows), rows.keys()
    for kind in sure:
        assert rows[kind]["waits"].get("sleep", 0) > 0
    assert "labels were truncated or lost" in err, err
    text = report(file, "--by", "label:con\x1b[31mtrol\n").text
    assert "\x1b" not in text.split("\n", 1)[1] and "\\x1b]0;x\\x07 =%41" in text
    assert gotrace.tool_trace_takes("1.22.12", file) is None
    assert gotrace.tool_trace_takes("1.27.2", file) is None


@newest_version((golang.OLDEST, golang.NEWEST))
def test_a_flood_of_labels_costs_no_more_than_time(targets, version, tmp_path):
    program = targets.start("requests", version)
    file = tmp_path / "out.trace"
    t = Traced("trace", "-p", program.pid, "-o", file, "--max-size", 500, pid=program.pid)
    changes = int(program.ask(in_full("flood 0.3", "flood 0.1")).split()[1])
    t.end()
    program.assert_well()
    assert changes > in_full(60_000, 20_000), changes
    assert rows_of(file, "--by", "label:flood", "--per", "all")[0]["count"] > 1000
    assert gotrace.tool_trace_takes("1.27.2", file) is None


@every_version((golang.OLDEST, golang.NEWEST))
def test_waits_of_a_handler_lie_within_its_call(targets, version, tmp_path):
    program = targets.start("requests", version)
    file = tmp_path / "out.trace"
    (answer,), _ = trace(program, file, "http 200")
    requests = json.loads(answer)
    rows = sorted(rows_of(file, "--by", "request"), key=lambda row: row["begin_ns"])
    assert len(rows) == len(requests) == 200
    for request, row in zip(requests, rows):
        assert row["name"] == "net/http.serverHandler.ServeHTTP" and row["uncertain_ns"] == 0
        took = request["unset"][1] - request["set"][0]
        slept = sum(p["ns"] for p in row["stacks"]
                    if "main.doSleep" in {f["func"] for f in p["frames"]})
        missing = length(request["did"]["sleep"]) - slept
        assert -tolerance(took) < missing < row["running_ns"] + tolerance(took)
        assert -2000 < row["elapsed_ns"] - took < row["running_ns"] + tolerance(took), (request, row)
    same = rows_of(file, "--root", r"serverHandler.*ServeHTTP$")
    assert len(same) == 200


@every_version((golang.OLDEST, golang.NEWEST))
def test_functions_without_recorded_calls_are_found_by_their_stacks(targets, version, tmp_path):
    program = targets.start("requests", version)
    file = tmp_path / "out.trace"
    (answer,), _ = trace(program, file, "http 200")
    result = report(file, "--root", r"^main\.doSleep$", "-n", 0, "-f", "json")
    rows = sorted(json.loads(result.out), key=lambda row: row["begin_ns"])
    assert "calls that did not block" in result.err
    for request, row in zip(json.loads(answer), rows, strict=True):
        took = length(request["did"]["sleep"])
        assert abs(row["waiting_ns"] + row["runnable_ns"] - took) < (
            tolerance(took) + row["uncertain_ns"])
        assert row["elapsed_ns"] - row["uncertain_ns"] <= took + tolerance(took)


def test_wrong_usage_is_said(targets, tmp_path):
    program = targets.start("requests")
    for args, words in (
            (("--by", "label:"), "--by: invalid value"),
            (("--root", "("), "invalid regular expression"),
            (("--root", "x", "--sampled"), "omit --sampled"),
            (("--by", "label:a", "--per", "b"), "--per: invalid value"),
            (("--by", "label:a", "--root", "b"), "--root cannot be combined")):
        assert words in gospect.run("offcpu", "-p", program.pid, *args).fails(2)
    message = gospect.run("offcpu", "-p", program.pid, "-d", 0.1, "--by", "label:none")
    assert message.status == 1 and "has the label none" in message.err
    assert gospect.run("offcpu", "--by", "label:a").status == 2
    program.assert_well()


def test_offcpu_samples_when_it_cannot_trace(targets):
    program = targets.start("requests")
    program.ask("labels early")
    with gospect_tracing(program):
        result = gospect.run("offcpu", "-p", program.pid, "-d", 0.5, "--by", "label:bad").ok()
    assert re.search(r"is already traced by gospect process \d+.*; sampling instead", result.err)
    assert "accurate to" in result.err
    assert re.search(r"early +sleep", result.text), result.text


class gospect_tracing:
    def __init__(self, program):
        self.program = program

    def __enter__(self):
        self.t = Traced("trace", "-p", self.program.pid, "-o", "/dev/null", "-f", "go",
                        pid=self.program.pid)

    def __exit__(self, *_):
        self.t.end()
