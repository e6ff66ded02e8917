"""gospect dump --core against what the dying program said itself, or gospect said while it lived."""

import json
import os
import pathlib
import re
import resource
import shutil
import signal
import struct
import subprocess
import time

import pytest

from lib import crash, golang, gospect, traceback
from lib.fixtures import Fixture
from lib.params import every_build, every_version
from lib.process import wait_until

MODES = (golang.PLAIN, golang.STRIPPED, golang.PIE)
# The spinning goroutine spins until the end, so the core has a running goroutine.
ENVIRONMENT = {"GOTRACEBACK": "crash", "GODEBUG": "asyncpreemptoff=1", "GOMAXPROCS": "4"}
NOT_IN_CORE = "\tgoroutine's stack is missing from the core file or corrupt; stack unavailable"
PATTERN = pathlib.Path("/proc/sys/kernel/core_pattern").read_text().strip()


def dies_here():
    """The kernel writes cores into the working folder of the process."""
    if PATTERN.startswith(("|", "/")):
        pytest.skip(f"the kernel's cores go elsewhere: core_pattern is {PATTERN!r}")


class Death:
    """A program of tests/programs/crash that died; its core and its last words."""

    def __init__(self, folder, binary, *args, kill=None):
        dies_here()
        self.binary = binary
        self.folder = folder
        with open(folder / "stderr", "wb") as stderr:
            process = subprocess.Popen(
                [binary, *args], cwd=folder, stdout=subprocess.PIPE, stderr=stderr,
                env={**os.environ, **ENVIRONMENT},
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (-1, -1)))
        assert process.stdout.readline() == f"ready {process.pid}\n".encode()
        if kill:
            time.sleep(0.1)
            process.send_signal(kill)
        assert process.wait(60) < 0
        process.stdout.close()
        self.pid = process.pid
        self.core, = (p for p in folder.iterdir() if p.name.startswith("core"))
        self.words = (folder / "stderr").read_text()


def dump(core, *args, **kwargs):
    result = gospect.run("dump", "--core", core, *args, **kwargs).ok()
    return traceback.parse(result.text), result.words


def assert_as_it_said(death, version):
    outside, words = dump(death.core, "--all")
    inside = crash.said(death.words)
    assert len(inside) > 20
    found = crash.differences(inside, outside, version)
    assert not found, "\n".join(found[:40])
    assert_arguments_as_it_said(death)
    return words


def assert_arguments_as_it_said(death):
    """Character for character, of the goroutines that are parked."""
    def calls(text, state):
        found = re.findall(r"^goroutine (\d+) .*\[([^]]*)\].*:\n((?:.+\n?)*)", text, re.M)
        return {goid: re.findall(r"^\S.*\)$", lines, re.M) for goid, wait, lines in found
                if wait.startswith(state)}

    text = gospect.run("dump", "--core", death.core, "--all", "--values").ok().text
    outside, inside = calls(text, "chan receive"), calls(death.words, "chan receive")
    assert len(inside) > 2
    assert {goid: outside[goid] for goid in inside} == inside


# Each build dies in one way, and one build of each version in all of them.
DEATHS = (("error", "failure 42"), ("number", "-7"), ("again", "first; then panic: second"),
          ("nil", "runtime error: invalid memory address or nil pointer dereference"),
          ("index", "runtime error: index out of range [13] with length 3"), ("throw", None))
CRASHES = [*((version, mode, "panic", "it is over") for version in golang.VERSIONS for mode in MODES),
           *((version, golang.STRIPPED, *death) for version in golang.VERSIONS for death in DEATHS)]


@pytest.mark.parametrize("version,mode,how,message", CRASHES, ids=[f"{how}-go{v}-{m}" for v, m, how, _ in CRASHES])
def test_crash_is_what_the_program_said(tmp_path, version, mode, how, message):
    death = Death(tmp_path, golang.build("crash", version, mode), how, "spin")
    words = assert_as_it_said(death, version)
    assert f"process {death.pid}" in words[0] and "SIGABRT" in words[0]
    assert [w for w in words if "panic:" in w] == \
        ([f"gospect: panic: {message}"] if message else [])


@every_build(modes=MODES)
def test_sigquit_is_what_the_program_said(tmp_path, version, mode):
    death = Death(tmp_path, golang.build("crash", version, mode), "wait", "spin",
                  kill=signal.SIGQUIT)
    words = assert_as_it_said(death, version)
    assert "signal" in words[0] and len(words) == 1


def gcore(pid, folder):
    if not shutil.which("gcore"):
        pytest.skip("gcore is missing: install gdb")
    subprocess.run(["gcore", "-o", folder / "core", str(pid)], check=True, capture_output=True)
    return folder / f"core.{pid}"


@every_version()
def test_a_goroutine_that_was_running_has_its_stack(targets, tmp_path, version):
    program = targets.start("states", version, args=("-only=chan", "-spin=2"),
                            env={"GOMAXPROCS": "4"})
    outside, _ = dump(gcore(program.pid, tmp_path))
    spinning = traceback.having(outside, "main.spin")
    assert len(spinning) == 2
    assert any(g.state == "running" for g in spinning)


@every_build(modes=MODES)
def test_gcore_is_what_the_living_program_shows(targets, tmp_path, version, mode):
    program = targets.keep("states", version, mode)
    program.idle()
    live = gospect.dump(program.pid)
    dead, words = dump(gcore(program.pid, tmp_path))
    assert len(live) > 80
    assert not traceback.differences(live, dead, golang.minor(version), labels=True)
    assert len(words) == 1 and "was running" in words[0]


@pytest.fixture
def death(tmp_path):
    return Death(tmp_path, golang.build("crash", golang.NEWEST, golang.STRIPPED), "panic")


