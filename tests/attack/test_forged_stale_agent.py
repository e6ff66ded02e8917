"""A program pretends that a gospect that was killed has left its agent in it.

gospect removes a stale agent by what the program's memory says of it. An older one looked at 2^44
slots while the program stood still, for ever; and wrote bytes of the program's choice to memory that
the program itself may not write to.
"""

import os
import signal
import time

import pytest

from lib import golang, gospect, tracing
from lib.nobody import Hostile
from lib.process import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="it is root who must not be fooled")

# Why each is refused: one that fails another check first does not show that its own is made.
REASONS = {
    "slots": "its slots are outside its memory",
    "place": "its patches are outside the program's code",
    "control": "the header of its code is invalid",
    "code": "the header of its code is invalid",
    "heads": "it has two headers",
    "mappings": "there are too many mappings",
    "files": "there are too many files",
    "version": "has the agent of another gospect version",
    "noise": "the header of its code is invalid",
}
SECONDS = 5


@pytest.fixture
def forger():
    programs = []

    def start(kind):
        programs.append(Hostile(golang.build("forger", golang.NEWEST), kind))
        return programs[-1]

    yield start
    for program in programs:
        program.stop()


@pytest.mark.parametrize("kind", REASONS)
@pytest.mark.parametrize("verb", ("trace", "doctor"))
def test_forged_agent_is_refused_at_once(forger, kind, verb, tmp_path):
    program = forger(kind)
    args = ("-d", "0.1", "-o", tmp_path / "o.trace") if verb == "trace" else ()
    began = time.monotonic()
    result = gospect.run(verb, "-p", program.pid, *args, seconds=60)
    assert time.monotonic() - began < SECONDS
    assert REASONS[kind] in result.err + result.text
    assert verb == "doctor" or result.status == 1
    program.assert_well()  # and what is not to be written to is as before


def test_a_copy_in_the_place_of_the_agent_is_told_from_it(forger, tmp_path):
    """It has the same name and contents, and the program may change it."""
    program = forger("nothing")
    process = gospect.start("trace", "-p", program.pid, "-d", "60", "-o", tmp_path / "t.trace")
    wait_until(lambda: tracing.is_patched(program.pid), what="the hooks")
    program.ask("swap")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert b"the agent is gone from process" in err, err
    program.assert_well()
    assert tracing.changed_bytes(program) == 0
