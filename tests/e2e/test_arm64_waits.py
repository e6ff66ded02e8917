"""`gospect waits` on arm64, in an emulated machine, against what the program knows of itself."""

import json

import pytest

from e2e.test_waits import check_object, cycles, ids, object_of, sets
from lib import arm64, golang

pytestmark = pytest.mark.time_limit(600)

BUILDS = [pytest.param(version, mode, marks=() if (version, mode) == (golang.NEWEST, golang.PLAIN) else arm64.TAKES_TIME,
                       id=f"go{version}-{mode}")
          for version in golang.NEWEST_OF_EACH for mode in (golang.PLAIN, golang.STRIPPED)]
# Its deferred calls have their arguments on the stack: a deferred Done is no proof.
STACK_ARGUMENTS = (1, 17)


@pytest.fixture
def waiting(arm64_machine):
    programs = []

    def start(version, mode):
        programs.append(arm64.Program(arm64_machine, golang.build("waiting", version, mode, golang.ARM64), seconds=300))
        return programs[-1]

    yield start
    for program in programs:
        program.stop()


def suspect_deferred_done(truth, found):
    """The deadlock of the WaitGroup's waiter is suspected, for whoever is to call Done is a candidate."""
    group, = (o for o in truth["Objects"] if o["Kind"] == "waitgroup")
    assert set(group["Holders"]) <= set(ids(object_of(found, group)["holders"]))
    cycle, = (ids for ids in truth["Deadlocks"] if set(ids) & set(group["Waiters"]))
    truth["Deadlocks"].remove(cycle)
    truth["Suspected"].append(cycle)
    truth["Objects"].remove(group)


@pytest.mark.parametrize("version,mode", BUILDS)
def test_waits_knows_waiters_holders_and_deadlocks(arm64_machine, waiting, version, mode):
    program = waiting(version, mode)
    truth = json.loads(program.ask("truth"))
    found = json.loads(arm64_machine.gospect("waits", program.pid, "-f", "json", seconds=120).ok().text)
    if golang.minor(version) <= STACK_ARGUMENTS:
        suspect_deferred_done(truth, found)
    assert cycles(found, "cycles") == sets(truth["Deadlocks"])
    assert cycles(found, "suspicions") == sets(truth["Suspected"])
    assert not found["unknown"] and not found["truncated"]
    for wanted in truth["Objects"]:
        check_object(found, wanted)
