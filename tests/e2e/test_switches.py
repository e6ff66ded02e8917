"""Stacks of running goroutines, across the stacks of a thread: C, system stack, vDSO."""

import shutil

import pytest

from lib import cgo, golang, gospect, pprof
from lib.params import newest_version
from lib.process import Program

ROOT = ["main.start.func1", "runtime/pprof.Do"]
IN_C = ["c_inner", "c_middle", "c_outer", "_cgo_Cfunc_c_outer", "runtime.asmcgocall",
        "runtime.cgocall", "main._Cfunc_c_outer", "main.burnInC", *ROOT]
IN_LIBRARY = ["library_inner", "library_outer", "c_library_call", "_cgo_Cfunc_c_library_call",
              "runtime.asmcgocall", "runtime.cgocall", "main._Cfunc_c_library_call",
              "main.burnInLibrary", *ROOT]
CALLED_BACK = ["main.spin", "main.goBurn", "_cgoexp_goBurn", "runtime.cgocallbackg1",
               "runtime.cgocallbackg", "runtime.cgocallback", "crosscall2", "goBurn", "c_calls_go"]
UNDER_C = [*CALLED_BACK, "c_back", "_cgo_Cfunc_c_back", "runtime.asmcgocall", "runtime.cgocall",
           "main._Cfunc_c_back", "main.burnInGoUnderC", *ROOT]


def on_cpu(program, path, *args):
    """Some 1,250 samples."""
    result = gospect.record_cpu(program, path, "-r", 500, "--budget", 100, "--on-cpu", *args, seconds=2.5).ok()
    if "perf_event_paranoid" in result.err or "no perf events" in result.err:
        pytest.skip("the kernel does not permit perf events here")
    return pprof.read(path)


def plain(func):
    """Without the hash that cgo puts into its names."""
    parts = func.split("_")
    if func.startswith(("_cgo_", "_cgoexp_")) and len(parts) > 2 and len(parts[2]) == 12:
        del parts[2]
    return "_".join(parts)


def share(profile, wanted):
    """The share of the CPU time below wanted[0] that is in stacks with all wanted frames; and one stack without."""
    right = total = 0
    other = None
    for sample in profile.samples:
        stack = [plain(func) for func in sample.stack]
        if stack[0] != wanted[0]:
            continue
        total += sample.values["cpu"]
        if stack[:len(wanted)] == wanted:
            right += sample.values["cpu"]
        else:
            other = stack
    assert total, [sample.stack for sample in profile.samples]
    return right / total, other


@pytest.fixture
def start():
    if not shutil.which("gcc"):
        pytest.skip("there is no C compiler")
    programs = []

    def run(version, *args):
        programs.append(Program(cgo.program(version), *args))
        return programs[-1]

    yield run
    for program in programs:
        program.assert_well()
        program.stop()


@newest_version()
@pytest.mark.parametrize("what, wanted", [("c", IN_C), ("back", UNDER_C)])
def test_c_under_go_and_go_under_c(start, tmp_path, version, what, wanted):
    program = start(version, what)
    profile = on_cpu(program, tmp_path / "p.pb.gz")
    right, other = share(profile, wanted)
    assert right > 0.99, other
    assert {s.labels.get("burns") for s in profile.samples if s.stack[0] == wanted[0]} == {what}


@newest_version()
def test_a_c_thread_that_calls_go(start, tmp_path, version):
    program = start(version, "thread")
    right, other = share(on_cpu(program, tmp_path / "p.pb.gz"), [*CALLED_BACK, "thread_main"])
    assert right > 0.99, other


def test_a_library_without_frame_pointers(start, tmp_path):
    program = start(golang.NEWEST, "library", cgo.library())
    profile = on_cpu(program, tmp_path / "p.pb.gz")
    right, other = share(profile, IN_LIBRARY)
    assert right > 0.99, other
    assert sum(s.values["wall"] for s in profile.samples if "library_inner" in s.stack) > 0


def test_a_stripped_library(start, tmp_path):
    program = start(golang.NEWEST, "library", cgo.library(stripped=True))
    profile = on_cpu(program, tmp_path / "p.pb.gz")
    # What is exported keeps its name.
    named = {s.stack[0] for s in profile.samples if "c_library_call" in s.stack}
    assert named <= {"library_inner", "library_outer", "[libburn.so]"}
    right, other = share(profile, IN_LIBRARY)
    assert right > 0.98, other
    library = next(m for m in profile.mappings if m[2].endswith("libburn.so"))
    assert len(library[3]) == 40, "it has no build id"


