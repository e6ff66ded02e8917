"""Large programs of others, under load: they are healthy, so nothing is wrong with them."""

import json

import pytest

from lib import gospect, real_programs, tracing
from lib.process import status


# What is true of every program on a busy machine.
OF_THE_MACHINE = {"cpu_shortage", "steal"}

each_program = pytest.mark.parametrize("name", sorted(real_programs.MODULES))
pytestmark = [pytest.mark.slow, pytest.mark.time_limit(3000)]


@pytest.fixture(autouse=True)
def built(name):
    try:
        real_programs.build(name)
    except real_programs.Unavailable as error:
        pytest.skip(str(error)[:300])


@each_program
def test_a_healthy_program_has_no_leaks(name):
    with real_programs.running(name) as pid:
        for how in ((), ("--exact",), ("--exact=stop",), ("--exact",)):
            found = json.loads(gospect.run("leaks", "-f", "json", *how, pid, seconds=300).ok().text)
            assert found["leaked"] == [], how
        assert status(pid)["TracerPid"] == "0" and not tracing.mappings(pid)


@each_program
def test_why_and_waits_find_nothing_wrong(name):
    """With 40 requests a second; tests/soak/healthy does this for an hour."""
    with real_programs.running(name, pause=0.1) as pid:
        for _ in range(3):
            found = json.loads(gospect.run("why", "-d", 10, "-f", "json", pid, seconds=120).ok().text)
            assert [f for f in found["findings"] if f["kind"] not in OF_THE_MACHINE] == []
            waits = json.loads(gospect.run("waits", "-f", "json", pid).ok().text)
            assert not waits["cycles"] and not waits["suspicions"]
