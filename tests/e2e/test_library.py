"""libgospect, from outside: by ctypes, and by programs that are compiled against what it installs."""

import ctypes as c
import errno
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from lib import golang, gospect, gotrace, library, pprof, traceback
from lib.library import Code, Failed, Filter, RecordOptions, Target, TargetOptions
from lib.params import every_version

EXAMPLES = gospect.ROOT / "examples" / "library"


def differences(program, goroutines, version):
    """Between the program's own runtime.Stack and what the library says."""
    inside = traceback.parse(program.stack())
    assert len(inside) > 80
    outside = library.as_traceback(goroutines)
    for goroutine in [*inside.values(), *outside.values()]:
        goroutine.state = goroutine.state.removesuffix(" (durable)")
    own = {g.id for g in traceback.having(inside, "main.control")}
    return traceback.differences(inside, outside, golang.minor(version), ignore=own,
                                 labels=golang.minor(version) >= (1, 27))


@pytest.fixture
def waiting(targets):
    return targets.keep("states", golang.NEWEST, args=("-extra", "40", "-only", "chan"))


# ---- goroutines ----

@every_version()
def test_goroutines_are_what_runtime_stack_says(targets, version):
    program = targets.keep("states", version)
    with Target(program.pid) as target, target.snapshot() as snapshot:
        assert not differences(program, snapshot.goroutines(), version)
        assert target.info.go_version.decode() == f"go{version}"
        assert target.info.pid == program.pid
        # NumGoroutine() leaves out those that the runtime created, such as runs finalizers.
        assert target.count() == sum(g.id == 1 or g.created_by is not None
                                     for g in traceback.parse(program.stack()).values())


def test_text_is_the_runtimes_own(states):
    with Target(states.pid) as target, target.snapshot() as snapshot:
        inside = traceback.parse(states.stack())
        outside = traceback.parse(snapshot.written(library.TEXT).decode())
        own = {g.id for g in traceback.having(inside, "main.control")}
        assert not traceback.differences(inside, outside, golang.minor(golang.NEWEST), ignore=own)
        listed = json.loads(snapshot.written(library.JSON))["goroutines"]
        assert {g["id"] for g in listed} == set(outside)


def test_a_filter_leaves_what_matches(states):
    inside = traceback.parse(states.stack())
    with Target(states.pid) as target:
        sleeping = Filter(wait=b"sleep", states=1 << library.STATES.index("waiting"))
        with target.snapshot(filter=sleeping) as snapshot:
            ids = {g.id for g in snapshot.goroutines()}
        assert ids == {g.id for g in inside.values() if g.state == "sleep"} and ids
        with target.snapshot(filter=Filter(function=b"^main\\.spin$")) as snapshot:
            assert not snapshot.count()
        one = min(ids)
        with target.snapshot(filter=Filter(goroutine=one)) as snapshot:
            assert [g.id for g in snapshot.goroutines()] == [one]


def test_wait_times_are_known_after_a_collection(targets):
    program = targets.start("states")
    program.ask("gc")
    begun = time.monotonic()
    time.sleep(1.5)
    with Target(program.pid) as target, target.snapshot() as snapshot:
        passed = time.monotonic() - begun
        waited = [g.waited_ns / 1e9 for g in snapshot.goroutines() if g.status == b"chan receive"]
    assert waited and all(1.4 < w < passed + 5 for w in waited)


def test_equal_stacks_are_one(waiting):
    with Target(waiting.pid) as target, target.snapshot() as snapshot:
        found = [g for g in snapshot.goroutines()
                 if "main.waitForChannel" in g.stack.contents.functions()]
        assert len(found) == 40
        assert len({c.addressof(g.stack.contents) for g in found}) == 1


def test_an_address_is_symbolized_as_in_the_stack(states):
    with Target(states.pid) as target, target.snapshot() as snapshot:
        checked = 0
        for g in snapshot.goroutines():
            for frame in g.stack.contents.list()[1:3]:
                # One that was interrupted, by a fault, stands at the address itself.
                found = target.symbolize(frame.pc - 1) + target.symbolize(frame.pc)
                assert (frame.function, frame.line) in found
                checked += 1
        assert checked > 80
        assert target.symbolize(1) == []


