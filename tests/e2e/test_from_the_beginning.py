"""`-- COMMAND`: a program that gospect starts is held before its first line, and nothing of it is missed."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from lib import golang, gospect, gotrace
from lib.params import every_version
from lib.process import comm, status, wait_until

DID = {"goroutine of init=brief": 3, "init=brief": 7, "main=brief": 1, "child=brief": 1000, "last=brief": 1}
TESTPROGS = ("annotations", "iter-pull", "futile-wakeup")
OWN_TRACER = ("1.22.12", "1.27.2")


def trace(file, *command, **kwargs):
    return gospect.run("trace", "-o", file, "--", *command, **kwargs)


def assert_whole(result, file, status=0):
    assert result.status == status, result.err
    assert result.text == "did 1012\n", result.err
    read = gotrace.read_valid(file)
    assert gotrace.programs_logs(read) == DID, result.err
    names = [g["name"] for g in read["goroutines"].values()]
    # Go 1.17 does not say what the wrapper of a go statement calls.
    assert sum(name == "main.child" or "main.main·dwrap·" in name for name in names) == 20, names


@every_version()
@pytest.mark.parametrize("mode", [golang.PLAIN, golang.STRIPPED, golang.LDFLAGS_SW, golang.PIE])
def test_a_trace_of_a_command_has_all_from_its_first_init_to_its_exit(version, mode, tmp_path):
    binary = golang.build("brief", version, mode)
    assert_whole(trace(tmp_path / "t.trace", binary, 7), tmp_path / "t.trace", 7)


@every_version()
def test_a_program_that_a_shell_becomes_is_held_too(version, tmp_path):
    binary = golang.build("brief", version)
    assert_whole(trace(tmp_path / "t.trace", "sh", "-c", f"A=1; exec env B=2 {binary} 3"),
                 tmp_path / "t.trace", 3)


@pytest.mark.parametrize("version", OWN_TRACER)
@pytest.mark.parametrize("name", TESTPROGS)
def test_gos_own_programs_for_its_tracer_are_seen_as_they_see_themselves(name, version, tmp_path):
    root = golang.go(version, "env", "GOROOT").strip()
    found = [f for f in (f"{root}/src/internal/trace{v}/testdata/testprog/{name}.go" for v in ("", "/v2"))
             if os.path.exists(f)]
    if not found:
        pytest.skip(f"Go {version} has no {name}")
    golang.go(version, "build", "-o", tmp_path / "program", found[0], cwd=tmp_path)
    # The program may exit before any of its goroutines has ended: then there is nothing to compare.
    for _ in range(10):
        result = trace(tmp_path / "t.trace", tmp_path / "program").ok()
        (tmp_path / "own.trace").write_bytes(result.out)
        theirs, = gotrace.read(tmp_path / "own.trace", newer=True)
        whole = {goid: g for goid, g in theirs["goroutines"].items()
                 if g["created"] > 0 and g["ended"] > 0}
        if whole:
            break
    mine = gotrace.read_valid(tmp_path / "t.trace")
    for what in ("tasks", "logs"):
        assert all(mine[what].get(key, 0) >= n for key, n in theirs[what].items()), (mine[what], theirs[what])
    # Ours is in the format of Go 1.22, in which no goroutine is born waiting.
    for g in theirs["goroutines"].values():
        if g["events"].pop("NotExist->Waiting", 0):
            g["events"]["NotExist->Runnable"] = 1
            g["events"]["Waiting->Runnable"] -= 1
    assert len(whole) >= 1
    for goid, g in whole.items():
        assert mine["goroutines"][goid]["events"] == g["events"], (goid, g["name"])


@every_version()
def test_a_recording_of_what_lives_for_20_ms_has_samples(version, tmp_path):
    """On a busy machine one half of it may pass between two looks: the sleep of 10 ms is seen in one
    of five recordings, the program in each, be it still at runtime.main without the stack of that moment."""
    for _ in range(5):
        result = gospect.run("record", "-o", tmp_path / "r.folded", "--",
                             golang.build("brief", version), 5, 10)
        assert result.status == 5, result.err
        text = (tmp_path / "r.folded").read_text()
        assert re.search(r"\bmain\.main;|^runtime\.main;\[running\] ", text, re.M), (text, result.err)
        if "main.main;time.Sleep" in text:
            return
    raise AssertionError(text)


def test_each_recording_of_what_lives_for_milliseconds_has_samples(tmp_path):
    """Between its release and the first tick it may have ended."""
    program = pathlib.Path(golang.go(golang.NEWEST, "env", "GOROOT").strip()) / "bin" / "go"
    for _ in range(20):
        began = time.monotonic()
        result = gospect.run("record", "-o", tmp_path / "r.folded", "--", program, "version").ok()
        passed = time.monotonic() - began
        samples = int(re.search(r"(\d+) samples at", result.err)[1])
        stacks = dict(line.rsplit(" ", 1) for line in (tmp_path / "r.folded").read_text().splitlines())
        assert samples >= 1 and stacks, result.err
        assert samples > 3 or "too few samples for shares" in result.err, result.err
        assert any("runtime.main" in stack for stack in stacks), stacks
        assert 0 < sum(map(int, stacks.values())) < passed * 1e6 * 100, stacks


def test_a_program_that_is_not_go_runs_untouched_and_one_line_says_so(tmp_path):
    result = trace(tmp_path / "t.trace", "sh", "-c", "echo one; sleep 0.2; echo two; kill -USR1 $$; exit 4")
    assert result.text == "one\ntwo\n"
    assert len(result.words) == 1 and "Go" in result.words[0], result.words
    assert not (tmp_path / "t.trace").exists()


def test_a_command_that_cannot_be_started_says_why(tmp_path):
    words = trace(tmp_path / "t.trace", tmp_path / "nothing").fails(1)
    assert "No such file" in words


@pytest.mark.parametrize("verb", ["trace", "record"])
def test_a_command_goes_on_when_gospect_is_killed_while_it_is_held(verb, tmp_path):
    """At any moment of its beginning."""
    binary = golang.build("brief", golang.NEWEST)
    for ms in (*range(0, 60, 4), 3000):
        out = tmp_path / f"out{ms}"
        with open(out, "wb") as stdout:
            process = gospect.start(verb, "-o", tmp_path / f"{ms}.trace", "-f",
                                    "go" if verb == "trace" else "pprof", "--", binary, stdout=stdout)
            wait_until(lambda: os.path.exists(f"/proc/{process.pid}/task/{process.pid}/children"))
            time.sleep(ms / 1000)
            process.kill()
            process.communicate(timeout=60)
        # When it was killed before it has started anything, there is nothing.
        wait_until(lambda: not subprocess.run(["pgrep", "-f", f"^{binary}"], stdout=subprocess.DEVNULL,
                                              check=False).returncode == 0, 20, f"the end of {binary}")
        assert out.read_text() in ("did 1012\n", ""), ms
    assert (tmp_path / "out3000").read_text() == "did 1012\n"


def test_nobody_holds_a_program_that_has_been_let_go(tmp_path):
    binary = golang.build("brief", golang.NEWEST)
    process = gospect.start("trace", "-o", tmp_path / "t.trace", "--", binary, 0, 2000)
    wait_until(lambda: "gospect-hold" in children(process.pid).values())
    wait_until(lambda: "gospect-hold" not in children(process.pid).values(), 30, "the end of the holder")
    assert "brief" in children(process.pid).values()
    assert process.wait(60) == 0


def children(pid):
    """{pid: name}"""
    pids = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {int(child): comm(child) for child in pids if os.path.exists(f"/proc/{child}/comm")}


def state(pid):
    return status(pid)["State"][0]


def shell_that_waits(folder):
    """gospect with a shell that becomes the program when it reads a line of the file "go", and not before."""
    os.mkfifo(folder / "go")
    binary = golang.build("brief", golang.NEWEST)
    process = gospect.start("record", "-o", folder / "r.folded", "--", "sh", "-c",
                            f"read line <'{folder}/go'; exec '{binary}' 5 300")

    def both():
        names = children(process.pid)
        return sorted(names.values()).count("sh") == 1 and "gospect-hold" in names.values() and names

    wait_until(both, 30, "the shell and its holder")
    pids = {name: pid for pid, name in both().items()}
    wait_until(lambda: state(pids["sh"]) == "S", 30, "the shell to wait for a line")
    return process, pids["sh"], pids["gospect-hold"]


def test_a_program_whose_holder_gets_no_cpu_is_recorded_and_ends(tmp_path):
    """It stood at its exec for as long as gospect lived, and "its memory does not match: runtime.allglen"."""
    process, program, holder = shell_that_waits(tmp_path)
    os.kill(holder, signal.SIGSTOP)
    try:
        (tmp_path / "go").write_text("\n")
        wait_until(lambda: state(program) == "t", 30, "the program to stand at its exec")
        time.sleep(1.5)  # gospect has waited for the exec for a second
    finally:
        os.kill(holder, signal.SIGCONT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 5, err
    assert "main.main" in (tmp_path / "r.folded").read_text()


def test_a_signal_before_the_runtime_is_set_up_is_no_mismatch(tmp_path):
    process, program, holder = shell_that_waits(tmp_path)
    os.kill(holder, signal.SIGSTOP)
    try:
        (tmp_path / "go").write_text("\n")
        wait_until(lambda: state(program) == "t", 30, "the program to stand at its exec")
        process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
    finally:
        os.kill(holder, signal.SIGCONT)
    _, err = process.communicate(timeout=60)
    # It may be opened in time after all; then the signal ends the program, whose status that is.
    assert process.returncode in (1, 128 + signal.SIGTERM) and b"does not match" not in err, err


def test_go_test_traces_a_test_from_its_beginning(tmp_path):
    (tmp_path / "go.mod").write_text("module brief\n\ngo 1.22\n")
    (tmp_path / "brief_test.go").write_text("""package brief

