"""Traces are legal whatever the tracer has seen: Go's own readers take them all."""

import subprocess

import pytest

from lib import gospect, gotrace, perfetto

WRITER = gospect.ROOT / "build" / "src" / "trace" / "write_made_up_trace"
SEEDS = 240
READERS = ("1.22.12", "1.24.13", "1.27.2")


@pytest.fixture(scope="module")
def made_up(tmp_path_factory):
    """Traces of made-up schedules: with losses, late times, nonsense, started in the middle, in one
    generation and in many."""
    folder = tmp_path_factory.mktemp("traces")
    files = []
    for seed in range(SEEDS):
        files.append(folder / f"{seed}.trace")
        subprocess.run([WRITER, str(seed), files[-1]], check=True, stdout=subprocess.DEVNULL)
    return files


def test_any_schedule_makes_a_valid_trace(made_up):
    wrong = [f"{r['file']}: {r['error']}" for r in gotrace.read(*made_up) if "error" in r]
    assert not wrong, f"{len(wrong)} of {len(made_up)}: {wrong[:3]}"


def test_a_lossless_schedule_loses_nothing(made_up):
    """What is written is what the reader finds: seeds of no losses have no invented stop."""
    results = gotrace.read(*made_up[0::24])
    for result in results:
        assert "not traced" not in result["reasons"], result["file"]
        assert result["events"] > 1000


@pytest.mark.parametrize("version", READERS)
def test_go_tool_trace_takes_them(made_up, version):
    for file in made_up[:12]:
        complaint = gotrace.tool_trace_takes(version, file)
        assert complaint is None, f"{file.name}: {complaint}"


def test_a_trace_cut_short_is_read_up_to_its_last_generation(made_up, tmp_path):
    """Seed 12 has a generation for each 150 events."""
    whole = made_up[12].read_bytes()
    cut = tmp_path / "cut.trace"
    cut.write_bytes(whole[:len(whole) * 2 // 3])
    before, = gotrace.read(cut)
    assert before["events"] > 200


@pytest.fixture(scope="module")
def made_up_perfetto(tmp_path_factory):
    if not perfetto.protos():
        pytest.skip("the package perfetto cannot be had from PyPI")
    folder = tmp_path_factory.mktemp("pftraces")
    traces = []
    for seed in range(24):
        file = folder / f"{seed}.pftrace"
        subprocess.run([WRITER, str(seed), file], check=True, stdout=subprocess.DEVNULL)
        traces.append(perfetto.Trace(file.read_bytes()))
    return traces


def test_any_schedule_makes_a_perfetto_trace(made_up_perfetto):
    for seed, trace in enumerate(made_up_perfetto):
        assert not trace.wrong, f"seed {seed}: {len(trace.wrong)}: {trace.wrong[:3]}"
        assert trace.named("G") and trace.named("P0") and trace.named("thread 1")


def test_perfetto_tracks_say_what_a_goroutine_does_and_who_woke_it(made_up_perfetto):
    """Seed 0 loses nothing: a goroutine does one thing at a time, from one slice to the next."""
    trace = made_up_perfetto[0]
    workers = trace.named("main.worker")
    assert len(workers) > 50
    for track in workers:
        for before, after in zip(track.slices, track.slices[1:]):
            assert before[2] == after[1], f"{track.name}: {before}, {after}"
    states = {name for track in workers for name, _, _ in track.slices}
    assert {"running", "runnable", "syscall", "chan receive"} <= states
    assert trace.arrows > 100
    assert "main.worker" in trace.stacks
