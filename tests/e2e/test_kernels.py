"""Some verbs on an older kernel than this machine's, in an emulated one, and on gVisor's. `make test-kernels` has all of
both."""

import pytest

from kernels import checks
from lib import gvisor, kernels

ARCHITECTURE, KERNEL = "amd64", "5.10"

pytestmark = [pytest.mark.emulated, pytest.mark.time_limit(300)]


def booted(reason, boot):
    if reason:
        pytest.skip(reason)
    try:
        return boot()
    except (RuntimeError, TimeoutError) as error:
        pytest.skip(str(error)[:300])


@pytest.fixture(scope="module")
def machine():
    older = booted(kernels.why_not(ARCHITECTURE), lambda: kernels.boot(ARCHITECTURE, KERNEL))
    yield older
    older.stop()


@pytest.fixture(scope="module")
def sandbox():
    gvisors = booted(gvisor.why_not(), gvisor.Machine)
    yield gvisors
    gvisors.stop()


@pytest.mark.parametrize("name", ("dump", "record", "trace", "heap", "perf forbidden"))
def test_it_works_on_an_older_kernel_or_says_what_that_lacks(machine, name):
    there = checks.There(machine, ARCHITECTURE)
    try:
        (checks.VERBS | checks.DENIALS)[name](there)
    except checks.Lacking as lacking:
        pytest.fail(f"Linux {KERNEL} lacks nothing: {lacking}")
    finally:
        there.end()


@pytest.mark.parametrize("name, lacks", (
    ("ps", ""), ("dump", ""), ("record", ""), ("leaks", ""), ("waits", ""), ("CPU samples", "this kernel has no perf events"),
    ("trace", "a process in gVisor, where gospect cannot stop its threads: "),
    ("leaks --exact", "a process in gVisor, where gospect cannot stop its threads: ")))
def test_in_gvisor_it_works_or_says_what_that_lacks(sandbox, name, lacks):
    there, said = checks.There(sandbox, gvisor.NAME), ""
    try:
        checks.VERBS[name](there)
    except checks.Lacking as lacking:
        said = str(lacking)
    finally:
        there.end()
    assert said.startswith(lacks) and bool(said) == bool(lacks), said


def test_offcpu_samples_in_gvisor_and_a_command_ends_well_there(sandbox):
    there = checks.There(sandbox, gvisor.NAME)
    try:
        program = there.start("states", "-only=chan")
        result = sandbox.gospect("offcpu", program.pid, "-d", "1", "-f", "json").ok()
        assert "where gospect cannot stop its threads" in result.err and "sampling instead" in result.err
        binary = sandbox.put(there.build("brief"))
        result = sandbox.run(f"gospect record -o c.pb.gz -- {binary} 7")
        assert "has exited; the recording until then is kept" in result.err, result.err
    finally:
        there.end()
