"""Traces are legal whatever the tracer has seen: Go's own readers take them all."""

import re
import subprocess
import time

import pytest

from lib import gospect, gotrace, perfetto
from lib.params import in_full
from lib.traced import Tracing

WRITER = gospect.ROOT / "build" / "src" / "gotrace" / "write_made_up_trace"
SEEDS = 120
READERS = ("1.22.12", "1.24.13", "1.27.2")


@pytest.fixture
def made_up(tmp_path):
    """Traces of made-up schedules, by their seeds: with losses, late times, nonsense, started in the middle, in
    one generation and in many."""
    def make(*seeds):
        for seed in seeds:
            subprocess.run([WRITER, str(seed), tmp_path / f"{seed}.trace"], check=True, stdout=subprocess.DEVNULL)
        return [tmp_path / f"{seed}.trace" for seed in seeds]

    return make


def test_any_schedule_makes_a_valid_trace(made_up):
    wrong = [f"{r['file']}: {r['error']}" for r in gotrace.read(*made_up(*range(SEEDS))) if "error" in r]
    assert not wrong, f"{len(wrong)} of {SEEDS}: {wrong[:3]}"


def test_a_lossless_schedule_loses_nothing(made_up):
    """The reader finds the events written: schedules without losses have no inserted stop."""
    results = gotrace.read(*made_up(*range(0, SEEDS, 24)))
    for result in results:
        assert "not traced" not in result["reasons"], result["file"]
        assert result["events"] > 1000


@pytest.mark.parametrize("version", READERS)
def test_go_tool_trace_takes_them(made_up, version):
    for file in made_up(*range(6)):
        complaint = gotrace.tool_trace_takes(version, file)
        assert complaint is None, f"{file.name}: {complaint}"


def test_a_trace_cut_short_is_read_up_to_its_last_generation(made_up, tmp_path):
    """Seed 12 has a generation for each 150 events."""
    whole = made_up(12)[0].read_bytes()
    cut = tmp_path / "cut.trace"
    cut.write_bytes(whole[:len(whole) * 2 // 3])
    before, = gotrace.read(cut)
    assert before["events"] > 200


@pytest.mark.parametrize("program", ("hectic", "churn", "fresh"))
def test_a_perfetto_trace_is_at_most_three_times_as_large_as_go_s(targets, program, tmp_path):
    """Bytes an event, of real programs that do the same all the time. It was 5 to 19 times."""
    target, bytes_of = targets.start(program), {}
    for suffix in ("trace", "pftrace"):
        t = Tracing(target.pid, tmp_path / f"t.{suffix}", "-d", in_full(1, 0.3)).wait()
        assert t.events > 1000
        bytes_of[suffix] = t.file.stat().st_size / t.events
    assert bytes_of["pftrace"] < 3 * bytes_of["trace"], bytes_of


def test_a_goroutine_that_lives_for_seconds_moves_to_a_track_of_its_own(targets, tmp_path):
    """The open slice continues there, with a name that the generation defines anew."""
    if not perfetto.protos():
        pytest.skip("the package perfetto cannot be had from PyPI")
    program = targets.start("fresh", args=("-workers=20", "-pause=2500ms", "-wait"))
    t = Tracing(program.pid, tmp_path / "t.pftrace").has_begun()
    program.send("begin")
    time.sleep(6)
    t.end()
    trace = perfetto.Trace(t.file.read_bytes())
    assert not trace.wrong, trace.wrong[:3]
    workers = {name: g for name, g in trace.goroutines.items() if name.endswith(" main.work")}
    assert len(workers) == 20
    for name, worker in workers.items():
        assert len(worker.tracks) == 2 and name in worker.tracks, worker.tracks
        assert sum(slice[0] == "sleep" for slice in worker.slices) >= 2
        for before, after in zip(worker.slices, worker.slices[1:]):
            assert before[2] == after[1], f"{name}: {before}, {after}"


@pytest.fixture(scope="module")
def made_up_perfetto(tmp_path_factory):
    if not perfetto.protos():
        pytest.skip("the package perfetto cannot be had from PyPI")
    folder = tmp_path_factory.mktemp("pftraces")
    traces = []
    for seed in range(10):
        file = folder / f"{seed}.pftrace"
        subprocess.run([WRITER, str(seed), file], check=True, stdout=subprocess.DEVNULL)
        traces.append(perfetto.Trace(file.read_bytes()))
    return traces


def test_any_schedule_makes_a_perfetto_trace(made_up_perfetto):
    for seed, trace in enumerate(made_up_perfetto):
        assert not trace.wrong, f"seed {seed}: {len(trace.wrong)}: {trace.wrong[:3]}"
        assert trace.goroutines and trace.named("P0") and trace.named("thread 1")


def test_perfetto_tracks_say_what_a_goroutine_does_and_who_woke_it(made_up_perfetto):
    """Seed 0 loses nothing: a goroutine does one thing at a time, from one slice to the next."""
    trace = made_up_perfetto[0]
    workers = trace.goroutines_named("main.worker")
    assert len(workers) > 50
    for worker in workers:
        for before, after in zip(worker.slices, worker.slices[1:]):
            assert before[2] == after[1], f"{before}, {after}"
    states = {name for worker in workers for name, _, _ in worker.slices}
    assert {"running", "runnable", "syscall", "chan receive"} <= states
    assert trace.arrows > 100
    assert "main.worker" in trace.stacks


def test_perfetto_s_goroutines_share_lanes_under_the_function_that_they_began_in(made_up_perfetto):
    """No lane has two at a time; as many lanes as there were goroutines at once, and no more."""
    trace = made_up_perfetto[0]
    lanes = [t for t in trace.tracks.values() if t.parent and "regions" not in t.name and
             trace.tracks[t.parent].name == "main.worker"]
    lives = [s for lane in lanes for s in lane.slices if re.match(r"G\d", s[0])]
    assert {lane.name for lane in lanes} == {f"main.worker {i + 1}" for i in range(len(lanes))}
    for lane in lanes:
        mine = sorted((begin, end) for name, begin, end in lane.slices if re.match(r"G\d", name))
        for before, after in zip(mine, mine[1:]):
            assert before[1] <= after[0], lane.name
    changes = sorted([(begin, 1) for _, begin, _ in lives] + [(end, -1) for _, _, end in lives])
    at_once = most = 0
    for _, change in changes:
        at_once += change
        most = max(most, at_once)
    # A goroutine that is still alive at the end of the trace leaves its slice open.
    assert most <= len(lanes) <= most + sum(bool(lane.open) for lane in lanes)
