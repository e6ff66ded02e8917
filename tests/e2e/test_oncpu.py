"""The stacks of running goroutines: the callers that frame pointers lose (golang/go#73753)."""

import pytest

from lib import callers, golang, gospect, pprof
from lib.process import CpuMeter


def on_cpu(program, path, *args):
    result = gospect.record_cpu(program, path, *gospect.BUDGET, *args).ok()
    if "perf_event_paranoid" in result.err or "no perf events" in result.err:
        pytest.skip("the kernel does not permit perf events here")
    return pprof.read(path)


@pytest.mark.parametrize("version", ["1.19.13", "1.23.12", golang.NEWEST])
def test_every_caller_is_right(targets, tmp_path, version):
    program = targets.start("callers", version)
    profile = on_cpu(program, tmp_path / "p.pb.gz", "--on-cpu", "-r", 1000, "--budget", 100)
    right, wrong = callers.judge(profile)
    assert right > 0.5e9, "it hardly ran"
    assert not wrong


@pytest.mark.parametrize("version", golang.VERSIONS)
def test_running_stacks_end_at_the_start_function(targets, tmp_path, version):
    program = targets.start("callers", version)
    profile = on_cpu(program, tmp_path / "p.pb.gz", "--on-cpu")
    total = sum(s.values["wall"] for s in profile.samples)
    whole = sum(s.values["wall"] for s in profile.samples if s.stack[-1] == "main.burn")
    # Each 10 ms the runtime preempts the burning goroutine and wakes a thread, whose time has other roots.
    switching = sum(s.values["wall"] for s in profile.samples
                    if s.stack[-1] in ("[scheduler]", "[idle]"))
    assert total == pytest.approx(profile.duration_ns, rel=0.1)
    assert whole / (total - switching) > 0.99
    assert whole / total > 0.9


def test_cpu_time_is_what_the_kernel_says(targets, tmp_path):
    program = targets.start("callers")
    with CpuMeter(program) as meter:
        profile = on_cpu(program, tmp_path / "p.pb.gz")
    used = meter.seconds_of(profile)
    seen = sum(s.values["cpu"] for s in profile.samples) / 1e9
    assert seen == pytest.approx(used, rel=0.1, abs=0.1)
