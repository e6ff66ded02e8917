"""gospect why on programs with one disease each (tests/programs/patients), and on a healthy one."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import resource
import signal
import subprocess
import tempfile
import time

import pytest

from lib import golang, gospect, memory_group
from lib.process import wait_until
from test_at_a_terminal import at_terminal

SECONDS = 3
# What is true of every program on a busy machine.
OF_THE_MACHINE = {"cpu_shortage", "steal"}

# Of each patient: the kind of its first finding, and words of its sentence and evidence.
WAITING = {
    "deadlock": ("deadlock", "Hung: a deadlock: 2 goroutines wait for each other", "main.transfer"),
    "stuck": ("stuck_lock", "Hung: 8 goroutines waited for a lock all the time", "main.stuckLock", "main.holdForEver"),
    "convoy": ("lock_convoy", "wait for a lock", "main.convoyLock", "main.holdConvoyLock holds it"),
    "pool": ("pool_exhausted", "the connection pool is exhausted", "wait for a free connection", "main.askPool",
             "the connections, most in main.slowStmt.Query [sleep]"),
    "leak": ("goroutine_leak", "goroutines that main.startForgotten creates grow", "main.waitForAnswer"),
    "peer": ("slow_peer", "a peer is slow", "main.fetch"),
    "full": ("queue_full", "a queue is full", "wait to send", "64 of 64", "main.produce"),
}
SHORT = {
    "quiet": ("nothing_runs", "Perhaps hung: no goroutine ran for", "5 goroutines wait within their work", "main.confirm"),
    "limit": ("memory_limit", "Short of memory: the heap has 9", "of GOMEMLIMIT"),
}
BUSY = {
    "gc": ("gc_thrash", "garbage collection (GC) takes", "collections a second"),
    "hot": ("hot_loop", "spins in main.spin: a hot loop"),
    "timers": ("timer_storm", "a timer storm"),
    "queue": ("memory_growth", "an unbounded queue", "main.(*queue).push"),
}


def why(*args, seconds=SECONDS):
    return json.loads(gospect.run("why", "-d", seconds, "--json", *args, seconds=90).ok().text)


def why_of_each(programs):
    """gospect why of all of them at once: their diseases do not depend on each other."""
    with concurrent.futures.ThreadPoolExecutor(len(programs)) as pool:
        found = {name: pool.submit(why, program.pid) for name, program in programs.items()}
        return {name: future.result() for name, future in found.items()}


def check(found, kind, *words):
    """The first sentence names the disease, and its evidence the place."""
    assert found["findings"], (kind, found)
    first = found["findings"][0]
    assert first["kind"] == kind, found["findings"]
    assert [word for word in words if word not in first["sentence"] + "; " + first["evidence"]] == []
    assert first["severity"] in (("minor",) if first["sentence"].startswith("Perhaps") else ("critical", "serious"))
    assert first["next"]
    assert set(first) == {"kind", "severity", "sentence", "evidence", "next"}


def patient(targets, name, *args, **kwargs):
    return targets.start("patients", golang.NEWEST, args=(name, *args), **kwargs)


def test_the_first_sentence_names_what_goroutines_wait_for(targets):
    server = patient(targets, "server")
    address = server.ask("address")
    programs = {name: patient(targets, name, *([address] if name == "peer" else [])) for name in WAITING}
    programs |= {name: patient(targets, name) for name in (*SHORT, "healthy")}
    found = why_of_each(programs)
    for name, (kind, *words) in (WAITING | SHORT).items():
        check(found[name], kind, *words)
    assert address in found["peer"]["findings"][0]["sentence"]
    assert {f["kind"] for f in found["healthy"]["findings"]} <= OF_THE_MACHINE, found["healthy"]


@pytest.mark.parametrize("disease", BUSY)
def test_the_first_sentence_names_what_uses_cpu_and_memory(targets, disease):
    """Shares of CPU time need samples: on a busy machine the program is looked at for longer."""
    program = patient(targets, disease)
    for seconds in (SECONDS, 4 * SECONDS):
        found = why(program.pid, seconds=seconds)
        if not any("which functions use the CPU" in line for line in found["unknown"]):
            break
    else:
        pytest.skip(f"CPU samples are lacking: {found['unknown']}")
    check(found, *BUSY[disease])


def test_a_slow_disk_is_found(targets):
    folder = pathlib.Path(os.environ.get("TMPDIR", "/var/tmp")) / f"gospect-journals-{os.getpid()}"
    folder.mkdir()
    try:
        program = patient(targets, "disk", folder)
        before = int(program.ask("truth"))
        found = why(program.pid)
        waited = (int(program.ask("truth")) - before) / 1e9 / SECONDS
        if not any(f["kind"] == "slow_disk" for f in found["findings"]) and program.cpu_seconds() > SECONDS / 2:
            pytest.skip(f"{folder} is in memory: the journals use the CPU, not a disk")
        check(found, "slow_disk", "the disk is slow", "main.writeJournal")
        assert waited > 4  # of 8 goroutines, as the program measured them
    finally:
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


def limit_cpu(name):
    """A control group with a quota of 3 ms in 100 ms, which is used up on a busy machine too; or the test is skipped."""
    root = pathlib.Path("/sys/fs/cgroup")
    for folder, file, value in ((root / "cpu", "cpu.cfs_quota_us", "3000"), (root, "cpu.max", "3000 100000")):
        group = folder / name
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / file).write_text(value)
            return group
        except OSError:
            group.rmdir()
    pytest.skip("no control group with a CPU quota can be made here")


def test_a_cpu_quota_throttles(targets):
    group = limit_cpu(f"gospect-why-{os.getpid()}")
    program = patient(targets, "throttled")
    try:
        (group / "cgroup.procs").write_text(str(program.pid))
        check(why(program.pid), "throttled", "the control group throttles the process", "its quota is 0.03 CPUs")
    finally:
        (group.parent / "cgroup.procs").write_text(str(program.pid))
        wait_until(lambda: not (group / "cgroup.procs").read_text(), what="an empty group")
        group.rmdir()


def test_a_memory_limit_is_near(targets):
    """Of the control group: gospect why says so, and gospect watch catches the moment."""
    if memory_group.why_not():
        pytest.skip(memory_group.why_not())
    group, program = memory_group.MemoryGroup(), targets.start("incidents", golang.NEWEST)
    with contextlib.ExitStack() as stack:
        stack.callback(group.remove)
        group.limit(160 << 20)
        (group.folder / "cgroup.procs").write_text(str(program.pid))
        stack.callback(lambda: (group.folder.parent / "cgroup.procs").write_text(str(program.pid)))
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        watch = gospect.start("watch", program.pid, "-o", f"{folder}/w", "--when", "rss > 80%", "--interval", "0.1")
        stack.callback(watch.kill)
        program.ask("fill 60")
        time.sleep(1)
        assert not os.listdir(folder)
        program.ask("fill 90")
        wait_until(lambda: any("-rss." in name for name in os.listdir(folder)), what="a file of watch")
        found = why(program.pid, seconds=0.5)
        assert found["findings"][0]["severity"] == "critical"
        check(found, "memory_limit", "the control group uses 9", "the limit is 168 MB")
        program.ask("free")


@pytest.mark.slow
@pytest.mark.time_limit(600)
def test_a_crowd_that_waits_for_minutes_is_a_suspicion(targets):
    program = patient(targets, "crowd")
    assert not why(program.pid, seconds=0.5)["findings"]
    time.sleep(302)
    check(why(program.pid), "goroutine_crowd", "Perhaps leaking: 1,200 goroutines that main.gather created", "main.confirm")


def test_a_stopped_process_is_said_to_be_stopped(targets):
    program = patient(targets, "healthy")
    program.process.send_signal(signal.SIGSTOP)
    try:
        found = why(program.pid, seconds=1)
    finally:
        program.process.send_signal(signal.SIGCONT)
    check(found, "stopped", "Hung: the process is stopped by a signal")
    assert found["findings"][0]["next"] == f"kill -CONT {program.pid}"


def test_text_begins_with_the_gravest_finding(targets):
    program = patient(targets, "deadlock")
    lines = gospect.run("why", program.pid, "-d", "200ms").ok().text.splitlines()
    assert lines[0].startswith("Hung: a deadlock: 2 goroutines wait for each other")
    assert lines[1].startswith("  evidence: goroutine ") and lines[1].count("main.transfer (main.go:") == 2
    assert lines[2] == f"  next: gospect waits -p {program.pid}"
    assert len([line for line in lines if line.startswith("  next: ")]) == 1
    assert lines[-1].startswith("Looked for 0.2 s at ")


def test_an_interrupt_ends_the_look_and_keeps_the_findings(targets):
    programs = {name: patient(targets, name) for name in ("leak", "convoy")}
    runs = {name: gospect.start("why", program.pid, "-d", "60s", "--json") for name, program in programs.items()}
    time.sleep(2 * SECONDS)
    for run in runs.values():
        run.send_signal(signal.SIGINT)
    for name, run in runs.items():
        out, err = run.communicate(timeout=60)
        assert run.returncode == 0, err
        check(json.loads(out), *WAITING[name])


def test_text_fits_the_terminal(targets):
    program = patient(targets, "deadlock")
    lines = at_terminal("why", program.pid, "-d", "200ms", columns=60)
    assert lines[0].startswith("Hung: a deadlock: 2 goroutines wait")
    assert max(map(len, lines)) <= 60 and any(line.startswith("    ") for line in lines)


def test_a_core_file_has_its_deadlock(tmp_path):
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if pattern.startswith(("|", "/")):
        pytest.skip(f"the kernel's cores go elsewhere: core_pattern is {pattern!r}")
    with subprocess.Popen([golang.build("patients", golang.NEWEST), "deadlock"], cwd=tmp_path, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "GOTRACEBACK": "crash"},
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (-1, -1))) as process:
        assert process.stdout.readline().startswith(b"ready")
        process.send_signal(signal.SIGABRT)
        process.wait(30)
    core, = (p for p in tmp_path.iterdir() if p.name.startswith("core"))
    found = why("--core", core)
    check(found, "deadlock", "Hung: a deadlock: 2 goroutines wait for each other")
    assert found["findings"][0]["next"] == f"gospect waits --core {core}"
    assert "a core file is a single moment" in found["unknown"][0]


def test_wrong_formats_are_refused():
    assert "use text or json" in gospect.run("why", "-f", "xml", os.getpid()).fails(2)