def test_memory_that_a_debugger_reads(states):
    """As a debugger would lend its target: the library does not know of a process."""
    maps = pathlib.Path(f"/proc/{states.pid}/maps").read_text().splitlines()
    auxv = pathlib.Path(f"/proc/{states.pid}/auxv").read_bytes()
    entry = dict(zip(*[iter(memoryview(auxv).cast("Q"))] * 2))[9]
    memory = os.open(f"/proc/{states.pid}/mem", os.O_RDONLY)
    calls = []

    def read(arg, address, buffer, size):
        calls.append(size)
        try:
            data = os.pread(memory, size, address)
        except OSError:
            return errno.EFAULT
        c.memmove(buffer, data, len(data))
        return 0 if len(data) == size else errno.EFAULT

    fields = [line.split(maxsplit=5) for line in maps]
    mappings = (library.Mapping * len(fields))(*(
        library.Mapping(*(int(part, 16) for part in f[0].split("-")), int(f[2], 16),
                        sum(bit for bit, letter in zip((1, 2, 4), f[1]) if letter != "-"), 0,
                        f[5].encode() if len(f) > 5 else None) for f in fields))
    lent = library.Memory(read=library.READ(read), exe=str(states.binary).encode(), entry=entry,
                          mappings=mappings, mapping_count=len(fields))
    with Target(lent) as target, target.snapshot() as snapshot:
        assert target.info.pid == 0
        assert not differences(states, snapshot.goroutines(), golang.NEWEST)
        with target.record(duration=0.3, rate=20, budget=100) as profile:
            functions = {func for s in profile.samples() for func in s.stack.contents.functions()}
            inside = traceback.parse(states.stack()).values()
            assert functions >= {g.frames[-1].func for g in inside if g.state == "sleep"} != set()
    os.close(memory)
    assert len(calls) > 100


def test_a_core_file(targets, tmp_path):
    with open(tmp_path / "stderr", "wb") as stderr:
        program = targets.start("states", env={"GOTRACEBACK": "crash"}, stderr=stderr)
    text = program.stack()
    core = tmp_path / "core"
    program.idle()
    subprocess.run(["gcore", "-o", core, str(program.pid)], check=True, capture_output=True)
    with Target(f"{core}.{program.pid}", exe=str(program.binary).encode()) as target:
        assert target.info.is_core == 1 and target.info.pid == program.pid
        with target.snapshot() as snapshot:
            inside = traceback.parse(text)
            own = {g.id for g in traceback.having(inside, "main.control")}
            outside = library.as_traceback(snapshot.goroutines())
            for goroutine in [*inside.values(), *outside.values()]:
                goroutine.state = goroutine.state.removesuffix(" (durable)")
            assert not traceback.differences(inside, outside, golang.minor(golang.NEWEST),
                                             ignore=own)
        assert any("was running when the core file was written" in line for line in target.remarks)
        with pytest.raises(Failed) as failed:
            target.record(duration=1)
        assert failed.value.code == Code.INVALID


def test_the_memory_of_a_stack(states):
    with Target(states.pid) as target, target.snapshot() as snapshot:
        g = next(g for g in snapshot.goroutines() if g.status == b"chan receive")
        frames = g.stack.contents.list()
        with target.stack_memory(g.id) as memory:
            words = memory.words()
            rows = json.loads(memory.written(library.JSON))["words"]
            returns = {word.value for word in words if word.explanation.startswith(b"return addr")}
            assert {frame.pc for frame in frames[1:] if not frame.is_inlined} <= returns
            assert sum(word.is_sp for word in words) == 1
            assert [w.explanation.decode() for w in words] == [row["explanation"] for row in rows]


# ---- processes ----

def test_processes_are_found_by_what_they_are(targets):
    programs = [targets.keep("states", golang.NEWEST), targets.keep("states", golang.OLDEST)]
    remarks = []
    found, denied = library.processes(
        lambda p: (p.pid, p.go_version.decode(), p.goroutines, p.threads, p.command.decode(),
                   p.problem), remark=library.REMARK(lambda arg, line: remarks.append(line)))
    rows = {row[0]: row[1:] for row in found}
    assert list(rows) == sorted(rows) and os.getpid() not in rows
    for program, version in zip(programs, (golang.NEWEST, golang.OLDEST)):
        with Target(program.pid) as target:
            count = target.count()
        threads = len(os.listdir(f"/proc/{program.pid}/task"))
        assert rows[program.pid][:3] == (f"go{version}", count, threads)
        assert rows[program.pid][3].startswith(str(program.binary))
        assert rows[program.pid][4] == b""
    assert any(line.startswith(b"cannot read %d other process" % denied) for line in remarks) == (denied > 0)


