"""Requests with their names: method, path, route, status, peer and the ids of a traceparent.

The program named knows of each request what it was; a trace has to know the same.
"""

import json
import subprocess

import pytest

from lib import golang, gospect, grpc, perfetto, pprof
from lib.params import every_build, in_full
from lib.requesting import FACTS, as_shown, assert_named, in_order, offcpu, rings, trace

FACTS_OF_GRPC = (*FACTS, "status_name")
FEW, MANY = 700, 10_000
# Their transports differ, and where a status has its code.
GRPC_VERSIONS = ((golang.OLDEST, "v1.46.2"), (golang.MIDDLE, "v1.59.0"),
                 (golang.MIDDLE, "v1.64.0"), (golang.MIDDLE, "v1.66.0"), (golang.NEWEST, "v1.69.0"))


@pytest.fixture
def named(untouched):
    return lambda version=golang.NEWEST, mode=golang.PLAIN: untouched(
        golang.build("named", version, mode))


@every_build(modes=(golang.PLAIN, golang.STRIPPED))
def test_each_request_has_its_name_route_status_and_trace(named, version, mode):
    requests, status, out, err = offcpu(named(version, mode), f"serve http {FEW} 4 {version[2:4]}",
                                        "-f", "json")
    assert status == 0, err
    assert len(err.splitlines()) == 1 and " 0 lost" in err, err
    assert_named(requests, json.loads(out))
    assert "secret" not in out


@pytest.mark.slow
@pytest.mark.time_limit(600)
@every_build(modes=(golang.PLAIN, golang.STRIPPED))
def test_each_of_many_requests_has_its_name(named, version, mode):
    program = named(version, mode)
    for kind in ("http", "http2"):
        requests, status, out, err = offcpu(program, f"serve {kind} {MANY} 8 1", "-f", "json")
        assert status == 0, err
        assert_named(requests, json.loads(out))


def test_requests_of_http2_have_names(named):
    for version in in_full(golang.VERSIONS, (golang.OLDEST, golang.NEWEST)):
        requests, status, out, err = offcpu(named(version), f"serve http2 {FEW} 4 3", "-f", "json")
        assert status == 0, err
        assert_named(requests, json.loads(out))


@pytest.mark.parametrize("mode", (golang.PLAIN, golang.STRIPPED))
def test_grpc_calls_and_requests_of_x_net_have_names(untouched, mode, tmp_path):
    assert_grpc_is_named(untouched, mode, tmp_path, grpc.program())


@pytest.mark.slow
@pytest.mark.time_limit(600)
@pytest.mark.parametrize("mode", (golang.PLAIN, golang.STRIPPED))
@pytest.mark.parametrize("version, number", GRPC_VERSIONS)
def test_grpc_calls_of_older_versions_have_names(untouched, version, number, mode, tmp_path):
    modules = {"google.golang.org/grpc": number}
    if version == golang.OLDEST:
        modules["golang.org/x/net"] = "v0.7.0"
    program = grpc.program(version=version, **modules)
    assert_grpc_is_named(untouched, mode, tmp_path, program)


@pytest.mark.slow
@pytest.mark.time_limit(900)
@pytest.mark.parametrize("mode", (golang.PLAIN, golang.STRIPPED))
@pytest.mark.parametrize("version, number", (GRPC_VERSIONS[0], GRPC_VERSIONS[2], (golang.NEWEST, None)))
def test_each_of_many_grpc_calls_has_its_name(untouched, version, number, mode, tmp_path):
    modules = {"google.golang.org/grpc": number} if number else {}
    if version == golang.OLDEST:
        modules["golang.org/x/net"] = "v0.7.0"
    assert_grpc_is_named(untouched, mode, tmp_path, grpc.program(version=version, **modules), MANY, MANY)


