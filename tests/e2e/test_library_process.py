"""libgospect and the process that uses it: what it changes there, and what a program asks of it besides a target."""

import ctypes as c
import os
import shutil
import signal
import subprocess
import sys

import pytest

from lib import golang, gospect, library
from lib.fixtures import Fixture, recorded
from lib.library import Target
from lib.traced import tracing

SIDE_EFFECTS = """
import os, resource, signal, sys, threading, time
sys.path[:0] = [{tests!r}]
from lib import library

# The first thread has libc handle a signal of its own.
thread = threading.Thread(target=int)
thread.start()
thread.join()

def state():
    status = open("/proc/self/status").read()
    kept = "SigBlk", "SigIgn", "SigCgt", "CapEff", "CapPrm", "NoNewPrivs", "Seccomp", "Umask"
    os.umask(os.umask(0o27))
    return [[line for line in status.splitlines() if line.startswith(kept)],
            [resource.getrlimit(getattr(resource, name)) for name in dir(resource)
             if name.startswith("RLIMIT_")],
            os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0), dict(os.environ),
            os.getcwd(), open("/proc/self/comm").read(),
            open("/proc/self/oom_score_adj").read()]

resource.setrlimit(resource.RLIMIT_NOFILE, (200, 4000))
before, files = state(), os.listdir("/proc/self/fd")

def changes_nothing(what):
    after = state()
    assert before == after, (what, before, after)
    assert files == os.listdir("/proc/self/fd"), what
    assert len(os.listdir("/proc/self/task")) == 1, what
    assert not open("/proc/self/task/%d/children" % os.getpid()).read(), what

during = []
progress = library.PROGRESS(lambda arg, seconds, looks: during.append(state()))
with library.Target({pid}) as target:
    with target.snapshot() as snapshot:
        snapshot.goroutines()
        snapshot.written(library.TEXT)
        addresses = snapshot.written(library.TEXT, library.WRITE_ADDRESSES)
    with target.record(duration=2.5, budget=1, progress=progress) as profile:
        profile.samples()
        profile.written(library.HTML)
    with target.record(duration=0.5, flags=library.RECORD_ADDRESSES) as profile:
        raw = profile.written(library.PPROF)
    with library.Trace(target, duration=1.5, progress=progress) as trace:
        trace.run()
assert during and all(before == seen for seen in during), (before, during)
changes_nothing("record and trace")

with library.Target({pid}) as target, library.Top(target) as top:
    for _ in range(150):
        top.step()
    top.page(80, 25)
changes_nothing("top")

with library.Target({core!r}, exe={exe!r}) as target, target.snapshot() as snapshot:
    assert snapshot.count()
changes_nothing("core")

trace = {trace!r}
trace = open(trace, "rb").read()
with library.Requests(trace, label=b"trace_id") as requests:
    requests.each(lambda r: r.name)
changes_nothing("requests")
with library.recorded_profile(trace) as profile:
    profile.samples()
library.recorded_starts(trace, lambda s: s.name)
changes_nothing("recorded")

with library.read_profile(raw) as profile:
    profile.symbolize({binary!r})
size = library.c.c_size_t(len(addresses))
library.written(lambda data, sink: library.lib.gospect_text_symbolize(data, size, None, sink), addresses)
changes_nothing("symbolize")

assert {pid} in library.processes(lambda p: p.pid)[0]
changes_nothing("processes")
library.findings(library.lib.gospect_doctor_machine)
changes_nothing("doctor")
library.findings(library.lib.gospect_doctor_process, {pid})
changes_nothing("doctor of a process")
"""


def trace_of_requests(targets, file):
    program = targets.start("requests")
    with tracing(program, file):
        program.ask("serve 30 4")


def test_library_changes_nothing_in_its_process(targets, tmp_path):
    trace_of_requests(targets, tmp_path / "t.trace")
    fixture = Fixture(*recorded()[-1])
    # A trace leaves a page of code behind, which others look for.
    program = targets.start("states")
    script = SIDE_EFFECTS.format(
        tests=str(gospect.ROOT / "tests"), pid=program.pid, binary=str(program.binary),
        trace=str(tmp_path / "t.trace"), core=str(fixture.core),
        exe=str(fixture.unpack_program(tmp_path)).encode())
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                         timeout=110)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


PERMITTED = """
import os, sys
sys.path[:0] = [{tests!r}]
from lib import library

library.lib.gospect_process_permit(library.PERMIT_PRIORITY)
seen = []
progress = library.PROGRESS(lambda arg, seconds, looks: seen.append(os.sched_getscheduler(0)))
with library.Target({pid}) as target, target.record(duration=2.5, progress=progress):
    pass
assert os.SCHED_FIFO in [s & ~os.SCHED_RESET_ON_FORK for s in seen], seen
assert os.sched_getscheduler(0) == os.SCHED_OTHER
"""


def test_a_permit_is_made_use_of(states):
    """So that the test above would see it."""
    if os.geteuid() or subprocess.run(["chrt", "-f", "1", "true"], capture_output=True).returncode:
        pytest.skip("real-time priorities are not permitted here")
    script = PERMITTED.format(tests=str(gospect.ROOT / "tests"), pid=states.pid)
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


