"""-o names what is no file: a socket or a disk is neither written to nor replaced."""

import os
import socket
import stat

import pytest

from lib import golang, gospect, tracing

VERBS = {"dump": ("-f", "json"), "record": ("-d", "0.2", "-f", "html"), "trace": ("-d", "0.2", "-f", "go"),
         "stack": ("-g", "1")}


def make_socket():
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("special")
    return stat.S_ISSOCK


def make_disk():
    """A device number of which there is no device: what opens it for writing gets ENXIO."""
    try:
        os.mknod("special", 0o600 | stat.S_IFBLK, os.makedev(7, 250))
    except OSError as error:
        pytest.skip(f"this user may not make a device: {error}")
    return stat.S_ISBLK


@pytest.mark.parametrize("make", (make_socket, make_disk))
@pytest.mark.parametrize("verb", ("dump", "record", "stack"))
def test_a_socket_or_a_disk_is_refused_and_stays(states, verb, make):
    is_it = make()
    result = gospect.run(verb, "-p", states.pid, *VERBS[verb], "-o", "special", seconds=30)
    assert result.status == 1, result.err
    assert "special: it is a socket or a block device" in result.err
    assert is_it(os.stat("special").st_mode) and os.listdir(".") == ["special"]


@pytest.mark.parametrize("make", (make_socket, make_disk))
def test_a_trace_is_not_written_there_either(untouched, make):
    program = untouched(tracing.hectic(golang.NEWEST), "-calm")
    is_it = make()
    result = gospect.run("trace", "-p", program.pid, *VERBS["trace"], "-o", "special", seconds=30)
    assert result.status == 1 and "it is a socket or a block device" in result.err, result.err
    assert is_it(os.stat("special").st_mode) and os.listdir(".") == ["special"]
