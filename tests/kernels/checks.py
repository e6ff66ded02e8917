"""What each verb does in an emulated machine, against what the programs there say themselves.

A check has a machine and gives nothing when gospect is right; it raises Lacking with gospect's own words where this
kernel lacks what the verb needs, and AssertionError where gospect is wrong.
"""

import json
import pathlib
import re
import subprocess
import time

from lib import callers, golang, gotrace, pprof, rawprofile, traceback
from lib.emulated import SETPRIV, Program
from lib.requesting import assert_named
from lib.traced import assert_as_counted
from lib.traced_there import Tracing

SECOND = 1_000_000_000
ALICE = f"{SETPRIV} --reuid=1000 --regid=1000 --clear-groups --inh-caps=-all --"
# One percent of an emulated core is nothing.
BUDGET = "--budget 50"


class Lacking(Exception):
    """What gospect says that this kernel lacks."""


class There:
    """A machine, and the programs that a check starts there: each is well at the end."""

    def __init__(self, machine, architecture):
        self.machine, self.architecture, self.programs = machine, architecture, []

    def start(self, name, *args, version=golang.NEWEST, mode=golang.PLAIN, prefix=""):
        binary = self.build(name, version, mode)
        self.programs.append(Program(self.machine, binary, *args, prefix=prefix, seconds=300))
        return self.programs[-1]

    def build(self, name, version=golang.NEWEST, mode=golang.PLAIN):
        return golang.build(name, version, mode, *([golang.ARM64] if self.architecture == "arm64" else []))

    def json_of(self, *args, seconds=120):
        return json.loads(self.machine.gospect(*args, "-f", "json", seconds=seconds).ok().text)

    def file(self, name):
        return self.machine.folder / name

    def end(self):
        try:
            for program in self.programs:
                program.assert_well()
        finally:
            for program in self.programs:
                program.stop()


def ps(there):
    program = there.start("states", "-only=chan", "-extra=1000")
    rows = [line.split() for line in there.machine.gospect("ps").ok().text.splitlines()]
    (row,) = (words for words in rows if words[0] == str(program.pid))
    assert row[1] == f"go{golang.NEWEST}" and int(row[3]) > 1000, row


def dump(there):
    program = there.start("states")
    outside = traceback.parse(there.machine.gospect("dump", program.pid).ok().text)
    inside = traceback.parse(program.stack())
    assert len(inside) > 80
    found = traceback.differences(inside, outside, golang.minor(golang.NEWEST), labels=True,
                                  ignore={g.id for g in traceback.having(inside, "main.control")})
    assert not found, found[:5]


def recorded(there, program, args):
    name = f"{program.pid}.pb.gz"
    said = there.machine.run(f"gospect record -p {program.pid} -d 4 {BUDGET} -o {name} {args}", 120).ok().err
    return pprof.read(there.file(name)), said


def record(there):
    profile, _ = recorded(there, there.start("split"), "")
    waited = profile.time_in("main.waitForever") / (20 * profile.duration_ns)
    assert 0.95 < waited < 1.05, waited


def said_line(said, begin):
    """The message that begins so, without its beginning; "" if gospect has not said it."""
    return next((line.partition(begin)[2] for line in said.splitlines() if begin in line), "")


def on_cpu(there):
    profile, said = recorded(there, there.start("callers"), "--on-cpu -r 200")
    if why := said_line(said, "no on-CPU stacks: "):
        raise Lacking(why)
    right, wrong = callers.judge(profile)
    # On Linux 7.3 for arm64, some of 700 samples have no caller and say so: see kernels.md.in.
    cut = [stack for stack in wrong if there.architecture == "arm64" and stack[1] == "[truncated]"]
    assert right > SECOND / 2 and len(cut) == len(wrong), (right, wrong[:5])
    assert len(cut) <= 5, cut


