"""gospect symbolize: what was recorded as addresses alone becomes what it would have been."""

import gzip
import os
import shutil
import signal
import subprocess

import pytest

from lib import cgo, golang, gospect, pprof, rawpprof
from lib.process import Program, status, wait_until

MODES = (golang.PLAIN, golang.STRIPPED, golang.PIE)
FORMATS = ("pprof", "folded", "speedscope", "html")


def content(path):
    data = path.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


class Still:
    """A process in which nothing happens meanwhile: two dumps of it are of one moment."""

    def __init__(self, program):
        self.pid = program.pid

    def __enter__(self):
        os.kill(self.pid, signal.SIGSTOP)
        wait_until(lambda: status(self.pid)["State"][0] == "T", what="it to stop")
        return self

    def __exit__(self, *_):
        os.kill(self.pid, signal.SIGCONT)


def dump_both_ways(program, folder, form="pprof"):
    """The paths of a direct dump and of a raw one of the same moment."""
    direct, raw = folder / "direct", folder / "raw.pb.gz"
    with Still(program):
        gospect.run("dump", "-p", program.pid, "-f", form, "-o", direct).ok()
        gospect.run("dump", "-p", program.pid, "--raw", "-f", "pprof", "-o", raw).ok()
    return direct, raw


def symbolize(raw, *args, form="pprof"):
    path = raw.parent / "symbolized"
    result = gospect.run("symbolize", raw, "-f", form, "-o", path, *args).ok()
    assert result.words == []
    return path


def copy_of(binary, folder):
    """A program that the test may move and delete."""
    folder.mkdir(exist_ok=True)
    return shutil.copy(binary, folder / "service")


@pytest.fixture
def gone(tmp_path):
    """A stripped program that is no more, nor its file: a direct and a raw dump of it."""
    binary = copy_of(golang.build("states", golang.NEWEST, golang.STRIPPED), tmp_path / "bin")
    program = Program(binary)
    try:
        direct, raw = dump_both_ways(program, tmp_path)
    finally:
        program.stop()
    binary.unlink()
    return direct, raw


@pytest.mark.parametrize("mode", MODES)
def test_a_raw_dump_becomes_the_direct_one(targets, tmp_path, mode):
    direct, raw = dump_both_ways(targets.keep("states", golang.NEWEST, mode), tmp_path)
    assert not pprof.read(raw).lines and len(pprof.read(direct).lines) > 100
    assert content(symbolize(raw)) == content(direct)


def test_the_oldest_go_too(targets, tmp_path):
    direct, raw = dump_both_ways(targets.keep("states", golang.OLDEST), tmp_path)
    assert content(symbolize(raw)) == content(direct)


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_the_direct_one(states, tmp_path, form):
    direct, raw = dump_both_ways(states, tmp_path, form)
    assert content(symbolize(raw, form=form)) == content(direct)


def texts(program, folder, *args):
    """The text of a direct dump, and the path of a raw one of the same moment."""
    raw = folder / "raw.txt"
    with Still(program):
        direct = gospect.run("dump", "-p", program.pid, *args).ok().out
        gospect.run("dump", "-p", program.pid, "--raw", "-o", raw, *args).ok()
    return direct, raw


def same_text(raw, direct):
    path = raw.parent / "symbolized.txt"
    assert gospect.run("symbolize", raw, "-o", path).ok().words == []
    assert path.read_bytes() == direct
    assert gospect.run("symbolize", raw).ok().out == direct


@pytest.mark.parametrize("version,mode", [(golang.NEWEST, golang.PLAIN), (golang.NEWEST, golang.PIE),
                                          (golang.MIDDLE, golang.STRIPPED), (golang.OLDEST, golang.PLAIN),
                                          (golang.OLDEST, golang.PIE)])
@pytest.mark.parametrize("args", [(), ("--all",), ("--group",)])
def test_a_raw_text_dump_becomes_the_direct_one(targets, tmp_path, version, mode, args):
    direct, raw = texts(targets.keep("states", version, mode), tmp_path, *args)
    assert b"main." in direct and b"main." not in raw.read_bytes().replace(b"/main.", b"")
    same_text(raw, direct)