import ("context"; "runtime/trace"; "testing")

func TestBrief(t *testing.T) {
	for i := 0; i < 100; i++ {
		trace.Log(context.Background(), "test", "brief")
	}
}
""")
    env = {**golang.environment("1.27.2"), "GOTOOLCHAIN": "go1.27.2"}
    done = subprocess.run([golang.go_command(), "test", "-count=1", "-exec",
                           f"{gospect.BINARY} trace -o t.trace --"],
                          cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert gotrace.programs_logs(gotrace.read_valid(tmp_path / "t.trace")) == {"test=brief": 100}


@pytest.mark.skipif(not shutil.which("gcc"), reason="no C compiler")
def test_a_program_with_c_is_held_too(tmp_path):
    source = golang.TESTS / "programs" / "brief"
    folder = tmp_path / "brief"
    shutil.copytree(source, folder)
    (folder / "go.mod").write_text("module brief\n\ngo 1.27\n")
    (folder / "c.go").write_text("package main\n\n// int one(void) { return 1; }\nimport \"C\"\n\nvar _ = C.one()\n")
    env = {**golang.environment("1.27.2"), "CGO_ENABLED": "1"}
    subprocess.run([golang.go_command(), "build", "-o", tmp_path / "program", "."], cwd=folder, env=env, check=True)
    assert_whole(trace(tmp_path / "t.trace", tmp_path / "program", 0), tmp_path / "t.trace")
