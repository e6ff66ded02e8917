"""gospect doctor: what works here, what does not, and what to do about that."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from lib import golang, gospect, tracing
from lib.process import wait_until

VERBS = ("ps", "dump", "stack", "record", "top", "record, on-CPU", "trace", "offcpu")
FACTS = ("kernel", "user", "capabilities", "yama ptrace_scope", "perf_event_paranoid",
         "kptr_restrict", "lockdown", "seccomp", "user namespace", "hidepid", "reading", "process_vm_readv",
         "ptrace", "perf_event_open", "bpf")
SECCOMP = gospect.ROOT / "tests" / "lib" / "seccomp.py"


def parts(result):
    """Each part of what it said: {name: (works, text)} by the part's head."""
    assert result.err == ""
    found = {"this machine and user": {}}
    heads = {"machine": "this machine and user", "process": "process"}
    for line in json.loads(result.text):
        about = "verbs" if line["kind"] == "verb" and line["about"] == "machine" else heads[line["about"]]
        found.setdefault(about, {})[line["name"]] = (line["ok"], line["text"])
    return found


def doctor(*args, run=gospect.run, status=None, **kwargs):
    result = run("doctor", "-f", "json", *args, **kwargs)
    found = parts(result)
    last = list(found.values())[-1]
    works = all(ok for verb, (ok, _) in last.items() if verb in VERBS)
    assert result.status == (0 if works else 1)
    assert set(VERBS) <= set(last)
    return found


def status_of_self(name):
    lines = open("/proc/self/status", encoding="ascii").read().splitlines()
    return next(line.split()[1] for line in lines if line.startswith(name + ":"))


def test_doctor_reports_this_machine():
    facts = doctor()["this machine and user"]
    assert set(FACTS) <= set(facts)
    assert os.uname().release in facts["kernel"][1]
    paranoid = open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii").read().strip()
    assert facts["perf_event_paranoid"][1].startswith(paranoid)
    has_ptrace = int(status_of_self("CapEff"), 16) >> 19 & 1
    assert ("SYS_PTRACE" in facts["capabilities"][1].split(" (")[0].split()) == has_ptrace


def test_a_process_of_ours_is_in_order(states):
    found = doctor("-p", states.pid)["process"]
    assert all(ok for ok, _ in found.values()), found
    assert found["program"][1] == str(states.binary)
    assert found["Go"][1].startswith(f"go{golang.NEWEST}, static")
    rows = [line.split() for line in gospect.run("ps").ok().text.splitlines()]
    row = next(row for row in rows if row[0] == str(states.pid))
    assert found["goroutines"][1] == f"{row[3]}, in {row[4]} threads"
    assert found["traced by"][1] == "nobody"


def test_verbs_with_the_same_finding_share_a_line(states, run_as_nobody):
    text = gospect.run("doctor").ok().text
    assert len(set(text.splitlines())) == len(text.splitlines())
    assert re.search(r"^ok  ps, dump, stack, waits, why, .*, record, top, watch, serve, push: reads the memory of ", text, re.M)
    text = run_as_nobody("doctor", states.pid).text
    about = text.split(f"process {states.pid}:\n")[1].splitlines()
    assert len(about) == 2 and about[1].endswith("offcpu: for the reason above")


def test_a_stopped_process_is_said(targets):
    program = targets.start("states", args=("-only=chan",))
    os.kill(program.pid, signal.SIGSTOP)
    wait_until(lambda: open(f"/proc/{program.pid}/stat").read().split(")")[1].split()[0] == "T")
    try:
        assert not doctor(program.pid)["process"]["state"][0]
        for verb in (("dump",), ("record", "-d", "100ms", "-o", "p.pb.gz")):
            assert f"kill -CONT {program.pid}" in gospect.run(verb[0], program.pid, *verb[1:]).ok().err
    finally:
        os.kill(program.pid, signal.SIGCONT)
    assert doctor(program.pid)["process"]["state"][0]
    assert not gospect.run("dump", program.pid).ok().err


def test_the_user_nobody_is_told_the_owner_and_the_remedy(states, run_as_nobody):
    found = doctor("-p", states.pid, run=run_as_nobody)
    assert found["this machine and user"]["user"][1].startswith("nobody")
    assert found["this machine and user"]["capabilities"][1].startswith("none")
    process = found["process"]
    ok, why = process["process"]
    assert not ok and "belongs to root" in why and "run gospect" in why
    assert not any(process[verb][0] for verb in VERBS)