def test_a_core_file_dumped_raw_becomes_the_direct_dump(targets, tmp_path):
    """For running goroutines it has registers: addresses of instructions, not of calls."""
    if not shutil.which("gcore"):
        pytest.skip("gcore is missing: install gdb")
    program = targets.start("states", golang.NEWEST, golang.PIE,
                            args=("-only=chan", "-spin=1"))
    subprocess.run(["gcore", "-o", "core", str(program.pid)], check=True, capture_output=True)
    dump = ("dump", "--core", f"core.{program.pid}")
    raw = tmp_path / "raw"
    direct = gospect.run(*dump).ok().out
    gospect.run(*dump, "--raw", "-o", raw).ok()
    assert b"main.spin" in direct and b" exact\n" in raw.read_bytes()
    same_text(raw, direct)
    gospect.run(*dump, "-f", "pprof", "-o", tmp_path / "direct").ok()
    gospect.run(*dump, "-f", "pprof", "--raw", "-o", raw).ok()
    assert content(symbolize(raw)) == content(tmp_path / "direct")


def test_a_raw_text_dump_needs_its_program(states, tmp_path):
    _, raw = texts(states, tmp_path)
    text = raw.read_text()
    build_id = text.split("mapping ")[1].split()[2]
    raw.write_text(text.replace(build_id, "00" * 20))
    words = gospect.run("symbolize", raw, "-o", "out").fails(1)
    assert "00" * 20 in words and "--exe" in words and not os.path.exists("out")


@pytest.mark.parametrize("spoil", [
    lambda text: text[:-1],
    lambda text: text.replace("mapping ", "napping ", 1),
    lambda text: text.replace("\t0x", "\t0xg", 1),
    lambda text: text.replace("\t0x", "\t0x1 \0", 1),
    lambda text: text.replace("created by 0x", "created by 0xyz", 1),
    lambda text: "gospect raw dump 1\n",
])
def test_a_damaged_raw_dump_is_refused_in_one_line(states, tmp_path, spoil):
    _, raw = texts(states, tmp_path)
    raw.write_text(spoil(raw.read_text()))
    assert str(raw) in gospect.run("symbolize", raw, "-o", "out").fails(1)
    assert not os.path.exists("out")


def test_a_raw_dump_is_text_or_pprof(states, tmp_path):
    for form in ("json", "folded", "html"):
        line = gospect.run("dump", "-p", states.pid, "--raw", "-f", form).fails(2)
        assert "text and pprof" in line
    _, raw = texts(states, tmp_path)
    assert "pprof" in gospect.run("symbolize", raw, "-f", "folded").fails(2)


def test_an_unstripped_file_serves_in_place_of_the_program(gone):
    direct, raw = gone
    twin = golang.build("states", golang.NEWEST, golang.PLAIN)
    assert content(symbolize(raw, "--exe", twin)) == content(direct)


@pytest.mark.parametrize("place", ["any-name", ".build-id"])
def test_a_directory_of_build_ids_has_the_program(gone, tmp_path, place):
    direct, raw = gone
    build_id = pprof.read(raw).mappings[0][3]
    folder = tmp_path / "debug"
    path = folder / "any-name"
    if place == ".build-id":
        path = folder / ".build-id" / build_id[:2] / (build_id[2:] + ".debug")
    path.parent.mkdir(parents=True)
    shutil.copy(golang.build("states", golang.NEWEST, golang.PLAIN), path)
    shutil.copy(golang.build("split", golang.NEWEST, golang.PLAIN), folder / "another")
    os.mkfifo(folder / "pipe")
    assert content(symbolize(raw, "--debug-dir", folder)) == content(direct)


@pytest.mark.parametrize("mode", [golang.PLAIN, golang.PIE])
def test_a_recording_becomes_what_it_was(targets, tmp_path, mode):
    program = targets.keep("split", golang.NEWEST, mode)
    direct, raw = tmp_path / "direct.pb.gz", tmp_path / "raw.pb.gz"
    gospect.run("record", "-p", program.pid, "-d", 1, *gospect.BUDGET, "-o", direct).ok()
    raw.write_bytes(rawpprof.strip(direct.read_bytes()))
    names = {name for sample in pprof.read(raw).samples for name in sample.stack}
    assert all(not name or name.startswith("[") for name in names), names
    assert content(symbolize(raw)) == content(direct)