def truncated(profile):
    total = profile.total("cpu")
    return profile.total("cpu", lambda s: "[truncated]" in s.stack) / total


@newest_version()
def test_the_vdso_leads_to_the_caller_that_reads_the_clock(targets, tmp_path, version):
    program = targets.start("switches", version, args=("time",))
    profile = on_cpu(program, tmp_path / "p.pb.gz")
    vdso = [s for s in profile.samples if "clock_gettime" in s.stack[0]]
    assert vdso
    whole = sum(s.values["cpu"] for s in vdso if "main.readClock" in s.stack)
    assert whole > 0.98 * sum(s.values["cpu"] for s in vdso)


def is_written_in(closure, caller):
    """"runtime.gcAssistAlloc.func1" in "runtime.gcAssistAlloc"; "runtime.gcMarkDone.forEachP.func5",
    where that was inlined, in "runtime.forEachP"."""
    return closure.partition(".func")[0].endswith(caller.removeprefix("runtime"))


# Before Go 1.21 systemstack makes no frame: its caller is known by the code alone.
@pytest.mark.parametrize("version, mode", [(version, golang.PLAIN) for version in
                                           (golang.OLDEST, "1.20.14", golang.MIDDLE,
                                            golang.NEWEST)]
                         + [(golang.OLDEST, golang.PIE), ("1.20.14", golang.STRIPPED)])
def test_systemstack_caller_is_shown(targets, tmp_path, version, mode):
    program = targets.start("switches", version, mode, args=("alloc",))
    profile = on_cpu(program, tmp_path / "p.pb.gz")
    under = [s for s in profile.samples if "runtime.systemstack" in s.stack]
    assert under
    closures = 0
    for sample in under:
        at = sample.stack.index("runtime.systemstack")
        caller = sample.stack[at + 1]
        assert caller == "[truncated]" or caller.startswith("runtime."), sample.stack
        if at and ".func" in sample.stack[at - 1] and caller != "[truncated]":
            assert is_written_in(sample.stack[at - 1], caller), sample.stack
            closures += 1
    assert closures > 3
    assert truncated(profile) <= 0.02


@pytest.mark.parametrize("what, depth", [("deep", 91), ("deeper", 301)])
@newest_version()
def test_deep_stacks_are_whole(targets, tmp_path, version, what, depth):
    program = targets.start("switches", version, args=(what,))
    profile = on_cpu(program, tmp_path / "p.pb.gz")
    assert truncated(profile) < 0.01
    for sample in profile.samples:
        if sample.stack[0] == "main.spin":
            assert sample.stack.count("main.fall") == depth


def test_scheduler_time_is_marked(targets, tmp_path):
    program = targets.start("switches", args=("pingpong",))
    profile = on_cpu(program, tmp_path / "p.pb.gz")
    roots = {s.stack[-1] for s in profile.samples}
    assert "[scheduler]" in roots
    for sample in profile.samples:
        if "runtime.findRunnable" in sample.stack:
            assert sample.stack[-1] == "[idle]"


def test_gc_time_is_marked(targets, tmp_path):
    program = targets.start("switches", args=("alloc",))
    profile = on_cpu(program, tmp_path / "p.pb.gz")
    workers = [s for s in profile.samples if "runtime.gcBgMarkWorker" in s.stack]
    assert workers
    assert {s.stack[-1] for s in workers} == {"[GC]"}


def test_a_dump_names_c_functions(start):
    program = start(golang.NEWEST, "back")
    # Between two calls from C it is in a system call; on a busy machine it waits for a processor then,
    # and while the program begins another may be the one that runs.
    for _ in range(50):
        result = gospect.run("dump", "-p", program.pid, "--state", "running", "-f", "folded")
        assert result.status == 0 or "match --state running" in result.fails(1)
        if "perf_event_paranoid" in result.err or "no perf events" in result.err:
            pytest.skip("the kernel does not permit perf events here")
        if "main.spin" in result.text:
            break
    assert "main.spin" in result.text
    line = next(line for line in result.text.splitlines() if "main.spin" in line)
    stack = [plain(func) for func in line.rpartition(" ")[0].split(";")][::-1]
    assert stack[stack.index("main.spin"):][:len(UNDER_C)] == UNDER_C
