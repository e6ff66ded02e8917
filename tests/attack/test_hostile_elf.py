"""A program's file is read in proportion to its size on disk, whatever its headers say.

Before, one unprivileged process made `gospect ps` take 10.6 GB (sections), 77 s (headers), 16 s
(segments), 1.5 GB (packed DWARF), or fill tmpfs with the holes of its file.
"""

import contextlib
import os
import re
import struct
import subprocess
import zlib

import pytest

from lib import golang, hostile, madeelf

pytestmark = hostile.NEEDS_ROOT

SECONDS, RESIDENT = 1, 100 << 20


def many_sections(path):
    """40 million by extended numbering, all in a hole."""
    count = 40_000_000
    return madeelf.write(path, [], [(0x20000, madeelf.section(size=count))],
                         0x20000 + 64 * count, shoff=0x20000)


def many_heads(path):
    """4 MB of heads of function tables that belong to no program."""
    size = 4 << 20
    heads = struct.pack("<IHBBQ", 0xFFFFFFF1, 0, 1, 8, 1000) * (size // 16)
    data = madeelf.build_information() + heads
    return madeelf.write(path, [madeelf.segment(madeelf.READ_WRITE, madeelf.DATA_AT,
                                                madeelf.DATA_BASE, len(data))],
                         [(madeelf.DATA_AT, data)], madeelf.DATA_AT + len(data))


def large_segments(path, count=160):
    """Segments of 1 GB each, all of the same hole."""
    each = 1 << 30
    segments = [madeelf.segment(madeelf.READ_WRITE, madeelf.DATA_AT,
                                0x10000000000 + i * (each + 0x100000), each)
                for i in range(count)]
    return madeelf.write(path, segments, [], madeelf.DATA_AT + each)


def packed_dwarf(path):
    """A Go program whose .debug_info unpacks to 400 MB of runtime.g without an end."""
    plain = golang.build("inventor", golang.MIDDLE)
    packer = zlib.compressobj(9)
    block = b"runtime.g\0" * 100_000
    packed = b"".join(packer.compress(block) for _ in range(400)) + packer.flush()
    info = struct.pack("<IIQQ", 1, 0, 400 * len(block), 1) + packed
    subprocess.run(["objcopy", "--decompress-debug-sections", plain, path], check=True)
    data = bytearray(path.read_bytes())
    shoff, = struct.unpack_from("<Q", data, 40)
    names = re.findall(r"\[ *(\d+)\] (\S+)", subprocess.run(
        ["readelf", "-SW", path], capture_output=True, text=True, check=True).stdout)
    index, = [int(number) for number, name in names if name == ".debug_info"]
    at = shoff + 64 * index
    flags, = struct.unpack_from("<Q", data, at + 8)
    struct.pack_into("<Q", data, at + 8, flags | 0x800)
    struct.pack_into("<QQ", data, at + 24, len(data), len(info))
    path.write_bytes(data + info)
    return path


@contextlib.contextmanager
def running(make, *args, where="/tmp"):
    with hostile.folder(where) as folder:
        path = make(folder / "hostile")
        with hostile.running(path, *args, ready=False) as pid:
            yield pid, path


def assert_cheap(result, others=0):
    """others: CPU seconds for what else is read."""
    assert result.status in (0, 1), result.err
    assert result.cpu < SECONDS + others, f"{result.cpu} s, {others} s of others"
    assert result.resident < RESIDENT, f"{result.resident >> 20} MB"


@pytest.fixture
def assert_ps_is_cheap():
    """For one more program. Others come and go meanwhile, so that there may be twice as many."""
    others = 2 * hostile.measure("ps").cpu
    return lambda: assert_cheap(hostile.measure("ps"), others)


NO_PROGRAM = r"truncated or corrupt: .*(holes|sections|overlap)|without a function table|not a Go"


@pytest.mark.parametrize("make", [many_sections, many_heads, large_segments],
                         ids=lambda make: make.__name__)
def test_headers_cost_no_more_than_the_file(make, assert_ps_is_cheap):
    with running(make) as (pid, _):
        assert_ps_is_cheap()
        for verb in (("dump", "-p", pid), ("record", "-p", pid, "-d", "0.2", "-o", "x.pb.gz")):
            result = hostile.measure(*verb)
            assert_cheap(result)
            assert re.search(NO_PROGRAM, result.fails(1)), result.err


def test_packed_dwarf_is_not_unpacked(assert_ps_is_cheap):
    with running(packed_dwarf, 64, 4096, 152) as (pid, _):
        assert_ps_is_cheap()
        result = hostile.measure("dump", "-p", pid)
        assert_cheap(result)
        result.ok()


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="needs a tmpfs")
def test_holes_are_not_filled():
    with running(lambda path: large_segments(path, 1), where="/dev/shm") as (_, path):
        before = path.stat().st_blocks
        hostile.measure("ps")
        assert path.stat().st_blocks == before


def test_an_ordinary_program_with_holes_is_read():
    """A copy by `cp --sparse=always`."""
    with hostile.folder() as folder:
        path = folder / "sparse"
        subprocess.run(["cp", "--sparse=always", golang.build("inventor", golang.MIDDLE), path],
                       check=True)
        with hostile.running(path, 64, 4096, 152) as pid:
            assert len(hostile.measure("dump", "-p", pid).ok().text) > 100


@pytest.mark.slow
def test_time_and_memory_grow_with_the_file_and_no_faster():
    """Heads of function tables, whose addresses the data is full of as well: twice the file takes
    about twice the time."""
    costs = []
    for megabytes in (8, 32):
        def make(path, size=megabytes << 20):
            heads = struct.pack("<IHBBQ", 0xFFFFFFF1, 0, 1, 8, 1000) * (size // 32)
            words = struct.pack("<Q", madeelf.DATA_BASE + 256) * (size // 16)
            data = madeelf.build_information() + heads + words
            return madeelf.write(path, [madeelf.segment(madeelf.READ_WRITE, madeelf.DATA_AT,
                                                        madeelf.DATA_BASE, len(data))],
                                 [(madeelf.DATA_AT, data)], madeelf.DATA_AT + len(data))
        with running(make) as (pid, _):
            result = hostile.measure("dump", "-p", pid)
            result.fails(1)
            costs.append((result.cpu, result.resident))
    assert costs[1][0] < 8 * costs[0][0] + 0.2, costs
    assert costs[1][1] < 8 * (32 << 20), costs
