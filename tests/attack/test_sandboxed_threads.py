"""A seccomp filter of one thread, which /proc/PID/status does not show, kills a program whose thread maps memory.

An older gospect looked at the first thread alone: a program of which another has a filter died at
the second trace.
"""

import os

import pytest

from lib import golang, tracing

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may suspend filters")

WITHOUT_ADMIN = ("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")


@pytest.mark.parametrize("action", ("kill", "trap", "errno"))
def test_a_thread_with_a_filter_survives_traces(untouched, action):
    program = untouched(golang.build("sandboxed", golang.NEWEST), action)
    for _ in range(6):
        tracing.probe(program.pid, 0.1).sound()
        program.assert_well()


@pytest.mark.parametrize("action", ("kill", "trap"))
def test_trace_without_cap_sys_admin_refuses_a_seccomp_filter(untouched, action):
    program = untouched(golang.build("sandboxed", golang.NEWEST), action)
    for _ in range(6):
        refused = tracing.probe(program.pid, 0.1, prefix=WITHOUT_ADMIN).refused()
        assert "seccomp filter" in refused
        program.assert_well()


@pytest.mark.parametrize("action", ("kill", "trap"))
def test_a_filter_that_comes_during_the_trace_does_not_kill_it_at_the_end(untouched, action):
    """Every thread has it when gospect detaches."""
    program = untouched(golang.build("sandboxed", golang.NEWEST), action)
    program.ask("filter")
    tracing.probe(program.pid, 0.6).sound()
    program.assert_well()
    tracing.probe(program.pid, 0.1).sound()
