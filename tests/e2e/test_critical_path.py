"""The critical path of a request, against the parts that the program made it of."""

import itertools
import json
import re

import pytest

from lib import golang, gospect
from lib.traced import tracing

N = 5


@pytest.fixture(params=("1.17.13", "1.22.12", golang.NEWEST), ids=lambda v: f"go{v}")
def relay(request, targets, tmp_path):
    program = targets.start("relay", request.param)
    file = tmp_path / "relay.trace"
    with tracing(program, file, "--root", r"^main\.handle$") as t:
        requests = json.loads(program.ask(f"relay {N}"))
    assert t.lost == 0
    return file, requests


def key_of(segment):
    """A goroutine that can run has been interrupted: it is at the same part."""
    state = segment["wait"] or segment["state"]
    return segment["goroutine"], "running" if state == "runnable" else state


def members(path):
    """Who was on the path for 0.5 ms or more, in order."""
    found = []
    for key, segments in itertools.groupby(path, key_of):
        if sum(s["ns"] for s in segments if s["state"] != "runnable") >= 500_000:
            found += [key] if found[-1:] != [key] else []
    return found


def test_the_path_has_the_parts_of_the_request(relay):
    file, requests = relay
    rows = json.loads(gospect.run("report", file, "--root", r"^main\.handle$", "--critical-path",
                                  "-f", "json", "-n", 0).ok().text)
    rows = {row["goroutine"]: row for row in rows}
    assert set(rows) == {r["goroutine"] for r in requests}
    for r in requests:
        row = rows[r["goroutine"]]
        path = row["critical_path"]
        check_is_whole(row, path)
        assert members(path) == [(p["goroutine"], p["state"]) for p in r["parts"]]
        check_times(r["parts"], path)
    check_text(file, requests)


def check_is_whole(row, path):
    """It covers the request, without a gap and without counting anything twice."""
    at = row["begin_ns"]
    for s in path:
        assert s["begin_ns"] == at and s["ns"] > 0
        at += s["ns"]
    assert at == row["end_ns"]
    assert all((s["depth"] == 0) == (s["goroutine"] == row["goroutine"]) for s in path)


def check_times(parts, path):
    """The program reads its clock within each part, so the path has at least that time of it."""
    for key in {(p["goroutine"], p["state"]) for p in parts}:
        ours = [p for p in parts if (p["goroutine"], p["state"]) == key]
        segments = [s for s in path if key_of(s) == key]
        took = sum(p["end"] - p["begin"] for p in ours)
        least = 4e6 if key[1] == "sleep" else took
        assert sum(s["ns"] for s in segments) >= 0.999 * least
        assert {s["func"] for s in segments} == {ours[0]["func"]}
        if key[1] == "sleep":
            assert sum(s["ns"] for s in segments) <= took
            assert all("main.nap" in {f["func"] for f in s["frames"]} for s in segments)


def check_text(file, requests):
    text = gospect.run("report", file, "--root", r"^main\.handle$", "--critical-path").ok().text
    assert "FUNCTION AND CRITICAL PATH" in text
    keeper = {p["goroutine"] for r in requests for p in r["parts"] if p["state"] == "sleep"}
    found = re.findall(r"% +sleep in main\.nap:\d+, goroutine (\d+) \(main\.relay\.func2\)",
                       text)
    assert len(found) == N and {int(g) for g in found} == keeper
    # A request that was interrupted often has more places than are printed.
    cut = len(re.findall(r"% +elsewhere$", text, re.M))
    until = len(re.findall(r"running until main\.\(\*house\)\.child:\d+, goroutine", text))
    assert N - cut <= until <= N and (until or cut == N)


def test_a_path_is_asked_of_requests_alone(relay):
    file, _ = relay
    assert "--critical-path" in gospect.run("report", file, "--critical-path").fails(2)
    assert "--critical-path" in gospect.run("report", file, "--by", "request", "--per", "all",
                                            "--critical-path").fails(2)
    assert "omit --sampled" in gospect.run("offcpu", "-p", 1, "--sampled", "--by", "label:a",
                                           "--critical-path").fails(2)
