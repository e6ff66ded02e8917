"""`gospect report perf.data`: what perf recorded, with the callers that it loses (golang/go#73753)."""

import collections
import os
import re
import shutil
import subprocess

import pytest

from lib import callers, golang, gospect, perf, pprof
from lib.process import Program

VERSIONS = ("1.19.13", "1.23.12", "1.27.2")
DWARF = ("--call-graph", "dwarf,1024")
UNKNOWN = "[caller unknown]"
C_PROGRAM = r"""
static volatile unsigned long n;
__attribute__((noinline)) void inner(void) { for (int i = 0; i < 100000; i++) n++; }
__attribute__((noinline)) void outer(void) { inner(); n++; }
int main(void) { for (;;) outer(); }
"""


@pytest.fixture(scope="module", autouse=True)
def perf_works():
    reason = perf.why_not()
    if reason:
        pytest.skip(reason)


def read(path, folder, *args, **kwargs):
    """The report as a profile, without the kernel's frames, and its words."""
    out = folder / f"{path.name}.pb.gz"
    result = gospect.run("report", path, "-o", out, *args, **kwargs).ok()
    profile = pprof.read(out)
    for sample in profile.samples:
        while len(sample.stack) > 1 and sample.stack[0] == "[kernel]":
            del sample.stack[0]
    return profile, result.words


@pytest.mark.parametrize("version", VERSIONS)
def test_every_caller_is_right(targets, tmp_path, version):
    program = targets.start("callers", version)
    path = perf.record(tmp_path / "perf.data", *DWARF, "-p", program.pid)
    profile, words = read(path, tmp_path)
    right, wrong = callers.judge(profile)
    assert right > 0.1e9, "it hardly ran"
    assert not wrong and not words
    samples, wrong = perf.probe_records(path, program.binary)
    assert samples > 50 and not wrong
    assert {(s.labels["process"], s.labels["pid"], s.labels["state"]) for s in profile.samples} == \
        {("callers", str(program.pid), "running")}


@pytest.mark.parametrize("version", VERSIONS)
def test_report_marks_callers_that_frame_pointers_lose(targets, tmp_path, version):
    """perf's own stacks lack the caller of each sample in a leaf."""
    program = targets.start("callers", version)
    path = perf.record(tmp_path / "perf.data", "-g", "-p", program.pid)
    chains = [stack for stack in perf.chains(path) if stack]
    leaves = [stack for stack in chains if stack[0] == "main.leaf"]
    assert len(leaves) > 50, "it hardly ran"
    assert not any(stack[1] == "main.work" for stack in leaves if len(stack) > 1)
    profile, words = read(path, tmp_path)
    marked = ended = 0
    for sample in profile.samples:
        marked += sample.values["samples"] * (UNKNOWN in sample.stack)
        leaf, *rest = sample.stack
        if leaf not in callers.CALLER or not rest:
            continue
        caller = callers.CALLER[leaf]
        if rest == [UNKNOWN]:
            ended += sample.values["samples"]
        elif rest[0] == UNKNOWN:
            assert rest[1] == callers.CALLER[caller], "nothing is missing"
        else:
            assert rest[0] == caller, "a caller is missing and that is not said"
        if leaf == "main.leaf":
            assert rest[0] == UNKNOWN
    assert marked >= len(leaves)
    # Now and then the kernel could not read the stack at all; and before work has its frame, of
    # what called burn there is goexit alone.
    unread = sum(len(stack) == 1 for stack in chains)
    unframed = sum(stack == ["main.work", "runtime.goexit.abi0"] for stack in chains)
    assert ended <= unread + unframed and unread <= 0.02 * len(chains)
    assert any(f"{marked} of " in line and "lack their innermost caller" in line for line in words)
    assert any(f"{marked} of " in comment for comment in profile.comments)


def test_truncated_stacks_are_said_with_the_size_that_would_do(targets, tmp_path):
    program = targets.start("callers")
    path = perf.record(tmp_path / "perf.data", "--call-graph", "dwarf,64", "-p", program.pid, seconds=1)
    profile, words = read(path, tmp_path)
    whole, truncated = map(int, re.search(r"stacks of Go: (\d+) whole, (\d+) truncated", "\n".join(profile.comments)).groups())
    assert truncated > 0.05 * whole
    assert any(f"{truncated} of {whole + truncated} Go stacks are truncated" in line and "dwarf,8192" in line for line in words)


@pytest.mark.parametrize("how", [("-o", "-"), ("-z",)], ids=["pipe", "packed"])
def test_piped_and_compressed_recordings_are_read(targets, tmp_path, how):
    program = targets.start("callers")
    path = perf.record(tmp_path / "perf.data", *DWARF, *how, "-p", program.pid)
    right, wrong = callers.judge(read(path, tmp_path)[0])
    assert right > 0.1e9, "it hardly ran"
    assert not wrong