def children():
    task = pathlib.Path(f"/proc/self/task/{threading.get_native_id()}/children")
    return set(task.read_text().split())


def test_a_list_of_processes_ends_when_it_is_told(targets):
    targets.keep("states", golang.NEWEST), targets.keep("states", golang.OLDEST)
    before = children()
    found, _ = library.processes(lambda p: p.pid, most=1)
    assert len(found) == 1
    cancel = c.c_void_p(library.lib.gospect_cancel_create())
    library.lib.gospect_cancel_request(cancel)
    with pytest.raises(Failed) as failed:
        library.processes(lambda p: p.pid, cancel=cancel)
    assert failed.value.code == Code.CANCELLED
    library.lib.gospect_cancel_destroy(cancel)
    assert children() == before


# ---- doctor ----

def test_findings_are_those_of_the_command(states):
    before = children()
    machine = library.findings(library.lib.gospect_doctor_machine)
    process = library.findings(library.lib.gospect_doctor_process, states.pid)
    assert children() == before
    shown = json.loads(gospect.run("doctor", "-p", states.pid, "-f", "json").text)
    assert [(bool(f.is_good), f.name, f.text) for f in machine + process] == \
        [(finding["ok"], finding["name"], finding["text"]) for finding in shown]
    verbs = {f.name: f.is_good for f in process if f.is_verb}
    assert {"dump", "record", "trace"} <= verbs.keys() and verbs["dump"]
    assert ("traced by", "nobody") in [(f.name, f.text) for f in process]


def test_missing_process_is_a_finding():
    first, *verbs = library.findings(library.lib.gospect_doctor_process, 2**22)
    assert (first.name, first.is_good) == ("process", 0) and "no such process" in first.text
    assert verbs and not any(f.is_good for f in verbs) and all(f.is_verb for f in verbs)


# ---- a live view ----

def seen_live(top, seconds, least=0):
    """The text of each page that it makes in this time, and of so many at least."""
    pages, until = [], time.monotonic() + seconds
    while time.monotonic() < until or len(pages) < least:
        if top.step() & library.TOP_NEW_PAGE:
            pages.append("\n".join(text for text, _ in top.page(120, 40)))
    return pages


def test_a_live_view_is_pages_of_text(waiting):
    with Target(waiting.pid) as target, library.Top(target, budget=50) as top:
        began = time.monotonic()
        pages = seen_live(top, 3.5, least=3)
        # One at the beginning, and one a second; on a busy machine fewer.
        assert len(pages) <= time.monotonic() - began + 1.5
        top.press("2")
        assert "chan receive" in "\n".join(text for text, _ in top.page(120, 40))
        for size in (20, 5), (200, 60):
            lines = top.page(*size)
            assert len(lines) <= size[1] and all(len(text) <= size[0] for text, _ in lines)
        with top.profile() as profile:
            seconds = profile.info.duration_ns / 1e9
            assert 1.5 < seconds <= time.monotonic() - began
            assert_right(shares(profile.samples()), waiting, seconds)
        assert top.press("q") == library.TOP_QUIT


def test_a_live_view_outlives_its_target(targets):
    program = targets.start("states", args=("-only", "chan"))
    with Target(program.pid) as target, library.Top(target) as top:
        seen_live(top, 1.5)
        program.process.kill()
        program.process.wait()
        until = time.monotonic() + 60
        while not top.step() & library.TOP_RESTS:
            assert time.monotonic() < until
        assert b"exited" in top.ended()
        assert "q quits" in top.page(120, 40)[-1][0]
        with top.profile() as profile:
            assert profile.samples()
    targets.forget(program)
    program.stop()


# ---- profiles ----

def shares(samples):
    """Seconds by the function in which goroutines began, of those that waited."""
    found = {}
    for sample in samples:
        if sample.state == library.STATES.index("waiting"):
            root = sample.stack.contents.functions()[-1]
            found[root] = found.get(root, 0) + sample.wall_ns / 1e9
    return found


def begun(program):
    """How many goroutines of the program began at each of its functions, and wait."""
    found = {}
    for g in traceback.parse(program.stack()).values():
        if g.state not in ("running", "runnable", "syscall") and g.frames:
            found[g.frames[-1].func] = found.get(g.frames[-1].func, 0) + 1
    return found


