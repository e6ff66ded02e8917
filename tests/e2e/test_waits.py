"""gospect waits against what the program knows of itself: tests/programs/waiting."""

import concurrent.futures
import json
import os
import pathlib
import re
import resource
import signal
import subprocess

import pytest

from lib import golang, gospect
from lib.params import every_build

LOCKS = ("mutex", "rwmutex", "waitgroup")


def waits(*args):
    return json.loads(gospect.run("waits", "-f", "json", *args).ok().text)


def truth_of(program):
    return json.loads(program.ask("truth"))


def cycles(found, key):
    return {frozenset(step["goroutine"] for step in cycle) for cycle in found[key]}


def sets(lists):
    return {frozenset(ids) for ids in lists or []}


def ids(items):
    return sorted(item["goroutine"] for item in items)


def object_of(found, wanted):
    """The object with the address, or, of one without an address, the one with these waiters."""
    address = wanted["Address"] if wanted["Address"].startswith("0x") else None
    match = [o for o in found["objects"] if o["kind"] == wanted["Kind"] and
             (o["address"] == address if address else set(wanted["Waiters"]) <= set(ids(o["waiters"])))]
    assert len(match) == 1, (wanted, match)
    return match[0]


def check_object(found, wanted):
    o = object_of(found, wanted)
    if wanted["Address"].startswith("0x"):
        assert ids(o["waiters"]) == sorted(wanted["Waiters"]), wanted
    holders = {h["goroutine"]: h["certainty"] for h in o["holders"]}
    if wanted["Kind"] in LOCKS:
        assert {g for g, certainty in holders.items() if certainty == "proved"} == set(wanted["Holders"] or []), o
    assert not set(wanted["NotHolders"] or []) & set(holders), o  # a proof leaves no candidates
    return o


@every_build(modes=(golang.PLAIN, golang.STRIPPED))
def test_waits_knows_waiters_holders_and_deadlocks(targets, version, mode):
    program = targets.keep("waiting", version, mode)
    truth, found = truth_of(program), waits(program.pid)
    assert cycles(found, "cycles") == sets(truth["Deadlocks"])
    assert cycles(found, "suspicions") == sets(truth["Suspected"])
    assert not found["unknown"] and not found["truncated"]
    for wanted in truth["Objects"]:
        o = check_object(found, wanted)
        if wanted["Name"] and mode == golang.PLAIN:
            assert o["name"] == wanted["Name"]


def test_the_members_of_objects_are_the_programs(targets):
    program = targets.keep("waiting", golang.NEWEST)
    truth, found = truth_of(program), waits(program.pid)
    channels = [o for o in found["objects"] if o["kind"] == "channel" and o["address"]]
    assert {(2, 2, False)} == {(o["len"], o["cap"], o["closed"]) for o in channels if o["cap"]}
    select = [w for o in channels for w in o["waiters"] if w["cases"]]
    assert sorted(w["side"] for w in select) == ["receive", "send"] and {w["cases"] for w in select} == {2}
    locked = [o for o in found["objects"] if o["kind"] == "mutex"]
    assert locked and all(o["locked"] for o in locked)
    timers = [o for o in found["objects"] if o["kind"] == "timer"]
    assert any(3500e9 < o["due_ns"] < 3600e9 for o in timers)
    assert [o["counter"] for o in found["objects"] if o["kind"] == "waitgroup"] == [1]
    network = [o for o in found["objects"] if o["kind"] == "network"]
    assert len({o["fd"] for o in network}) == len(network) >= 2
    ends = {(o["local"], o["remote"]) for o in network}
    assert (truth["Dialed"], truth["Listen"]) in ends and (truth["Listen"], None) in ends
    for fd in (o["fd"] for o in network):
        assert os.readlink(f"/proc/{program.pid}/fd/{fd}").startswith(("socket:", "pipe:"))


def test_text_says_deadlocks_first_and_dot_draws_them(targets):
    program = targets.keep("waiting", golang.NEWEST)
    text = gospect.run("waits", program.pid).ok().text
    assert text.startswith("deadlock: a goroutine waits for an object that it holds itself\n  goroutine ")
    assert "\n\ndeadlock: 2 goroutines wait for each other\n  goroutine " in text
    assert "main.globalFirst" in text and "took it in line" in text
    # The same order whatever slots the goroutines have: the shortest, and of these the oldest.
    cycles = [[int(i) for i in re.findall(r"^  goroutine (\d+) in", block, re.MULTILINE)]
              for block in text.split("\n\n") if block.startswith("deadlock: ")]
    assert len(cycles) > 5 and cycles == sorted(cycles, key=lambda ids: (len(ids), ids[0]))
    assert all(ids[0] == min(ids) for ids in cycles)
    graph = gospect.run("waits", program.pid, "-f", "dot").ok().text
    assert graph.startswith("digraph waits {\n") and graph.endswith("}\n") and graph.count("color=red") >= 70


def test_a_healthy_program_has_no_cycle(targets):
    program = targets.keep("waiting", golang.NEWEST, args=("healthy",))
    for _ in range(30):
        found = waits(program.pid)
        assert not found["cycles"] and not found["suspicions"]
    for wanted in truth_of(program)["Objects"]:
        check_object(found, wanted)


