"""--unwind pcsp|fp|dwarf: what each way to find callers finds on real programs, and what frame
pointers leave out by nature."""

import json
import shutil
import subprocess

import pytest

from lib import callers, golang, gospect, pprof, traceback
from lib.fixtures import Fixture, recorded
from lib.params import every_build, every_version, newest_version
from lib.process import wait_until

METHODS = ("pcsp", "fp", "dwarf")
WORDS = {"fp": "by frame pointers only", "dwarf": "by the program's .debug_frame"}


def dump(*args, method):
    result = gospect.run("dump", *args, "--unwind", method).ok()
    if method == "pcsp":
        assert not result.text.startswith("#")
    else:
        assert result.text.startswith(f"# stacks unwound {WORDS[method]} (--unwind {method})\n\n")
        assert f"gospect: stacks are unwound {WORDS[method]} (--unwind {method})" in result.words
    return traceback.parse(result.text)


def is_in_a_system_call(goroutine, version):
    """One keeps no frame pointer before Go 1.23 (proc.go, reentersyscall saves pc and sp): between
    where it was entered and where the goroutine began nothing is known."""
    return golang.minor(version) < (1, 23) and goroutine.state.startswith("syscall")


def assert_cut(found, whole, what):
    """Its innermost functions, the mark, and where it began: nothing else, and nothing wrong."""
    assert found.elided_at is not None, what
    assert found.functions()[:found.elided_at] == whole.functions()[:found.elided_at], what
    # A wrapper that the compiler made for the go statement is not shown.
    assert found.functions()[found.elided_at:] in ([], whole.functions()[-1:]), what
    assert found.created_by == whole.created_by, what


def compare(whole, found, version, method, ignore=(), may_be_cut=()):
    """Compares all frames, except of stacks that lose callers by their method; returns the number."""
    cut = set()
    for goid, g in whole.items() if method == "fp" else ():
        if goid not in ignore and (goid in may_be_cut or is_in_a_system_call(g, version)) \
                and found[goid].elided_at is not None:
            cut.add(goid)
    different = traceback.differences(whole, found, golang.minor(version), ignore={*ignore, *cut})
    assert not different, f"{len(different)} differences:\n" + "\n".join(different[:20])
    for goid in cut:
        assert_cut(found[goid], whole[goid], goid)
    return len(cut)


@every_version()
@pytest.mark.parametrize("method", METHODS)
def test_parked_goroutines_are_what_runtime_stack_says(targets, version, method):
    program = targets.keep("states", version)
    found = dump("-p", program.pid, method=method)
    inside = traceback.parse(program.stack())
    own = {g.id for g in traceback.having(inside, "main.control")}
    assert len(inside) > 80
    cut = compare(inside, found, version, method, own)
    assert (cut > 0) == (method == "fp" and golang.minor(version) < (1, 23))


@every_version()
def test_a_position_independent_program_by_dwarf(targets, version):
    program = targets.keep("states", version, golang.PIE)
    inside = traceback.parse(program.stack())
    own = {g.id for g in traceback.having(inside, "main.control")}
    compare(inside, dump("-p", program.pid, method="dwarf"), version, "dwarf", own)


def record(program, method, tmp_path, *args, seconds=1):
    """Until the program has had the CPU for so long."""
    out = tmp_path / f"{method}.pb.gz"
    result = gospect.record_cpu(program, out, "-r", 499, "--budget", 20, *args, "--unwind", method,
                                seconds=seconds).ok()
    words = WORDS.get(method, "by Go's pcsp tables")
    assert any("stacks are unwound" in w for w in result.words) == (method != "pcsp")
    profile = pprof.read(out)
    assert any(f"unwound {words}" in comment for comment in profile.comments)
    return profile


