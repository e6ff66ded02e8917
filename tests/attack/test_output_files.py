"""Root's gospect writes into a folder that others can write, too.

Nobody prepares the names that gospect is going to use there. An older gospect failed each of these
tests.
"""

import os
import pathlib
import signal
import stat
import sys

import pytest

from lib import gospect, nobody, tracing
from lib.process import wait_until
from lib.traced import incidents

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

SECCOMP = pathlib.Path(tracing.__file__).with_name("seccomp.py")
TRACE = ("trace", "-d", 0.2)


@pytest.fixture
def shared(tmp_path):
    return nobody.shared_folder(tmp_path / "shared")


@pytest.fixture
def victim(tmp_path):
    """A file of root that others may not read; it has to stay unchanged."""
    file = tmp_path / "victim"
    file.write_text("precious\n")
    file.chmod(0o600)
    yield file
    assert file.read_text() == "precious\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def is_private(file):
    st = file.lstat()
    return stat.S_ISREG(st.st_mode) and stat.S_IMODE(st.st_mode) == 0o600 and st.st_uid == 0


@pytest.mark.parametrize("verb,name", [
    (("record", "-d", 0.2), "r.pb.gz"), (("record", "-d", 0.2), "r.html"),
    (("dump",), "d.txt"), (("dump",), "d.json"), (("stack", "-g", 1), "s.txt"),
    (TRACE, "t.trace"), (TRACE, "t.pftrace"), ((*TRACE, "--flight", 5), "f.trace"),
    (("heap", "--retained"), "h.hprof"), (("heap", "--retained"), "h.html"),
    (("heap", "--kind", "goroutine", "-f", "debug1"), "h.txt"),
    (("leaks", "--exact"), "l.json"), (("memory",), "m.html"), (("waits",), "w.dot"),
    (("why", "-d", 0.5), "y.txt"), (("offcpu", "-d", 0.2, "--sampled"), "o.txt"),
    (("record", "--children", "-d", 0.2), "c.pb.gz")])
def test_only_the_owner_may_read_what_gospect_writes(states, tmp_path, verb, name):
    (tmp_path / name).write_text("before")
    (tmp_path / name).chmod(0o666)
    gospect.run(*verb, "-p", states.pid, "-o", name).ok()
    if "--flight" in verb:
        name, = incidents(tmp_path / name)
    assert is_private(tmp_path / name)


@pytest.mark.parametrize("name", ["out.trace", "out.trace.partial"])
def test_a_symbolic_link_of_another_user_is_not_followed(states, shared, victim, name):
    nobody.run("ln", "-s", victim, shared / name)
    result = gospect.run(*TRACE, "-p", states.pid, "-o", shared / "out.trace")
    if name == "out.trace":
        result.ok()
        assert is_private(shared / name)
    else:
        assert "out.trace.partial exists and belongs to another user" in result.fails(1)


def test_a_partial_file_of_another_user_is_not_written(states, shared):
    """The other one would keep it open and read along."""
    partial = shared / "out.trace.partial"
    nobody.run("sh", "-c", f"echo bait > {partial}; chmod 666 {partial}")
    line = gospect.run(*TRACE, "-p", states.pid, "-o", shared / "out.trace").fails(1)
    assert "out.trace.partial exists and belongs to another user; remove it" in line
    assert partial.read_text() == "bait\n"


def test_a_partial_file_with_a_second_name_is_not_written(states, shared, victim):
    (shared / "out.trace.partial").hardlink_to(victim)
    line = gospect.run(*TRACE, "-p", states.pid, "-o", shared / "out.trace").fails(1)
    assert "belongs to another user" in line


@pytest.mark.parametrize("name", ["out.trace", "out.trace.partial"])
def test_a_pipe_of_another_user_neither_blocks_nor_reads_along(states, shared, name):
    nobody.run("mkfifo", "-m", "666", shared / name)
    line = gospect.run(*TRACE, "-p", states.pid, "-o", shared / "out.trace", seconds=10).fails(1)
    assert "remove it" in line


SWAP = """
import ctypes, os, sys, time
os.chdir(sys.argv[1])
os.mkfifo("out")
os.symlink(sys.argv[2], "other")
print(flush=True)
exchange = ctypes.CDLL(None).renameat2
while True:
    exchange(-100, b"out", -100, b"other", 2)
"""


def test_a_pipe_that_turns_into_a_link_is_not_followed(states, shared, victim):
    """A gospect that looked at the name and then opened it overwrote the victim, 1 time of 60."""
    for _ in range(4):
        with nobody.running(SWAP, shared, victim):
            for _ in range(15):
                gospect.run("dump", "-p", states.pid, "-o", shared / "out", seconds=10)
                if not os.path.lexists(shared / "other") or not os.path.lexists(shared / "out"):
                    break
        for name in ("out", "other"):
            (shared / name).unlink(missing_ok=True)


