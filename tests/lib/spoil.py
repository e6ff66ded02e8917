"""Spoils programs: their files before they run, their memory while they are stopped."""

import os
import pathlib
import random
import re
import shutil
import struct
import subprocess

PAGE = 4096


def sections(binary):
    """name -> (offset, size, address) of an ELF file."""
    text = subprocess.run(["readelf", "-SW", binary], capture_output=True, text=True,
                          check=True).stdout
    pattern = re.compile(r"\] (\S+) +\S+ +([0-9a-f]+) ([0-9a-f]+) ([0-9a-f]+) ")
    return {name: (int(offset, 16), int(size, 16), int(address, 16))
            for name, address, offset, size in pattern.findall(text)}


def copy_with_version(binary, path, old, new):
    """A copy that says, wherever it says it, that another Go version built it."""
    assert len(old) == len(new)
    data = binary.read_bytes()
    assert old.encode() in data
    path.write_bytes(data.replace(old.encode(), new.encode()))
    path.chmod(0o755)
    return path


def copy_with_bytes(binary, path, changes):
    """A copy with (offset, bytes) written over."""
    shutil.copy(binary, path)
    with open(path, "r+b") as file:
        for offset, data in changes:
            file.seek(offset)
            file.write(data)
    return path


def flips(offset, size, count, seed):
    """Changes of single bytes anywhere in a range."""
    source = random.Random(seed)
    return [(offset + source.randrange(size), bytes([source.randrange(256)]))
            for _ in range(count)]


def function_tables(binary, version):
    """name -> (offset, size) of the parts of the pclntab: runtime/symtab.go, pcHeader."""
    (offset, _, _), = [s for name, s in sections(binary).items() if name.endswith(".gopclntab")]
    first = 32 if version >= (1, 18) else 24
    header = binary.read_bytes()[offset:offset + first + 40]
    starts = struct.unpack_from("<5Q", header, first)
    return {name: (offset + start, end - start) for name, start, end in
            zip(("names", "units", "files", "pcs"), starts, starts[1:])}


def writable_ranges(pid):
    """The memory that the program has written to so far:  [(start, size)], at most 1 MB of each mapping."""
    ranges = []
    for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
        span, permissions, *rest = line.split(maxsplit=5)
        start, end = (int(part, 16) for part in span.split("-"))
        if permissions.startswith("rw") and "[" not in line:
            ranges += resident_parts(pid, start, end)
    return ranges


def resident_parts(pid, start, end):
    with open(f"/proc/{pid}/pagemap", "rb") as file:
        file.seek(start // PAGE * 8)
        data = file.read((end - start) // PAGE * 8)
    count = len(data) // 8
    present = [entry >> 63 for entry in struct.unpack(f"{count}Q", data)]
    return [(start + i * PAGE, PAGE) for i in range(count) if present[i]]


class Memory:
    """The memory of a stopped process, to be spoiled and restored."""

    def __init__(self, pid):
        self.fd = os.open(f"/proc/{pid}/mem", os.O_RDWR)
        self.ranges = writable_ranges(pid)
        self.saved = []

    def close(self):
        os.close(self.fd)

    def write(self, address, data):
        self.saved.append((address, os.pread(self.fd, len(data), address)))
        os.pwrite(self.fd, data, address)

    def write_all(self, changes):
        """(address, bytes) of words, a page at a time."""
        pages = {}
        for address, data in changes:
            page = address & -PAGE
            if page not in pages:
                pages[page] = bytearray(os.pread(self.fd, PAGE, page))
            pages[page][address - page:address - page + len(data)] = data
        for page, data in pages.items():
            self.write(page, bytes(data))

    def restore(self):
        while self.saved:
            address, data = self.saved.pop()
            os.pwrite(self.fd, data, address)

    def words(self):
        """(address, value) of every non-zero word."""
        for start, size in self.ranges:
            data = os.pread(self.fd, size, start)
            for i, value in enumerate(struct.unpack(f"{len(data) // 8}Q", data)):
                if value:
                    yield start + i * 8, value