def assert_grpc_is_named(untouched, mode, tmp_path, binary, calls=200, requests=100):
    if mode == golang.STRIPPED:
        subprocess.run(["strip", "-o", tmp_path / "grpc", binary], check=True)
        binary = tmp_path / "grpc"
    program = untouched(binary)
    for command in (f"names {calls}", f"h2c {requests}"):
        made, status, out, err = offcpu(program, command, "-f", "json")
        assert status == 0, err
        rows = json.loads(out)
        assert in_order({key: row[key] for key in FACTS_OF_GRPC if key in row} for row in rows) == in_order(made)
        assert "secret" not in out


def test_names_are_not_read_when_they_are_not_wanted(named):
    requests, status, out, err = offcpu(named(), "serve http 50 4 3", "-f", "json", "--no-names")
    assert status == 0, err
    rows = json.loads(out)
    assert len(rows) == len(requests) and not any(key in row for row in rows for key in FACTS)


def test_slices_in_perfetto_and_labels_in_pprof_have_names(named, tmp_path):
    if not perfetto.protos():
        pytest.skip("the package perfetto cannot be had from PyPI")
    program = named()
    requests = trace(program, "serve http2 200 4 5", tmp_path / "out.pftrace")
    seen = perfetto.Trace((tmp_path / "out.pftrace").read_bytes())
    assert not seen.wrong, seen.wrong[:3]
    # The slowest are on the lanes of critical paths as well.
    tracks = [t for t in seen.tracks.values() if not (t.parent and (seen.tracks[t.parent].name or "").startswith("critical paths"))]
    names = [name for track in tracks for name, *_ in track.slices if " /" in name and "gospect" not in name]
    assert sorted(names) == sorted(f"{shown['method']} {shown['path']}" for shown in map(as_shown, requests))
    assert_named(requests, rows_of(tmp_path / "out.pftrace"))

    requests = trace(program, "serve http 200 4 6", tmp_path / "out.trace")
    gospect.run("report", tmp_path / "out.trace", "--by", "request", "-o", tmp_path / "p.pb.gz").ok()
    profile = pprof.read(tmp_path / "p.pb.gz")
    shown = {tuple(sample.labels.get(key, "") for key in ("method", "route", "status")) for sample in profile.samples}
    assert shown == {(request["method"], request["route"], str(request["status"])) for request in requests}


def rows_of(file, *args):
    return json.loads(gospect.run("report", file, "--by", "request", "-n", 0, "-f", "json",
                                  *args).ok().out)


def test_calls_of_functions_are_parts_of_their_request(named):
    for version, kind in ((golang.OLDEST, "http"), (golang.NEWEST, "http2")):
        requests, status, out, err = offcpu(named(version), f"serve {kind} 200 2 4", "-f", "json", "--span", r"\.query$")
        assert status == 0, err
        truth = {q["span_id"]: q for q in requests if q["span_id"]}
        rows = [row for row in json.loads(out) if "span_id" in row]
        assert len(rows) == len(truth) > 50
        for row in rows:
            want = truth[row["span_id"]]
            if not want["queries"]:
                assert "spans" not in row
                continue
            span, = row["spans"]
            assert span["func"] == "main.(*request).query" and span["count"] == want["queries"], (span, want)
            assert want["query_ns"] <= span["ns"] <= row["elapsed_ns"], (span, want, row)


def test_requests_of_one_trace_are_one_row(named, tmp_path):
    file = tmp_path / "out.trace"
    requests = trace(named(), "serve http 400 4 8", file)
    want = {}
    for row in rows_of(file):
        if "trace_id" in row:
            of = want.setdefault(row["trace_id"], [])
            of.append(row)
    rows = json.loads(gospect.run("report", file, "--by", "trace", "-n", 0, "-f", "json").ok().out)
    assert {row["name"] for row in rows} == set(want) == {q["trace_id"] for q in requests if q["trace_id"]}
    assert any(len(of) > 1 for of in want.values())
    for row in rows:
        of = want[row["name"]]
        for key in ("wall_ns", "running_ns", "runnable_ns", "syscall_ns", "waiting_ns"):
            assert row[key] == sum(part[key] for part in of), (row, of)
        assert row["begin_ns"] == min(part["begin_ns"] for part in of)
        assert row["end_ns"] == max(part["end_ns"] for part in of)
        assert max(part["elapsed_ns"] for part in of) <= row["elapsed_ns"] <= sum(part["elapsed_ns"] for part in of)
        assert row["goroutines"] == len({part["goroutine"] for part in of})
        assert sum(s["ns"] for s in row["stacks"]) == sum(s["ns"] for part in of for s in part["stacks"])
    text = gospect.run("report", file, "--by", "trace").ok().text
    assert "TRACE AND WAITS" in text and rows[0]["name"] in text


