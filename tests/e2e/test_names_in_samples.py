"""Names of requests in recordings: labels that gospect reads from the memory of servers.

The program serving gives each goroutine that serves a request labels of its own that say what the
request is. So each sample says whether gospect is right.
"""

import re
import signal
import subprocess

import pytest

from lib import golang, gospect, grpc, pprof
from lib.params import every_build, newest_version

# A goroutine that has just moved may run on while its request is read: a few samples have no name.
MOST_WITHOUT = 0.05


@pytest.fixture
def serving(untouched):
    return lambda version=golang.NEWEST, mode=golang.PLAIN: untouched(
        golang.build("serving", version, mode))


# Reading the ids takes some microseconds more. A goroutine that runs meanwhile has its names, and no ids.
MOST_WITHOUT_IDS = 0.1
# Samples of the CPU begin to have names once a goroutine of a server was seen that waits.
MOST_WITHOUT_RUNNING = 0.15


def record(program, command, file, *args, within="main.wait", state="waiting"):
    process = gospect.start("record", program.pid, "-o", file, "--budget", 5, "-r", 200, *args)
    for line in command.split("; "):
        assert program.ask(line) == "done"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err.decode()
    # A goroutine that a handler starts inherits its labels, and serves no request.
    return [s for s in pprof.read(file).samples
            if within in s.stack and (s.labels["state"] == "running") == (state == "running")]


def named(samples, key):
    return [s for s in samples if key in s.labels]


def time_of(samples):
    return sum(s.values["wall"] for s in samples)


def assert_right(samples, minor, most_without=MOST_WITHOUT, most_without_ids=MOST_WITHOUT_IDS):
    assert len(samples) > 20
    for s in samples:
        for key in ("method", "path", "route", "trace", "span"):
            name = f"{key}_id" if key in ("trace", "span") else key
            truth = s.labels.get(f"truth_{key}", "")  # pprof has no empty labels
            assert s.labels.get(name, truth) == truth, s.labels
    for key in ("method", "path", *(("route",) if minor >= 22 else ())):
        without = time_of(s for s in samples if key not in s.labels)
        assert without <= most_without * time_of(samples), (key, without)
    traced = [s for s in samples if "truth_trace" in s.labels]
    for key in ("trace_id", "span_id") if most_without_ids < 1 else ():
        without = time_of(s for s in traced if key not in s.labels)
        assert without <= most_without_ids * time_of(traced), (key, without)


@every_build(modes=(golang.PLAIN, golang.STRIPPED))
def test_each_sample_of_a_handler_has_its_request(serving, version, mode, tmp_path):
    program = serving(version, mode)
    for kind, more in (("http", ("--trace-ids",)), ("http2", ("--trace-ids",)), ("copied", ())):
        file = tmp_path / f"{kind}.pb.gz"
        samples = record(program, f"serve {kind} 800 8", file, "--paths", *more)
        assert_right(samples, golang.minor(version)[1], most_without_ids=MOST_WITHOUT_IDS if more else 1)


def can_copy_at_samples(program, file):
    """Whether the kernel permits the program that reads memory at each sample of the CPU."""
    answer = gospect.run("record", program.pid, "-d", 0.2, "-o", file)
    return not re.search("no on-CPU stacks|labels of running goroutines are read", answer.ok().err)


@newest_version()
@pytest.mark.parametrize("mode", (pytest.param(golang.PLAIN, marks=pytest.mark.slow), golang.STRIPPED))
def test_goroutines_that_run_have_their_request(serving, version, mode, tmp_path):
    program = serving(version, mode)
    file = tmp_path / "p.pb.gz"
    if not can_copy_at_samples(program, file):
        pytest.skip("the kernel permits no eBPF program here")
    for kind in ("http", "http2"):
        samples = record(program, f"serve {kind} 400 4; compute {kind} 1500 4", file, "--paths", "--trace-ids", within="main.compute",
                         state="running")
        assert_right(samples, golang.minor(version)[1], MOST_WITHOUT_RUNNING, MOST_WITHOUT_RUNNING)


@pytest.mark.parametrize("mode", (golang.PLAIN, golang.STRIPPED))
def test_each_sample_of_a_grpc_call_has_its_method(untouched, mode, tmp_path):
    binary = grpc.program()
    if mode == golang.STRIPPED:
        subprocess.run(["strip", "-o", tmp_path / "grpc", binary], check=True)
        binary = tmp_path / "grpc"
    samples = record(untouched(binary), "slow 2000", tmp_path / "p.pb.gz", within="main.rest")
    assert time_of(samples) > 8e9  # 2,000 calls of 5 ms
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
