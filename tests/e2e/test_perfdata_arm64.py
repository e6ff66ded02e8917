"""`gospect report` of what perf recorded on an arm64 machine: tests/fixtures/README.md."""

import bisect
import collections
import re
import shutil
import subprocess

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


def functions(program):
    """(addresses, names) of the program's functions, in order; and by how much addresses exceed offsets in the file."""
    nm = subprocess.run(["nm", "-n", program], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^([0-9a-f]+) [tT] (\S+)$", nm, re.M)
    header = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True, check=True).stdout
    offset, address = re.search(r"LOAD +(0x\w+) (0x\w+) .* R E ", header).groups()
    return [int(word, 16) for word, _ in found], [name for _, name in found], int(address, 16) - int(offset, 16)


@pytest.mark.skipif(not shutil.which("perf"), reason="perf is missing")
@pytest.mark.parametrize("kind", ("dwarf", "g"))
@pytest.mark.parametrize("version", VERSIONS)
def test_perf_shows_every_caller_of_a_rewritten_file(programs, tmp_path, version, kind):
    """golang/go#73753: none is missing, and none comes twice."""
    addresses, names, base = functions(programs[version])
    path = perf.FIXTURES / f"go{version}-arm64-{kind}.data"
    right = tmp_path / "right.data"
    assert not gospect.run("report", path, "--exe", programs[version], "-o", right).ok().words
    script = subprocess.run(["perf", "script", "-i", right, "-F", "ip"], capture_output=True, text=True, check=True).stdout
    stacks = collections.Counter()
    for block in script.split("\n\n"):
        ips = [int(word, 16) + base for word in block.split() if int(word, 16) < 1 << 32]
        stack = [names[bisect.bisect(addresses, ip - (i > 0)) - 1] for i, ip in enumerate(ips)]
        if stack and stack[0] in callers.CALLER and stack[1:2] != ["runtime.newstack"]:
            stacks[stack[0], *stack[1:2]] += 1
    assert sum(stacks.values()) > 100
    assert not [pair for pair in stacks if pair[1:] != (callers.CALLER[pair[0]],)], stacks


@pytest.mark.parametrize("version", VERSIONS)
def test_report_marks_wrong_frame_pointers(programs, version):
    samples, wrong = perf.probe_records(perf.FIXTURES / f"go{version}-arm64-dwarf.data",
                                        programs[version])
    assert samples > 100 and not wrong


def test_missing_program_is_reported(tmp_path):
    path = perf.FIXTURES / "go1.27.2-arm64-g.data"
    result = gospect.run("report", path).ok()
    assert any("does not exist here" in line for line in result.words)