def libraries(path):
    return {mapping[2] for mapping in pprof.read(path).mappings}


@pytest.fixture
def in_library():
    program = Program(cgo.program(golang.NEWEST), "library", cgo.library())
    yield program
    program.stop()


def test_shared_libraries_are_symbolized_too(in_library, tmp_path):
    direct, raw = tmp_path / "direct.pb.gz", tmp_path / "raw.pb.gz"
    gospect.run("record", "-p", in_library.pid, "-d", 1, *gospect.BUDGET, "--on-cpu",
                "-o", direct).ok()
    if not any(str(cgo.library()) in lib for lib in libraries(direct)):
        pytest.skip("perf may not sample here")
    raw.write_bytes(rawpprof.strip(direct.read_bytes()))
    assert content(symbolize(raw)) == content(direct)


def test_a_raw_recording_gets_the_names_of_go_and_c(in_library, tmp_path):
    raw = tmp_path / "raw.pb.gz"
    gospect.run("record", "-p", in_library.pid, "-d", 1, *gospect.BUDGET, "--on-cpu", "--raw",
                "-o", raw).ok()
    in_library.stop()
    stacks = [s.stack for s in pprof.read(symbolize(raw)).samples]
    if not any("main.burnInLibrary" in stack for stack in stacks):
        pytest.skip("perf may not sample here")
    burning = max((s for s in stacks if "main.burnInLibrary" in s), key=len)
    assert burning.index("library_inner") < burning.index("library_outer")
    assert burning.index("library_outer") < burning.index("main.burnInLibrary")
    assert not any(name.startswith("0x") for stack in stacks for name in stack)


def test_a_library_that_is_missing_is_said_and_the_rest_is_there(tmp_path):
    library = shutil.copy(cgo.library(), tmp_path / "libmoved.so")
    program = Program(cgo.program(golang.NEWEST), "library", library)
    raw = tmp_path / "raw.pb.gz"
    try:
        gospect.run("record", "-p", program.pid, "-d", 1, *gospect.BUDGET, "--on-cpu", "--raw",
                    "-o", raw).ok()
    finally:
        program.stop()
    if str(library) not in libraries(raw):
        pytest.skip("perf may not sample here")
    os.unlink(library)
    result = gospect.run("symbolize", raw, "-f", "pprof", "-o", tmp_path / "out").ok()
    assert len(result.words) == 1
    for part in ("libmoved.so", "build id", "[libmoved.so]", "--debug-dir"):
        assert part in result.words[0]
    names = {name for s in pprof.read(tmp_path / "out").samples for name in s.stack}
    assert {"[libmoved.so]", "main.burnInLibrary"} <= names and "library_inner" not in names
    moved = symbolize(raw, "--exe", cgo.library())
    assert "library_inner" in {name for s in pprof.read(moved).samples for name in s.stack}


def test_a_library_that_no_stack_leads_through_is_not_asked_for(in_library, tmp_path):
    in_c, waiting = tmp_path / "syscall.pb.gz", tmp_path / "waiting.pb.gz"
    for path in in_c, waiting:
        gospect.run("record", "-p", in_library.pid, "-d", 1, *gospect.BUDGET, "--raw", "--runtime",
                    "--state", path.name.partition(".")[0], "-o", path).ok()
    if str(cgo.library()) not in libraries(in_c):
        pytest.skip("perf may not sample here")
    assert libraries(waiting) == {str(cgo.program(golang.NEWEST))}


def test_a_separate_debug_file_names_a_librarys_functions(tmp_path):
    whole, library = tmp_path / "libwhole.so", tmp_path / "libbare.so"
    (tmp_path / "exported").write_text("{ global: library_outer; local: *; };")
    subprocess.run(["gcc", "-O2", "-fPIC", "-shared", "-Wl,--build-id", "-o", whole,
                    "-Wl,--version-script=exported", cgo.LIBRARY / "library.c"], check=True)
    subprocess.run(["strip", "-o", library, whole], check=True)
    subprocess.run(["objcopy", "--only-keep-debug", whole, tmp_path / "its.debug"], check=True)
    program = Program(cgo.program(golang.NEWEST), "library", library)
    raw = tmp_path / "raw.pb.gz"
    try:
        gospect.run("record", "-p", program.pid, "-d", 1, *gospect.BUDGET, "--on-cpu", "--raw",
                    "-o", raw).ok()
    finally:
        program.stop()
    if str(library) not in libraries(raw):
        pytest.skip("perf may not sample here")
    bare = {name for s in pprof.read(symbolize(raw)).samples for name in s.stack}
    assert "library_inner" not in bare
    out = symbolize(raw, "--exe", tmp_path / "its.debug")
    assert "library_inner" in {name for s in pprof.read(out).samples for name in s.stack}


