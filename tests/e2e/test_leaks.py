"""gospect leaks against what the program made (tests/programs/leaking), and against Go's own leak profile."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from lib import golang, gospect
from lib.params import every_build
from lib.process import Program, wait_until

RETAINED = 1 << 20  # of each that receives: tests/programs/leaking


def leaks(*args):
    return json.loads(gospect.run("leaks", "-f", "json", *args).ok().text)


def ids(groups):
    return sorted(n for group in groups for n in group["goroutines"])


def by_wait(groups):
    found = {}
    for group in groups:
        found.setdefault(group["waits_for"], []).extend(group["goroutines"])
    return {wait: sorted(all_ids) for wait, all_ids in found.items()}


def check(found, truth):
    assert by_wait(found["leaked"]) == {k: sorted(v) for k, v in truth["Leaked"].items()}
    assert not set(ids(found["suspects"])) & set(truth["Healthy"]), found["suspects"]
    for group in found["leaked"]:
        assert group["count"] == len(group["goroutines"])
        assert group["created_by"].startswith(("main.begin (", "main.circle ("))
        assert group["waits_at"]["func"].startswith("main.") and group["why"]
        kept = group["waits_at"]["func"] == "main.receive" and RETAINED * group["count"]
        # Two goroutines keep one object more: neither alone would free it.
        assert kept <= group["retained_bytes"] <= kept + 64_000 * group["count"]
    assert 4 * RETAINED <= found["retained_bytes"] <= 4 * RETAINED + 64_000 * 35


def leaked_of(program, truth):
    """Never one that is not."""
    found = ids(leaks(program.pid)["leaked"])
    assert set(found) <= {n for numbers in truth["Leaked"].values() for n in numbers}
    return found


@every_build(modes=(golang.PLAIN, golang.STRIPPED))
def test_leaked_goroutines_are_those_that_nothing_reaches(targets, version, mode):
    program = targets.keep("leaking", version, mode)
    truth = json.loads(program.ask("truth"))
    # A goroutine that will wait for ever does not yet where it has had no CPU for that.
    wait_until(lambda: len(leaked_of(program, truth)) == 35, 60, "all goroutines to wait")
    check(leaks(program.pid), truth)
    text = gospect.run("leaks", program.pid).ok().text
    assert re.search(r"^35 goroutines are leaked: nothing can wake them any more. They keep 4\.\d MB\.$", text, re.M)
    assert "main.begin (main.go:" in text and "certain: " in text


def test_goroutines_that_only_become_more_are_suspects(targets):
    """No one of them has waited for a minute, and a global map has their channels."""
    program = targets.start("leaking", golang.NEWEST)
    assert program.ask("grow") == "ok"

    def grown(groups):
        return [g for g in groups if g["created_by"].startswith("main.grow (")]

    wait_until(lambda: gospect.run("dump", program.pid).ok().text.count("created by main.grow") > 20, 60, "some")
    assert not grown(leaks(program.pid)["suspects"])
    found = leaks("--growth", "1s", program.pid)
    assert not grown(found["leaked"])
    group, = grown(found["suspects"])
    assert group["growth"]["goroutines"] >= 10 and "only become more" in group["why"]
    assert not [g for g in found["suspects"] if g["created_by"].startswith("main.mapped (")]


@pytest.mark.skipif(not shutil.which("gcore"), reason="gcore is part of gdb, which is not installed")
def test_core_file_has_the_same_leaks(targets, tmp_path):
    program = targets.start("leaking", golang.NEWEST)
    truth = json.loads(program.ask("truth"))
    subprocess.run(["gcore", "-o", tmp_path / "core", str(program.pid)], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    check(leaks("--core", tmp_path / f"core.{program.pid}"), truth)


@pytest.mark.parametrize("name", ["requests", "churn"])
def test_healthy_program_has_no_leaks(targets, name):
    program = targets.start(name, golang.NEWEST)
    assert leaks(program.pid)["leaked"] == []


# ---- Go's own programs, each of which says what must be found ----

LOOK = """package main

import (
	"io"
	"os"
	"runtime/pprof"
	"syscall"
	"time"
)