@newest_version()
def test_frame_pointers_lose_the_caller_of_a_running_leaf(targets, tmp_path, version):
    """golang/go#73753: main.leaf has no frame, so the register leads to its caller's record, and
    that to the caller's caller. The other two have main.work."""
    program = targets.start("callers", version)
    for method in METHODS:
        profile = record(program, method, tmp_path, "--on-cpu", seconds=0.5)
        leaf = [s for s in profile.samples if s.stack[0] == "main.leaf" and s.values["cpu"]]
        assert sum(s.values["cpu"] for s in leaf) > \
            0.5 * sum(s.values["cpu"] for s in profile.samples)
        expected = "main.burn" if method == "fp" else "main.work"
        assert {s.stack[1] for s in leaf} == {expected}, method
        right, wrong = callers.judge(profile)
        lost = sum(s.values["cpu"] for s in profile.samples if s.stack in wrong)
        assert (lost > right) if method == "fp" else (lost < 0.01 * right), (method, wrong[:5])


@newest_version()
def test_unwinding_method_does_not_change_times(targets, tmp_path, version):
    """main.burn's goroutine is there all the time: all of that is in stacks that begin there."""
    program = targets.start("callers", version)
    for method in METHODS:
        profile = record(program, method, tmp_path)
        burn = sum(s.values["wall"] for s in profile.samples if s.stack[-1] == "main.burn")
        assert abs(burn / profile.duration_ns - 1) < 0.02, method


def rows(*args):
    return gospect.run("stack", *args).ok().text.splitlines()


def goid_of(pid, func):
    return traceback.one(gospect.dump(pid), func).id


@every_version()
@pytest.mark.parametrize("method", ("fp", "dwarf"))
def test_a_parked_stack_is_the_same_word_by_word(targets, version, method):
    program = targets.keep("states", version)
    goid = goid_of(program.pid, "main.holdSelectTwo")
    exact = rows("-p", program.pid, "-g", goid)
    other = rows("-p", program.pid, "-g", goid, "--unwind", method)
    assert other[0] == f"# stacks unwound {WORDS[method]} (--unwind {method})" and not other[1]
    returns = [line for line in exact if "return addr" in line]
    assert len(returns) >= 3
    assert [line for line in other if "return addr" in line] == returns
    if method == "dwarf":
        assert other[2:] == exact


def test_json_says_how_stacks_were_found(states):
    for method in METHODS:
        result = gospect.run("dump", "-p", states.pid, "-f", "json", "--unwind", method).ok()
        assert json.loads(result.out)["process"]["unwind"] == method
        goid = goid_of(states.pid, "main.holdSelectTwo")
        result = gospect.run("stack", "-p", states.pid, "-g", goid, "-f", "json", "--unwind",
                             method).ok()
        assert json.loads(result.out)["unwind"] == method
    assert json.loads(gospect.run("dump", "-p", states.pid, "-f", "json").out)["process"][
        "unwind"] == "pcsp"


@pytest.mark.parametrize("method", ("fp", "dwarf"))
def test_a_raw_dump_keeps_the_mark(states, tmp_path, method):
    raw = tmp_path / "raw.txt"
    gospect.run("dump", "-p", states.pid, "--raw", "--unwind", method, "-o", raw).ok()
    direct = gospect.run("dump", "-p", states.pid, "--unwind", method).ok().text
    text = gospect.run("symbolize", raw).ok().text
    assert text.startswith(f"# stacks unwound {WORDS[method]}")
    assert text.count("\n\n") == direct.count("\n\n")


@pytest.mark.parametrize("verb", ("dump", "record", "stack"))
@pytest.mark.parametrize("value", ("", "frame-pointers", "FP", "dwarf,fp"))
def test_another_method_is_wrong_usage(states, verb, value):
    args = ("-g", 1) if verb == "stack" else ()
    word = gospect.run(verb, "-p", states.pid, *args, f"--unwind={value}").fails(2)
    assert "pcsp, fp or dwarf" in word


@pytest.mark.parametrize("verb", ("top", "trace", "doctor"))
def test_other_verbs_do_not_know_it(verb):
    assert "unwind" in gospect.run(verb, "--unwind", "fp", "-p", 1).fails(2)


@every_build(modes=(golang.STRIPPED, golang.LDFLAGS_SW))
def test_a_stripped_program_has_no_debug_frame(targets, tmp_path, version, mode):
    program = targets.keep("states", version, mode)
    out = tmp_path / "profile.folded"
    for verb in (("dump",), ("stack", "-g", 1), ("record", "-d", 1, "-o", out)):
        word = gospect.run(*verb, "-p", program.pid, "--unwind", "dwarf").fails(1)
        assert "has no .debug_frame" in word and "--exe" in word
    assert not out.exists()


