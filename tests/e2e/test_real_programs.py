"""gospect leaks on large programs of others, under a little load: healthy, so nothing is leaked for certain."""

import json

import pytest

from lib import gospect, real_programs, tracing
from lib.process import status


@pytest.mark.slow
@pytest.mark.time_limit(3000)
@pytest.mark.parametrize("name", sorted(real_programs.MODULES))
def test_a_healthy_program_has_no_leaks(name):
    try:
        real_programs.build(name)
    except real_programs.Unavailable as error:
        pytest.skip(str(error)[:300])
    with real_programs.running(name) as pid:
        for how in ((), ("--exact",), ("--exact=stop",), ("--exact",)):
            found = json.loads(gospect.run("leaks", "-f", "json", *how, pid, seconds=300).ok().text)
            assert found["leaked"] == [], how
        assert status(pid)["TracerPid"] == "0" and not tracing.mappings(pid)
