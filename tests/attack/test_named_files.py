"""Files name other files: gospect does not wait at a pipe and does not open a device.

An older gospect waited for ever at a pipe that the user named, and opened the device.
"""

import ctypes
import os
import select
import stat

import pytest

from lib import gospect

IN_OPEN = 0x20
_libc = ctypes.CDLL(None, use_errno=True)


def raw_dump(path):
    return (f"gospect raw dump 1\nframes shown\nmapping 400000-500000 0 {'ab' * 20} {path}\n"
            "\ngoroutine 1 [running]:\n\t0x401000\n")


@pytest.fixture
def pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


@pytest.fixture
def device(tmp_path):
    """A file that no process may have open when the test ends."""
    path = tmp_path / "device"
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("may not make a device")
    watch = _libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
    assert _libc.inotify_add_watch(watch, os.fsencode(path), IN_OPEN) > 0
    yield path
    readable, _, _ = select.select([watch], [], [], 0)
    os.close(watch)
    assert not readable, "it was opened"


@pytest.mark.parametrize("args", [("symbolize",), ("report",), ("report", "--diff", __file__),
                                  ("dump", "--core"), ("stack", "-g", "1", "--core"), ("unwind-info",)])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_the_file_itself(request, args, kind):
    line = gospect.run(*args, request.getfixturevalue(kind), seconds=5).fails(1)
    assert "--diff" in args or "it is a pipe, a socket or a device; choose a regular file" in line


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_mapping_of_a_raw_dump(request, tmp_path, kind):
    file = tmp_path / "raw.txt"
    file.write_text(raw_dump(request.getfixturevalue(kind)))
    result = gospect.run("symbolize", file, seconds=5)
    assert result.status == 1 and "cannot find" in result.err


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_program_that_is_given(request, tmp_path, kind, states):
    given = request.getfixturevalue(kind)
    file = tmp_path / "raw.txt"
    file.write_text(raw_dump("/nowhere"))
    line = gospect.run("symbolize", file, "--exe", given, seconds=5).fails(1)
    assert f"cannot open {given}: it is a pipe, a socket or a device" in line
    line = gospect.run("dump", "-p", states.pid, "--exe", given, seconds=5).fails(1)
    assert f"cannot open {given}: it is a pipe, a socket or a device" in line