def test_slow_requests_are_compared_with_the_others(named, tmp_path):
    file = tmp_path / "out.trace"
    trace(named(), "serve http 300 4 9", file)
    rows = rows_of(file)
    middle = sorted(row["elapsed_ns"] for row in rows)[len(rows) // 2]
    args = ("--by", "request", "--slower", f"{middle}ns", "--against-fast")
    page = tmp_path / "diff.html"
    gospect.run("report", file, *args, "-o", page).ok()
    shown = json.loads(gospect.run("report", page, "--by", "state", "-f", "json").ok().out)
    assert sum(row["wall_ns"] for row in shown) == sum(row["wall_ns"] for row in rows if row["elapsed_ns"] > middle)
    gospect.run("report", file, *args).fails(2)
    gospect.run("report", file, "--by", "request", "--against-fast", "-o", page).fails(2)


def test_routes_and_slow_requests_are_selected(named, tmp_path):
    file = tmp_path / "out.trace"
    requests = trace(named(), "serve http 400 4 7", file)
    with open(file, "rb") as f:
        assert b"secret" not in f.read()

    users = [request for request in requests if request["route"] == "/users/"]
    assert_named(users, rows_of(file, "--route", "^/users/$"))
    # Those without a route are selected by their path.
    nowhere = [request for request in requests if not request["route"]]
    assert nowhere and len(rows_of(file, "--route", "^/nowhere/")) == len(nowhere)

    groups = {row["name"]: row["count"] for row in rows_of(file, "--per", "route")}
    want = {}
    for request in requests:
        want[request["route"]] = want.get(request["route"], 0) + 1
    assert groups == want

    rows = rows_of(file)
    middle = sorted(row["elapsed_ns"] for row in rows)[len(rows) // 2]
    slow = rows_of(file, "--slower", f"{middle}ns")
    assert len(slow) == sum(row["elapsed_ns"] > middle for row in rows)
    assert all(row["elapsed_ns"] > middle for row in slow)

    text = gospect.run("report", file, "--by", "request", "--route", "^/exact$").ok().text
    assert "REQUEST AND WAITS" in text and " /exact " in text and "secret" not in text
    failed = gospect.run("report", file, "--by", "request", "--route", "^/none$")
    assert failed.status == 1 and "there are: " in failed.words[-1] and "/users/" in failed.words[-1]
    failed = gospect.run("report", file, "--by", "request", "--slower", "1h")
    assert failed.status == 1 and "took longer than" in failed.words[-1]
    for args in (("--route", "x"), ("--by", "request", "--route", "("), ("--slower", "1s", "--by", "machine")):
        gospect.run("report", file, *args).fails(2)


def test_no_secret_is_copied_into_the_rings(untouched):
    """Queries, headers, statements of a database and messages of a status are the program's secrets."""
    for binary, command, path in ((golang.build("named", golang.NEWEST), "serve http2 300 4 9", b"/users/"),
                                  (golang.build("outgoing", golang.NEWEST), "serve 40", b"/ask/"),
                                  (grpc.program(), "names 100", b"/grpc.health.v1.Health/Check"),
                                  (grpc.program("routers"), "serve gin 40", b"/users/")):
        seen = []
        _, status, out, err = offcpu(untouched(binary), command, "-f", "json", look=lambda pid: seen.append(rings(pid)))
        assert status == 0, err
        assert path in seen[0] and b"secret" not in seen[0]
        assert "secret" not in out
