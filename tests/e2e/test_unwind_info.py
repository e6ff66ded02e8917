"""`gospect unwind-info`: held against the call frame information that Go's own linker writes, and in gdb."""

import collections
import re
import shutil
import struct
import subprocess

import pytest

from lib import callers, golang, gospect, perf
from lib.process import Program

VERSIONS = ("1.19.13", "1.23.12", golang.NEWEST)
ROW = re.compile(r"^[0-9a-f]{16} +\S")
FUNCTIONS = ("main.work", "main.leaf", "main.framed", "main.tiny", "main.duff")
FDE = re.compile(r"^[0-9a-f]+ [0-9a-f]+ [0-9a-f]+ FDE cie=\S+ pc=([0-9a-f]+)\.\.([0-9a-f]+)$")


def frames(path, section):
    """(start, end, [(address, CFA, where the return address is)]) of each function, by binutils."""
    text = subprocess.run(["readelf", "--debug-dump=frames-interp", path], capture_output=True, text=True).stdout
    block = re.search(rf"^Contents of the \.z?{section} section:\n(.*?)(?=^Contents of|\Z)", text, re.M | re.S)
    found, columns = [], []
    for line in block.group(1).splitlines():
        if fde := FDE.match(line):
            found.append((int(fde[1], 16), int(fde[2], 16), []))
        elif line.lstrip().startswith("LOC "):
            columns = line.split()
        elif ROW.match(line) and found:
            row = dict(zip(columns, line.split()))
            found[-1][2].append((int(row["LOC"], 16), row["CFA"], row.get("ra")))
        elif " CIE" in line and found:
            found.append((0, 0, []))
    return {start: (end, rows) for start, end, rows in found if rows}


def at(rows, address):
    return [row for row in rows if row[0] <= address][-1][1:]


def injected(debug):
    """Functions that a signal calls: on arm64 it pushes LR in front, of which the linker says nothing."""
    names = subprocess.run(["nm", debug], capture_output=True, text=True, check=True).stdout
    return {int(found[1], 16): found[2] for found in re.finditer(
        r"^([0-9a-f]+) t runtime\.(asyncPreempt|sigpanic|debugCallV2)(?:\.abi0)?$", names, re.M)}


def compare(ours, linkers):
    """(addresses compared, those that differ); without functions at which a stack ends."""
    same, wrong, ends = 0, [], 0
    for start, (end, rows) in ours.items():
        if any(row[2] == "u" for row in rows) or start not in linkers:
            ends += 1
            continue
        theirs = linkers[start][1]
        for address in sorted({row[0] for row in rows + theirs if row[0] < end}):
            if at(rows, address) == at(theirs, address):
                same += 1
            else:
                wrong.append((hex(address), at(rows, address), at(theirs, address)))
    assert ends < 0.03 * len(ours), ends
    return same, wrong


def sframe(path):
    """The same as frames(), of .sframe, by the format's description: CFA as "sp+N"."""
    sections = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True, check=True)
    assert not sections.stderr
    base, offset, size = (int(word, 16) for word in re.search(
        r"\.sframe +PROGBITS +([0-9a-f]+) ([0-9a-f]+) ([0-9a-f]+)", sections.stdout).groups())
    data = path.read_bytes()[offset:offset + size]
    magic, version, flags, abi, _, _, _, count, rows, _, fdes, fres = struct.unpack_from("<HBBBbbBIIIII", data)
    assert (magic, version, flags) == (0xDEE2, 2, 1) and abi in (2, 3)
    found, seen = {}, 0
    for i in range(count):
        begin, size, first, number, info, _, _ = struct.unpack_from("<iIIIBBH", data, 28 + fdes + 20 * i)
        place, lines = 28 + fres + first, []
        for _ in range(number):
            address, = struct.unpack_from("<" + "BHI"[info & 3], data, place)
            place += 1 << (info & 3)
            what = data[place]
            width, offsets = "bhi"[what >> 5 & 3], what >> 1 & 15
            values = struct.unpack_from(f"<{offsets}{width}", data, place + 1)
            place += 1 + offsets * struct.calcsize(width)
            lines.append((base + begin + address, f"sp+{values[0]}"))
            assert what & 1, "CFA is counted from SP"
        seen += number
        found[base + begin] = (base + begin + size, lines)
    assert seen == rows
    return found


def check_tables(program, folder, arch):
    debug = folder / "made.debug"
    assert "functions" in gospect.run("unwind-info", program, "-o", debug).ok().err
    truth = frames(program, "debug_frame")
    called = injected(debug)
    assert {"asyncPreempt", "sigpanic"} <= set(called.values())
    for section in ("debug_frame", "eh_frame"):
        made = frames(debug, section)
        for start in called if arch else ():
            assert at(made[start][1], start) == ("sp+16", "r30")
            del made[start]
        same, wrong = compare(made, truth)
        assert same > 5000 and not wrong, wrong[:5]
    same = 0
    for start, (end, rows) in sframe(debug).items():
        for address in {row[0] for row in rows + truth[start][1] if row[0] < end}:
            assert at(rows, address)[0].lstrip("rsp+") == at(truth[start][1], address)[0].lstrip("rsp+"), hex(address)
            same += 1
    assert same > 5000


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("arch", (None, golang.ARM64))
def test_tables_are_those_of_the_linker(tmp_path, version, arch):
    """Not its .debug_frame is read for them: the program that gospect reads has none."""
    program = golang.build("callers", version, arch=arch)
    check_tables(program, tmp_path, arch)


