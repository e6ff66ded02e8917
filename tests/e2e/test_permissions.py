"""If gospect may not read a program, it names the rule and the remedy.

In an emulated machine with Debian's kernel: it has Yama, and the level 3 of perf_event_paranoid.
"""

import pytest

from lib import arm64, golang, traceback

pytestmark = pytest.mark.time_limit(180)

ALICE = f"{arm64.SETPRIV} --reuid=1000 --regid=1000 --clear-groups --inh-caps=-all --"
BOB = f"{arm64.SETPRIV} --reuid=1001 --regid=1001 --clear-groups --inh-caps=-all --"
ROOT_WITHOUT_PTRACE = f"{arm64.SETPRIV} --bounding-set=-sys_ptrace --inh-caps=-sys_ptrace --"
ROOT_WITHOUT_PERF = f"{arm64.SETPRIV} --bounding-set=-cap_38,-sys_admin --inh-caps=-all --"
YAMA = "kernel/yama/ptrace_scope"
PERF = "kernel/perf_event_paranoid"


@pytest.fixture
def machine(arm64_machine):
    yield arm64_machine
    arm64_machine.run(f"echo 0 >/proc/sys/{YAMA}; echo -1 >/proc/sys/{PERF}; "
                      "mount -o remount,hidepid=0 /proc").ok()


def set_to(machine, name, value):
    machine.run(f"echo {value} >/proc/sys/{name}").ok()


def binary():
    return golang.build("split", golang.NEWEST, golang.PLAIN, golang.ARM64)


@pytest.fixture
def program(machine):
    """Alice's."""
    program = arm64.Program(machine, binary(), prefix=ALICE)
    yield program
    program.assert_well()
    program.stop()


def may_dump(machine, program, who):
    found = traceback.parse(machine.gospect("dump", "-p", program.pid, prefix=who).ok().text)
    assert len(traceback.having(found, "main.waitForever")) == 20


def denied(machine, program, who):
    """The part of gospect's message behind the process."""
    line = machine.gospect("dump", "-p", program.pid, prefix=who).fails(1)
    head = f"gospect: cannot read process {program.pid}: permission denied: "
    assert line.startswith(head)
    return line[len(head):]


# Yama

@pytest.mark.parametrize("scope,cause,remedy", [
    (1, "kernel.yama.ptrace_scope is 1, which allows parent processes only",
     "run gospect with sudo, or set it to 0 on the host"),
    pytest.param(2, "kernel.yama.ptrace_scope is 2, which requires CAP_SYS_PTRACE",
                 "run gospect with sudo", marks=arm64.TAKES_TIME)])
def test_yama_is_named_to_the_programs_own_user(machine, program, scope, cause, remedy):
    may_dump(machine, program, ALICE)
    set_to(machine, YAMA, scope)
    assert denied(machine, program, ALICE) == f"{cause}; {remedy}"
    rows = machine.gospect("ps", prefix=ALICE).ok().text.splitlines()
    (at,) = (i for i, row in enumerate(rows) if row.split()[0] == str(program.pid))
    assert f"go{golang.NEWEST}" in rows[at] and cause in rows[at + 1]
    may_dump(machine, program, "")


@pytest.mark.parametrize("scope", [pytest.param(0, marks=arm64.TAKES_TIME), 1])
def test_yama_lets_a_parent_look(machine, scope):
    set_to(machine, YAMA, scope)
    path = machine.put(binary())
    result = machine.run(f"{ALICE} gospect dump -o /tmp/dump -- {path} -for 3s "
                         ">/dev/null; status=$?; cat /tmp/dump; rm /tmp/dump; exit $status")
    assert result.status == 3, result.err  # the program's own
    assert traceback.parse(result.text)
    result = machine.run(f"{ALICE} gospect record -d 1 --budget 50 -o /tmp/p.folded -- {path} "
                         "-for 8s >/dev/null; status=$?; cat /tmp/p.folded; rm /tmp/p.folded; "
                         "exit $status")
    assert result.status == 3, result.err
    # It is recorded from its first goroutine on; the emulated machine may not get much further in a second.
    assert "runtime.main" in result.text


def test_yama_2_refuses_a_parent(machine):
    set_to(machine, YAMA, 2)
    result = machine.run(f"{ALICE} gospect record -o /tmp/p.folded -- {machine.put(binary())} "
                         "-for 1s >/dev/null; status=$?; ls /tmp/p.folded; exit $status")
    assert result.status == 1
    assert "kernel.yama.ptrace_scope is 2" in result.err
    assert result.out == b"", "a file was left behind"