def assert_right(found, program, seconds):
    truth = {func: n for func, n in begun(program).items() if func.startswith("main.wait")}
    assert truth.get("main.waitForChannel") == 40
    for func, n in truth.items():
        assert found[func] == pytest.approx(n * seconds, rel=0.02), func


def test_a_recording_has_the_time_of_every_goroutine(waiting):
    began = time.monotonic()
    with Target(waiting.pid) as target:
        profile = target.record(duration=1, budget=100)
    passed = time.monotonic() - began
    # The target is closed: a profile needs it no more.
    with profile:
        assert_right(shares(profile.samples()), waiting, profile.info.duration_ns / 1e9)
        assert 0.99 <= profile.info.duration_ns / 1e9 <= passed
        assert profile.info.is_recording and profile.info.has_functions
        assert any(line.startswith("rate: ") for line in profile.comments())
        read = pprof.parse(profile.written(library.PPROF))
        total = sum(sample.wall_ns for sample in profile.samples())
        assert read.total("wall") == total
        assert b"<html" in profile.written(library.HTML)
        assert json.loads(profile.written(library.SPEEDSCOPE))["profiles"]
        assert b"main.waitForChannel" in profile.written(library.FOLDED)


def test_a_stream_has_the_time_of_every_interval(waiting):
    intervals = []

    def sample(s):
        now = time.monotonic()
        if not intervals or now - intervals[-1][0] > 0.15:
            intervals.append((now, []))
        intervals[-1][1].append((s.stack.contents.functions()[-1], s.wall_ns))

    with Target(waiting.pid) as target:
        target.stream(sample, 0.3, duration=1.5, budget=100)
    assert 4 <= len(intervals) <= 7
    found = {}
    for _, samples in intervals:
        for func, ns in samples:
            found[func] = found.get(func, 0) + ns / 1e9
    assert found["main.waitForChannel"] == pytest.approx(40 * 1.5, rel=0.05)


def test_a_stream_ends_when_it_is_told(waiting):
    seen = []
    with Target(waiting.pid) as target:
        target.stream(lambda sample: seen.append(1) or True, 0.2)
    assert len(seen) == 1


def test_addresses_are_symbolized_elsewhere(waiting):
    with Target(waiting.pid) as target:
        with target.record(duration=0.5, budget=100, flags=library.RECORD_ADDRESSES) as profile:
            assert not profile.info.has_functions
            with pytest.raises(Failed) as failed:
                profile.written(library.HTML)
            assert failed.value.code == Code.INVALID
            raw = profile.written(library.PPROF)
        with target.snapshot() as snapshot:
            text = snapshot.written(library.TEXT, library.WRITE_ADDRESSES)
            direct = snapshot.written(library.TEXT)
    with library.read_profile(raw) as profile:
        profile.symbolize(waiting.binary)
        assert profile.info.has_functions
        seconds = profile.info.duration_ns / 1e9
        assert_right(shares(profile.samples()), waiting, seconds)
        with pytest.raises(Failed) as failed:
            profile.symbolize(waiting.binary)
        assert failed.value.code == Code.INVALID
    assert library.lib.gospect_text_has_addresses(text, c.c_size_t(len(text)))
    assert not library.lib.gospect_text_has_addresses(direct, c.c_size_t(len(direct)))
    symbolized = library.written(
        lambda data, sink: library.lib.gospect_text_symbolize(data, c.c_size_t(len(text)), None,
                                                              sink), text)
    assert symbolized == direct


def test_a_target_that_ends_is_recorded_to_its_end(targets):
    program = targets.start("states", args=("-only", "chan"))
    with Target(program.pid) as target:
        timer = threading.Timer(0.5, program.process.kill)
        timer.start()
        with target.record(budget=100) as profile:
            assert 0.2 < profile.info.duration_ns / 1e9 < 5
            assert profile.samples()
        assert any("the recording until then is kept" in line for line in target.remarks)
        with pytest.raises(Failed) as failed:
            target.snapshot()
        assert failed.value.code == Code.GONE
    targets.forget(program)
    program.stop()


# ---- cancelling, and threads ----