def labels_at_samples(there):
    """Each handler works for some microseconds under a label of its own."""
    program = there.start("profiled", "http")
    right = wrong = 0
    for _ in range(5):  # a busy machine has few samples
        profile, said = recorded(there, program, "-r 200")
        if why := said_line(said, "may get wrong labels: ") or said_line(said, "no on-CPU stacks: "):
            raise Lacking(why)
        for sample in profile.samples:
            for function, label in ("main.sorted.func1", "sort"), ("main.hashed.func1", "hash"):
                if function in sample.stack and sample.labels["state"] == "running":
                    right += sample.values["cpu"] if sample.labels.get("work") == label else 0
                    wrong += sample.values["cpu"] if sample.labels.get("work") != label else 0
        if right > SECOND / 4:
            break
    assert right > SECOND / 4 and wrong < 0.02 * right, (right, wrong)


def raise_in_gvisor(result, program):
    """Its kernel does not let gospect stop threads."""
    if "is in gVisor" in result.err:
        raise Lacking("a process " + result.err.strip().partition(f"process {program.pid} is ")[2])


def writes_to_code(there):
    """Kernels may forbid that: gospect says so, and leaves the program alone."""
    program = there.start("counted")
    result = there.machine.gospect("trace", "-p", program.pid, "-d", 0.1, "-o", "try.trace")
    if "the kernel forbids it" in result.err:
        left = there.machine.run(f"grep gospect /proc/{program.pid}/maps; grep -l gospect /proc/[0-9]*/comm").text
        assert not left, f"left behind: {left}"
        raise Lacking(result.err.strip().partition(str(program.pid) + ": ")[2])
    raise_in_gvisor(result, program)
    result.ok()


def trace(there):
    writes_to_code(there)
    for version in golang.OLDEST, golang.NEWEST:
        program = there.start("counted", version=version)
        traced = Tracing(there.machine, program)
        did = json.loads(program.ask("work"))
        traced.end()
        assert_as_counted(did, gotrace.read_valid(traced.file), version)


def trace_command(there):
    writes_to_code(there)
    path = there.machine.put(there.build("brief", mode=golang.LDFLAGS_SW))
    result = there.machine.run(f"gospect trace -o brief.trace -- {path} 7", 120)
    assert result.status == 7 and result.text == "did 1012\n", result.err
    logs = gotrace.programs_logs(gotrace.read_valid(there.file("brief.trace")))
    assert logs["child=brief"] == 1000 and logs["init=brief"] == 7, logs


def report(there):
    """In the sandbox that this kernel gives."""
    writes_to_code(there)
    there.machine.run(f"gospect trace -o r.trace -- {there.machine.put(there.build('brief', mode=golang.LDFLAGS_SW))} 7",
                      120)
    rows = there.json_of("report", "r.trace", "--by", "root", "-n", 0)
    (row,) = (row for row in rows if row["name"] == "main.child")
    assert row["goroutines"] == 20, row


def offcpu(there):
    writes_to_code(there)
    program = there.start("named", mode=golang.STRIPPED)
    traced = Tracing(there.machine, program, verb="offcpu", args="-n 0 -f json")
    requests = json.loads(program.ask("serve http 300 4 " + golang.NEWEST.split(".")[1]))
    assert_named(requests, json.loads(traced.end().out))


def waits(there):
    program = there.start("waiting")
    found = json.loads(there.machine.gospect("waits", program.pid, "-f", "json", seconds=120).ok().text)
    truth = json.loads(program.ask("truth"))
    cycles = {frozenset(step["goroutine"] for step in cycle) for cycle in found["cycles"]}
    assert cycles == {frozenset(ids) for ids in truth["Deadlocks"]}


def why(there):
    program = there.start("waiting")
    said = there.machine.gospect("why", program.pid, seconds=120).ok().text
    assert said.startswith("Hung: a deadlock"), said


def check_leaks(there, *args):
    program = there.start("leaking")
    truth = json.loads(program.ask("truth"))
    wanted = sorted(goid for ids in truth["Leaked"].values() for goid in ids)
    for _ in range(5):
        result = there.machine.gospect("leaks", *args, program.pid, "-f", "json", seconds=120)
        raise_in_gvisor(result, program)
        found = json.loads(result.ok().text)
        if sorted(goid for group in found["leaked"] for goid in group["goroutines"]) == wanted:
            return
        time.sleep(1)
    raise AssertionError(found["leaked"])


