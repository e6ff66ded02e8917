"""The target's DWARF decides where gospect looks in a goroutine; it may say anything.

Under AddressSanitizer, gospect read up to 64 KB behind a buffer of 400 bytes.
"""

import contextlib
import re
import subprocess

import pytest

from lib import golang, gospect, hostile, spoil, traceback

pytestmark = hostile.NEEDS_ROOT

VERBS = {
    "ps": lambda pid: ("ps",),
    "dump": lambda pid: ("dump", "-p", pid),
    "record": lambda pid: ("record", "-p", pid, "-d", "0.3", "-o", "out.pb.gz"),
    "trace": lambda pid: ("trace", "-p", pid, "-d", "0.3", "-o", "out.trace"),
}
SIZE_BEFORE, GOID_BEFORE = 424, 152  # of Go 1.22


def leb(value):
    return bytes([value & 127 | 128, value >> 7])


def place_of(text, entry, attribute):
    """Where .debug_info has an attribute's value, which is 2 bytes long."""
    lines = iter(text)
    for line in lines:
        if line.endswith(f": {entry}"):
            found = next(lines)
            if attribute in found:
                return int(re.search(r"<([0-9a-f]+)>", found)[1], 16)
    raise AssertionError(f"no {attribute} of {entry}")


def copy_with_far_goid(binary, path, size, goid):
    """A copy with a DWARF that gives a g `size` bytes, and the goid the offset `goid`."""
    subprocess.run(["objcopy", "--decompress-debug-sections", binary, path], check=True)
    text = subprocess.run(["readelf", "--debug-dump=info", path], capture_output=True, text=True,
                          check=True).stdout.splitlines()
    at = place_of(text, "runtime.g", "DW_AT_byte_size")
    begin = next(i for i, line in enumerate(text) if f"<{at:x}>" in line)
    goid_at = place_of(text[begin:begin + 400], "goid", "DW_AT_data_member_location")
    (offset, _, _) = spoil.sections(path)[".debug_info"]
    data = bytearray(path.read_bytes())
    for where, before, after in ((at, SIZE_BEFORE, size), (goid_at, GOID_BEFORE, goid)):
        where += offset
        assert data[where:where + 2] == leb(before)
        data[where:where + 2] = leb(after)
    path.write_bytes(data)
    path.chmod(0o755)
    return path


@contextlib.contextmanager
def inventor(size, goid):
    binary = golang.build("inventor", golang.MIDDLE)
    with hostile.folder() as folder:
        copy = copy_with_far_goid(binary, folder / "inventor", size, goid)
        with hostile.running(copy, 64, 4096 if size <= 4096 else 16384, goid) as pid:
            yield pid


@pytest.mark.parametrize("verb", VERBS)
def test_a_goroutine_of_16_kb_is_refused(verb):
    with inventor(16384 - 8, 16000) as pid:
        result = gospect.run(*VERBS[verb](pid))
        said = result.ok().text + result.err if verb == "ps" else result.fails(1)
        assert re.search(r"DWARF of .*inventor is wrong: it gives runtime.g .* the offset 16\d+", said), said


def test_goroutine_ids_are_read_where_the_dwarf_says():
    with inventor(4096 - 8, 4072) as pid:
        found = traceback.parse(gospect.run("dump", "-p", pid).ok().text)
        assert set(found) == {2, 3}
        gospect.run(*VERBS["record"](pid)).ok()
        gospect.run(*VERBS["trace"](pid))
