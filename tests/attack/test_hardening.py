"""If a hostile target reaches a bug of gospect, the compiler's and the linker's hardening limits the damage.

The list is checksec's. A gospect without stack protector, FORTIFY and BIND_NOW ran what a target
had written over its return addresses.
"""

import pathlib
import re
import subprocess

import pytest

from lib import gospect


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run(["meson", "install", "-C", gospect.BINARY.parent, "--no-rebuild", "--quiet",
                    "--destdir", folder], check=True, capture_output=True)
    return folder


def is_elf(path):
    return path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF"


@pytest.fixture(params=("gospect", "libgospect.so"))
def file(request, installed):
    """What `meson install` puts there, not what lies in the build folder."""
    found = [path for path in installed.rglob(f"{request.param}*") if is_elf(path)]
    assert len(found) == 1, found
    return found[0]


def test_nothing_else_is_installed_that_runs(installed):
    names = {path.name.partition(".so")[0] for path in installed.rglob("*") if is_elf(path)}
    assert names == {"gospect", "libgospect"}


def test_nothing_is_installed_that_others_may_write_or_that_gains_privilege(installed):
    for path in installed.rglob("*"):
        assert path.is_symlink() or not path.lstat().st_mode & 0o6022, path


def readelf(file, *args):
    done = subprocess.run(["readelf", "-W", *args, file], capture_output=True, text=True,
                          check=True)
    return done.stdout


def segments(file):
    """(type, flags) of each program header."""
    return re.findall(r"^  ([A-Z_]+) +0x\S+ 0x\S+ 0x\S+ 0x\S+ 0x\S+ ([R ][W ][E ]) ",
                      readelf(file, "-l"), re.M)


def imported(file):
    return set(re.findall(r" UND (\w+)", readelf(file, "--dyn-syms")))


def is_library(file):
    return ".so" in file.name


def is_sanitized(file):
    return any(name.startswith("__asan") for name in imported(file))


def test_its_addresses_are_random(file):
    assert re.search(r"Type: +DYN", readelf(file, "-h"))
    assert is_library(file) or re.search(r"\(FLAGS_1\).*\bPIE\b", readelf(file, "-d"))


def test_its_imports_are_bound_at_start_and_then_read_only(file):
    dynamic = readelf(file, "-d")
    assert re.search(r"\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*\bNOW\b", dynamic), dynamic
    assert "GNU_RELRO" in dict(segments(file))


def test_memory_is_never_writable_and_executable(file):
    found = segments(file)
    assert dict(found)["GNU_STACK"] == "RW "
    assert not [s for s in found if "W" in s[1] and "E" in s[1]], found
    assert "TEXTREL" not in readelf(file, "-d")


def test_its_code_is_in_pages_of_its_own(file):
    """Headers and constants are not among what can be run (-z separate-code)."""
    loads = [flags for kind, flags in segments(file) if kind == "LOAD"]
    assert loads == ["R  ", "R E", "R  ", "RW "], loads


def test_libraries_come_from_nowhere_else(file):
    assert not re.search(r"\((RPATH|RUNPATH)\)", readelf(file, "-d"))


def test_an_overflow_on_the_stack_ends_it(file):
    assert "__stack_chk_fail" in imported(file)


def test_copies_are_checked_against_the_size_of_their_buffer(file):
    if is_sanitized(file):
        pytest.skip("a sanitizer checks them itself")
    checked = {name for name in imported(file) if name.endswith("_chk")}
    assert {"__snprintf_chk", "__memcpy_chk"} <= checked, checked
    assert not {"vsnprintf", "printf", "fprintf", "sprintf"} & imported(file)


def crt_has(feature):
    """Debian's C library is built without it, and then the linker takes it from the whole."""
    path = subprocess.run(["gcc", "-print-file-name=crt1.o"], capture_output=True, text=True,
                          check=True).stdout.strip()
    return feature in readelf(pathlib.Path(path), "-n")


def test_calls_through_pointers_land_at_the_beginning_of_functions_only(file):
    if "X86-64" not in readelf(file, "-h"):
        pytest.skip("control-flow enforcement is of amd64")
    name = "gospect_target_open_process" if is_library(file) else "main"
    code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", f"--disassemble={name}", file],
                          capture_output=True, text=True, check=True).stdout
    assert re.search(rf"<{name}(@@.*)?>:\n\s+[0-9a-f]+:\s+endbr64", code), code[:500]
    for feature in ("IBT", "SHSTK"):
        if crt_has(feature):
            assert feature in readelf(file, "-n")