def leaks(there):
    check_leaks(there)


def exact(there):
    check_leaks(there, "--exact")


def heap(there):
    program = there.start("kept", prefix="GOGC=off")
    assert program.ask("gc") == "ok"
    assert program.ask("write heap /share/own.pb.gz") == "ok"
    there.machine.gospect("heap", program.pid, "-o", "ours.pb.gz").ok()
    own, ours = (rawprofile.read(there.file(name)).nonzero() for name in ("own.pb.gz", "ours.pb.gz"))
    assert len(own) >= 4 and own == ours, rawprofile.differences(own, ours)


def retained(there):
    program = there.start("leaking")
    found = there.json_of("heap", "--retained", program.pid)
    assert max(row["bytes"] for row in found["types"]) >= 4 << 20, found["types"][:5]


def memory(there):
    program = there.start("leaking")
    found = there.json_of("memory", program.pid)
    # VmRSS of older kernels is what each thread has added up so far.
    folder = f"/proc/{program.pid}"
    rollup = there.machine.run(f"grep ^Rss: {folder}/smaps_rollup || grep ^VmRSS: {folder}/status").ok().text
    rss = int(rollup.split()[1]) * 1024
    assert abs(found["rss_bytes"] - rss) < 0.05 * rss, (found["rss_bytes"], rss)


def watch(there):
    program = there.start("incidents")
    there.machine.run(f"""
        gospect watch -p {program.pid} --interval 0.2 --when 'goroutines > 500' -o w 2>watch.err & watcher=$!
        sleep 2; {program.sending('hold 600')}
        for second in $(seq 30); do ls w-*dump.txt 2>/dev/null && break; sleep 1; done
        kill -INT $watcher; wait $watcher""", 90)
    found = [path.name for path in there.machine.folder.glob("w-*")]
    assert len(found) == 1 and "goroutines" in found[0], (found, there.file("watch.err").read_text())


def top(there):
    program = there.start("callers")
    there.machine.run(f"""
        export TERM=xterm
        (sleep 8; printf q) | script -qec 'stty rows 40 cols 120; gospect top {program.pid}' top.out >/dev/null""", 60)
    assert b"burn" in there.file("top.out").read_bytes()


def serve(there):
    program = there.start("states", "-only=chan")
    answer = there.machine.run(f"""
        gospect serve -p {program.pid} --listen 127.0.0.1:6061 2>serve.err & server=$!
        for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1; wget -qO- 'http://127.0.0.1:6061/debug/pprof/goroutine?debug=1' && break; done
        kill -INT $server; wait $server""", 60).text
    assert re.match(r"goroutine profile: total \d+\n", answer), (answer[:200], there.file("serve.err").read_text())


def stack(there):
    program = there.start("states", "-only=chan")
    found = traceback.parse(there.machine.gospect("dump", program.pid).ok().text)
    goid = next(g.id for g in found.values() if "main.control" not in g.functions() and g.state.startswith("chan"))
    assert "main." in there.machine.gospect("stack", program.pid, "-g", goid).ok().text


# ---- what may be forbidden ----

def set_to(there, name, value):
    there.machine.run(f"echo {value} >/proc/sys/{name}").ok()


def denied_alice(there, program, *args):
    return there.machine.gospect(*args, program.pid, prefix=ALICE).fails(1)


def yama(there):
    """Scopes 1 and 2 for a user."""
    if there.machine.run("test -e /proc/sys/kernel/yama/ptrace_scope").status:
        raise Lacking("this kernel has no Yama")
    program = there.start("states", "-only=chan", prefix=ALICE)
    try:
        for scope in 1, 2:
            set_to(there, "kernel/yama/ptrace_scope", scope)
            assert f"kernel.yama.ptrace_scope is {scope}" in denied_alice(there, program, "dump")
    finally:
        set_to(there, "kernel/yama/ptrace_scope", 0)
    there.machine.gospect("dump", program.pid, prefix=ALICE).ok()