@pytest.mark.parametrize("rate", [100, 0.1])
def test_a_recording_is_cancelled_by_another_thread(waiting, rate):
    cancel = c.c_void_p(library.lib.gospect_cancel_create())
    with Target(waiting.pid, cancel=cancel) as target:
        cancelled = []

        def stop():
            cancelled.append(time.monotonic())
            library.lib.gospect_cancel_request(cancel)

        threading.Timer(0.5, stop).start()
        with target.record(rate=rate, budget=100) as profile:
            assert time.monotonic() - cancelled[0] < 1
            assert profile.info.duration_ns / 1e9 == pytest.approx(0.5, abs=0.4)
        with pytest.raises(Failed) as failed:
            target.snapshot()
        assert failed.value.code == Code.CANCELLED
        library.lib.gospect_cancel_reset(cancel)
        with target.snapshot() as snapshot:
            assert snapshot.count() > 40
    library.lib.gospect_cancel_destroy(cancel)


def two_targets(binary, first, second, **kwargs):
    return subprocess.run([binary, str(first.pid), str(second.pid)], timeout=90,
                          capture_output=True, text=True, **kwargs)


def assert_two(run, first, second):
    assert run.returncode == 0, run.stderr
    for program in (first, second):
        waiting = begun(program)["main.waitForChannel"]
        assert run.stdout.count(f"{program.pid}: {waiting} in main.waitForChannel\n") == 10


@pytest.fixture
def two(targets):
    return (targets.keep("states", golang.NEWEST, args=("-extra", "40", "-only", "chan")),
            targets.keep("states", golang.OLDEST, args=("-extra", "30", "-only", "chan")))


def test_two_targets_in_two_threads(two):
    binary = gospect.BINARY.parent / "src" / "lib" / "two_targets"
    assert_two(two_targets(binary, *two), *two)


@pytest.mark.parametrize("sanitizer", ["tsan", "asan"])
def test_two_targets_in_two_threads_under_sanitizers(two, sanitizer):
    binary = gospect.ROOT / f"build-{sanitizer}" / "src" / "lib" / "two_targets"
    if not binary.exists():
        pytest.skip(f"there is no build-{sanitizer} (make {'tsan' if sanitizer == 'tsan' else 'test'})")
    assert_two(two_targets(binary, *two), *two)


# ---- errors and options ----

def test_errors_have_a_code_and_say_why(tmp_path):
    with pytest.raises(Failed, match="no Go program|not a Go program|no Go in it") as failed:
        Target(os.getpid())
    assert failed.value.code == Code.NOT_GO
    with pytest.raises(Failed) as failed:
        Target(0)
    assert failed.value.code == Code.INVALID
    ended = subprocess.Popen(["true"])
    ended.wait()
    with pytest.raises(Failed, match=str(ended.pid)) as failed:
        Target(ended.pid)
    assert failed.value.code == Code.GONE
    with pytest.raises(Failed) as failed:
        library.read_profile(b"no profile at all")
    assert failed.value.code == Code.CORRUPT


@pytest.mark.parametrize("options", [
    dict(rate=-1), dict(rate=1e9), dict(budget=-2), dict(duration=-1), dict(duration=float("nan")),
    dict(unwind=9), dict(flags=1 << 20), dict(flags=3), dict(filter=Filter(function=b"(")),
    dict(filter=Filter(states=1 << 5)), dict(filter=Filter(label=b"=x"))])
def test_options_that_make_no_sense_are_refused(states, options):
    with Target(states.pid) as target, pytest.raises(Failed) as failed:
        target.record(**{"duration": 0.1, **options})
    assert failed.value.code == Code.INVALID


class LaterOptions(library.Options):
    """For a future version."""
    _fields_ = [*TargetOptions._fields_, ("news", c.c_uint64)]


def test_options_of_other_versions(states):
    with Target(states.pid, options=LaterOptions()) as target:
        assert target.count() > 80
    with pytest.raises(Failed, match="newer libgospect") as failed:
        Target(states.pid, options=LaterOptions(news=1))
    assert failed.value.code == Code.INVALID
    earlier = TargetOptions()
    earlier.size = TargetOptions.start_timeout.offset
    earlier.exec_timeout = float("nan")  # what lies behind it means nothing
    with Target(states.pid, options=earlier) as target:
        assert target.count() > 80
    earlier.size = 0
    with pytest.raises(Failed, match="size") as failed:
        Target(states.pid, options=earlier)
    assert failed.value.code == Code.INVALID