def test_json_says_how_it_ended(death):
    data = json.loads(gospect.run("dump", "--core", death.core, "-f", "json").ok().text)
    process = data["process"]
    assert (process["pid"], process["signal"], process["signal_name"]) == (death.pid, 6, "SIGABRT")
    assert process["panic"] == "it is over"
    assert process["truncated"] is False and process["missing_goroutines"] == 0
    assert [g["frames"][0]["func"] for g in data["goroutines"] if g["id"] == 1] == ["main.die"]


def test_zstd_is_unpacked_and_leaves_nothing_behind(death, tmp_path, monkeypatch):
    if not shutil.which("zstd"):
        pytest.skip("zstd is missing")
    subprocess.run(["zstd", "-q", death.core, "-o", tmp_path / "core.zst"], check=True)
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    assert dump(tmp_path / "core.zst") == dump(death.core)
    packed = (tmp_path / "core.zst").read_bytes()
    (tmp_path / "cut.zst").write_bytes(packed[:len(packed) * 9 // 10])
    gospect.run("dump", "--core", tmp_path / "cut.zst")
    assert list(folder.iterdir()) == []


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", folder]).returncode:
        pytest.skip("no file system of our own can be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def pages_of_a_core(count):
    """The beginning of a core of one segment, and its pages: none is empty, all are the same."""
    size = count * 4096
    segment = struct.pack("<IIQQQQQQ", 1, 6, 4096, 0x10000, 0, size, size, 4096)
    head = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 4, 62, 1, 0, 64, 0, 0, 64, 56, 1, 0,
                       0, 0)
    yield (head + segment).ljust(4096, b"\0")
    for _ in range(count):
        yield b"x" * 4096


@pytest.mark.skipif(not shutil.which("zstd"), reason="zstd is missing")
def test_a_packed_core_does_not_fill_the_disk(tmp_path, small_disk, monkeypatch):
    packed = tmp_path / "core.zst"
    with subprocess.Popen(["zstd", "-q", "-o", packed], stdin=subprocess.PIPE) as zstd:
        for page in pages_of_a_core(16384):
            zstd.stdin.write(page)
    assert packed.stat().st_size < 1 << 20
    monkeypatch.setenv("TMPDIR", str(small_disk))
    said = gospect.run("dump", "--core", packed).fails(1)
    assert re.search("less than 1/20 of that disk would stay free; set TMPDIR", said), said
    assert list(small_disk.iterdir()) == []


def test_truncated_is_read_as_far_as_it_goes(death, tmp_path):
    """Whatever is shown is right, and what is missing is said."""
    whole, _ = dump(death.core)
    content = death.core.read_bytes()
    # The Go heap, where goroutines are, is at the beginning.
    sizes = [*range(0, 6 << 20, 128 << 10), len(content) - 1, len(content)]
    seen = set()
    for size in sizes:
        cut = tmp_path / "cut"
        cut.write_bytes(content[:size])
        result = gospect.run("dump", "--core", cut)
        assert result.status in (0, 1), result.err
        if result.status == 1:
            assert len(result.words) == 1
            continue
        found = traceback.parse(result.text.replace(NOT_IN_CORE, traceback.UNAVAILABLE))
        seen.add(len(found))
        assert size == len(content) or any("truncated" in w for w in result.words)
        for goid, goroutine in found.items():
            if goroutine.available:
                assert goroutine.frames == whole[goid].frames
            assert goroutine.state == whole[goid].state
    assert len(whole) in seen and len(seen) > 1


def test_truncated_gcore_needs_the_program(states, tmp_path):
    """gdb writes the notes behind the memory."""
    states.idle()
    live = gospect.dump(states.pid)
    core = gcore(states.pid, tmp_path)
    os.truncate(core, core.stat().st_size - (1 << 20))
    assert "--exe" in gospect.run("dump", "--core", core).fails(1)
    dead, words = dump(core, "--exe", states.binary)
    assert not traceback.differences(live, dead, golang.minor(golang.NEWEST), labels=True)
    assert any("truncated" in w for w in words)


def test_the_program_may_be_elsewhere(death, tmp_path):
    moved = shutil.copy(death.binary, tmp_path / "moved")
    assert dump(death.core, "--exe", moved)[0] == dump(death.core)[0]


def test_another_program_is_refused(death):
    other = golang.build("crash", golang.MIDDLE)
    message = gospect.run("dump", "--core", death.core, "--exe", other).fails(1)
    assert "is not the program" in message and "build id" in message and "--exe" in message


def test_a_missing_program_is_asked_for(tmp_path):
    binary = shutil.copy(golang.build("crash", golang.NEWEST), tmp_path / "program")
    death = Death(tmp_path, binary, "panic")
    os.remove(binary)
    message = gospect.run("dump", "--core", death.core).fails(1)
    assert str(binary) in message and "--exe" in message


@pytest.mark.parametrize("content,expected", [
    (b"", "empty"), (b"nothing of the kind", "not a core"), (b"\x1f\x8b\x08 packed", "gzip"),
    (b"\x7fELF", "truncated")])
def test_file_that_is_no_core_is_refused(tmp_path, content, expected):
    (tmp_path / "core").write_bytes(content)
    assert expected in gospect.run("dump", "--core", tmp_path / "core").fails(1)


def test_a_program_is_no_core(death):
    assert "is a program" in gospect.run("dump", "--core", death.binary).fails(1)


def test_record_needs_a_live_process(death):
    assert "dump --core" in gospect.run("record", "--core", death.core).fails(2)


def test_program_of_another_architecture_is_refused():
    message = gospect.run("dump", "--core", Fixture(golang.NEWEST, "arm64").core, "--exe",
                          golang.build("crash", golang.NEWEST)).fails(1)
    assert "another architecture" in message