def test_a_core_file_says_what_the_process_said(tmp_path):
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if pattern.startswith(("|", "/")):
        pytest.skip(f"the kernel's cores go elsewhere: core_pattern is {pattern!r}")
    binary = golang.build("waiting", golang.NEWEST, golang.PLAIN)
    with subprocess.Popen([binary], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          env={**os.environ, "GOTRACEBACK": "crash"},
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (-1, -1))) as process:
        assert process.stdout.readline().startswith(b"ready")
        process.stdin.write(b"truth\n")
        process.stdin.flush()
        truth = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGABRT)
        process.wait(60)
    core, = (p for p in tmp_path.iterdir() if p.name.startswith("core"))
    found = waits("--core", core)
    assert cycles(found, "cycles") == sets(truth["Deadlocks"])
    for wanted in truth["Objects"]:
        check_object(found, wanted)


def test_wrong_formats_are_refused():
    assert "use text, json or dot" in gospect.run("waits", "-f", "xml", os.getpid()).fails(2)


# Bugs of real programs, as Go's own tests of leaked goroutines keep them. Their README says of each what it is:
# "Resource" (locks), "Communication" (channels, conditions), or "Mixed".
DRIVER = """package main

import (
	"fmt"
	"os"
	"time"
)

const yieldCount = 10

var cmds = map[string]func(){}

func register(name string, f func()) { cmds[name] = f }

func main() {
	out := os.Stdout
	os.Stdout, _ = os.OpenFile("/dev/null", os.O_WRONLY, 0)
	for _, name := range os.Args[1:] {
		f := cmds[name]
		for i := 0; i < 5; i++ {
			go func() {
				defer func() { recover() }()
				f()
			}()
		}
	}
	time.Sleep(3 * time.Second)
	fmt.Fprintln(out, "ready")
	time.Sleep(time.Hour)
}
"""
# Bugs of locks with a deadlock that is proved whenever they happen.
PROVED = {"Cockroach3710", "Cockroach6181", "Cockroach7504", "Cockroach9935", "Etcd10492", "Etcd6708", "Hugo5379",
          "Kubernetes30872", "Kubernetes62464", "Moby4951", "Syncthing4829"}
# The holder of the lock is not proved in these: the function that took the lock has returned, called Lock through an
# interface, or locks it a second time. `waits` shows the waits, perhaps with candidates and a suspected deadlock.
NOT_PROVED = {"Cockroach10214", "Cockroach16167", "Cockroach584", "Etcd5509", "Grpc3017", "Grpc795", "Hugo3251",
              "Kubernetes13135", "Kubernetes58107", "Moby17176", "Moby36114", "Moby7559"}
# It is filed as one of locks, and is one of a channel.
CHANNEL = {"Cockroach18101"}
# In most runs nothing goes wrong with these.
MOST_RARE = 8


def goker(folder):
    """The programs of each type, in one binary."""
    source = pathlib.Path(golang.go(golang.NEWEST, "env", "GOROOT").strip()) / "src/runtime/testdata/testgoroutineleakprofile/goker"
    for path in source.glob("*.go"):
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "main.go").write_text(DRIVER)
    (folder / "go.mod").write_text("module goker\n\ngo 1.26\n")
    golang.go(golang.NEWEST, "build", "-o", "goker", ".", cwd=folder)
    rows = re.findall(r"^\|\[(\w+)#(\d+)\]\|.*\|\s*(\w+)\s*\|[^|]*\|$", (source / "README.md").read_text(), re.M)
    return {f"{project.capitalize()}{number}": kind for project, number, kind in rows}


def waits_of(folder, name):
    with subprocess.Popen([folder / "goker", name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout.readline() == b"ready\n"
        try:
            return waits(process.pid)
        finally:
            process.kill()


def own_waiters(found, kinds):
    """Of the objects of these kinds, but for main's own sleep, and for the functions that write a profile at the end."""
    return [w["func"] for o in found["objects"] if o["kind"] in kinds for w in o["waiters"]
            if not re.fullmatch(r"main\.(main|\w+\.func1)", w["func"])]


@pytest.mark.slow
@pytest.mark.time_limit(900)
def test_bugs_of_real_programs_are_classified(tmp_path):
    types = goker(tmp_path)
    assert len(types) >= 63 and PROVED | NOT_PROVED | CHANNEL == {name for name, kind in types.items() if kind == "Resource"}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = dict(zip(types, pool.map(lambda name: waits_of(tmp_path, name), types)))
    wrong, rare = [], []
    for name, kind in types.items():
        locks = own_waiters(found[name], ("mutex", "rwmutex"))
        others = own_waiters(found[name], ("channel", "select", "cond", "waitgroup"))
        cycles = found[name]["cycles"]
        if not locks and not others:
            rare.append(name)
        # A proved deadlock consists of locks: a goroutine that waits for a channel may still be woken.
        if cycles and name not in PROVED:
            wrong.append((name, "a deadlock", cycles[0]))
        if name in PROVED and locks and not cycles:
            wrong.append((name, "no deadlock"))
        if (kind == "Communication" or name in CHANNEL) and locks:
            wrong.append((name, "waits for locks", locks[:3]))
        if found[name]["unknown"]:
            wrong.append((name, "not known", found[name]["unknown"]))
        assert all(step["waits_for"] and step["holds"] for cycle in cycles for step in cycle), name
    assert not wrong and len(rare) <= MOST_RARE, (wrong, rare)
