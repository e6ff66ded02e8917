"""What parses a target's program and memory has no privilege that it could be robbed of."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

import pytest

from lib import gospect, terminal

CAP_IPC_LOCK, CAP_SYS_PTRACE, CAP_SYS_NICE, CAP_BPF = 14, 19, 23, 39
FEW = 1 << CAP_IPC_LOCK | 1 << CAP_SYS_PTRACE | 1 << CAP_SYS_NICE | 1 << CAP_BPF

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def status_of(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def wait_until_confined(pid, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        status = status_of(pid)
        if status["Seccomp"] == "2":
            return status
        time.sleep(0.01)
    raise AssertionError(f"not confined after {seconds} s: {status}")


def assert_confined(status):
    assert status["Seccomp"] == "2"
    assert status["NoNewPrivs"] == "1"
    assert int(status["CapEff"], 16) & ~FEW == 0
    assert int(status["CapPrm"], 16) & ~FEW == 0
    assert int(status["CapInh"], 16) == 0


@needs_root
def test_a_recording_has_few_capabilities_and_a_filter(states, tmp_path):
    recording = gospect.start("record", "-p", states.pid, "-d", 30, "-o", tmp_path / "p.pb.gz")
    try:
        assert_confined(wait_until_confined(recording.pid))
        threads = list(pathlib.Path(f"/proc/{recording.pid}/task").iterdir())
        for thread in threads:
            assert_confined(status_of(f"{recording.pid}/task/{thread.name}"))
    finally:
        recording.terminate()
        recording.communicate(timeout=20)
    assert recording.returncode == 0
    assert (tmp_path / "p.pb.gz").stat().st_size


@needs_root
@pytest.mark.skipif(terminal.why_not() is not None, reason=str(terminal.why_not()))
def test_top_has_few_capabilities_and_a_filter(states):
    with terminal.Terminal(gospect.BINARY, "top", "-p", states.pid) as t:
        t.wait_for("goroutines")
        for thread in pathlib.Path(f"/proc/{t.pid}/task").iterdir():
            assert_confined(status_of(f"{t.pid}/task/{thread.name}"))
        t.press("q")
        assert t.status() == 0


@needs_root
@pytest.mark.skipif(not shutil.which("strace"), reason="strace is missing")
def test_doctor_itself_does_not_open_what_the_target_has(states, tmp_path):
    """A worker reads it, which has few capabilities and a filter by then."""
    log = tmp_path / "log"
    result = gospect.run("doctor", "-p", states.pid,
                         prefix=("strace", "-f", "-o", log, "-e",
                                 "trace=openat,process_vm_readv,seccomp"))
    assert " threads\n" in result.text  # what is traced cannot trace, which is said, too
    calls = [line.split(None, 1) for line in log.read_text().splitlines()]
    doctor = calls[0][0]
    filtered = {pid for pid, call in calls if call.startswith("seccomp(") and " = 0" in call}
    readers = {pid for pid, call in calls if call.startswith(f"process_vm_readv({states.pid},")}
    openers = {pid for pid, call in calls if re.search(r'openat\(\d+, "exe"', call)}
    assert filtered and readers and openers, calls
    assert doctor not in filtered | openers
    assert readers <= filtered | {doctor}
    # It asks whether it may read, as everybody does who opens a process.
    assert all(re.search(r" = (-1 \w+|[0-8])\b", call) for pid, call in calls
               if pid == doctor and call.startswith("process_vm_readv")), calls
    assert not [call for pid, call in calls if pid == doctor and "exe" in call]


@needs_root
def test_the_broker_ends_with_a_recording_that_is_killed(states, tmp_path):
    recording = gospect.start("record", "-p", states.pid, "-d", 30, "-o", tmp_path / "p.pb.gz")
    wait_until_confined(recording.pid)
    children = pathlib.Path(f"/proc/{recording.pid}/task/{recording.pid}/children")
    broker = [int(pid) for pid in children.read_text().split()]
    assert len(broker) == 1
    recording.kill()
    out, err = recording.communicate(timeout=5)  # the end of both is seen at once
    assert (out, err) == (b"", b"")
    end = time.monotonic() + 5
    while pathlib.Path(f"/proc/{broker[0]}").exists():
        if status_of(broker[0])["State"].startswith("Z"):
            break
        assert time.monotonic() < end, "the broker outlives gospect"
        time.sleep(0.01)
    assert list(tmp_path.iterdir()) == []


@needs_root
def test_a_file_that_a_core_names_is_not_read_unless_it_is_a_program(tmp_path, states):
    """Whoever made a core file says which program it is of: that must not be any file of root's."""
    core = tmp_path / "core"
    subprocess.run(["gcore", "-o", core, str(states.pid)], check=True, capture_output=True)
    core = tmp_path / f"core.{states.pid}"
    program = os.readlink(f"/proc/{states.pid}/exe").encode()
    with tempfile.NamedTemporaryFile(dir="/tmp", prefix="g") as secret:
        secret.write(b"root's own")
        name = secret.name.encode().ljust(len(program), b"\0")
        assert len(name) == len(program), "the program's path has no room for the other"
        core.write_bytes(core.read_bytes().replace(program, name))
        result = gospect.run("dump", "--core", core)
    assert result.status == 1
    assert "Permission denied" in result.err, result.err
