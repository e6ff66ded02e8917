"""A program's file becomes shorter while gospect reads it, by a build in place or on purpose.

To read what is gone is SIGBUS. An older gospect ended at once: a recording was lost, and `ps` by one
process lost the rows of all.
"""

import contextlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

from lib import golang, gospect, terminal, tracing
from lib.params import in_full
from lib.process import Program, status, wait_until
from matrix import builds

SAID = "truncated while gospect read it"

MAPPER = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
whole = os.pread(fd, 1 << 26, 0)
memory = mmap.mmap(fd, len(whole), mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
print("ready", flush=True)
while True:
    os.ftruncate(fd, 0x2000)
    os.pwrite(fd, whole, 0)
"""


def stop(program):
    """All its threads: one that still ran would die of its missing code, or have labels there."""
    os.kill(program.pid, signal.SIGSTOP)
    threads = os.listdir(f"/proc/{program.pid}/task")
    wait_until(lambda: all(status(thread)["State"][0] == "T" for thread in threads))


@contextlib.contextmanager
def host_of_a_library():
    path = pathlib.Path(shutil.copy(tracing.hectic(golang.NEWEST, tracing.SHARED), "hectic.so"))
    program = Program(builds.host(), path.absolute())
    try:
        yield program, path
    finally:
        program.stop()


@pytest.fixture
def in_library():
    """A stopped C program with a Go library in a file of ours: its code may go, and it lives."""
    with host_of_a_library() as program_and_path:
        yield program_and_path


@pytest.fixture
def restless():
    """A process with a mapped Go program that it truncates and restores all the time."""
    shutil.copy(golang.build("states", golang.NEWEST), "library.so")
    process = subprocess.Popen([sys.executable, "-c", MAPPER, "library.so"],
                               stdout=subprocess.PIPE)
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def test_ps_loses_no_row(states, restless):
    for _ in range(in_full(20, 6)):
        result = gospect.run("ps")
        assert result.status == 0, result.err
        assert any(line.split()[0] == str(states.pid) for line in result.text.splitlines()[1:])


def test_a_process_whose_file_changes_is_refused_or_read(restless):
    for _ in range(20):
        result = gospect.run("dump", "-p", restless.pid)
        assert result.status == 1 and len(result.words) == 1, (result.status, result.err)


@pytest.mark.parametrize("name", ["cut.folded", "cut.pb.gz", "cut.html"])
def test_a_recording_is_kept(in_library, name):
    program, path = in_library
    process = gospect.start("record", "-p", program.pid, "-d", "2", "-o", name)
    gospect.await_recording(process)
    time.sleep(1)
    stop(program)
    os.truncate(path, 0x1000)
    err = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 1 and SAID in err, err
    assert os.path.getsize(name) > 0


def test_a_dump_is_right_or_refused(in_library):
    """Whenever it happens."""
    program, path = in_library
    whole = path.read_bytes()
    stop(program)
    started = time.monotonic()
    right = gospect.run("dump", "-p", program.pid).ok()
    takes = time.monotonic() - started
    said = 0
    # On a busy machine the first may have taken far longer than the others do.
    for i in range(400):
        if i >= 40 and said:
            break
        process = gospect.start("dump", "-p", program.pid)
        time.sleep(takes * random.random() ** (1 + i % 4))
        os.truncate(path, 0x1000)
        out, err = process.communicate(timeout=60)
        with path.open("r+b") as file:
            file.write(whole)
        if process.returncode == 0:
            assert out == right.out
        else:
            assert process.returncode == 1 and err.startswith(b"gospect: "), err
            said += SAID.encode() in err
    assert said


@pytest.mark.skipif(terminal.why_not() is not None, reason="tmux is not installed")
def test_top_keeps_what_it_saw_when_the_list_of_goroutines_is_gone_too():
    """Goroutines were made since its last look, so it read where the list is, in a page that was cut
    off with the file, and ended. It also said nothing of the file if it had all the names it needed."""
    for _ in range(6):
        with host_of_a_library() as (program, path), \
                terminal.Terminal(gospect.BINARY, "top", "-p", program.pid) as t:
            t.wait_for("goroutines")
            os.kill(t.pid, signal.SIGSTOP)
            time.sleep(2)
            stop(program)
            os.truncate(path, 0x1000)
            os.kill(t.pid, signal.SIGCONT)
            time.sleep(1)
            t.press("3")
            t.wait_for("[3 goroutines]")
            t.press("q")
            assert t.status() == (SAID in t.err())
            if "cannot read the memory" in t.err():
                assert SAID in t.err()
                return
    pytest.skip("there were never more goroutines than at the last look, so that nothing was missing")


@pytest.mark.skipif(terminal.why_not() is not None, reason="tmux is not installed")
def test_top_goes_on_and_says_so_at_its_end(in_library):
    program, path = in_library
    with terminal.Terminal(gospect.BINARY, "top", "-p", program.pid) as t:
        t.wait_for("goroutines")
        stop(program)
        os.truncate(path, 0x1000)
        for key in ("2", "Enter", "Escape", "3", "4", "w"):
            t.press(key)
            time.sleep(0.2)
        t.wait_for("write to: ")
        t.press("C-u", "all.folded", "Enter")
        t.wait_for("s to all.folded")
        t.press("q")
        assert t.status() == 1 and SAID in t.err()
