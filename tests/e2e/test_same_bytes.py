"""The output for one input is the same in each process, although each has another hash seed."""

import hashlib
import subprocess

import pytest

from lib import gospect

BUILD = gospect.ROOT / "build" / "src"
RUNS = 4


def assert_same(make):
    """Every run makes the same output."""
    made = {hashlib.sha256(make()).hexdigest() for _ in range(RUNS)}
    assert len(made) == 1


@pytest.mark.parametrize("name", ["a.trace", "a.pftrace"])
def test_a_trace(tmp_path, name):
    def write():
        subprocess.run([BUILD / "gotrace" / "write_made_up_trace", "5", tmp_path / name], check=True,
                       stdout=subprocess.DEVNULL)
        return (tmp_path / name).read_bytes()

    assert_same(write)


@pytest.mark.parametrize("form", ["pprof", "folded", "folded-state", "speedscope", "firefox", "html"])
def test_a_profile(form):
    def write():
        return subprocess.run([BUILD / "profile" / "write_made_up_profile", "service", form],
                              check=True, stdout=subprocess.PIPE).stdout

    assert_same(write)


@pytest.mark.parametrize("args", [(), ("--by", "state"), ("-f", "json"), ("-f", "folded"),
                                  ("-f", "html")])
def test_a_report(tmp_path, args):
    trace = tmp_path / "a.trace"
    subprocess.run([BUILD / "gotrace" / "write_made_up_trace", "5", trace], check=True,
                   stdout=subprocess.DEVNULL)
    assert_same(lambda: gospect.run("report", trace, *args).ok().out)
