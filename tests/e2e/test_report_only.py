"""A program that only reads recordings links no room that touches processes: src/cli/tests/report_only.c."""

import subprocess

import pytest

from lib import gospect, perf

BUILD = gospect.BINARY.parent / "src"
REPORT = BUILD / "cli" / "report_only"
# What a report must not have in it.
ROOMS = ("agent", "inject", "hooks", "collect", "oncpu")


def symbols(path, *kind):
    done = subprocess.run(["nm", "-P", *kind, path], capture_output=True, text=True, check=True)
    return {line.split()[0].split("@")[0] for line in done.stdout.splitlines() if " " in line}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_that_touches_processes_is_not_linked(room):
    of_room = symbols(BUILD / room / f"lib{room}.a", "-g", "--defined-only")
    assert of_room
    assert not of_room & symbols(REPORT, "--defined-only")
    assert of_room & symbols(gospect.BINARY, "--defined-only")


def test_report_only_build_needs_no_ptrace_or_disassembler():
    def wanted(path):
        return {s for s in symbols(path, "-u") if s == "ptrace" or s.startswith("cs_")}

    assert not wanted(REPORT)
    assert {"ptrace", "cs_disasm"} <= wanted(gospect.BINARY)


def test_capstone_is_not_loaded():
    def libraries(path):
        return subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout

    assert "libcapstone" not in libraries(REPORT)
    assert "libcapstone" in libraries(gospect.BINARY)


def made_up(kind, folder):
    path = folder / kind
    if kind == "trace":
        command = [BUILD / "gotrace" / "write_made_up_trace", "5", path]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    elif kind == "pprof":
        with path.open("wb") as out:
            subprocess.run([BUILD / "profile" / "write_made_up_profile", "service", "pprof"],
                           check=True, stdout=out)
    return path


@pytest.mark.parametrize("kind", ("trace", "pprof"))
@pytest.mark.parametrize("how", ((), ("--by", "state"), ("-f", "json"), ("-f", "folded")))
def test_the_report_of_a_recording_is_gospects_own(tmp_path, kind, how):
    file = made_up(kind, tmp_path)
    expected = gospect.run("report", file, *how).ok()
    assert expected.text
    assert gospect.run(file, *how, binary=REPORT).ok().text == expected.text


@pytest.mark.parametrize("kind", ("dwarf", "g"))
def test_the_report_of_what_perf_recorded_is_gospects_own(tmp_path, kind):
    program = perf.recorded_program(tmp_path, "1.27.2")
    file = perf.FIXTURES / f"go1.27.2-arm64-{kind}.data"
    expected = gospect.run("report", file, "--exe", program, "-f", "folded").ok()
    assert "main.burn" in expected.text
    assert gospect.run(file, "--exe", program, "-f", "folded", binary=REPORT).ok().text == expected.text