def without_perf(there):
    """The most that perf_event_paranoid forbids: Debian's kernels have 3, Ubuntu's 4."""
    program = there.start("callers", prefix=ALICE)
    debian = not there.machine.run("grep -q Debian /proc/version").status
    try:
        set_to(there, "kernel/perf_event_paranoid", 3 if debian else 4)
        there.machine.run("mkdir -p a && chmod 777 a")
        result = there.machine.run(f"{ALICE} gospect record -p {program.pid} -d 2 {BUDGET} -o a/p.pb.gz", 60).ok()
        assert "kernel.perf_event_paranoid is" in said_line(result.err, "no on-CPU stacks: "), result.err
        running = {sample.stack[0] for sample in pprof.read(there.file("a/p.pb.gz")).samples
                   if sample.labels["state"] == "running"}
        assert running == {"[running]"}, running
    finally:
        set_to(there, "kernel/perf_event_paranoid", -1)


def hidepid(there):
    program = there.start("states", "-only=chan")
    try:
        there.machine.run("mount -o remount,hidepid=2 /proc").ok()
        assert "hidepid" in denied_alice(there, program, "dump")
    finally:
        there.machine.run("mount -o remount,hidepid=0 /proc").ok()


# Allows everything but ptrace.
PROFILE = """
profile confined {path} {{
  capability, network, file, mount, umount, pivot_root, signal, dbus, unix,
  deny ptrace,
}}
"""
APPARMOR = "/sys/kernel/security/apparmor"
SECURITYFS = "mountpoint -q /sys/kernel/security || mount -t securityfs none /sys/kernel/security\n"


def load_profile(there, path):
    """A profile for the program of that path, compiled for what this kernel's AppArmor has."""
    there.machine.run(f"test -d features || cp -r {APPARMOR}/features features").ok()
    there.file("profile").write_text(PROFILE.format(path=path))
    subprocess.run(["apparmor_parser", "--skip-kernel-load", "--skip-cache", "--features-file", there.file("features"),
                    "--ofile", there.file("profile.bin"), there.file("profile")], capture_output=True, check=True)
    there.machine.run(f"cat profile.bin >{APPARMOR}/.load").ok()


def assert_forbidden(there, program, command, label):
    for verb in "dump", "record -d 1 -o p.pb.gz", "trace -d 1 -o p.trace", "leaks --exact", "doctor -p":
        result = there.machine.run(f"{command} {verb} {program.pid}")
        assert result.status == 1 and f"a security module (SELinux, AppArmor, Landlock) forbids it to '{label}'; " \
            "allow it" in result.err + result.text, (verb, result.err, result.text)


def apparmor(there):
    """A confined program is read from outside; a confined gospect says whose rule stops it."""
    if there.machine.run(f"{SECURITYFS} test -e {APPARMOR}/.load").status:
        raise Lacking("this kernel does not have AppArmor on")
    there.machine.run("cp /usr/bin/gospect /tmp/gospect").ok()
    try:
        load_profile(there, there.machine.put(there.build("states")))
        program = there.start("states", "-only=chan")
        confined = there.machine.run(f"cat /proc/{program.pid}/attr/current").ok().text.strip()
        assert confined == "confined (enforce)", confined
        there.machine.gospect("dump", program.pid).ok()
        unload_profile(there)
        load_profile(there, "/tmp/gospect")
        assert_forbidden(there, program, "/tmp/gospect", "confined (enforce)")
    finally:
        unload_profile(there)
        there.machine.run("rm /tmp/gospect")


def unload_profile(there):
    there.machine.run(f"printf confined >{APPARMOR}/.remove")


SELINUX = "/sys/fs/selinux"
POLICY = pathlib.Path(__file__).with_name("selinux.conf")


def labelled(kind):
    """Begins a command that gets this type."""
    return f"""sh -c 'printf system_u:system_r:{kind} >/proc/self/attr/exec; exec "$0" "$@"'"""


