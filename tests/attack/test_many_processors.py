"""A program may have more Ps (GOMAXPROCS) than gospect has made rings for: gospect says so."""

import time

from lib import golang, gospect, tracing
from lib.process import wait_until


def hoarder(untouched, processors):
    return untouched(golang.build("hoarder", golang.NEWEST), 1, env={"GOMAXPROCS": processors})


def test_excess_ps_are_reported(untouched, tmp_path):
    program = hoarder(untouched, "1030")
    result = gospect.run("trace", "-p", program.pid, "-d", 0.3, "-o", tmp_path / "o.trace").ok()
    assert "6 Ps have no ring buffer" in result.err


def test_ps_that_come_during_the_trace_are_reported(untouched, tmp_path):
    program = hoarder(untouched, "2")
    trace = gospect.start("trace", "-p", program.pid, "-d", 1.5, "-o", tmp_path / "o.trace")
    wait_until(lambda: tracing.is_patched(program.pid))
    time.sleep(0.2)
    program.ask("processors 60")
    _, error = trace.communicate(timeout=60)
    assert trace.returncode == 0 and b"Ps have no ring buffer" in error, error


def test_ps_with_rings_are_not_reported(untouched, tmp_path):
    program = hoarder(untouched, "8")
    result = gospect.run("trace", "-p", program.pid, "-d", 0.3, "-o", tmp_path / "o.trace").ok()
    assert "GOMAXPROCS" not in result.err
