"""The Go version that a program claims, and whether gospect accepts it:  patch releases and
experiments that gospect was not made with, development versions. tests/matrix/run has the builds
of all releases."""

import subprocess

import pytest

from lib import golang, gospect, traceback
from lib.process import Program
from matrix import builds

# What moves fields that gospect reads, and what does not though it might: docs/internals/go-runtime.md has
# all. Each brings its own build of the standard library.
MOVING = (pytest.param("1.22.12", "noexectracer2", marks=pytest.mark.slow),
          pytest.param("1.24.13", "nospinbitmutex", marks=pytest.mark.slow), pytest.param("1.27.2", "staticlockranking", marks=pytest.mark.slow))
HARMLESS = (pytest.param("1.22.12", "noallocheaders", marks=pytest.mark.slow), pytest.param("1.27.2", "runtimefreegc", marks=pytest.mark.slow))
builds_much = pytest.mark.time_limit(300)
PATCHES = ("1.17.13", "1.22.12", "1.23.12", "1.27.2")


def build(version, strip=False, says=None, experiment=""):
    """The matrix' program; `says` is the version that it claims instead of its own."""
    folder, copy = builds.sources(version)
    name = "-".join(["says", *(says or "").split(), experiment, "strip" if strip else ""])
    binary = folder / name / "matrix"
    with golang.building(binary.parent):
        if binary.exists():
            return binary
        binary.parent.mkdir(exist_ok=True)
        if strip:
            subprocess.run(["strip", "-o", binary, build(version, False, says, experiment)],
                           check=True)
        else:
            flags = [f"-ldflags=-X 'runtime.buildVersion={says}'"] if says else []
            builds.go_build(version, copy, binary, flags, False, experiment)
    return binary


@pytest.fixture
def started():
    programs = []

    def start(binary):
        programs.append(Program(binary))
        programs[-1].idle()
        return programs[-1]

    yield start
    for program in programs:
        program.assert_well()
        program.stop()


def assert_right(program, version, *args):
    inside = traceback.parse(program.stack())
    ignore = {g.id for g in traceback.having(inside, "main.main")}
    assert len(inside) > 35
    outside = gospect.dump(program.pid, *args)
    assert not traceback.differences(inside, outside, golang.minor(version), ignore)


def line_of(program):
    lines = gospect.run("ps").ok().text.splitlines()
    return next(line for line in lines if line.split()[:1] == [str(program.pid)])


def assert_refused(program, folder, *named):
    """dump, record and ps say why, in the same words, and leave nothing."""
    why = gospect.run("dump", "-p", program.pid).fails(1)
    assert all(name in why for name in named), why
    file = folder / "refused.folded"
    gospect.run("record", "-p", program.pid, "-d", "1", "-o", file).fails(1)
    assert not file.exists()
    assert why.removeprefix("gospect: ").split(": ")[-1] in gospect.run("ps").ok().text


@pytest.mark.parametrize("strip", [False, True], ids=["plain", "strip"])
@pytest.mark.parametrize("version", PATCHES)
def test_a_newer_patch_release_needs_no_table(started, version, strip):
    said = f"go{golang.language(version)}.99"
    program = started(build(version, strip, said))
    assert_right(program, version)
    assert line_of(program).split()[1] == said


@pytest.mark.parametrize("version,said", [("1.23.12", "go1.23.11"), ("1.24.13", "go1.24.0")])
def test_a_patch_release_that_moved_fields_is_not_believed_to_be_another(
        started, tmp_path, version, said):
    """As a coming patch release might: what its table would say is not so."""
    assert_right(started(build(version, False, said)), version)
    assert_refused(started(build(version, True, said)), tmp_path, said)


@pytest.mark.parametrize("strip", [False, True], ids=["plain", "strip"])
@pytest.mark.parametrize("said", ["devel go1.28-0123456789 Thu Jan 1 00:00:00 2026 +0000",
                                  "go1.28-devel_0123456789 Thu Jan 1 00:00:00 2026 +0000",
                                  "go1.27-devel_0123456789", "go1.99-devel_0123456789-X:simd"])
def test_a_development_version_is_refused_by_name(started, tmp_path, said, strip):
    program = started(build(golang.NEWEST, strip, said))
    assert_refused(program, tmp_path, f'"{said}"', "not a release")


@builds_much
@pytest.mark.parametrize("version,experiment", MOVING)
def test_an_experiment_that_moves_fields_is_noticed(started, tmp_path, version, experiment):
    plain = build(version, experiment=experiment)
    assert_right(started(plain), version)
    stripped = started(build(version, True, experiment=experiment))
    assert_refused(stripped, tmp_path, f"X:{experiment}", "--exe")
    assert_right(stripped, version, "--exe", plain)


@builds_much
@pytest.mark.parametrize("version,experiment", HARMLESS)
def test_an_experiment_that_moves_nothing_is_no_hindrance(started, version, experiment):
    assert_right(started(build(version, True, experiment=experiment)), version)


def test_an_experiment_that_nobody_knows_needs_dwarf(started, tmp_path):
    said = f"go{golang.NEWEST}-X:nosuchexperiment"
    assert_right(started(build(golang.NEWEST, False, said)), golang.NEWEST)
    assert_refused(started(build(golang.NEWEST, True, said)), tmp_path, "X:nosuchexperiment")