@arm64.TAKES_TIME  # it boots a machine of its own
@pytest.mark.parametrize("who", [ALICE, BOB, "", ROOT_WITHOUT_PTRACE],
                         ids=["owner", "other", "root", "root-without-ptrace"])
def test_yama_3_refuses_everybody(closed_machine, who):
    machine, program = closed_machine
    assert denied(machine, program, who) == (
        "kernel.yama.ptrace_scope is 3, which forbids it until the next boot; boot "
        "with 2 or less")


@pytest.fixture(scope="module")
def closed_machine():
    """One of its own: what was forbidden to everybody cannot be allowed again."""
    reason = arm64.why_not()
    if reason:
        pytest.skip(reason)
    machine = arm64.Machine(processors=1, memory=512)
    program = arm64.Program(machine, binary(), prefix=ALICE)
    set_to(machine, YAMA, 3)
    yield machine, program
    machine.stop()


# Capabilities and users

def test_another_user_is_told_whose_it_is(machine, program):
    assert denied(machine, program, BOB) == \
        "it belongs to alice; run gospect as that user or with sudo"


def test_another_user_is_not_sent_where_yama_forbids_it(machine, program):
    set_to(machine, YAMA, 1)
    assert denied(machine, program, BOB) == "it belongs to alice; run gospect with sudo"


def test_root_without_cap_sys_ptrace_is_told_which_capability(machine, program):
    said = denied(machine, program, ROOT_WITHOUT_PTRACE)
    assert said.startswith("it belongs to alice, and gospect is root without CAP_SYS_PTRACE; "
                           "run gospect with CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE")
    root = arm64.Program(machine, binary())
    try:
        assert denied(machine, root, ROOT_WITHOUT_PTRACE).startswith(
            "it has the capability CAP_SYS_PTRACE, which gospect lacks; run gospect with ")
    finally:
        root.stop()


@pytest.mark.parametrize("hidepid,name", [pytest.param(1, "noaccess", marks=arm64.TAKES_TIME), (2, "invisible"),
                                          pytest.param(4, "ptraceable", marks=arm64.TAKES_TIME)])
def test_hidepid_is_named_with_the_mount_to_change(machine, program, hidepid, name):
    machine.run(f"mount -o remount,hidepid={hidepid} /proc").ok()
    assert machine.gospect("dump", "-p", program.pid, prefix=BOB).fails(1) == (
        f"gospect: cannot see process {program.pid}: permission denied: it belongs to another user, and /proc is "
        f"mounted with hidepid={name}; run gospect as that user or with sudo, or remount /proc "
        "(mount -o remount,hidepid=0 /proc)")
    may_dump(machine, program, ALICE)
    may_dump(machine, program, "")


# perf

def record(machine, program, who):
    """Standard error without the summary, and the profile."""
    result = machine.run(
        f"{who} gospect record -p {program.pid} -d 2 --budget 50 -o /tmp/p.folded; status=$?; "
        "cat /tmp/p.folded; rm -f /tmp/p.folded; exit $status").ok()
    assert "main.waitForever" in result.text
    return result.words[:-1], result.text


# Of goroutines with labels.
LABELS_LATE = (
    "gospect: labels of running goroutines are read up to 10 ms late, so shorter CPU bursts may get "
    "wrong labels: eBPF needs CAP_BPF and CAP_PERFMON; run gospect with sudo")


@arm64.TAKES_TIME
def test_perf_level_2_is_enough(machine, program):
    set_to(machine, PERF, 2)
    words, profile = record(machine, program, ALICE)
    assert words in ([], [LABELS_LATE])
    assert "main.burner;main.burn" in profile


@arm64.TAKES_TIME
@pytest.mark.parametrize("level", [3, 4])
@pytest.mark.parametrize("who,remedy", [
    (ALICE, "with sudo"),
    (ROOT_WITHOUT_PERF,
     "with CAP_PERFMON (docker run --cap-add PERFMON; kubectl debug --profile=sysadmin)")],
    ids=["user", "root-without-perfmon"])
def test_record_works_without_perf_and_names_the_setting(machine, program, who, remedy, level):
    set_to(machine, PERF, level)
    words, profile = record(machine, program, who)
    assert words == [
        "gospect: no on-CPU stacks: cannot sample running threads: permission denied: "
        f"kernel.perf_event_paranoid is {level}, which requires CAP_PERFMON; run gospect {remedy}, "
        "or set it to 2 on the host"]
    assert "[running]" in profile