def test_samples_and_their_time_are_those_that_perf_has(targets, tmp_path):
    program = targets.start("callers")
    path = perf.record(tmp_path / "perf.data", *DWARF, "-p", program.pid)
    periods = perf.periods(path)
    profile = read(path, tmp_path)[0]
    assert len(periods) > 50, "it hardly ran"
    assert profile.total("samples") == len(periods)
    assert profile.total("cpu") == profile.total("wall") == sum(periods)


def test_a_recording_of_all_processes(targets, tmp_path):
    """Those in C keep their stacks, by their own call frame information."""
    (tmp_path / "burner.c").write_text(C_PROGRAM)
    subprocess.run(["gcc", "-O1", "-fomit-frame-pointer", "-o", tmp_path / "burner",
                    tmp_path / "burner.c"], check=True)
    targets.start("callers")
    burner = subprocess.Popen([tmp_path / "burner"])
    try:
        path = perf.record(tmp_path / "perf.data", *DWARF, "-a", seconds=1.5)
    finally:
        burner.kill()
        burner.wait()
    profile = read(path, tmp_path)[0]
    by_process = collections.defaultdict(list)
    for sample in profile.samples:
        by_process[sample.labels.get("process")].append(sample)
    inner = [s.stack for s in by_process["burner"] if s.stack[0] == "inner"]
    assert inner and all(stack[1:3] == ["outer", "main"] for stack in inner)
    profile.samples = by_process["callers"]
    right, wrong = callers.judge(profile)
    assert right and not wrong


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """A recording of a program that lies where tests may replace it."""
    if perf.why_not():
        pytest.skip(perf.why_not())
    folder = tmp_path_factory.mktemp("recording")
    made = {}

    def make(version):
        if version not in made:
            binary = shutil.copy(golang.build("callers", version), folder / f"callers-{version}")
            program = Program(binary)
            made[version] = perf.record(folder / f"{version}.data", *DWARF, "-p",
                                        program.pid), binary
            program.stop()
        return made[version]

    return make


def stacks(path):
    """What perf itself prints of a file: the user's part of each stack, innermost first."""
    return [stack for stack in perf.chains(path) if stack and stack[0] in callers.CALLER]


def rewritten(path, folder, *args):
    right = folder / f"{path.name}.right.data"
    return right, gospect.run("report", path, "-o", right, *args).ok().words


@pytest.mark.parametrize("version", VERSIONS)
def test_perf_shows_every_caller_of_a_rewritten_file(recording, tmp_path, version):
    """golang/go#73753: perf's own reading of the recording shows none of them."""
    path, _ = recording(version)
    right, words = rewritten(path, tmp_path)
    shown = stacks(right)
    assert len(shown) > 50 and not words
    assert not [stack for stack in shown if stack[1] not in (callers.CALLER[stack[0]], "runtime.newstack")]
    assert not [stack for stack in stacks(path) if len(stack) > 1 and stack[1] == "main.work"]
    # Nothing but stacks differs, and nothing of the header is lost.
    assert perf.periods(right) == perf.periods(path)
    # Each sample had 1,024 bytes of its stack.
    assert path.stat().st_size - right.stat().st_size > 1000 * len(shown)
    again = read(right, tmp_path)[0]
    found, wrong = callers.judge(again)
    assert found and not wrong


@pytest.mark.parametrize("how", [("-o", "-"), ("-z",), ("-e", "page-faults")],
                         ids=["pipe", "packed", "two-events"])
def test_each_kind_of_recording_is_rewritten(targets, tmp_path, how):
    program = targets.start("callers")
    path = perf.record(tmp_path / "perf.data", *DWARF, *how, "-p", program.pid, seconds=1)
    right, _ = rewritten(path, tmp_path)
    shown = stacks(right)
    assert len(shown) > 20
    assert not [stack for stack in shown if stack[1] not in (callers.CALLER[stack[0]], "runtime.newstack")]
    header = subprocess.run(["perf", "report", "--header-only", "-i", right], capture_output=True, text=True, check=True).stdout
    assert "# cmdline : " in header and "REGS_USER" not in header and "STACK_USER" not in header


def test_rewriting_shows_where_frame_pointers_lack_a_caller(targets, tmp_path):
    program = targets.start("callers")
    path = perf.record(tmp_path / "perf.data", "-g", "-p", program.pid, seconds=1)
    right, words = rewritten(path, tmp_path)
    leaves = [stack for stack in stacks(right) if stack[0] == "main.leaf"]
    assert len(leaves) > 20 and all(stack[1] == "[unknown]" for stack in leaves)
    assert any("shown as [unknown]" in line for line in words)


def test_the_recording_itself_is_not_replaced(recording, tmp_path):
    path, _ = recording(golang.NEWEST)
    link = tmp_path / "same.data"
    link.symlink_to(path)
    before = path.read_bytes()
    for name in (path, link):
        assert "would replace the recording" in gospect.run("report", path, "-o", name).fails(2)
    assert path.read_bytes() == before
    assert "no other option than --exe" in gospect.run("report", path, "-o", tmp_path / "x.data", "--by", "func").fails(2)
    (tmp_path / "file").write_bytes(b"go 1.22 trace\0\0\0")
    assert "needs a perf.data file" in gospect.run("report", tmp_path / "file", "-f", "perf").fails(2)


