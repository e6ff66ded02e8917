"""Sampling running goroutines in hard cases: threads that come and go, too many threads, lost samples."""

import resource
import signal
import subprocess

import pytest

from lib import gospect, process, pprof


def threads_of(program):
    return int(process.status(program.pid)["Threads"])


def record(program, path, *args, **kwargs):
    return subprocess.Popen([gospect.BINARY, "record", "-p", str(program.pid), "-o", path,
                             "--on-cpu", "--budget", "100", *args],
                            stderr=subprocess.PIPE, text=True, **kwargs)


def finish(recorder, path):
    _, words = recorder.communicate(timeout=60)
    assert recorder.returncode == 0, words
    if "perf_event_paranoid" in words or "no perf events" in words:
        pytest.skip("the kernel does not permit perf events here")
    return words, pprof.read(path)


def test_threads_that_come_and_go_are_seen(targets, tmp_path):
    program = targets.start("switches", args=("threads",))
    path = tmp_path / "p.pb.gz"
    # Each thread's clock begins at 0: what ends within a period has no sample.
    with process.CpuMeter(program) as meter:
        _, profile = finish(record(program, path, "-d", "4", "-r", "5000"), path)
    used = meter.seconds_of(profile)
    assert profile.total("cpu") / 1e9 == pytest.approx(used, rel=0.3, abs=0.1)
    spinning = [s for s in profile.samples if s.stack[0] == "main.spin"]
    whole = sum(s.values["cpu"] for s in spinning if s.stack[-1].startswith("main.threads.func"))
    assert whole > 0.98 * sum(s.values["cpu"] for s in spinning)


def test_too_many_threads_for_the_files(targets, tmp_path):
    program = targets.start("switches", args=("many",))
    process.wait_until(lambda: threads_of(program) > 300, what="its threads")
    path = tmp_path / "p.pb.gz"
    recorder = record(program, path, "-d", "1", "-r", "200", preexec_fn=lambda: resource.setrlimit(
        resource.RLIMIT_NOFILE, (200, 200)))
    words, profile = finish(recorder, path)
    assert "too many open files" in words
    assert "raise the limit (ulimit -n)" in words
    assert profile.duration_ns > 0.9e9


# With others beside it gospect looks less often, and so does the kernel for it: nothing would be lost.
@pytest.mark.alone
def test_lost_samples_are_counted(targets, tmp_path):
    program = targets.start("callers")
    path = tmp_path / "p.pb.gz"
    recorder = record(program, path, "-d", "5", "-r", "10000")
    gospect.await_recording(recorder)
    # It may have got no CPU between its events and its first look, at which it begins with what there is.
    used = program.cpu_seconds() + 0.5
    process.wait_until(lambda: program.cpu_seconds() >= used, what="0.5 s of CPU time")
    recorder.send_signal(signal.SIGSTOP)
    used = program.cpu_seconds() + 2
    process.wait_until(lambda: program.cpu_seconds() >= used, what="2 s of CPU time")
    recorder.send_signal(signal.SIGCONT)
    words, profile = finish(recorder, path)
    assert "on-CPU samples were lost" in words
    comment = next(c for c in profile.comments if "on-CPU stacks: " in c)
    assert " 0 lost" not in comment


# Waits for a processor

QUEUE = "--run-queue had no effect"


def test_waits_for_a_cpu_take_nothing_from_cpu_time(targets, tmp_path):
    program = targets.start("ledger", args=("-each=3",), env={"GOMAXPROCS": "8"})
    path = tmp_path / "p.pb.gz"
    with process.CpuMeter(program) as meter:
        words, profile = finish(record(program, path, "-d", "3", "--run-queue"), path)
    used = meter.seconds_of(profile)
    assert QUEUE not in words
    assert profile.total("cpu") / 1e9 == pytest.approx(used, rel=0.3, abs=0.1)
    assert {"main.crunch", "main.mash"} <= {f for s in profile.samples for f in s.stack}


def test_too_few_files_for_the_waits_for_a_cpu(targets, tmp_path):
    program = targets.start("switches", args=("many",))
    process.wait_until(lambda: threads_of(program) > 300, what="its threads")
    path = tmp_path / "p.pb.gz"
    recorder = record(program, path, "-d", "1", "--run-queue", preexec_fn=lambda: resource.setrlimit(
        resource.RLIMIT_NOFILE, (1000, 1000)))
    _, words = recorder.communicate(timeout=60)
    assert recorder.returncode == 0 and QUEUE in words, words
    assert pprof.read(path).duration_ns > 0.9e9


def test_too_many_switches_to_know_where_threads_wait(targets, tmp_path):
    program = targets.start("churn", args=("-workers=0", "-nappers=16", "-life=20000"))
    path = tmp_path / "p.pb.gz"
    # Too many a second are those of a program that has a processor for most of it.
    for _ in range(10):
        recorder = record(program, path, "-d", "3", "--run-queue")
        _, words = recorder.communicate(timeout=60)
        assert recorder.returncode == 0, words
        assert pprof.read(path).total("cpu") > 0
        if QUEUE in words:
            return
    raise AssertionError(words)


def test_waits_for_a_cpu_belong_to_running_goroutines(states):
    said = gospect.run("record", "-p", states.pid, "--off-cpu", "--run-queue").fails(2)
    assert "--run-queue and --off-cpu are mutually exclusive" in said
