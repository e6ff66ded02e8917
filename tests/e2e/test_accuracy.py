"""Recordings, compared with programs that know where their time went.

A minute of it, a saturated machine, a drifting clock and the program's own execution trace are in
`make accuracy`.
"""

import re

import pytest

from lib import golang, gospect, ledger, pprof
from lib.params import every_version

pytestmark = pytest.mark.alone


@pytest.mark.time_limit(120)
@every_version(golang.SLOW_VERSIONS)
def test_time_in_places_is_as_the_program_measured_it(tmp_path, version):
    outcome = ledger.compare(version, tmp_path / "p.pb.gz", seconds=10, args=gospect.BUDGET)
    # The tolerance is that of looks which come in time.
    if outcome.missed > outcome.ticks / 50:
        pytest.skip(f"the machine is too busy: {outcome.missed} ticks missed")
    assert {row.kind for row in outcome.rows} == {"sleeper", "receiver", "locker", "caller",
                                                  "reader", "burner"}
    walls = [row for row in outcome.rows
             if row.what == "wall" and row.place not in ledger.COMPUTING]
    wrong = [row for row in (*walls, outcome.computing())
             if abs(row.difference) > outcome.tolerance(row)]
    wrong += [row for row in outcome.rows
              if row.what == "cpu" and abs(row.difference) > outcome.cpu_tolerance(row)]
    assert not wrong


# A small budget

def shares(profile):
    total = sum(s.values["wall"] for s in profile.samples)
    places = {func for s in profile.samples for func in s.stack
              if re.fullmatch(r"main\.place\d+", func)}
    return {place: 100 * profile.time_in(place) / total for place in places}


def told_error(profile):
    """In percent."""
    line = next(line for line in profile.comments if "shares are accurate" in line)
    return float(re.search(r"±([0-9.e+-]+) points", line)[1])


def record(program, path, budget, seconds):
    gospect.run("record", "-p", program.pid, "-d", seconds, "--budget", budget, "-o", path,
                seconds=seconds + 60).ok()
    return pprof.read(path)


@pytest.mark.time_limit(180)
def test_shares_of_a_small_budget_agree_with_a_full_recording_within_the_error_told(targets,
                                                                                    tmp_path):
    program = targets.start("crowd", args=("-goroutines=100000",))
    full = record(program, tmp_path / "full.pb.gz", 100, 4)
    expected = shares(full)
    assert len(expected) == 20
    for budget in 1, 0.2:
        profile = record(program, tmp_path / f"{budget}.pb.gz", budget, 8)
        seen, error = shares(profile), told_error(profile)
        wrong = {place: (share, seen.get(place, 0)) for place, share in expected.items()
                 if abs(share - seen.get(place, 0)) > error + told_error(full)}
        assert not wrong, f"budget {budget}, error {error}"
        assert budget < 1 or error < 20, "the error says nothing"
