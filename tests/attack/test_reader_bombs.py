"""Small files that would take any amount of memory or time are refused, or read, in bounds.

An older gospect took 11 GB and 52 s for 204 KB of samples, and 2.5 GB for 22 KB of perf.data.
"""

import itertools
import os
import pathlib
import shutil
import struct
import subprocess
import zlib

import pytest

from lib import gospect, hostile

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
    "samples": lambda: [b"\x12\x00" * MEGABYTE] * 100,
    "strings": lambda: [b"\x32\x00" * MEGABYTE] * 100,
    "zeros": lambda: [bytes(MEGABYTE)] * 2048,
    "samples in bounds": lambda: [SAMPLE_TYPE, STRINGS, *[b"\x12\x00" * MEGABYTE] * 60],
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
    """Its status, what it said, its megabytes and CPU seconds. They are gospect's alone: this process may be large."""
    done = hostile.measure(*args, seconds=100)
    assert done.status in (0, 1), f"{done.status}: {done.err}"
    assert done.resident < MEMORY, f"{done.resident >> 20} MB, {done.err}"
    assert done.cpu < CPU_SECONDS, f"{done.cpu} s of CPU, {done.seconds} s, {done.err}"
    return done.status, done.err, done.resident >> 20, done.cpu


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
    assert status == 1 and "it needs too much memory" in words


def chain(depth, length):
    """Stacks of one chain of functions with long names: one that ends in each, 10 ms long."""
    yield SAMPLE_TYPE + STRINGS
    for i in range(1, depth + 1):
        yield field(6, b"%0*d" % (length, i))
        yield field(5, number(1, i), number(2, 2 + i)) + field(4, number(1, i),
                                                                field(4, number(1, i)))
    ids = b""
    for i in range(1, depth + 1):
        ids = varint(i) + ids  # the innermost first
        yield field(2, field(1, ids), field(2, varint(10_000_000)))


@pytest.mark.parametrize("depth,length,said", [
    (3000, 180, "[stacks omitted: the file would be too large]"),
    (3000, 4000, "[deeper frames omitted]")])
def test_folded_stacks_that_are_all_as_deep_as_can_be_have_a_limit(depth, length, said):
    """An older gospect wrote 0.8 and 18 GB."""
    file = packed("chain.pb.gz", chain(depth, length))
    process = subprocess.Popen([gospect.BINARY, "report", file, "-f", "folded"],
                               stdout=subprocess.PIPE)
    written, weight, longest, last = 0, 0, 0, b""
    for line in process.stdout:
        written, last = written + len(line), line
        longest = max(longest, len(line))
        weight += int(line.rsplit(b" ", 1)[1])
        if written > 2**30:
            process.kill()
    assert process.wait() == 0 and written < 600 * MEGABYTE
    assert longest < 1.1 * MEGABYTE
    assert weight == depth * 10_000
    assert said.encode() in last
    print(depth, length, written, longest)


def record(kind, body, misc=2):
    return struct.pack("<IHH", kind, misc, 8 + len(body)) + body


MMAP, COMM, EXIT, FORK, SAMPLE, ATTR, COMPRESSED = 1, 3, 4, 7, 9, 64, 81
IP_AND_TID = 3


def sample(pid, ip=0x401000):
    return record(SAMPLE, struct.pack("<QII", ip, pid, pid))


def mapping(pid, start, path=b"//anon\0\0"):
    return record(MMAP, struct.pack("<IIQQQ", pid, pid, start, 4096, 0) + path)


def fork(pid, parent):
    return record(FORK, struct.pack("<IIIIQ", pid, parent, pid, parent, 0))


def many_mappings():
    yield from (mapping(1, (1 << 40) - (i << 13)) for i in range(60_000))


def forks():
    """Each child maps something of its own, so that it has a list of its own."""
    yield from many_mappings()
    for pid in range(2, 400_000):
        yield fork(pid, 1) + mapping(pid, 1 << 13)
        yield record(EXIT, struct.pack("<IIIIQ", *[pid] * 4, 0))
    yield sample(1)


PERFDATA = {
    "zeros": lambda: itertools.repeat(bytes(MEGABYTE), 2500),
    "samples": lambda: itertools.repeat(sample(7) * 44000, 500),
    "processes": lambda: (sample(pid) for pid in range(1, 2_000_000)),
    "mappings": lambda: itertools.chain(many_mappings(), [sample(1)]),
    "a sample behind each mapping": lambda: (m + sample(1) for m in many_mappings()),
    "files": lambda: [*(mapping(1, i << 13, b"/%07d" % i + bytes(8)) for i in range(60_000)),
                      sample(1)],
    "forks": forks,
    "exec": lambda: (record(COMM, struct.pack("<II", 1, 1) + b"x" * 8, 0x2000) + mapping(1, 4096)
                     + sample(1) for i in range(400_000)),
}


def perfdata(name, pieces):
    attr = struct.pack("<IIQQQ", 1, 64, 0, 1, IP_AND_TID) + bytes(32)
    with subprocess.Popen(["zstd", "-q", "-12", "-f", "-o", "packed"],
                          stdin=subprocess.PIPE) as process:
        for piece in pieces:
            process.stdin.write(piece)
    zstd = pathlib.Path("packed").read_bytes()
    with open(name, "wb") as file:
        file.write(b"PERFILE2" + struct.pack("<Q", 16) + record(ATTR, attr + struct.pack("<Q", 1)))
        for at in range(0, len(zstd), 65000):
            file.write(record(COMPRESSED, zstd[at:at + 65000]))
    return name


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("zstd"), reason="zstd is missing")
@pytest.mark.parametrize("kind", PERFDATA)
def test_perfdata(kind):
    file = perfdata("perf.data", PERFDATA[kind]())
    print("perf", kind, os.stat(file).st_size, *read_bounded("report", file))
