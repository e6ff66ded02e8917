"""Gospect is stopped by a signal at the worst moment: while it holds the target's threads."""

import os
import signal

import pytest

from lib import golang, tracing
from lib.process import status, wait_until


@pytest.fixture
def program(untouched):
    return untouched(tracing.hectic(golang.NEWEST), "-calm", "-only=channels,births,files")


@pytest.mark.parametrize("stop", (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU),
                         ids=lambda number: number.name)
@pytest.mark.parametrize("point", ("all-stopped", "remote-registers-set", "restored-one"))
def test_ctrl_z_does_not_stop_the_target(program, point, stop):
    """It did until gospect was continued: the kernel keeps the threads of a stopped tracer."""
    process = tracing.start_until(program.pid, point, stop)
    try:
        program.assert_well()
        assert status(process.pid)["State"][0] == "T"
    finally:
        process.send_signal(signal.SIGCONT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err


def test_a_thread_that_gospect_has_borrowed_passes_sigstop_on(program):
    """It was swallowed: whoever stopped the program found it running."""
    tracing.probe(program.pid, 0.1, fault="remote-registers-set", victim=program.pid,
                  sent=signal.SIGSTOP)
    wait_until(lambda: status(program.pid)["State"][0] == "T", what="the program to be stopped")
    os.kill(program.pid, signal.SIGCONT)
    wait_until(lambda: status(program.pid)["State"][0] != "T", what="it to go on")
    tracing.clean(program.pid)
