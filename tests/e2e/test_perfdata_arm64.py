"""`gospect report` of what perf recorded on an arm64 machine: tests/fixtures/README.md."""

import pytest

from lib import callers, gospect, perf, pprof

VERSIONS = ("1.23.12", "1.27.2")


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arm64")
    return {version: perf.recorded_program(folder, version) for version in VERSIONS}


@pytest.mark.parametrize("kind", ("dwarf", "g"))
@pytest.mark.parametrize("version", VERSIONS)
def test_every_caller_is_right(programs, tmp_path, version, kind):
    """By the bytes of stack; by frame pointers, where the link register knows the caller."""
    path = perf.FIXTURES / f"go{version}-arm64-{kind}.data"
    result = gospect.run("report", path, "--exe", programs[version], "-o", "p.pb.gz", cwd=tmp_path)
    assert not result.ok().words
    profile = pprof.read(tmp_path / "p.pb.gz")
    for sample in profile.samples:
        while len(sample.stack) > 1 and sample.stack[0] == "[kernel]":
            del sample.stack[0]
    right, wrong = callers.judge(profile)
    assert right > 1e9
    assert not wrong
    assert not any(a == b for s in profile.samples for a, b in zip(s.stack, s.stack[1:]))
    link_register = [c for c in profile.comments if "link register" in c]
    assert bool(link_register) == (kind == "g")


@pytest.mark.parametrize("version", VERSIONS)
def test_report_marks_wrong_frame_pointers(programs, version):
    samples, wrong = perf.probe_records(perf.FIXTURES / f"go{version}-arm64-dwarf.data",
                                        programs[version])
    assert samples > 100 and not wrong


def test_missing_program_is_reported(tmp_path):
    path = perf.FIXTURES / "go1.27.2-arm64-g.data"
    result = gospect.run("report", path).ok()
    assert any("does not exist here" in line for line in result.words)
