"""Threads that do not stop, or do not resume, on gospect's request: it neither waits for ever nor
holds up the others."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

from lib import cgo, golang, gospect, tracing
from lib.process import Program, status, wait_until
from lib.traced import Tracing

V1 = pathlib.Path("/sys/fs/cgroup/freezer")
V2 = next((path for path in map(pathlib.Path, ("/sys/fs/cgroup/unified", "/sys/fs/cgroup"))
           if (path / "cgroup.procs").exists()), None)


@pytest.fixture(params=["calm"])
def program(request, untouched):
    calm = ["-calm"] if request.param == "calm" else []
    return untouched(tracing.hectic(golang.NEWEST), *calm, "-only=channels,births")


class Freezer:
    """A cgroup of a program of its own."""

    def __init__(self, base, pid):
        self.v1 = base == V1
        self.folder = base / f"gospect-test-{os.getpid()}-{pid}"
        self.base = base
        self.pid = pid

    def __enter__(self):
        try:
            self.folder.mkdir()
            (self.folder / "cgroup.procs").write_text(str(self.pid))
        except OSError as e:
            pytest.skip(f"no cgroup can be made here: {e}")
        return self

    def freeze(self):
        name, value = ("freezer.state", "FROZEN") if self.v1 else ("cgroup.freeze", "1")
        (self.folder / name).write_text(value)
        time.sleep(0.3)

    def thaw(self):
        name, value = ("freezer.state", "THAWED") if self.v1 else ("cgroup.freeze", "0")
        (self.folder / name).write_text(value)

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.thaw()
            (self.base / "cgroup.procs").write_text(str(self.pid))
        wait_until(lambda: not (self.folder / "cgroup.procs").read_text().strip())
        self.folder.rmdir()


@pytest.fixture(params=("v1", "v2"))
def freezer(request, program):
    base = V1 if request.param == "v1" else V2
    if not base or not base.exists():
        pytest.skip(f"this machine has no freezer of cgroup {request.param}")
    with Freezer(base, program.pid) as f:
        yield f


def test_a_frozen_program_is_refused_soon(program, freezer, tmp_path):
    """Gospect waited until it was thawed, deaf to all signals; of a v1 freezer it said that gospect
    itself was the debugger that was in its way."""
    freezer.freeze()
    began = time.monotonic()
    result = gospect.run("trace", "-p", program.pid, "-d", "0.2", "-o", tmp_path / "t.trace",
                         seconds=20)
    assert time.monotonic() - began < 10
    said = result.fails(1)
    assert "frozen" in said and "traced by" not in said, said
    freezer.thaw()
    tracing.assert_cleaned_soon(program)


def test_an_interrupt_ends_the_wait_for_a_frozen_program(program, freezer, tmp_path):
    freezer.freeze()
    process = gospect.start("trace", "-p", program.pid, "-d", "0.2", "-o", tmp_path / "t.trace")
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    process.communicate(timeout=60)
    assert time.monotonic() - began < 3
    freezer.thaw()
    tracing.assert_cleaned_soon(program)


# In the second one the guardian finds no sleeping thread at first.
@pytest.mark.parametrize("program", ["calm", "busy"], indirect=True)
def test_a_program_frozen_while_it_is_traced_is_cleaned_when_it_is_thawed(program, freezer,
                                                                          tmp_path):
    process = gospect.start("trace", "-p", program.pid, "-d", "60", "-o", tmp_path / "t.trace")
    wait_until(lambda: tracing.is_patched(program.pid), what="the hooks")
    freezer.freeze()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and b"keeps trying" in err, err
    freezer.thaw()
    tracing.assert_cleaned_soon(program)


def test_a_stopped_program_is_named_so(program, tmp_path):
    os.kill(program.pid, signal.SIGSTOP)
    wait_until(lambda: status(program.pid)["State"][0] == "T")
    try:
        result = gospect.run("trace", "-p", program.pid, "-d", "0.2", "-o", tmp_path / "t.trace")
        assert result.status == 0 or "kill -CONT" in result.fails(1)
        assert status(program.pid)["State"][0] == "T"
    finally:
        os.kill(program.pid, signal.SIGCONT)
    wait_until(lambda: status(program.pid)["State"][0] != "T")


@pytest.fixture
def held(untouched):
    return untouched(cgo.program(golang.NEWEST, "held"))


def rounds_a_second(program, seconds):
    before = int(program.ask("rounds"))
    time.sleep(seconds)
    return (int(program.ask("rounds")) - before) / seconds


@pytest.mark.alone
def test_the_others_run_while_one_cannot_be_stopped(held, tmp_path):
    """One waits for its child of vfork for 4 s: the others stood for 30 of each 35 ms."""
    usual = rounds_a_second(held, 1)
    held.ask("vfork 4000")
    process = gospect.start("trace", "-p", held.pid, "-d", "0.2", "-o", tmp_path / "t.trace")
    meanwhile = rounds_a_second(held, 3)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert meanwhile > 0.5 * usual, (meanwhile, usual)


@pytest.mark.slow
def test_unstoppable_thread_refuses_the_trace(held, tmp_path):
    held.ask("vfork 15000")
    time.sleep(0.1)
    began = time.monotonic()
    result = gospect.run("trace", "-p", held.pid, "-d", "0.2", "-o", tmp_path / "t.trace")
    assert time.monotonic() - began < 14
    assert "state D" in result.fails(1)


@pytest.mark.parametrize("point", ("remote-registers-set", "remote-call-done"))
def test_a_thread_that_gospect_has_borrowed_keeps_its_floating_point_settings(held, point):
    """Gospect is killed, and so is its guardian: the thread finds its way back by itself."""
    wait_until(lambda: pathlib.Path(f"/proc/{held.pid}/syscall").read_text().split()[0] in (
        "35", "230"), what="the first thread to sleep")
    probed = tracing.probe(held.pid, 0.1, fault=point, guarded=False)
    assert probed.status == -signal.SIGKILL, probed.err
    time.sleep(0.1)
    held.assert_well()
    tracing.clean(held.pid)


@contextlib.contextmanager
def limited_processor(percent):
    """The file of a control group: processes added to it get so much of a CPU, in periods of 0.1 s."""
    folder = pathlib.Path(f"/sys/fs/cgroup/cpu/gospect-test-{os.getpid()}")
    v2 = not folder.parent.exists()
    if v2:
        folder = V2 / folder.name
    try:
        folder.mkdir()
        if v2:
            (folder / "cpu.max").write_text(f"{percent * 1000} 100000")
        else:
            (folder / "cpu.cfs_period_us").write_text("100000")
            (folder / "cpu.cfs_quota_us").write_text(str(percent * 1000))
    except OSError as e:
        with contextlib.suppress(OSError):
            folder.rmdir()
        pytest.skip(f"no processor can be limited here: {e}")
    try:
        yield folder / "cgroup.procs"
    finally:
        wait_until(lambda: not (folder / "cgroup.procs").read_text())
        folder.rmdir()


@pytest.mark.slow
def test_throttled_gospect_traces_and_leaves_nothing(held, tmp_path):
    held.ask("threads 300")
    with limited_processor(10) as group:
        for _ in range(3):
            traced = Tracing(held.pid, tmp_path / "t.trace", "-d", "0.3")
            group.write_text(str(traced.process.pid))
            traced.wait()
            tracing.assert_untouched(held)


def paused_ms(result):
    return float(re.search(r"paused for ([0-9.]+) ms", result.err).group(1))


@contextlib.contextmanager
def busy_loops():
    """Two for each CPU."""
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"])
             for _ in range(2 * os.cpu_count())]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@pytest.mark.alone
@pytest.mark.skipif(os.geteuid() != 0, reason="a real-time priority takes root")
def test_ten_threads_mostly_stand_for_half_a_millisecond_on_a_busy_machine(held, tmp_path):
    """They stood for 1 to 18 ms, and do so without real-time priorities. The median of nine: an interrupt
    that comes within a pause, or a hypervisor that takes the CPU away, makes that one longer."""
    held.ask(f"threads {max(0, 10 - len(threads(held.pid)))}")
    with busy_loops():
        pauses = [paused_ms(gospect.run("trace", "-p", held.pid, "-d", "0.05", "-o",
                                        tmp_path / "t.trace").ok()) for _ in range(9)]
    print(pauses)
    assert sorted(pauses)[4] <= 0.5, pauses


def limited_to(group):
    """Runs a command in the group. Without CAP_SYS_NICE gospect has no real-time priority, which would
    exempt it from the quota."""
    return ("sh", "-c", 'echo $$ >"$0" && exec "$@"', group,
            "setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice")


def median_pause_ms(program, folder, percent):
    with limited_processor(percent) as group:
        pauses = [paused_ms(gospect.run("trace", "-p", program.pid, "-d", "0.05", "-o", folder / "t.trace",
                                        prefix=limited_to(group), seconds=100).ok()) for _ in range(7)]
    print(percent, pauses)
    return sorted(pauses)[3]


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.time_limit(600)
@pytest.mark.parametrize("threads_added", (0, 300))
def test_throttled_gospect_pauses_the_program_in_a_fresh_period(held, tmp_path, threads_added):
    """It was throttled within nearly each stop of 300 threads, until the next period or a later one: 90 to
    280 ms. All of gospect is in the group. A group waits for CPUs on a busy machine, whether it has a quota
    or not, so the pauses are compared with those of a group that has four CPUs: the difference is less than
    half of what throttling takes."""
    held.ask(f"threads {threads_added}")
    throttled = median_pause_ms(held, tmp_path, 10)
    assert throttled < median_pause_ms(held, tmp_path, 400) + 45
    assert threads_added or throttled < 20


def test_a_quota_that_ends_within_the_stop_makes_the_expected_pause_longer(held, tmp_path):
    """30 ms of CPU time are not enough for 3,000 threads, and 1 ms of the program's is not: gospect said
    14 ms, and stopped them for longer than a period."""
    held.ask("threads 3000")
    limit = ("--max-pause", "0.09", "-o", tmp_path / "t.trace")
    with limited_processor(30) as group:
        refused = gospect.run("trace", "-p", held.pid, "-d", "0.05", *limit,
                              prefix=limited_to(group), seconds=90).fails(1)
    assert re.search(r"threads, and gospect's CPU quota is 30 ms in 100 ms, so tracing would stop it "
                     r"twice for about \d+ ms; --max-pause allows 90 ms", refused), refused
    with limited_processor(1) as group:
        group.write_text(str(held.pid))
        try:
            refused = gospect.run("trace", "-p", held.pid, "-d", "0.05", *limit).fails(1)
        finally:
            (group.parent.parent / "cgroup.procs").write_text(str(held.pid))
    assert ", and its CPU quota is 1 ms in 100 ms, so tracing would stop it" in refused
    assert not tracing.mappings(held.pid)


EXPECTED = r"process (\d+) has (\d+) threads, so tracing stops it twice for about (\d+) ms"


def test_the_pause_of_many_threads_is_said_before(held, tmp_path):
    held.ask("threads 2000")
    least = len(threads(held.pid))
    assert least > 2000
    refused = gospect.run("trace", "-p", held.pid, "-d", "0.1", "--max-pause", "0.005",
                          "-o", tmp_path / "t.trace").fails(1)
    assert re.search(f"process {held.pid} has \\d+ threads, so tracing would stop it twice", refused)
    assert not tracing.mappings(held.pid)
    result = gospect.run("trace", "-p", held.pid, "-d", "0.1", "--max-pause", "1",
                         "-o", tmp_path / "t.trace").ok()
    pid, said, ms = map(int, re.search(EXPECTED, result.err).groups())
    assert ms > 5 and pid == held.pid and least <= said <= len(threads(held.pid))
    assert result.err.index("stops it twice") < result.err.index("paused for")


@pytest.mark.slow
def test_ten_thousand_threads_are_stopped_and_go_on(held):
    held.ask("threads 10000")
    for _ in range(3):
        tracing.probe(held.pid, 0.1).ok()
        tracing.assert_untouched(held)
        before = int(held.ask("rounds"))
        wait_until(lambda: int(held.ask("rounds")) > before, what="it to run on")


@pytest.mark.slow
@pytest.mark.alone
def test_ten_thousand_threads_stand_for_50_ms_at_most(held, tmp_path):
    """One thread of ours alone took at least 59 ms. The least of seven: a busy machine adds to the others."""
    held.ask("threads 10000")
    pauses = []
    for _ in range(7):
        result = gospect.run("trace", "-p", held.pid, "-d", "0.2", "-o", tmp_path / "t.trace").ok()
        pauses.append(paused_ms(result))
    assert min(pauses) <= 50, pauses


@pytest.mark.parametrize("fault", ("all-stopped", "jump-written", "restored-one"))
def test_killed_while_threads_of_ours_hold_them_all_of_them_go_on(held, fault):
    held.ask("threads 1500")
    tracing.probe(held.pid, 0.05, fault=fault, guarded=False)
    before = int(held.ask("rounds"))
    wait_until(lambda: int(held.ask("rounds")) > before, what="it to run on")
    assert not any(int(status(tid)["TracerPid"]) or status(tid)["State"][0] in "tT"
                   for tid in threads(held.pid))
    tracing.probe(held.pid, 0.05).ok()
    tracing.assert_untouched(held)


@pytest.mark.parametrize("verb,options", (("trace", ()), ("offcpu", ("--by", "request"))))
def test_a_pause_that_would_be_too_long_is_refused_before_anything_is_done(held, tmp_path, verb,
                                                                           options):
    held.ask("threads 1000")
    name = "t.trace" if verb == "trace" else "t.txt"
    result = gospect.run(verb, "-p", held.pid, "-d", "0.2", "--max-pause", "0.002", *options,
                         "-o", tmp_path / name)
    assert "threads, so tracing would stop it twice for about" in result.err
    assert result.status == 1 or "sampling instead" in result.err
    assert not tracing.mappings(held.pid)


def is_without_first_thread(pid):
    return status(pid)["State"][0] == "Z" and int(status(pid)["Threads"]) > 1


def threads(pid):
    return [int(entry) for entry in os.listdir(f"/proc/{pid}/task")]


def assert_untouched_by_thread(program):
    """As tracing.assert_untouched(), for a process without its first thread: /proc shows it empty."""
    living = next(tid for tid in threads(program.pid) if status(tid)["State"][0] != "Z")
    wait_until(lambda: tracing.mappings(living) in ([4096], [8192]), what="the agent to be gone")
    program.pid, first = living, program.pid
    try:
        assert tracing.changed_bytes(program) == 0
    finally:
        program.pid = first
    before = int(program.ask("rounds"))
    wait_until(lambda: int(program.ask("rounds")) > before, what="it to run on")


@pytest.fixture
def leaving(targets):
    """Its first thread ends on request; the checks of an unharmed program read that thread."""
    program = Program(cgo.program(golang.NEWEST, "held"))
    yield program
    program.process.kill()
    program.process.wait()


def test_a_program_whose_first_thread_has_ended_is_refused_and_not_called_dead(leaving, tmp_path):
    leaving.ask("leave")
    wait_until(lambda: is_without_first_thread(leaving.pid))
    for verb, file in ("trace", "t.trace"), ("record", "r.folded"):
        said = gospect.run(verb, "-p", leaving.pid, "-d", "0.2", "-o", tmp_path / file).fails(1)
        assert "first thread" in said and "exited" not in said, said


@pytest.mark.parametrize("killed", (False, True))
def test_a_program_whose_first_thread_ends_while_it_is_traced_is_left_clean(leaving, tmp_path,
                                                                           killed):
    """It was taken for dead, and kept the agent."""
    t = Tracing(leaving.pid, tmp_path / "t.trace").has_begun()
    leaving.ask("leave")
    wait_until(lambda: is_without_first_thread(leaving.pid))
    time.sleep(0.3)
    if killed:
        t.process.kill()
        t.process.wait()
    else:
        t.end()
    assert_untouched_by_thread(leaving)