def gdb(program, debug, folder, steps):
    """The stacks that gdb shows at each of so many instructions from the beginning of each function on."""
    names = subprocess.run(["nm", debug], capture_output=True, text=True, check=True).stdout
    entries = [re.search(rf"^([0-9a-f]+) t {re.escape(name)}$", names, re.M)[1] for name in FUNCTIONS]
    script = ["set confirm off", "set pagination off", "set print demangle off", "handle SIGURG nostop noprint pass",
              f"symbol-file {debug}"]
    for entry in entries:
        script += [f"tbreak *0x{entry}", "continue", "set scheduler-locking on", "set $i = 0", f"while $i < {steps}",
                   "echo @@\\n", "bt 6", "stepi", "set $i = $i + 1", "end", "set scheduler-locking off"]
    (folder / "script").write_text("\n".join(script) + "\n")
    text = subprocess.run(["gdb", "-nx", "-batch", "-p", str(program.pid), "-x", folder / "script"],
                          capture_output=True, text=True, timeout=60).stdout
    frame = re.compile(r"^#\d+ +(?:0x[0-9a-f]+ in )?(\S+) \(", re.M)
    return [frame.findall(block) for block in text.split("@@\n")[1:]]


@pytest.mark.skipif(not shutil.which("gdb"), reason="gdb is missing")
@pytest.mark.parametrize("version", VERSIONS)
def test_gdb_finds_every_caller_at_each_instruction(targets, tmp_path, version):
    """In a stripped program, in prologues, epilogues and leaves."""
    program = targets.start("callers", version, golang.STRIPPED)
    debug = tmp_path / "made.debug"
    gospect.run("unwind-info", program.binary, "-o", debug).ok()
    stacks = gdb(program, debug, tmp_path, 60)
    assert len(stacks) == 60 * len(FUNCTIONS)
    functions = set()
    for stack in stacks:
        inner = [name for name in stack if name in callers.CALLER]
        functions.update(inner)
        assert stack[len(inner):][:1] == ["main.burn"], stack
        assert all(callers.CALLER[a] == b for a, b in zip(inner, inner[1:])), stack
        assert stack[len(inner) + 1].startswith("runtime.goexit"), stack
    assert set(FUNCTIONS) <= functions


def test_what_is_no_go_program_is_refused(tmp_path):
    assert "cannot make unwind tables for /bin/true" in gospect.run("unwind-info", "/bin/true", "-o", tmp_path / "x").fails(1)
    assert not (tmp_path / "x").exists()
    assert "no program" in gospect.run("unwind-info").fails(2)
    program = shutil.copy(golang.build("callers", golang.NEWEST), tmp_path / "program")
    assert "would replace the program" in gospect.run("unwind-info", program, "-o", program).fails(2)


@pytest.mark.skipif(perf.why_not() is not None, reason="perf cannot record here")
@pytest.mark.parametrize("version", VERSIONS)
def test_perf_unwinds_a_copy_by_itself(tmp_path, version):
    """golang/go#73753: of the program as Go links it, perf's own unwinder shows one frame."""
    copy = tmp_path / "copy"
    gospect.run("unwind-info", "--copy", golang.build("callers", version), "-o", copy).ok()
    copy.chmod(0o755)
    program = Program(copy)
    try:
        path = perf.record(tmp_path / "perf.data", "--call-graph", "dwarf,1024", "-p", program.pid, seconds=1)
    finally:
        program.stop()
    stacks = [stack for stack in perf.chains(path) if stack and stack[0] in callers.CALLER]
    assert len(stacks) > 20, "it hardly ran"
    assert not [s for s in stacks if s[1:2] not in ([callers.CALLER[s[0]]], ["runtime.newstack"])]
    assert sum("main.burn" in stack and stack[-1].startswith("runtime.goexit") for stack in stacks) > 0.95 * len(stacks)
    again = gospect.run("unwind-info", "--copy", copy, "-o", tmp_path / "again").fails(1)
    assert "it has tables of C code, or no room" in again


def test_a_damaged_program_is_read_or_refused(tmp_path):
    """Whatever its tables say, the result stays in proportion to the file."""
    whole = golang.build("callers", golang.NEWEST).read_bytes()
    table = whole.index(b"\xf1\xff\xff\xff\x00\x00\x01\x08")  # the header of pclntab
    places = [*range(16, 400, 16), *range(table, table + 64, 4), *range(table + 100, len(whole) - 1, len(whole) // 12)]
    statuses = collections.Counter()
    for i, place in enumerate(places):
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        (tmp_path / "damaged").write_bytes(damaged)
        out = tmp_path / "out"
        result = gospect.run("unwind-info", *(("--copy",) if i % 2 else ()), tmp_path / "damaged", "-o", out, seconds=10)
        statuses[result.status] += 1
        assert result.status in (0, 1) and result.err.count("\n") in (1, 2), (place, result.err)
        if not result.status:
            assert out.stat().st_size < 3 * len(whole)
            out.unlink()
    assert statuses[0] > 10 and statuses[1] > 4, statuses
