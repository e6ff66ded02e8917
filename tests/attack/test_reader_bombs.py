"""Small files that would take any amount of memory or time are refused, or read, in bounds.

An older gospect took 11 GB and 52 s for 204 KB of samples, and 2.5 GB for 22 KB of perf.data.
"""

import gzip
import os
import struct
import subprocess
import time
import zlib

import pytest

from lib import gospect

MEGABYTE = 1 << 20
# A reader's own limits are lower: this is what they come to together, with room for other machines.
MEMORY = 1200 * MEGABYTE
CPU_SECONDS = 20


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out) + bytes([n])


def field(number, *parts):
    """A message, a text or packed numbers."""
    data = b"".join(parts)
    return varint(number << 3 | 2) + varint(len(data)) + data


def number(field_number, value):
    return varint(field_number << 3) + varint(value)


SAMPLE_TYPE = field(1, number(1, 1), number(2, 2))
STRINGS = field(6) + field(6, b"wall") + field(6, b"nanoseconds")
LONG = b"a" * MEGABYTE
WAITING = field(3, number(1, 3), number(2, 4))


def waits(count):
    yield SAMPLE_TYPE + STRINGS + field(6, b"state") + field(6, b"waiting") + field(6, b"wait")
    yield field(4, number(1, 1))
    for i in range(count):
        yield field(6, b"w%d" % i)
        yield field(2, field(1, b"\1"), field(2, b"\1"), WAITING,
                    field(3, number(1, 5), number(2, 6 + i)))


# What each is made of, as pieces of a protobuf.
PPROF = {
    "samples": lambda: [b"\x12\x00" * (100 * MEGABYTE)],
    "strings": lambda: [b"\x32\x00" * (100 * MEGABYTE)],
    "zeros": lambda: [bytes(MEGABYTE)] * 2048,
    "samples in bounds": lambda: [SAMPLE_TYPE, STRINGS, b"\x12\x00" * (60 * MEGABYTE)],
    "comments": lambda: [SAMPLE_TYPE, STRINGS, field(6, LONG), field(13, b"\3" * (20 * MEGABYTE))],
    "labels": lambda: [SAMPLE_TYPE, STRINGS, field(6, LONG),
                       field(2, field(3, number(1, 3), number(2, 3))) * 500_000],
    "names": lambda: [SAMPLE_TYPE, STRINGS, field(6, LONG), field(5, number(1, 1), number(2, 3)),
                      *(field(4, number(1, i), field(4, number(1, 1)))
                        for i in range(1, 200_000)),
                      field(2, field(1, b"\1"))],
    "mappings": lambda: [SAMPLE_TYPE, STRINGS, field(6, LONG),
                         field(3, number(2, 5), number(5, 3)) * 100_000],
    "mappings downwards": lambda: [SAMPLE_TYPE, STRINGS,
                                   *(field(3, number(2, 1_000_000 - i)) for i in range(500_000))],
    "inlined": lambda: [SAMPLE_TYPE, STRINGS, field(4, number(1, 1), field(4) * 5_000_000),
                        field(2, field(1, b"\1" * 50), field(2, b"\1")) * 500_000],
    "deep": lambda: [SAMPLE_TYPE, STRINGS, field(4, number(1, 1), field(4) * 64),
                     field(2, field(1, b"\1" * (100 * MEGABYTE)), field(2, b"\1"))],
    "waits": lambda: waits(200_000),
}


def packed(name, pieces):
    compress = zlib.compressobj(9, zlib.DEFLATED, 31)
    with open(name, "wb") as file:
        for piece in pieces:
            file.write(compress.compress(piece))
        file.write(compress.flush())
    return name


def read_bounded(*args):
    """gospect with nothing to spare: what it takes beyond that ends it, or the test."""
    begin = time.monotonic()
    process = subprocess.Popen([gospect.BINARY, *args], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE)
    words = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    assert process.returncode in (0, 1), f"{process.returncode}: {words}"
    assert usage.ru_maxrss << 10 < MEMORY, f"{usage.ru_maxrss >> 10} MB, {words}"
    cpu = usage.ru_utime + usage.ru_stime
    assert cpu < CPU_SECONDS, f"{cpu} s of CPU, {time.monotonic() - begin} s, {words}"
    return process.returncode, words, usage.ru_maxrss >> 10, cpu


@pytest.mark.slow
@pytest.mark.parametrize("kind", PPROF)
def test_pprof(kind):
    file = packed("bomb.pb.gz", PPROF[kind]())
    for args in ((), ("--by", "wait"), ("-f", "folded"), ("-f", "html")):
        print(kind, os.stat(file).st_size, *args, *read_bounded("report", file, *args))
    read_bounded("symbolize", file)


def test_a_pprof_of_millions_of_empty_samples_is_refused():
    file = packed("bomb.pb.gz", PPROF["samples in bounds"]())
    status, words, *_ = read_bounded("report", file)
    assert status == 1 and "it would take too much memory" in words
