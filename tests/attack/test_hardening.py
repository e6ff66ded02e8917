"""A mistake in gospect that a hostile target reaches: what the compiler and the linker make of it.

The list is checksec's. A gospect without stack protector, FORTIFY and BIND_NOW ran what a target
had written over its return addresses.
"""

import pathlib
import re
import subprocess

import pytest

from lib import gospect


def readelf(*args, file=gospect.BINARY):
    done = subprocess.run(["readelf", "-W", *args, file], capture_output=True, text=True,
                          check=True)
    return done.stdout


def segments():
    """(type, flags) of each program header."""
    return re.findall(r"^  ([A-Z_]+) +0x\S+ 0x\S+ 0x\S+ 0x\S+ 0x\S+ ([R ][W ][E ]) ",
                      readelf("-l"), re.M)


def imported():
    return set(re.findall(r" UND (\w+)", readelf("--dyn-syms")))


def is_sanitized():
    return any(name.startswith("__asan") for name in imported())


def test_its_addresses_are_random():
    assert re.search(r"Type: +DYN", readelf("-h"))
    assert re.search(r"\(FLAGS_1\).*\bPIE\b", readelf("-d"))


def test_its_imports_are_bound_at_start_and_then_read_only():
    dynamic = readelf("-d")
    assert re.search(r"\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*\bNOW\b", dynamic), dynamic
    assert "GNU_RELRO" in dict(segments())


def test_no_memory_is_both_written_and_run():
    found = segments()
    assert dict(found)["GNU_STACK"] == "RW "
    assert not [s for s in found if "W" in s[1] and "E" in s[1]], found
    assert "TEXTREL" not in readelf("-d")


def test_its_code_is_in_pages_of_its_own():
    """Headers and constants are not among what can be run (-z separate-code)."""
    loads = [flags for kind, flags in segments() if kind == "LOAD"]
    assert loads == ["R  ", "R E", "R  ", "RW "], loads


def test_libraries_come_from_nowhere_else():
    assert not re.search(r"\((RPATH|RUNPATH)\)", readelf("-d"))


def test_an_overflow_on_the_stack_ends_it():
    assert "__stack_chk_fail" in imported()


def test_copies_are_checked_against_the_size_of_their_buffer():
    if is_sanitized():
        pytest.skip("a sanitizer checks them itself")
    checked = {name for name in imported() if name.endswith("_chk")}
    assert {"__snprintf_chk", "__memcpy_chk"} <= checked, checked
    assert not {"vsnprintf", "printf", "fprintf", "sprintf"} & imported()


def crt_has(feature):
    """Debian's C library is built without it, and then the linker takes it from the whole."""
    path = subprocess.run(["gcc", "-print-file-name=crt1.o"], capture_output=True, text=True,
                          check=True).stdout.strip()
    return feature in readelf("-n", file=pathlib.Path(path))


def test_calls_through_pointers_land_at_the_beginning_of_functions_only():
    if "X86-64" not in readelf("-h"):
        pytest.skip("control-flow enforcement is of amd64")
    code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "--disassemble=main",
                           gospect.BINARY], capture_output=True, text=True, check=True).stdout
    assert re.search(r"<main>:\n\s+[0-9a-f]+:\s+endbr64", code), code[:500]
    for feature in ("IBT", "SHSTK"):
        if crt_has(feature):
            assert feature in readelf("-n")
