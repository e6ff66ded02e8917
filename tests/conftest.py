"""Fixtures: a time limit for each test, programs to look at, the proof that they are unharmed."""

import collections
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

import pytest

# Not beside the sources; pytest compiles each test, for which it takes seconds, in each of its processes.
sys.dont_write_bytecode = False
sys.pycache_prefix = str(pathlib.Path(__file__).resolve().parent.parent / "build" / "pycache")

from lib import arm64, golang, gospect, tracing
from lib.process import SLOWER, Program, wait_until

LIMIT = 120
# Of CPU time, and of the time since it was started: a program that is kept and has had more ends with the test.
BUSY_SECONDS, BUSY_SHARE = 0.05, 0.002


def pytest_configure(config):
    # A parent may ignore these (nohup, a background job), and all children would inherit that.
    for number in signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM:
        signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not gospect.BINARY.exists():
        raise pytest.UsageError(f"{gospect.BINARY} is missing: run make")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """With -v, xdist has each worker say first which Python it is. As long as that runs, what comes next runs in
    another thread of the worker; but signals, and with them time limits, are those of the main thread."""
    wait_until(lambda: node.gateway.remote_status().numexecuting == 0, what="an idle worker")
    time.sleep(0.1)  # it is counted as idle a moment before it is


KNOWN_VERSIONS = {*golang.NEWEST_OF_EACH, *golang.FIRST_OF_EACH}
# Go compiles its whole library anew for each of these, with each version.
COMPILED_ANEW = {golang.PIE, golang.NOT_OPTIMIZED, tracing.CGO, tracing.RACE, tracing.DEBUG, tracing.SHARED}


def words_of(value):
    """The strings in a parameter, which may be a tuple of some."""
    return {value} if isinstance(value, str) else {v for v in value if isinstance(v, str)} if isinstance(value, tuple) else set()


def is_slow(item):
    """`make test` has the oldest and the newest Go. Builds for which Go's library is compiled anew are of the newest.
    tests/matrix/run has all of them."""
    chosen = set().union(*map(words_of, item.callspec.params.values())) if hasattr(item, "callspec") else set()
    versions = chosen & KNOWN_VERSIONS
    return versions - {golang.OLDEST, golang.NEWEST} or versions - {golang.NEWEST} and chosen & COMPILED_ANEW


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """There is one emulated machine for all tests of it: they run in one process."""
    for item in items:
        if {"arm64_machine", "closed_machine"} & set(item.fixturenames):
            item.add_marker("emulated")
        if not item.get_closest_marker("every_version") and is_slow(item):
            item.add_marker("slow")


class TimeIsUp(Exception):
    pass


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    """A test that takes too long fails, and its fixtures still clean up."""
    marker = item.get_closest_marker("time_limit")
    seconds = (marker.args[0] if marker else LIMIT) * SLOWER

    def stop(*_):
        raise TimeIsUp(f"the test took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def cpu_seconds():
    """Of this process, and of those that it began and that have ended."""
    return sum(os.times()[:4])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item, call):
    """The report has the CPU time of each test: on two processors it is what makes the whole run long."""
    if call.when == "setup":
        item.cpu_before = getattr(item.session, "cpu_seconds", 0)
    elif call.when == "teardown":
        item.session.cpu_seconds = cpu_seconds()
        item.user_properties.append(("cpu_seconds", f"{item.session.cpu_seconds - item.cpu_before:.2f}"))


def pytest_terminal_summary(terminalreporter):
    """The tests that took most CPU time, all parameters of one together."""
    taken = collections.Counter()
    for report in (r for reports in terminalreporter.stats.values() for r in reports):
        if getattr(report, "when", "") == "teardown":
            seconds = dict(report.user_properties).get("cpu_seconds", 0)
            taken[report.nodeid.partition("[")[0]] += float(seconds)
    terminalreporter.section(f"most of {sum(taken.values()):.0f} s of CPU time")
    for name, seconds in taken.most_common(25):
        terminalreporter.line(f"{seconds:7.1f} s  {name}")