def test_the_user_nobody_may_read_its_own_processes(run_as_nobody):
    found = doctor(run=run_as_nobody)
    if int(open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii").read()) > 2:
        pytest.skip("the kernel here lets nobody sample")
    assert all(found["verbs"][verb][0] for verb in VERBS), found["verbs"]
    assert "require CAP_SYS_PTRACE" in found["verbs"]["dump"][1]


@pytest.mark.parametrize("call,finding,verb", [("process_vm_readv", "process_vm_readv", None),
                                               ("ptrace", "ptrace", "trace"),
                                               ("bpf", "bpf", None),
                                               ("perf_event_open", "perf_event_open",
                                                "record, on-CPU")])
def test_a_forbidden_call_is_found_with_what_it_is_for(call, finding, verb):
    found = doctor(prefix=(sys.executable, str(SECCOMP), call, "EPERM"))
    facts = found["this machine and user"]
    assert not facts[finding][0] and facts["seccomp"][1].startswith("a filter")
    assert facts["reading"][0], "there is another way to read"
    assert [name for name, (ok, _) in found["verbs"].items() if not ok] == ([verb] if verb else [])


def test_doctor_reports_a_program_that_is_not_go():
    with subprocess.Popen(["sleep", "100"]) as process:
        try:
            found = doctor("-p", process.pid)["process"]
        finally:
            process.kill()
    assert "not a Go program" in found["process"][1]


def test_a_process_that_is_not_there_is_said():
    found = doctor("-p", 2 ** 22 + 1)["process"]
    assert not found["process"][0] and "no such process" in found["process"][1]


def test_doctor_names_the_tracer_and_refuses_trace_only(states):
    code = ("import ctypes, sys, time\n"
            "libc = ctypes.CDLL(None, use_errno=True)\n"
            "assert not libc.ptrace(0x4206, int(sys.argv[1]), None, None)\n"
            "print('traced', flush=True); time.sleep(60)")
    tracer = subprocess.Popen([sys.executable, "-c", code, str(states.pid)],
                              stdout=subprocess.PIPE)
    try:
        assert tracer.stdout.readline() == b"traced\n"
        found = doctor("-p", states.pid)["process"]
    finally:
        tracer.kill()
        tracer.wait()
        tracer.stdout.close()
    assert not found["traced by"][0] and str(tracer.pid) in found["traced by"][1]
    assert [verb for verb in VERBS if not found[verb][0]] == ["trace"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may suspend filters")
def test_a_filter_of_one_thread_is_found_and_stops_a_user_who_may_not_suspend_it(targets):
    program = targets.start("sandboxed", args=("errno",))
    found = doctor("-p", program.pid)["process"]
    assert re.match(r"a filter is active on 3 of \d+ threads", found["seccomp"][1])
    assert found["seccomp"][0] and found["trace"][0]
    found = doctor("-p", program.pid, prefix=(
        "setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"))
    found = found["process"]
    assert not found["trace"][0] and "seccomp filter" in found["trace"][1]
    assert [verb for verb in VERBS if not found[verb][0]] == ["trace"]


def test_doctor_removes_a_stale_agent(targets, tmp_path):
    program = targets.start("states", golang.NEWEST)
    trace = gospect.start("trace", "-p", program.pid, "-d", "60", "-o", tmp_path / "x.trace")
    try:
        wait_until(lambda: tracing.mappings(program.pid), what="the agent")
        time.sleep(0.3)
        during = doctor("-p", program.pid)["process"]
    finally:
        tracing.kill_unguarded(trace)
        trace.stdout.close()
        trace.stderr.close()
    assert not during["stale agent"][0], "it is still at work"
    found = doctor("-p", program.pid)["process"]
    assert found["stale agent"][0] and "removed the agent" in found["stale agent"][1]
    tracing.assert_untouched(program)
    again = doctor("-p", program.pid)["process"]
    assert again["stale agent"][1] == "none"


@pytest.mark.parametrize("args,part", [(("-p", "0"), "invalid process id"), (("1", "extra"), "extra")])
def test_wrong_options_are_usage(args, part):
    assert part in gospect.run("doctor", *args).fails(2)
