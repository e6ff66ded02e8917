"""Names of requests in recordings: labels that gospect reads from the memory of servers.

The program serving gives each goroutine that serves a request labels of its own that say what the
request is. So each sample says whether gospect is right.
"""

import re
import signal
import subprocess

import pytest

from lib import golang, gospect, grpc, pprof
from lib.params import every_build

# A goroutine that has just moved may run on while its request is read: a few samples have no name.
MOST_WITHOUT = 0.05


@pytest.fixture
def serving(untouched):
    return lambda version=golang.NEWEST, mode=golang.PLAIN: untouched(
        golang.build("serving", version, mode))


def record(program, command, file, *args, within="main.wait"):
    process = gospect.start("record", program.pid, "-o", file, "--budget", 5, "-r", 200, *args)
    assert program.ask(command) == "done"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err.decode()
    # A goroutine that a handler starts inherits its labels, and serves no request.
    return [s for s in pprof.read(file).samples if within in s.stack and s.labels["state"] != "running"]


def named(samples, key):
    return [s for s in samples if key in s.labels]


def assert_right(samples, kind, minor):
    assert len(samples) > 20
    for s in samples:
        for key in ("method", "path", "route"):
            assert s.labels.get(key, s.labels[f"truth_{key}"]) == s.labels[f"truth_{key}"], s.labels
    keys = ["method", "path"]
    if kind == "http" and minor >= 22:
        keys.append("route")
    for key in keys:
        without = sum(s.values["wall"] for s in samples if key not in s.labels)
        assert without <= MOST_WITHOUT * sum(s.values["wall"] for s in samples), (key, without)


@every_build(modes=(golang.PLAIN, golang.STRIPPED))
def test_each_sample_of_a_handler_has_its_request(serving, version, mode, tmp_path):
    program = serving(version, mode)
    for kind in ("http", "http2", "copied"):
        file = tmp_path / f"{kind}.pb.gz"
        samples = record(program, f"serve {kind} 800 8", file, "--paths")
        assert_right(samples, kind, golang.minor(version)[1])


@pytest.mark.parametrize("mode", (golang.PLAIN, golang.STRIPPED))
def test_each_sample_of_a_grpc_call_has_its_method(untouched, mode, tmp_path):
    binary = grpc.program()
    if mode == golang.STRIPPED:
        subprocess.run(["strip", "-o", tmp_path / "grpc", binary], check=True)
        binary = tmp_path / "grpc"
    samples = record(untouched(binary), "slow 2000", tmp_path / "p.pb.gz", within="main.rest")
    assert len(samples) > 2
    assert {s.labels.get("method", "gRPC") for s in samples} == {"gRPC"}
    assert {s.labels["route"] for s in named(samples, "route")} == {"/grpc.health.v1.Health/Check"}
    with_route = sum(s.values["wall"] for s in named(samples, "route"))
    assert with_route >= (1 - MOST_WITHOUT) * sum(s.values["wall"] for s in samples)


def test_names_are_labels_everywhere(serving, tmp_path):
    program = serving()
    page = tmp_path / "p.html"
    record_page = gospect.start("record", program.pid, "-o", page)
    assert program.ask("serve http 300 8") == "done"
    record_page.send_signal(signal.SIGINT)
    record_page.communicate(timeout=60)
    text = page.read_text()
    assert '"route"' in text and "/items/{id}" in text and "secret" not in text
    assert not re.search(r'"path"', text)
    answer = gospect.run("report", page, "--by", "label:route", "-f", "json").ok().text
    assert "/items/{id}" in answer


def test_no_names_and_no_paths_unless_wanted(serving, tmp_path):
    program = serving()
    file = tmp_path / "p.pb.gz"
    samples = record(program, "serve http 300 8", file)
    assert named(samples, "route") and not named(samples, "path")
    assert not named(record(program, "serve http 300 8", file, "--no-names"), "method")
