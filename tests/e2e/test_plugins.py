"""Plugins (-buildmode=plugin) are read like the rest of the program."""

import subprocess
import time

import pytest

from lib import golang, gospect, gotrace, plugins, traceback
from lib.params import every_version, newest_version
from lib.process import Program
from lib.traced import tracing

pytestmark = plugins.NEEDS_C


@pytest.fixture
def start():
    """Starts the program with its plugin; it has to be well at the end."""
    programs = []

    def begin(version, *args):
        program, plugin = plugins.build(version)
        programs.append(Program(program, plugin, *args))
        return programs[-1]

    try:
        yield begin
        for program in programs:
            program.assert_well()
    finally:
        for program in programs:
            program.stop()


def folded(path):
    """stack -> nanoseconds."""
    lines = (line.rpartition(" ") for line in path.read_text().splitlines())
    return {tuple(stack.split(";")): int(count) for stack, _, count in lines}


@newest_version()
def test_a_dump_is_what_runtime_stack_says(start, version):
    program = start(version)
    outside, inside = gospect.dump(program.pid), traceback.parse(program.stack())
    busy = {g.id for g in inside.values() if g.created_by and "Start" in g.created_by.func
            and "plugged.waiter" not in g.functions()}
    found = traceback.differences(inside, outside, golang.minor(version), ignore={1, *busy})
    assert not found, "\n".join(found)
    waiter = traceback.one(outside, "plugged.waiter")
    assert waiter.functions().count("plugged.waiter") == 4
    assert waiter.created_by.func == "plugged.Start"
    assert waiter.created_by.file.endswith("/plugged-src/main.go")
    worker, = [outside[goid] for goid in busy]
    assert not worker.available or "main.call" in worker.functions()


@newest_version()
def test_ps_counts_their_goroutines(start, version):
    program = start(version)
    row, = [line.split() for line in gospect.run("ps").ok().text.splitlines()
            if line.split()[:1] == [str(program.pid)]]
    assert int(row[3]) == 3, row


@newest_version()
def test_a_plugin_that_is_opened_while_it_records_is_found(start, version, tmp_path):
    program = start(version, "later")
    file = tmp_path / "out.folded"
    recording = gospect.start("record", "-p", program.pid, "-d", "3", *gospect.BUDGET, "-o", file)
    time.sleep(0.7)
    assert program.ask("open") == "ok"
    _, err = recording.communicate(timeout=60)
    assert recording.returncode == 0, err
    stacks = folded(file)
    waits = [stack for stack in stacks if "plugged.waiter" in stack]
    works = [stack for stack in stacks if "main.call" in stack]
    assert waits and works
    for stack in waits:
        assert stack.count("plugged.waiter") == 4, stack
    assert any("plugged.Worker" in stack for stack in works), works
    lost = sum(ns for stack, ns in stacks.items() if "[unknown]" in stack)
    assert lost < 0.02 * sum(stacks.values()), stacks


@newest_version()
def test_running_stacks_have_every_caller(start, version, tmp_path):
    """plugged.work has no frame: by frame pointers its caller would be missing."""
    program = start(version)
    file = tmp_path / "out.folded"
    gospect.run("record", "-p", program.pid, "-d", "2", "--on-cpu", "-r", "1000", "--budget", "100",
                "-o", file).ok()
    works = {stack[-4:] for stack in folded(file) if stack[-1] == "plugged.work"}
    assert works == {("plugged.Worker", "main.call", "plugged.Worker.func1", "plugged.work")}


@every_version([golang.MIDDLE, golang.NEWEST])
def test_a_trace_shows_what_they_do(start, version, tmp_path):
    program = start(version)
    with tracing(program, tmp_path / "t.trace") as t:
        time.sleep(0.5)
    assert t.lost == 0, t.err
    gotrace.read_valid(tmp_path / "t.trace")
    text = gospect.run("report", tmp_path / "t.trace").ok().text
    assert "plugged.Worker" in text


def test_a_core_file_has_them(start, tmp_path):
    program = start(golang.NEWEST)
    outside = gospect.dump(program.pid)
    subprocess.run(["gcore", "-o", tmp_path / "core", str(program.pid)], check=True,
                   capture_output=True)
    core, = tmp_path.glob("core.*")
    dump = gospect.run("dump", "--core", core).ok()
    inside = traceback.one(traceback.parse(dump.text), "plugged.waiter")
    assert inside.frames == traceback.one(outside, "plugged.waiter").frames


def test_an_address_only_profile_names_their_functions(start, tmp_path):
    """Their names were those of the symbol table, as "local.plugged.waiter", without inlined calls."""
    program = start(golang.NEWEST)
    gospect.run("record", "-p", program.pid, "-d", "0.5", "-o", tmp_path / "named.folded").ok()
    gospect.run("record", "-p", program.pid, "-d", "0.5", "--raw", "-o", tmp_path / "raw.pb.gz").ok()
    gospect.run("symbolize", tmp_path / "raw.pb.gz", "-o", tmp_path / "raw.folded").ok()
    waits = [{stack for stack in folded(tmp_path / f"{name}.folded") if "plugged.waiter" in stack}
             for name in ("named", "raw")]
    assert waits[0] and waits[0] == waits[1]
