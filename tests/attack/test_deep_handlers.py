"""Threads that are in the agent when a signal comes, and come back late from deep handlers.

An older gospect looked at 32 KB above the stack pointer: it took a thread with a deeper handler for one
outside of the agent. Two things keep the agent for such a thread: the search of its stacks, and its slot,
which is in use. With either alone this test passes; without both the program dies in its first trace.
"""

import pytest

from lib import cgo, golang, gospect, tracing
from lib.process import wait_until

# Every third trace or so ends while such a handler sleeps.
TRACES = 30


@pytest.fixture
def nested(untouched):
    return untouched(cgo.program(golang.NEWEST, "nested"))


def test_the_agent_stays_for_a_thread_in_nested_handlers_on_its_own_signal_stack(nested, tmp_path):
    traces = 0
    while int(nested.ask("outlived")) == 0 and traces < TRACES:
        traces += 1
        gospect.run("trace", "-p", nested.pid, "-d", "0.1", "--max-size", "16",
                    "-o", tmp_path / "t.trace").ok()
        tracing.assert_untouched(nested)
    print(f"{traces} traces, {nested.ask('outlived')} handlers")
    assert int(nested.ask("outlived")) > 0
    before = int(nested.ask("rounds"))
    wait_until(lambda: int(nested.ask("rounds")) > before, what="its threads to go on")
