"""What a request asked a database and other servers: parts of its row, without any option.

The program outgoing notes what each of its handlers asked, how often, and how long it took.
"""

import json
import subprocess

import pytest

from lib import golang, gospect, grpc, perfetto
from lib.requesting import offcpu, trace

SECRET = "secret-value"


@pytest.fixture
def outgoing(untouched):
    return lambda version=golang.NEWEST, mode=golang.PLAIN: untouched(
        golang.build("outgoing", version, mode))


def parts_of(row):
    return {part["func"]: part for part in row.get("spans", ())}


def assert_parts(requests, rows):
    rows = {row["path"]: row for row in rows if row.get("path", "").startswith("/ask/")}
    assert len(rows) == len(requests)
    assert_asked(requests, [rows[request["path"]] for request in requests])


def assert_asked(requests, rows):
    for request, row in zip(requests, rows, strict=True):
        parts = parts_of(row)
        assert set(parts) == set(request["asked"]), (parts, request)
        for function, asked in request["asked"].items():
            part = parts[function]
            assert part["count"] == asked["count"]
            assert asked["least"] <= part["ns"] <= asked["most"], (part, asked)
        assert sum(part["ns"] for part in parts.values()) <= row["elapsed_ns"]


@pytest.mark.parametrize("version, mode", ((golang.OLDEST, golang.STRIPPED), (golang.MIDDLE, golang.PLAIN),
                                           (golang.NEWEST, golang.STRIPPED)))
def test_a_request_has_what_it_asked(outgoing, version, mode):
    requests, status, out, err = offcpu(outgoing(version, mode), "serve 60", "-f", "json")
    assert status == 0 and len(err.splitlines()) == 1, err
    assert_parts(requests, json.loads(out))
    assert SECRET not in out


@pytest.mark.parametrize("mode", (golang.PLAIN, golang.STRIPPED))
def test_a_request_has_its_calls_of_grpc(untouched, mode, tmp_path):
    binary = grpc.program()
    if mode == golang.STRIPPED:
        subprocess.run(["strip", "-o", tmp_path / "grpc", binary], check=True)
        binary = tmp_path / "grpc"
    requests, status, out, err = offcpu(untouched(binary), "ask 40", "-f", "json")
    assert status == 0 and len(err.splitlines()) == 1, err
    assert_parts(requests, json.loads(out))


@pytest.mark.slow
@pytest.mark.parametrize("mode", (golang.PLAIN, golang.STRIPPED))
def test_connect_and_fasthttp(untouched, mode, tmp_path):
    """A procedure of connect is the path of a request of net/http. A handler of fasthttp is a request with --root."""
    binary = grpc.program("foreign")
    if mode == golang.STRIPPED:
        subprocess.run(["strip", "-o", tmp_path / "foreign", binary], check=True)
        binary = tmp_path / "foreign"
    program = untouched(binary)
    calls, status, out, err = offcpu(program, "connect 60", "-f", "json")
    assert status == 0 and "secret" not in out, err
    rows = [row for row in json.loads(out) if row["path"] != "/acme.v1.Store/Find"]
    keys = ("method", "path", "status", "trace_id", "span_id")
    assert [{k: row.get(k, "") for k in keys} for row in sorted(rows, key=lambda row: row["begin_ns"])] == \
        [{k: call.get(k, "") for k in keys} for call in calls]
    assert_asked(calls, sorted(rows, key=lambda row: row["begin_ns"]))

    requests, status, out, err = offcpu(program, "fasthttp 60", "-f", "json", "--root", r"^main\.serveFast$")
    assert status == 0, err
    assert_asked(requests, sorted(json.loads(out), key=lambda row: row["begin_ns"]))


def test_files_have_what_a_request_asked(outgoing, tmp_path):
    program = outgoing()
    file = tmp_path / "out.trace"
    requests = trace(program, "serve 60", file)
    answer = gospect.run("report", file, "--by", "request", "-n", 0, "-f", "json").ok()
    assert_parts(requests, json.loads(answer.out))
    text = gospect.run("report", file, "--by", "request").ok().text
    assert "span database/sql.(*DB)." in text and SECRET not in text
    assert SECRET.encode() not in file.read_bytes()
    if not perfetto.protos():
        pytest.skip("the package perfetto cannot be had from PyPI")
    requests = trace(program, "serve 60", tmp_path / "out.pftrace")
    content = (tmp_path / "out.pftrace").read_bytes()
    seen = perfetto.Trace(content)
    names = [name for track in seen.tracks.values() for name, *_ in track.slices]
    for function in ("database/sql.(*DB).QueryContext", "database/sql.(*Tx).Commit", "net/http.(*Client).do"):
        asked = sum(r["asked"].get(function, {}).get("count", 0) for r in requests)
        asked += len(requests) if function.endswith("do") else 0  # main's own
        assert names.count(f"gospect.call {function}") == asked
    assert not seen.wrong and SECRET.encode() not in content


def test_functions_of_the_users_own_are_parts_too(outgoing):
    requests, status, out, err = offcpu(outgoing(), "serve 60", "-f", "json", "--span", r"^main\.\(\*request\)\.fetch$")
    assert status == 0, err
    for row in json.loads(out):
        parts = parts_of(row)
        fetched = {f for f in parts if f.startswith("net/http")}
        # Both: neither is the other's part.
        assert bool(fetched) == ("main.(*request).fetch" in parts)


def test_without_names_nothing_of_it_is_recorded(outgoing):
    _, status, out, err = offcpu(outgoing(), "serve 20", "-f", "json", "--no-names")
    assert status == 0, err
    assert not any("spans" in row for row in json.loads(out))