TRUNCATED = """
import os, sys
sys.path[:0] = [{tests!r}]
from lib import library

library.lib.gospect_process_permit({permit})
with library.Target({pid}, exe={exe!r}) as target:
    os.truncate({exe!r}, 0)
    with target.snapshot() as snapshot, target.stack_memory(1) as memory:
        assert snapshot.count() and memory.words()
"""


@pytest.mark.parametrize("permit, expected", [
    (0, 0),
    # It may map files, and has no handler: that is what the permit is about.
    (library.PERMIT_MAPPING, -signal.SIGBUS)])
def test_a_file_that_is_truncated_does_not_end_the_process(targets, tmp_path, permit, expected):
    program = targets.keep("states", golang.NEWEST, golang.STRIPPED)
    exe = tmp_path / "unstripped"
    shutil.copy(golang.build("states", golang.NEWEST), exe)
    script = TRUNCATED.format(tests=str(gospect.ROOT / "tests"), pid=program.pid,
                              exe=str(exe).encode(), permit=permit)
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                         timeout=60)
    assert run.returncode == expected, run.stderr


MENDED = """
#include <gospect/gospect.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile sig_atomic_t mended;

static void on_fault(int number, siginfo_t *info, void *context)
{
	(void)context;
	if (!gospect_sigbus(info->si_addr))
		signal(number, SIG_DFL);
	mended = 1;
}

int main(int argc, char **argv)
{
	struct gospect_target_options options = {.size = sizeof(options), .exe = argv[2]};
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
	struct gospect_stack_memory *memory = NULL;
	struct gospect_snapshot *snapshot = NULL;
	struct gospect_target *target = NULL;
	struct gospect_error *err;
	int none = 0;

	if (argc != 3 || gospect_sigbus(&none) || gospect_sigbus(NULL))
		return 2;
	sigaction(SIGBUS, &action, NULL);
	gospect_process_permit(GOSPECT_PERMIT_MAPPING);
	err = gospect_target_open_process(atoi(argv[1]), &options, &target);
	if (err || truncate(argv[2], 0))
		return 3;
	err = gospect_snapshot_take(target, NULL, &snapshot);
	if (!err)
		err = gospect_stack_memory_take(target, 1, 0, &memory);
	if (!err)
		err = gospect_stack_memory_write(memory, GOSPECT_TEXT, gospect_sink_fd(2));
	printf("%d %d\\n", mended, err ? (int)gospect_error_code(err) : -1);
	gospect_error_destroy(err);
	gospect_stack_memory_destroy(memory);
	gospect_snapshot_destroy(snapshot);
	gospect_target_close(target);
	return 0;
}
"""


def test_a_handler_of_sigbus_goes_on_behind_a_truncated_file(targets, tmp_path):
    """test_a_file_that_is_truncated_does_not_end_the_process shows what happens without a handler."""
    program = targets.keep("states", golang.NEWEST, golang.STRIPPED)
    exe, source, binary = tmp_path / "unstripped", tmp_path / "mended.c", tmp_path / "mended"
    shutil.copy(golang.build("states", golang.NEWEST), exe)
    source.write_text(MENDED)
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", f"-I{library.HEADERS}", source,
                    library.LIBRARY, f"-Wl,-rpath,{library.LIBRARY.parent}", "-o", binary], check=True)
    run = subprocess.run([binary, str(program.pid), exe], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, (run.returncode, run.stderr)
    mended, code = map(int, run.stdout.split())
    assert mended == 1 and code in (-1, library.Code.CORRUPT)


def test_the_version_is_the_commands():
    version = library.lib.gospect_version().decode()
    said = subprocess.run([gospect.BINARY, "--version"], capture_output=True, text=True, check=True).stdout
    assert version in said.split(), said


def test_states_have_names(targets):
    name = library.lib.gospect_state_name
    assert [name(state).decode() for state in range(4)] == list(library.STATES)
    assert name(4) == name(-1) == b"unknown"


def lines_of(top):
    for _ in range(120):
        top.step()
    return "\n".join(text for text, _ in top.page(100, 30))


def test_a_file_name_is_typed_into_a_live_view(targets):
    program = targets.keep("states", golang.NEWEST)
    lib = library.lib
    with Target(program.pid) as target, library.Top(target, budget=50) as top:
        lines_of(top)
        lib.gospect_top_offer_file(top.pointer, b"offered.html")
        assert top.press("w") == library.TOP_SHOW
        assert "offered.html" in lines_of(top)
        for key in "2x":
            top.press(key)
        assert lib.gospect_top_input(top.pointer) == b"offered.html2x"
        assert press(top, library.TOP_KEY_ENTER) == library.TOP_WRITE
        assert lib.gospect_top_input(top.pointer) == b"offered.html2x"
        lib.gospect_top_say(top.pointer, b"it is written, says the caller")
        assert "it is written, says the caller" in lines_of(top)
        top.press("2")
        assert "says the caller" not in lines_of(top)
        lib.gospect_top_offer_file(top.pointer, b"x" * 5000)
        top.press("w")
        assert lib.gospect_top_input(top.pointer) == b"x" * 1023


def press(top, key):
    action = c.c_int()
    library.check(library.lib.gospect_top_press(top.pointer, c.c_uint32(key), c.byref(action)))
    return action.value