// look lets gospect look, and then prints the runtime's own list of leaks.
func look(_ *os.File, prof *pprof.Profile) {
	var b [1]byte
	time.Sleep(time.Second) // until all of them wait, on a busy machine too
	os.Stdout.WriteString("READY\\n")
	syscall.Read(0, b[:])
	for i := 0; i < 3; i++ { // the first ones may miss some
		prof.WriteTo(io.Discard, 2)
	}
	prof.WriteTo(os.Stdout, 2)
	os.Stdout.WriteString("\\nDONE\\n")
	syscall.Read(0, b[:])
	os.Exit(0)
}
"""
# A goroutine of these runs all the time, so nothing is certain; or they go on after the look.
RESTLESS = {"DaisyChain", "SpawnGC", "Kubernetes13135", "Kubernetes58107"}


@pytest.fixture(scope="session", params=[v for v in golang.NEWEST_OF_EACH
                                         if golang.minor(v) >= (1, 26)])
def suite(request, tmp_path_factory):
    """The programs of runtime/testdata/testgoroutineleakprofile, in which look() takes the place of the
    profile; and their names."""
    version, folder = request.param, tmp_path_factory.mktemp("suite")
    root = golang.go(version, "env", "GOROOT", cwd=folder).strip()
    shutil.copytree(os.path.join(root, "src/runtime/testdata/testgoroutineleakprofile"), folder / "src")
    (folder / "src/go.mod").write_text("module suite\n\ngo 1.26\n")
    names = []
    for part in (folder / "src", folder / "src/goker"):
        found = []
        for path in part.glob("*.go"):
            os.chmod(path, 0o644)
            text = path.read_text()
            found += re.findall(r'register\("(\w+)"', text)
            path.write_text(text.replace("prof.WriteTo(os.Stdout, 2)", "look(os.Stdout, prof)"))
        (part / "look.go").write_text(LOOK)
        env = golang.environment(version)
        if golang.minor(version) == (1, 26):
            env["GOEXPERIMENT"] = "goroutineleakprofile"
        subprocess.run([golang.go_command(), "build", "-o", folder / f"{part.name} program", "."], cwd=part,
                       env=env, check=True)
        names += [(folder / f"{part.name} program", name) for name in sorted(found)]
    return names


def rests(pid):
    """No thread runs, or waits for a CPU."""
    stats = [path.read_text() for path in pathlib.Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(text.rpartition(")")[2].split()[0] == "S" for text in stats)


def await_rest(pid, seconds=30):
    """Until it has rested for a while. Some never do."""
    end, since = time.monotonic() + seconds, time.monotonic()
    while time.monotonic() < end and time.monotonic() - since < 0.4:
        time.sleep(0.01)
        if not rests(pid):
            since = time.monotonic()


def of_both(binary, name, *args):
    """What gospect finds, and then what the runtime finds."""
    with subprocess.Popen([binary, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, env={**os.environ, "GOMAXPROCS": "1"}) as program:
        try:
            for line in iter(program.stdout.readline, b"READY\n"):
                assert line
            await_rest(program.pid, 3 if name in RESTLESS else 30)
            found = leaks(*args, program.pid)
            program.stdin.write(b"\n")
            program.stdin.flush()
            said = b"".join(iter(program.stdout.readline, b"DONE\n")).decode()
        finally:
            program.kill()
    return (set(ids(found["leaked"])),
            {int(n) for n in re.findall(r"^goroutine (\d+) [^\n]*\(leaked\)", said, re.M)})


@pytest.mark.slow
@pytest.mark.time_limit(3600)
@pytest.mark.parametrize("args", ((), ("--exact",)), ids=" ".join)
def test_go_programs_that_leak_are_found_out_as_by_go(suite, args):
    different = {}
    for binary, name in suite:
        # A dead pointer may hide a leak at one moment, so a program may be run anew. gospect never
        # finds one that the runtime does not.
        for _ in range(3):
            found, said = of_both(binary, name, *args)
            assert not found - said or name in RESTLESS, name
            if found == said:
                break
        if found != said and name not in RESTLESS:
            different[name] = sorted(said - found)[:5]
        assert name not in ("NoLeakGlobal", "DaisyChain") or not found
    assert not different


# ---- a program of locks, by the runtime's own profile ----

TELL = """package main

import (
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
)

func init() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	go func() {
		for range asked {
			out, _ := os.Create(os.Getenv("LEAKS_TO") + ".partial")
			pprof.Lookup("goroutineleak").WriteTo(out, 2)
			out.Close()
			os.Rename(out.Name(), os.Getenv("LEAKS_TO"))
		}
	}()
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("args", ((), ("healthy",)), ids=("all", "without deadlocks"))
def test_locks_that_nobody_can_release_are_leaked_as_by_go(tmp_path, args):
    """What `waiting` calls healthy is no deadlock. But its locks are held by goroutines that wait for channels which
    nobody has any more, so their waiters are leaked, too."""
    source = tmp_path / "waiting"
    shutil.copytree(golang.TESTS / "programs" / "waiting", source)
    (source / "tell.go").write_text(TELL)
    (source / "go.mod").write_text(f"module waiting\n\ngo {golang.language(golang.NEWEST)}\n")
    golang.go(golang.NEWEST, "build", "-o", tmp_path / "program", ".", cwd=source)
    told = tmp_path / "told"
    program = Program(tmp_path / "program", *args, env={"LEAKS_TO": str(told)})
    try:
        found = ids(leaks(program.pid)["leaked"])
        assert ids(leaks("--exact", program.pid)["leaked"]) == found
        for _ in range(4):  # the first ones may miss some
            told.unlink(missing_ok=True)
            os.kill(program.pid, signal.SIGUSR1)
            wait_until(told.exists, what="the profile")
        said = sorted(int(n) for n in re.findall(r"^goroutine (\d+) [^\n]*\(leaked\)", told.read_text(), re.M))
        assert found == said and found
    finally:
        program.stop()