def without_cache(folder):
    return {**os.environ, "HOME": str(folder)}


@pytest.mark.parametrize("version", ("1.19.13", golang.NEWEST))
def test_a_program_that_is_gone_is_said(recording, tmp_path, version):
    path, binary = recording(version)
    hidden = binary.rename(tmp_path / "hidden")
    try:
        profile, words = read(path, tmp_path, env=without_cache(tmp_path))
        assert any(str(binary) in w and "does not exist here" in w for w in words)
        assert not profile.time_in("main.work")
        assert profile.total("cpu") > 0
        by_id = shutil.copy(hidden, tmp_path / binary.name)
        right, wrong = callers.judge(read(path, tmp_path, "--exe", by_id)[0])
        assert right and not wrong
    finally:
        hidden.rename(binary)


@pytest.mark.parametrize("version, words_of", [
    ("1.19.13", "is not the program that was recorded"),  # it has no build id
    (golang.NEWEST, "is not the build that was recorded"),
])
def test_another_build_is_said(recording, tmp_path, version, words_of):
    path, binary = recording(version)
    hidden = binary.rename(tmp_path / "hidden")
    shutil.copy(golang.build("callers", golang.OLDEST), binary)
    try:
        profile, words = read(path, tmp_path, env=without_cache(tmp_path))
        assert any(words_of in w for w in words)
        assert not profile.time_in("main.work")
    finally:
        hidden.rename(binary)


def test_build_ids_of_mappings_are_compared(tmp_path):
    """perf record --buildid-mmap, the default of newer perfs, has them nowhere else."""
    binary = shutil.copy(golang.build("callers", golang.NEWEST), tmp_path / "callers")
    program = Program(binary)
    path = perf.record(tmp_path / "perf.data", *DWARF, "--buildid-mmap", "-p", program.pid, seconds=1)
    program.stop()
    right, wrong = callers.judge(read(path, tmp_path)[0])
    assert right and not wrong
    again = rewritten(path, tmp_path)[0]
    binary.rename(tmp_path / "hidden")
    shutil.copy(golang.build("callers", golang.OLDEST), binary)
    for recording in (path, again):
        words = read(recording, tmp_path, env=without_cache(tmp_path))[1]
        assert any("is not the build that was recorded" in w for w in words), words


@pytest.mark.time_limit(120)
def test_a_truncated_file_is_used_as_far_as_it_goes(recording, tmp_path):
    path, _ = recording(golang.NEWEST)
    whole = path.read_bytes()
    samples = []
    for i in range(1, 40):
        (tmp_path / "cut").write_bytes(whole[:len(whole) * i // 40])
        result = gospect.run("report", tmp_path / "cut", "-f", "folded")
        if result.status:
            result.fails(1)
            continue
        assert result.words
        samples.append(sum(int(line.rpartition(" ")[2]) for line in result.text.splitlines()))
    assert len(samples) > 30, "hardly any was of use"
    assert samples == sorted(samples) and samples[0] < samples[-1]


def test_unfinished_recording_is_read(recording, tmp_path):
    """A perf that was killed has not filled in the size of its data."""
    path, _ = recording(golang.NEWEST)
    data = bytearray(path.read_bytes())
    data[48:56] = bytes(8)
    (tmp_path / "killed").write_bytes(data)
    profile, words = read(tmp_path / "killed", tmp_path)
    assert any("perf did not finish" in line for line in words)
    assert callers.judge(profile)[0]


@pytest.mark.time_limit(120)
def test_a_damaged_file_is_read_or_refused(recording, tmp_path):
    path, _ = recording(golang.NEWEST)
    whole = path.read_bytes()
    statuses = collections.Counter()
    for i in range(60):
        damaged = bytearray(whole)
        damaged[i * 13 if i < 30 else i * (len(whole) - 1) // 60] ^= 0xFF
        (tmp_path / "damaged").write_bytes(damaged)
        statuses[gospect.run("report", tmp_path / "damaged").status] += 1
    assert set(statuses) <= {0, 1}, statuses
    assert statuses[0] > 30 and statuses[1], statuses


@pytest.mark.parametrize("content, words", [
    (b"PERFILE2", "not a perf.data file"),
    (b"PERFILE2" + bytes(200), "header is truncated or corrupt"),
    (b"PERFILE2\x10" + bytes(7), "before its first event"),
    (b"2ELIFREP" + bytes(200), "big-endian"),
    (b"PERFFILE" + bytes(200), "newer"),
])
def test_file_that_is_no_recording_is_refused(content, words, tmp_path):
    (tmp_path / "file").write_bytes(content)
    assert words in gospect.run("report", tmp_path / "file").fails(1)


def test_a_program_for_what_is_no_recording_is_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"go 1.22 trace\0\0\0")
    assert "--exe" in gospect.run("report", tmp_path / "file", "--exe", "/bin/true").fails(2)
