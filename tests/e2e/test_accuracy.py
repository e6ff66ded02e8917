"""Recordings, compared with programs that know where their time went.

A minute of it, a saturated machine, a drifting clock and the program's own execution trace are in
`make accuracy`.
"""

import re

import pytest

from lib import gospect, ledger, pprof
from lib.params import every_version



@pytest.mark.alone
@pytest.mark.time_limit(120)
@every_version()
def test_time_in_places_is_as_the_program_measured_it(tmp_path, version):
    outcome = ledger.compare(version, tmp_path / "p.pb.gz", seconds=5, args=gospect.BUDGET)
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


def start(program, path, budget, seconds):
    return gospect.start("record", "-p", program.pid, "-d", seconds, "--budget", budget, "-o", path)


def recorded(recording, path):
    _, words = recording.communicate(timeout=70)
    assert recording.returncode == 0, words
    return pprof.read(path)


@pytest.mark.time_limit(180)
def test_shares_of_a_small_budget_agree_with_a_full_recording_within_the_error_told(targets,
                                                                                    tmp_path):
    """All at once: so much of a core do the small ones use that they do not disturb each other."""
    program = targets.start("crowd", args=("-goroutines=100000",))
    path_of = {budget: tmp_path / f"{budget}.pb.gz" for budget in (1, 0.2, 100)}
    recordings = {budget: start(program, path, budget, 4 if budget == 100 else 8)
                  for budget, path in path_of.items()}
    profiles = {budget: recorded(recordings[budget], path) for budget, path in path_of.items()}
    full = profiles.pop(100)
    expected = shares(full)
    assert len(expected) == 20
    for budget, profile in profiles.items():
        seen, error = shares(profile), told_error(profile)
        wrong = {place: (share, seen.get(place, 0)) for place, share in expected.items()
                 if abs(share - seen.get(place, 0)) > error + told_error(full)}
        assert not wrong, f"budget {budget}, error {error}"
        assert budget < 1 or error < 20, "the error says nothing"