@every_version()
def test_the_unstripped_file_has_a_debug_frame(targets, version):
    program = targets.keep("states", version, golang.STRIPPED)
    inside = traceback.parse(program.stack())
    own = {g.id for g in traceback.having(inside, "main.control")}
    found = dump("-p", program.pid, "--exe", golang.build("states", version), method="dwarf")
    compare(inside, found, version, "dwarf", own)
    compare(inside, dump("-p", program.pid, method="fp"), version, "fp", own)


def section(binary, name):
    """Offset and size of a section in the file."""
    out = subprocess.run(["readelf", "-SW", binary], capture_output=True, text=True,
                         check=True).stdout
    for line in out.splitlines():
        words = line.replace("[ ", "[").split()
        if len(words) > 5 and words[1] in (f".debug_{name}", f".zdebug_{name}"):
            return int(words[4], 16), int(words[5], 16)
    raise AssertionError(f"no section {name}")


@every_version()
def test_a_broken_debug_frame_is_refused_or_leaves_callers_out(targets, tmp_path, version):
    program = targets.keep("states", version, golang.STRIPPED)
    twin = tmp_path / "twin"
    shutil.copy(golang.build("states", version), twin)
    offset, size = section(twin, "frame")
    with open(twin, "r+b") as file:
        file.seek(offset + size // 3)
        file.write(b"\xa5" * (size // 3))
    result = gospect.run("dump", "-p", program.pid, "--exe", twin, "--unwind", "dwarf")
    if result.status:
        assert ".debug_frame" in result.fails(1) or "decompress" in result.fails(1)
    else:
        assert len(traceback.parse(result.text)) == len(gospect.dump(program.pid))


def core_of(pid, folder):
    subprocess.run(["gcore", "-o", folder / "core", str(pid)], check=True, capture_output=True)
    return folder / f"core.{pid}"


@pytest.mark.time_limit(120)
@every_version()
@pytest.mark.skipif(not shutil.which("gcore"), reason="there is no gcore (gdb)")
def test_running_goroutine_in_a_core_uses_its_registers(targets, tmp_path, version):
    program = targets.start("states", version, args=("-spin", "1"))
    wait_until(lambda: traceback.having(gospect.dump(program.pid), "main.spin"), what="main.spin")
    core = core_of(program.pid, tmp_path)
    whole = dump("--core", core, method="pcsp")
    spins = traceback.one(whole, "main.spin")
    assert spins.state == "running"
    for method in ("fp", "dwarf"):
        found = dump("--core", core, method=method)
        compare(whole, found, version, method, ignore={spins.id})
        assert found[spins.id].functions()[0] == spins.functions()[0]
        assert found[spins.id].functions()[-1] == "main.spin"
        assert rows("--core", core, "-g", spins.id, "--unwind", method)[0].startswith("# stacks")


@pytest.mark.every_version
@pytest.mark.parametrize("version,arch", recorded())
def test_recorded_cores_of_every_version_by_frame_pointers(tmp_path, version, arch):
    """On arm64 the runtime did not adjust frame pointers when it copied a stack to a larger one
    before Go 1.21 (stack.go, adjustframe): they lead away from there, and are not followed."""
    fixture = Fixture(version, arch)
    program = fixture.unpack_program(tmp_path)
    whole = dump("--core", fixture.core, "--exe", program, method="pcsp")
    found = dump("--core", fixture.core, "--exe", program, method="fp")
    runs = {goid for goid, g in whole.items() if g.state == "running"}
    assert len(whole) > 5
    compare(whole, found, version, "fp", ignore=runs,
            may_be_cut=whole if arch == "arm64" and golang.minor(version) < (1, 21) else ())
    for goid in runs:
        assert found[goid].functions()[:1] == whole[goid].functions()[:1]
        assert set(found[goid].functions()) <= set(whole[goid].functions())
    refused = gospect.run("dump", "--core", fixture.core, "--exe", program, "--unwind", "dwarf")
    assert "has no .debug_frame" in refused.fails(1)