def fails(*args):
    return gospect.run("symbolize", *args, "-f", "pprof", "-o", "out").fails(1)


def test_missing_program_is_named_with_a_remedy(gone):
    _, raw = gone
    _, _, path, build_id = pprof.read(raw).mappings[0]
    words = fails(raw)
    for part in (path, build_id, "No such file", "--exe", "--debug-dir"):
        assert part in words
    assert not os.path.exists("out")


def test_a_program_without_section_headers_is_known_by_gos_own_build_id(tmp_path):
    """Only the section headers tell the GNU build id."""
    binary = copy_of(golang.build("states", golang.NEWEST, golang.PLAIN), tmp_path / "bin")
    data = bytearray(binary.read_bytes())
    data[0x28:0x30] = bytes(8)  # e_shoff
    data[0x3C:0x40] = bytes(4)  # e_shnum, e_shstrndx
    binary.write_bytes(data)
    program = Program(binary)
    try:
        direct, raw = dump_both_ways(program, tmp_path)
        twin = golang.build("states", golang.NEWEST, golang.PLAIN)
        assert gospect.run("dump", "-p", program.pid, "--exe", twin).ok().out
    finally:
        program.stop()
    assert "/" in pprof.read(raw).mappings[0][3]
    assert content(symbolize(raw)) == content(direct)
    binary.unlink()
    assert content(symbolize(raw, "--exe", twin)) == content(direct)


def test_another_build_is_refused(gone):
    _, raw = gone
    _, _, path, build_id = pprof.read(raw).mappings[0]
    other = golang.build("states", golang.MIDDLE, golang.PLAIN)
    words = fails(raw, "--exe", other)
    assert str(other) in words and build_id in words
    shutil.copy(other, path)
    words = fails(raw)
    assert path in words and build_id in words and "has changed since the recording" in words


def test_a_debug_file_of_the_program_alone_does_not_do(gone, tmp_path):
    _, raw = gone
    debug = tmp_path / "program.debug"
    subprocess.run(["objcopy", "--only-keep-debug",
                    golang.build("states", golang.NEWEST, golang.PLAIN), debug], check=True)
    assert pprof.read(raw).mappings[0][3] in fails(raw, "--exe", debug)


def test_mapping_without_a_build_id_needs_a_named_file(states, tmp_path):
    _, raw = dump_both_ways(states, tmp_path)
    raw.write_bytes(rawpprof.with_mappings(raw.read_bytes(), lambda n, v: 0 if n == 6 else v))
    assert "has no build id" in fails(raw)
    assert "build id" in fails(raw, "--exe", states.binary)


def test_two_processes_in_one_file_are_refused(states, tmp_path):
    _, raw = dump_both_ways(states, tmp_path)
    data = gzip.decompress(raw.read_bytes())
    mapping = next(value for number, value in pprof.fields(data) if number == 3)
    raw.write_bytes(gzip.compress(data + rawpprof.encode(3, mapping)))
    assert "two processes" in fails(raw)


def test_profile_with_functions_is_refused(states, tmp_path):
    direct, _ = dump_both_ways(states, tmp_path)
    assert "already" in fails(direct)


@pytest.mark.parametrize("data", [b"", b"nonsense", b"\x1f\x8b" + bytes(20)])
def test_file_that_is_no_profile_is_refused(tmp_path, data):
    path = tmp_path / "broken"
    path.write_bytes(data)
    assert str(path) in fails(path)


def test_wrong_options_are_usage():
    assert "no file" in gospect.run("symbolize").fails(2)
    assert "format" in gospect.run("symbolize", "x", "-f", "x").fails(2)