class Targets:
    """Running programs. Those that are kept serve many tests; all are checked after every test."""

    def __init__(self):
        self.kept = {}
        self.own = []
        self.touched = set()

    def keep(self, program, version, mode=golang.PLAIN, args=(), env=None):
        """One that serves many tests, so no test may change it."""
        key = program, version, mode, args, tuple((env or {}).items())
        if key not in self.kept or not self.kept[key].running():
            self.kept[key] = Program(golang.build(program, version, mode), *args, env=env)
        self.touched.add(key)
        return self.kept[key]

    def start(self, program, version=golang.NEWEST, mode=golang.PLAIN, args=(), **kwargs):
        """One for this test only, which still has to be well at its end."""
        self.own.append(Program(golang.build(program, version, mode), *args, **kwargs))
        return self.own[-1]

    def forget(self, program):
        """That program is meant to end in this test."""
        self.own.remove(program)
        return program

    def end_the_busy(self, keys):
        """Those that compute would take a processor from all later tests; the next one starts them again."""
        for key in keys:
            if self.kept[key].cpu_seconds() > BUSY_SECONDS + BUSY_SHARE * self.kept[key].age():
                self.kept.pop(key).stop()

    def check(self):
        touched = {key for key in self.touched if key in self.kept}
        programs = [*self.own, *(self.kept[key] for key in touched)]
        self.touched.clear()
        try:
            for program in programs:
                program.assert_well()
            self.end_the_busy(touched - {"resting"})
        finally:
            for program in self.own:
                program.stop()
            self.own.clear()

    def stop(self):
        for program in [*self.own, *self.kept.values()]:
            program.stop()


@pytest.fixture(scope="session")
def all_targets():
    targets = Targets()
    yield targets
    targets.stop()


@pytest.fixture
def targets(all_targets):
    """Programs to look at. After the test each one is alive, right and untraced."""
    yield all_targets
    all_targets.check()


@pytest.fixture
def untouched():
    """Starts programs to trace, and proves afterwards that nothing is left in them."""
    programs = []

    def start(*command, env=None):
        programs.append(Program(*command, env=env))
        return programs[-1]

    try:
        yield start
        for program in programs:
            tracing.assert_untouched(program)
    finally:
        for program in programs:
            program.stop()


@pytest.fixture
def states(targets):
    """The program that holds goroutines in every state, of the newest Go, not stripped."""
    return targets.keep("states", golang.NEWEST)


@pytest.fixture(scope="session", autouse=True)
def started_early(request, all_targets):
    """`states`, at rest since the first test, so that its waits are long already."""
    if not any("resting" in item.fixturenames for item in request.session.items):
        return None
    program = Program(golang.build("states", golang.NEWEST))
    all_targets.kept["resting"] = program
    program.ask("gc")
    return program, time.monotonic()


@pytest.fixture
def resting(targets, started_early):
    """A program whose goroutines have waited for more than a minute."""
    program, since = started_early
    targets.touched.add("resting")
    assert all(g.minutes <= (time.monotonic() - since) / 60
               for g in gospect.dump(program.pid).values())
    time.sleep(max(0, since + 62 - time.monotonic()))
    return program


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path, monkeypatch):
    """Each test works in a folder of its own, outside the repository."""
    monkeypatch.chdir(tmp_path)
    yield
    shutil.rmtree(tmp_path)


@pytest.fixture(scope="session")
def arm64_machine():
    """An emulated machine, booted once for all tests that need none of their own."""
    reason = arm64.why_not()
    if reason:
        pytest.skip(reason)
    try:
        machine = arm64.Machine()
    except (TimeoutError, RuntimeError) as error:
        if os.environ.get("CI"):
            pytest.skip(f"the emulated machine does not start here: {error}")
        raise
    yield machine
    machine.stop()


@pytest.fixture
def run_as_nobody():
    """Runs gospect as a user who owns nothing; a copy of it, where that user can reach it."""
    if os.geteuid() != 0:
        pytest.skip("only root can run gospect as another user")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        copy = shutil.copy(gospect.BINARY, folder)
        prefix = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all")
        yield lambda *args, more=(), **kwargs: gospect.run(
            *args, binary=copy, prefix=(*prefix, *more, "--"), **kwargs)
