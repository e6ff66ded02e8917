"""A kernel that permits writes to code to ptrace(2) alone: a program is traced, and left as it was."""

import signal

import pytest

from lib import cgo, golang, tracing
from lib.params import every_version, in_full
from lib.process import wait_until


@pytest.fixture(autouse=True)
def no_force(monkeypatch):
    monkeypatch.setenv("PROBE_NO_FORCE", "1")


@every_version()
def test_it_is_traced_and_left_as_it_was(untouched, version):
    program = untouched(tracing.hectic(version), "-calm")
    for _ in range(in_full(20, 3)):
        assert tracing.probe(program.pid, 0.2).sound().counts["block"] > 0
        tracing.assert_untouched(program)


def test_also_where_most_threads_are_stopped_by_helpers(untouched):
    program = untouched(cgo.program(golang.NEWEST, "held"))
    program.ask("threads 1000")
    tracing.probe(program.pid, 0.1).ok()
    tracing.assert_untouched(program)
    before = int(program.ask("rounds"))
    wait_until(lambda: int(program.ask("rounds")) > before, what="it to run on")


@pytest.mark.parametrize("guarded", (True, False), ids=("guarded", "unguarded"))
@pytest.mark.parametrize("place", ("all-stopped:0", "jump-written:0", "jump-written:20", "attached:0", "restored-one:0",
                                   "code-restored:0", "unmapped-one:1"))
def test_killed_gospect_leaves_what_is_removed(untouched, place, guarded):
    program = untouched(tracing.hectic(golang.NEWEST), "-calm")
    probed = tracing.probe(program.pid, 0.05, fault=place, guarded=guarded)
    assert probed.status == -signal.SIGKILL, probed.err
    if guarded:  # its guardian may be tracing the program now
        tracing.assert_cleaned_soon(program)
    else:
        program.assert_well()
        tracing.clean(program.pid)
        tracing.assert_untouched(program)