def load_policy(there):
    subprocess.run(["checkpolicy", "-U", "allow", "-c", "30", "-o", there.file("policy"), POLICY], capture_output=True, check=True)
    there.machine.run(f"""
        mount -t selinuxfs none {SELINUX} && dd if=policy of={SELINUX}/load bs=1M && echo 1 >{SELINUX}/enforce""").ok()


def selinux(there):
    """A program with a type of its own is read from outside; gospect with one that may not names it."""
    if there.machine.run(f"test -d {SELINUX}").status:
        raise Lacking("this kernel has no SELinux")
    load_policy(there)
    there.start("states", "-only=chan", prefix=labelled("program_t"))
    program = there.programs[0]
    label = there.machine.run(f"cat /proc/{program.pid}/attr/current").ok().text.strip("\0\n")
    assert label == "system_u:system_r:program_t", label
    there.machine.gospect("dump", program.pid).ok()
    assert_forbidden(there, program, labelled("confined_t") + " gospect", "system_u:system_r:confined_t")


def lockdown(there):
    """It stays until the next boot."""
    if there.machine.run(f"{SECURITYFS} test -e /sys/kernel/security/lockdown").status:
        raise Lacking("this kernel has no lockdown")
    for level in "integrity", "confidentiality":
        there.machine.run(f"echo {level} >/sys/kernel/security/lockdown").ok()
        doctor = there.machine.gospect("doctor").text
        assert re.search(rf"^ok  lockdown +{level}: ", doctor, re.MULTILINE), doctor
    for check in dump, on_cpu, labels_at_samples, memory, exact, trace:
        try:
            check(there)
        except Lacking as lacking:  # the same as without
            if "needs Linux 5.5" not in str(lacking):
                raise


def yama_3(there):
    """Nobody attaches to anything until the next boot, also not root or a parent."""
    if there.machine.run("test -e /proc/sys/kernel/yama/ptrace_scope").status:
        raise Lacking("this kernel has no Yama")
    rule = "kernel.yama.ptrace_scope is 3, which forbids it until the next boot; boot with 2 or less"
    program = there.start("states", "-only=chan", prefix=ALICE)
    set_to(there, "kernel/yama/ptrace_scope", 3)
    for who in "", ALICE:
        for verb in ("dump", "stack -g 1", "record -d 1 -o /tmp/p.pb.gz", "trace -d 1 -o /tmp/p.trace", "offcpu -d 1",
                     "waits", "why", "heap -o /tmp/h.pb.gz", "memory", "leaks", "leaks --exact",
                     "watch --when 'goroutines > 1' -o /tmp/w"):
            result = there.machine.run(f"{who} gospect {verb} -p {program.pid}")
            said = result.err.splitlines()
            assert result.status == 1 and len(said) == 1, (verb, said)
            assert re.fullmatch(f"gospect: cannot (read|watch) process {program.pid}.*: permission denied: {rule}", said[0])
    result = there.machine.run(f"gospect record -o /tmp/p.pb.gz -- {program.path} -only=chan >/dev/null; ls /tmp")
    assert rule in result.err and "p.pb.gz" not in result.text, (result.err, result.text)
    assert re.search(r"^no  yama ptrace_scope +3: .*boot with 2 or less", there.machine.gospect("doctor").text, re.MULTILINE)


VERBS = {
    "ps": ps, "dump": dump, "stack": stack, "record": record, "CPU samples": on_cpu,
    "labels at each sample": labels_at_samples, "top": top, "trace": trace, "trace -- COMMAND": trace_command,
    "offcpu": offcpu, "report": report, "waits": waits, "why": why, "heap": heap, "heap --retained": retained, "memory": memory, "leaks": leaks,
    "leaks --exact": exact, "watch": watch, "serve": serve,
}
# In machines of their own, by the kernel's command line.
BOOTED = {"SELinux": (selinux, "selinux=1 security=selinux")}
# Lockdown and Yama 3 cannot be undone: they come last.
DENIALS = {"Yama 1 and 2": yama, "perf forbidden": without_perf, "hidepid": hidepid, "AppArmor": apparmor,
           "lockdown": lockdown, "Yama 3": yama_3}
