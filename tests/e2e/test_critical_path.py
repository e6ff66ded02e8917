"""The critical path of a request, against the parts that the program made it of."""

import itertools
import json
import re

import pytest

from lib import golang, gospect, perfetto
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


PATHS = "critical paths of the slowest requests"


def segment_key(name):
    """Of "sleep: G7 main.worker": the goroutine, and what it does."""
    does, goroutine = name.split(": ", 1)
    return int(goroutine.split()[0][1:]), "running" if does == "runnable" else does


def test_perfetto_shows_the_paths_and_their_arrows(targets, tmp_path):
    """Each request is a slice, and its parts are slices in it. Where a goroutine woke the next one,
    the arrow from it to what the other then does goes by way of the part."""
    if not perfetto.protos():
        pytest.skip("the package perfetto is unavailable")
    program = targets.start("relay", golang.NEWEST)
    file = tmp_path / "relay.pftrace"
    with tracing(program, file, "--root", r"^main\.handle$"):
        requests = json.loads(program.ask(f"relay {N}"))
    trace = perfetto.Trace(file.read_bytes())
    assert not trace.wrong, trace.wrong[:3]
    lanes = [t for t in trace.tracks.values()
             if t.parent and trace.tracks[t.parent].name == PATHS]
    slices = sorted((s for lane in lanes for s in lane.slices), key=lambda s: (s[1], -s[2]))
    found = {}
    for name, begin, end in slices:
        if name == "main.handle":
            found[begin, end] = []
        else:
            inside = [r for r in found if r[0] <= begin and end <= r[1]]
            found[inside[-1]].append((name, begin, end))
    assert len(found) == N
    for (begin, end), segments, r in zip(found, found.values(), requests):
        assert segments[0][1] == begin and segments[-1][2] == end
        assert all(a[2] == b[1] for a, b in itertools.pairwise(segments))
        check_slices(segments, r)
    check_arrows(trace, lanes)
    check_report(file, requests)


def check_report(file, requests):
    """The same from the file alone. It has no lines."""
    rows = json.loads(gospect.run("report", file, "--root", r"^main\.handle$", "--critical-path",
                                  "-f", "json", "-n", 0).ok().text)
    rows = {row["goroutine"]: row for row in rows}
    assert set(rows) == {r["goroutine"] for r in requests}
    for r in requests:
        path = rows[r["goroutine"]]["critical_path"]
        check_is_whole(rows[r["goroutine"]], path)
        assert members(path) == [(p["goroutine"], p["state"]) for p in r["parts"]]


def check_slices(segments, r):
    """Those of 0.5 ms and more are the request's parts, in order."""
    rows = [{"goroutine": g, "wait": "", "state": does, "ns": end - begin}
            for (g, does), begin, end in ((segment_key(name), b, e) for name, b, e in segments)]
    assert members(rows) == [(p["goroutine"], p["state"]) for p in r["parts"]]
    for p in r["parts"]:
        function = p["func"].removeprefix("main.")
        assert any(f"G{p['goroutine']} " in name and function in name for name, *_ in segments)


def check_arrows(trace, lanes):
    """From the waker's mark over the path to the slice in which the woken one runs."""
    by_way = [steps for steps in trace.flow_steps.values() if any(s[1] in lanes for s in steps)]
    # Three wake-ups in each request: of the worker by the keeper, by its child, of the handler.
    assert len(by_way) >= 3 * N
    for steps in by_way:
        wakes, part, runs = sorted(steps, key=lambda s: (s[0], s[1] in lanes, s[2] == "running"))
        assert wakes[2] in ("unblock", "go") and part[1] in lanes and runs[2] == "running"
        assert wakes[0] == part[0] <= runs[0]
        assert runs[3].startswith(f"G{segment_key(part[2])[0]} ")


def test_a_path_is_asked_of_requests_alone(relay):
    file, _ = relay
    assert "--critical-path" in gospect.run("report", file, "--critical-path").fails(2)
    assert "--critical-path" in gospect.run("report", file, "--by", "request", "--per", "all",
                                            "--critical-path").fails(2)
    assert "omit --sampled" in gospect.run("offcpu", "-p", 1, "--sampled", "--by", "label:a",
                                           "--critical-path").fails(2)