def test_a_sink_that_fails_fails_the_writing(states):
    def write(arg, data, size):
        return errno.EDQUOT

    with Target(states.pid) as target, target.snapshot() as snapshot:
        sink = library.Sink(library.WRITE(write), None, -1)
        with pytest.raises(Failed, match=os.strerror(errno.EDQUOT)):
            library.check(library.lib.gospect_snapshot_write(snapshot.pointer, library.JSON, 0,
                                                             sink))
        full = os.open("/dev/full", os.O_WRONLY)
        sink = library.Sink(library.WRITE(), None, full)
        with pytest.raises(Failed, match=os.strerror(errno.ENOSPC)):
            library.check(library.lib.gospect_snapshot_write(snapshot.pointer, library.JSON, 0,
                                                             sink))
        os.close(full)


# ---- what is installed ----

@pytest.fixture(scope="session")
def installation(tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run(["meson", "install", "-C", gospect.BINARY.parent, "--no-rebuild", "--quiet",
                    "--destdir", folder], check=True, capture_output=True)
    return folder


def flags(installation, *args):
    env = {**os.environ, **library.installed(installation)}
    return subprocess.run(["pkg-config", *args, "gospect"], env=env, check=True,
                          capture_output=True, text=True).stdout.split()


def functions_of(program):
    return {(g.id, g.frames[0].func) for g in traceback.parse(program.stack()).values()
            if g.frames and g.state not in ("running", "IO wait", "syscall")}


@pytest.mark.parametrize("kind", ["shared", "static"])
def test_the_example_in_c(states, installation, tmp_path, kind):
    binary = tmp_path / "goroutines"
    source = EXAMPLES / "goroutines.c"
    wanted = flags(installation, "--cflags", "--libs", *(["--static"] if kind == "static" else []))
    if kind == "static":
        archive = str(next(installation.rglob("libgospect.a")))
        wanted = [archive if flag == "-lgospect" else flag for flag in wanted]
    subprocess.run(["cc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", source, *wanted,
                    "-o", binary], check=True)
    folder = next(installation.rglob("libgospect.so.0")).parent
    run = subprocess.run([binary, str(states.pid)], check=True, capture_output=True, text=True,
                         env={**os.environ, "LD_LIBRARY_PATH": str(folder)}, timeout=60)
    lines = [re.fullmatch(r"(\d+) \[(.*)\] (\S+)", line) for line in run.stdout.splitlines()]
    found = {(int(line[1]), line[3].replace("runtime.gopanic", "panic")) for line in lines}
    assert functions_of(states) <= found
    run = subprocess.run([binary, "0"], capture_output=True, text=True, timeout=60,
                         env={**os.environ, "LD_LIBRARY_PATH": str(folder)})
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == "goroutines: invalid process id 0: it must be greater than 0\n"


def test_the_example_of_a_trace_in_c(targets, installation, tmp_path):
    # A trace leaves a page of code behind, which others look for.
    program = targets.start("states", args=("-only", "chan"))
    binary, file = tmp_path / "trace", tmp_path / "out.trace"
    subprocess.run(["cc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror",
                    EXAMPLES / "trace.c", *flags(installation, "--cflags", "--libs"), "-o", binary],
                   check=True)
    folder = next(installation.rglob("libgospect.so.0")).parent
    env = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    run = subprocess.run([binary, str(program.pid), file], check=True, capture_output=True,
                         text=True, timeout=60, env=env)
    events = re.fullmatch(r"(\d+) events\n", run.stdout)
    assert events and int(events[1]) > 0
    assert gotrace.read_valid(file)["goroutines"]
    run = subprocess.run([binary, "0", tmp_path / "none"], capture_output=True, text=True,
                         timeout=60, env=env)
    assert (run.returncode, run.stdout) == (1, "") and run.stderr.startswith("trace: ")
    assert not list(tmp_path.glob("none*"))


def test_the_example_in_python(waiting, tmp_path):
    page = tmp_path / "out.html"
    run = subprocess.run([sys.executable, EXAMPLES / "record.py", str(waiting.pid), "1", page],
                         env={**os.environ, "LIBGOSPECT": str(library.LIBRARY)}, timeout=60,
                         capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert "waitForChannel" in page.read_text()
    run = subprocess.run([sys.executable, EXAMPLES / "record.py", "1", "1", page], timeout=60,
                         env={**os.environ, "LIBGOSPECT": str(library.LIBRARY)},
                         capture_output=True, text=True)
    assert run.returncode == 1 and run.stderr.startswith("record.py: ")


def test_the_headers_are_c_and_cxx(installation, tmp_path):
    wanted = flags(installation, "--cflags")
    for header in sorted((library.HEADERS / "gospect").glob("*.h")):
        for compiler, source, standard in ("cc", "h.c", "c99"), ("c++", "h.cc", "c++11"):
            if not shutil.which(compiler):
                continue
            (tmp_path / source).write_text(f"#include <gospect/{header.name}>\n")
            subprocess.run([compiler, f"-std={standard}", "-pedantic", "-Wall", "-Wextra",
                            "-Werror", "-fsyntax-only", *wanted, tmp_path / source], check=True)
    assert {h.name for h in installation.rglob("include/gospect/*.h")} == \
        {h.name for h in (library.HEADERS / "gospect").glob("*.h")}


def declared():
    text = "".join(h.read_text() for h in (library.HEADERS / "gospect").glob("*.h"))
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"static inline .*?\n}", "", text, flags=re.S)
    return set(re.findall(r"\b(gospect_\w+)\(", text))


def test_nothing_else_is_exported():
    symbols = subprocess.run(["nm", "-D", "--defined-only", library.LIBRARY], check=True,
                             capture_output=True, text=True).stdout.split("\n")
    names = {line.split()[2] for line in symbols if line.split()[1:2] in (["T"], ["D"], ["B"])}
    assert names == {f"{name}@@GOSPECT_0.1" for name in declared()}
    archive = library.LIBRARY.with_name("libgospect.a")
    symbols = subprocess.run(["nm", "-g", "--defined-only", archive], check=True,
                             capture_output=True, text=True).stdout
    assert set(re.findall(r" [A-Z] (\S+)", symbols)) == declared()


# What the process shares between all targets; each is safe for threads. It only shrinks.
SHARED_STATE = {
    "count.0",  # base/cpus.c: how many there are; atomic, always the same
    "current",  # base/door.c, which only the command changes; base/permit.c: atomic
    "files", "lock", "untold",  # base/mapped_file.c: behind its lock; atomic
    "hash_seed",  # base/map.c: drawn when the library is loaded
    "held",  # collect/unread.c: atomic
    "broker", "entered",  # sandbox/: gospect_confine() is once in a process
    # inject/: what a surgeon's process, a guardian's or a holder's has of its own
    "bytes.0", "ledger", "line", "orphan", "robust", "threads_end",
    "strbuf_empty", "error_no_memory", "error_fault", "error_stopped",  # never written to
}


def test_targets_share_no_state_but_this():
    archive = library.LIBRARY.with_name("libgospect.a")
    symbols = subprocess.run(["objdump", "-t", archive], check=True, capture_output=True,
                             text=True).stdout
    section = r"(\.(?:data|bss|tdata|tbss)\S*)"
    found = {name for kind, name in
             re.findall(rf" O {section}\t[0-9a-f]+ (?:\.hidden )?(\S+)$", symbols, re.M)
             if not kind.startswith(".data.rel.ro")}
    assert found == SHARED_STATE


ABI = gospect.ROOT / "tests" / "fixtures" / "libgospect.abi.xml"


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the ABI was recorded for amd64")
def test_the_abi_is_the_one_that_was_recorded():
    """A change that is meant, before a release: tools/record-abi."""
    if not shutil.which("abidiff"):
        pytest.skip("there is no abidiff (abigail-tools)")
    run = subprocess.run(["abidiff", "--headers-dir2", library.HEADERS, "--drop-private-types",
                          ABI, library.LIBRARY.resolve()], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, ""), run.stdout


# ---- the command, its first user ----

ROOMS = {room.name for room in (gospect.ROOT / "src").iterdir() if room.is_dir()}

def test_the_command_is_a_user_of_the_library():
    """It has headers of <gospect/>, of its own room and of base, and no others; but verbs
    with rooms above the library have theirs."""
    found = [f"{file.name}: {room}"
             for file in sorted((gospect.ROOT / "src" / "cli").glob("*.[ch]"))
             for room in re.findall(r'#include "(\w+)/', file.read_text())
             if room in ROOMS - {"cli", "base"} and (room not in ("push", "serve") or file.name != f"verb_{room}.c")]
    assert not found
