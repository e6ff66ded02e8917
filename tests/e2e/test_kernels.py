"""Some verbs on an older kernel than this machine's, in an emulated one. `make test-kernels` has all of both."""

import pytest

from kernels import checks
from lib import kernels

ARCHITECTURE, KERNEL = "amd64", "5.10"

pytestmark = [pytest.mark.emulated, pytest.mark.time_limit(300)]


@pytest.fixture(scope="module")
def machine():
    reason = kernels.why_not(ARCHITECTURE)
    if reason:
        pytest.skip(reason)
    try:
        booted = kernels.boot(ARCHITECTURE, KERNEL)
    except (RuntimeError, TimeoutError) as error:
        pytest.skip(str(error)[:300])
    yield booted
    booted.stop()


@pytest.mark.parametrize("name", ("dump", "record", "trace", "heap", "perf forbidden"))
def test_it_works_on_an_older_kernel_or_says_what_that_lacks(machine, name):
    there = checks.There(machine, ARCHITECTURE)
    try:
        (checks.VERBS | checks.DENIALS)[name](there)
    except checks.Lacking as lacking:
        pytest.fail(f"Linux {KERNEL} lacks nothing: {lacking}")
    finally:
        there.end()
