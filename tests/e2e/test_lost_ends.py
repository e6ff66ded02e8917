"""Goroutines that end while gospect loses records are not alive in the trace afterwards (B4)."""

import json
import select
import signal
import time

import pytest

from lib import gotrace
from lib.traced import Tracing

# gospect looks at which goroutines live two seconds after it has lost records.
RECONCILED = 5
ROUNDS = 600_000
# Goroutines that the trace knows before, and that end meanwhile.
HELD = 1000


def listed(program):
    """The ids of the goroutines that there are, by the program's own runtime.Stack()."""
    return set(map(int, program.ask("goroutines").split()))


def lose_records(traced, program):
    """gospect stands still, with moments between in which the agent hears of it, while the ring fills."""
    program.send(f"burst {ROUNDS}")
    for _ in range(40):
        traced.process.send_signal(signal.SIGSTOP)
        time.sleep(1.5)
        traced.process.send_signal(signal.SIGCONT)
        time.sleep(0.01)
        if select.select([program.process.stdout], [], [], 0)[0]:
            break
    return json.loads(program.line())


# Where others take all of the machine, gospect looks later than after RECONCILED seconds.
@pytest.mark.alone
def test_goroutines_whose_ends_were_lost_do_not_live_on(targets, tmp_path):
    program = targets.start("burst")
    traced = Tracing(program.pid, tmp_path / "t.trace").has_begun()
    program.ask(f"hold {HELD}")
    time.sleep(1)
    before = listed(program)
    assert len(before) > HELD
    lose_records(traced, program)
    end = time.monotonic() + RECONCILED
    while time.monotonic() < end:
        program.ask("check")
        time.sleep(0.1)
    alive = listed(program)
    traced.end()
    assert traced.lost > 0, traced.err
    goroutines = gotrace.read_valid(traced.file)["goroutines"]
    living = {int(g) for g, what in goroutines.items() if what["ended"] <= 0}
    assert alive <= living, (alive, living)
    assert not living & (before - alive)
    # The program's list lacks the runtime's own.
    assert not [g for g in living - alive if goroutines[str(g)]["name"].startswith("main.")]
    assert len(before - alive) > HELD / 2 and before <= set(map(int, goroutines))