def test_a_folder_that_another_user_made_a_link_is_not_entered(states, shared, tmp_path):
    (tmp_path / "mine").mkdir()
    nobody.run("ln", "-s", tmp_path / "mine", shared / "folder")
    line = gospect.run("dump", "-p", states.pid, "-o", shared / "folder" / "out").fails(1)
    assert "'folder' is a symbolic link that another user can change" in line
    assert not list((tmp_path / "mine").iterdir())


def test_links_of_ones_own_lead_to_folders_pipes_and_standard_output(states, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    gospect.run("dump", "-p", states.pid, "-o", "link/../link//out").ok()
    assert is_private(tmp_path / "real" / "out")
    (tmp_path / "stdout").symlink_to("/proc/self/fd/1")
    assert gospect.run("dump", "-p", states.pid, "-o", "stdout").ok().out
    with open("redirected", "wb") as file:
        gospect.run("dump", "-p", states.pid, "-o", "stdout", stdout=file).ok()
    assert (tmp_path / "redirected").read_bytes().startswith(b"goroutine ")
    assert (tmp_path / "stdout").is_symlink()


def killed_while_it_writes(states, file):
    process = gospect.start("trace", "-p", states.pid, "-d", 30, "-o", file)
    partial = file.with_name(file.name + ".partial")
    wait_until(lambda: partial.exists() and partial.stat().st_size, what="a partial file")
    line = gospect.run(*TRACE, "-p", states.pid, "-o", file).fails(1)
    assert "another gospect" in line
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return partial


def test_partial_file_of_a_killed_gospect_is_replaced(targets, shared):
    program = targets.start("states")
    partial = killed_while_it_writes(program, shared / "out.trace")
    partial.chmod(0o644)
    with open(partial, "rb") as opened_before:
        size = len(opened_before.read())
        gospect.run(*TRACE, "-p", program.pid, "-o", shared / "out.trace").ok()
        assert not opened_before.read(), "who had the old file open reads the new trace"
        assert os.fstat(opened_before.fileno()).st_size == size
    assert is_private(shared / "out.trace")
    assert not partial.exists()


@pytest.mark.parametrize("error", ["ENOSYS", "ENOLCK"])
def test_a_file_system_without_locks_is_written_to(states, tmp_path, error):
    prefix = (sys.executable, SECCOMP, "flock", error)
    gospect.run(*TRACE, "-p", states.pid, "-o", "out.trace", prefix=prefix).ok()
    assert is_private(tmp_path / "out.trace")


@pytest.mark.parametrize("error", ["EPERM", "EOPNOTSUPP", "EACCES"])
def test_a_file_system_without_links_loses_no_recording(states, tmp_path, error):
    prefix = (sys.executable, SECCOMP, "linkat", error)
    gospect.run("dump", "-p", states.pid, "-o", "out", prefix=prefix).ok()
    assert (tmp_path / "out").read_text().startswith("goroutine ")
    assert is_private(tmp_path / "out")
    assert [file.name for file in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("verb,calls", [(("dump",), "renameat"), (("dump",), "renameat,linkat"),
                                        (TRACE, "renameat")])
def test_failed_rename_keeps_and_names_the_file(states, tmp_path, verb, calls):
    result = gospect.run(*verb, "-p", states.pid, "-o", tmp_path / "out.trace",
                         prefix=(sys.executable, SECCOMP, calls, "EPERM"))
    assert result.status == 1
    left, = tmp_path.iterdir()
    expected = f"cannot rename {left} to {tmp_path}/out.trace: Operation not permitted"
    assert expected in result.words[-1]
    assert left.stat().st_size > 100 and is_private(left)


def test_what_stands_in_a_redirected_file_stays_when_the_disk_is_full(states, tmp_path):
    """The file was cut to the length of the complete part of the trace."""
    earlier = b"earlier\n" * 1000  # nearly two pages
    (tmp_path / "disk").mkdir()
    (tmp_path / "earlier").write_bytes(earlier)
    script = ('mount -t tmpfs -o size=8k tmpfs disk && cp earlier disk/log || exit 99; '
              '"$@" >>disk/log; status=$?; cp disk/log kept; exit $status')
    result = gospect.run(*TRACE, "-p", states.pid, "-o", "-",
                         prefix=("unshare", "-m", "sh", "-c", script, "sh"))
    if result.status == 99:
        pytest.skip(f"this user may not mount a small disk: {result.err}")
    assert result.status == 1 and "no space left on device" in result.err, result.err
    assert (tmp_path / "kept").read_bytes().startswith(earlier)
