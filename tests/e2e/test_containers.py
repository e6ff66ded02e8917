"""Programs in containers, and what the kernel forbids: denials say their cause and a remedy."""

import errno
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from lib import container, golang, gospect, pprof, traceback
from lib.process import Program, status

NOBODY = 65534
SECCOMP = pathlib.Path(gospect.__file__).with_name("seccomp.py")
# What Docker leaves to root of a container.
DOCKER = ("chown,dac_override,fowner,fsetid,kill,setgid,setuid,setpcap,net_bind_service,net_raw,"
          "sys_chroot,mknod,audit_write,setfcap")
DOCKER_CAPS = "--bounding-set=-all," + ",".join("+" + name for name in DOCKER.split(","))

pytestmark = pytest.mark.skipif(container.why_not() is not None, reason=str(container.why_not()))


def as_user(uid):
    return ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all",
            "--")


def without(*capabilities):
    drop = ",".join("-" + name for name in capabilities)
    return ("setpriv", f"--bounding-set={drop}", "--inh-caps=-all", "--")


@pytest.fixture
def folder():
    """One that every user can reach."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        os.chmod(name, 0o755)
        yield pathlib.Path(name)


@pytest.fixture
def tool(folder):
    """A gospect that every user can run."""
    return shutil.copy(gospect.BINARY, folder)


@pytest.fixture
def contained(targets):
    """A program in a container, in every namespace of its own."""
    binary = golang.build("states", golang.NEWEST, golang.STRIPPED)
    program = container.Contained(binary, "-only=chan", "-spin=1")
    targets.own.append(program)
    return program


def start_as(targets, user, folder, mode=0o755, **kwargs):
    """A copy of a program, run by another user."""
    copy = pathlib.Path(shutil.copy(golang.build("states", golang.NEWEST), folder / "states"))
    copy.chmod(mode)
    targets.own.append(Program("setpriv", *as_user(user)[1:], copy, "-only=chan", **kwargs))
    return targets.own[-1]


def holds_channels(goroutines):
    """That is what the program was started with."""
    states = {g.state for g in goroutines.values()}
    return {"chan receive", "chan send", "chan receive (nil chan)"} <= states


def dump(*prefix, pid, binary):
    return traceback.parse(gospect.run("dump", "-p", pid, prefix=prefix, binary=binary).ok().text)


def denied(*prefix, pid, binary):
    return gospect.run("dump", "-p", pid, prefix=prefix, binary=binary).fails(1)


def assert_says(line, *words):
    missing = [word for word in words if word not in line]
    assert not missing, f"{missing} should be in: {line}"


# A program in a container, from wherever one may look at it

def test_a_container_is_one(contained):
    ids = status(contained.pid)["NSpid"].split()
    assert ids == [str(contained.pid), str(contained.inner)] and contained.inner == 1
    for name in "mnt", "pid", "net", "ipc", "uts", "user":
        theirs, ours = (os.readlink(f"/proc/{pid}/ns/{name}") for pid in (contained.pid, "self"))
        assert theirs != ours
    assert status(contained.pid)["Uid"].split()[0] == str(container.HOST_USER)
    assert os.listdir(f"/proc/{contained.pid}/root/app") == ["states"]


def test_host_dumps_a_container(contained):
    outside = gospect.dump(contained.pid)
    inside = traceback.parse(contained.stack())
    ignore = {g.id for func in ("main.control", "main.spin")
              for g in traceback.having(inside, func)}
    assert holds_channels(outside)
    assert traceback.differences(inside, outside, golang.minor(golang.NEWEST), ignore=ignore) == []


def test_host_lists_a_container(contained):
    rows = gospect.run("ps").ok().text.splitlines()
    row = next(row.split() for row in rows if row.split()[0] == str(contained.pid))
    assert row[1] == f"go{golang.NEWEST}" and int(row[3]) > 5
    assert row[5] == contained.path


def assert_runs_in(program, pid, prefix=(), name="x.pb.gz", there=None):
    """The goroutine that always runs was found by its thread, and has its real stack. Recorded as that pid behind
    the prefix, which knows the file as `there`; for longer, where much else runs and it gets little of the
    processor."""
    for seconds in 1, 4, 16:
        gospect.run("record", "-p", pid, "-d", seconds, *gospect.BUDGET, "-o", there or name, prefix=prefix).ok()
        profile = pprof.read(pathlib.Path(name))
        spin = profile.time_in("main.spin", "cpu")
        if spin > 0.05e9:
            break
    busy = profile.total("cpu", lambda s: s.labels["state"] == "running")
    stacks = [(s.stack, s.labels, s.values) for s in profile.samples if s.values["cpu"]]
    assert spin > 0.05e9 and spin >= 0.9 * busy, (spin, busy, stacks, profile.comments)
    assert {file for _, _, file, _ in profile.mappings} == {program.path}


def test_host_records_a_container(contained):
    assert_runs_in(contained, contained.pid)


def beside(program, *more):
    """In the pid namespace of the container only, with a /proc for it: a sidecar that shares it."""
    return ("nsenter", "-t", str(program.pid), "--pid", *more, "unshare", "--mount-proc")


def test_sidecar_dumps_and_records(contained):
    assert holds_channels(dump(*beside(contained), pid=contained.inner, binary=gospect.BINARY))
    assert_runs_in(contained, contained.inner, beside(contained))


def test_sidecar_in_the_user_namespace_dumps(contained, tool):
    prefix = beside(contained, "--user")
    assert holds_channels(dump(*prefix, pid=contained.inner, binary=tool))


def test_host_dumps_a_user_namespace(contained, tool):
    prefix = ("nsenter", "-t", str(contained.pid), "--user")
    assert holds_channels(dump(*prefix, pid=contained.pid, binary=tool))


def test_owner_of_a_container_dumps_it(contained, tool):
    prefix = as_user(container.HOST_USER)
    assert holds_channels(dump(*prefix, pid=contained.pid, binary=tool))


def debug_container(program, folder, *capabilities):
    """An ephemeral debug container: the target's pid, network and IPC namespaces, its own root."""
    for tool in "/usr/bin/setpriv", gospect.BINARY:
        image_of(tool, folder)
    (folder / "proc").mkdir(exist_ok=True)
    more = "".join(f",+{name}" for name in capabilities)
    return ("nsenter", "-t", str(program.pid), "--pid", "--net", "--ipc", "unshare", "--mount",
            container.PYTHON, str(container.PIVOT), str(folder), "/usr/bin/setpriv",
            DOCKER_CAPS + more, "--inh-caps=-all", "--")


def image_of(binary, folder):
    """Puts the binary and its libraries into a folder, as an image would."""
    listed = subprocess.run(["ldd", binary], capture_output=True, text=True).stdout.split()
    for path in [binary, *(word for word in listed if word.startswith("/"))]:
        to = folder / str(path).lstrip("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)


def test_debug_container_dumps_and_records(contained, folder):
    prefix = debug_container(contained, folder, "sys_ptrace")
    assert holds_channels(dump(*prefix, pid=contained.inner, binary=gospect.BINARY))
    (folder / "out").mkdir()
    assert_runs_in(contained, contained.inner, prefix, folder / "out/x.pb.gz", "/out/x.pb.gz")


def test_a_debug_container_without_the_capability_is_told(contained, folder):
    line = denied(*debug_container(contained, folder), pid=contained.inner, binary=gospect.BINARY)
    assert_says(line, "root without CAP_SYS_PTRACE", "--cap-add SYS_PTRACE",
                "kubectl debug --profile=sysadmin")


def test_root_of_a_container_without_a_user_namespace_reads_its_equal(targets, tool):
    """As Docker has it: root, no CAP_SYS_PTRACE on either side, one pid namespace."""
    program = targets.start("states", args=("-only=chan",))
    weak = Program("setpriv", DOCKER_CAPS, "--inh-caps=-all", "--", program.binary, "-only=chan")
    targets.own.append(weak)
    prefix = ("setpriv", DOCKER_CAPS, "--inh-caps=-all", "--")
    assert holds_channels(dump(*prefix, pid=weak.pid, binary=tool))
    line = denied(*prefix, pid=program.pid, binary=tool)
    assert_says(line, "CAP_DAC_READ_SEARCH and others", "--cap-add SYS_PTRACE")


# Binaries that are no more

@pytest.mark.parametrize("change", ["deleted", "replaced"])
def test_a_binary_that_is_gone_is_still_the_one_that_runs(targets, folder, change):
    copy = pathlib.Path(shutil.copy(golang.build("states", golang.NEWEST), folder / "states"))
    program = Program(copy, "-only=chan")
    targets.own.append(program)
    before = gospect.dump(program.pid)
    copy.unlink()
    if change == "replaced":
        shutil.copy(golang.build("states", golang.OLDEST), copy)
    assert gospect.dump(program.pid) == before and holds_channels(before)
    gospect.run("record", "-p", program.pid, "-d", "0.3", *gospect.BUDGET, "-o", "x.pb.gz").ok()
    (_, _, file, build_id), *more = pprof.read(pathlib.Path("x.pb.gz")).mappings
    assert not more and file == str(copy)
    notes = subprocess.run(["readelf", "-n", golang.build("states", golang.NEWEST)], check=True,
                           capture_output=True, text=True).stdout
    assert f"Build ID: {build_id}" in notes


# Without a system call that a container engine may forbid

def forbidding(calls, error="EPERM"):
    return (container.PYTHON, str(SECCOMP), calls, error)


@pytest.mark.parametrize("error", ["EPERM", "ENOSYS", "EACCES", "EINVAL"])
def test_the_filter_forbids_what_it_should(error):
    code = ("import ctypes, os, sys; libc = ctypes.CDLL(None, use_errno=True);"
            "libc.process_vm_readv(os.getpid(), None, 0, None, 0, 0);"
            "print(ctypes.get_errno())")
    plain = subprocess.run([container.PYTHON, "-c", code], capture_output=True, text=True)
    under = subprocess.run([*forbidding("process_vm_readv", error), container.PYTHON, "-c", code],
                           capture_output=True, text=True)
    assert plain.stdout.strip() == "0"
    assert under.stdout.strip() == str(getattr(errno, error)), under.stderr


@pytest.mark.parametrize("error", ["EPERM", "ENOSYS", "EACCES", "EINVAL"])
def test_dump_without_process_vm_readv_reads_proc(states, error):
    prefix = forbidding("process_vm_readv", error)
    outside = dump(*prefix, pid=states.pid, binary=gospect.BINARY)
    inside = traceback.parse(states.stack())
    ignore = {g.id for g in traceback.having(inside, "main.control")}
    assert len(inside) > 80
    assert traceback.differences(inside, outside, golang.minor(golang.NEWEST), ignore=ignore) == []


def test_recording_without_process_vm_readv_is_complete(targets):
    program = targets.start("states", args=("-only=chan", "-spin=1"))
    gospect.run("record", "-p", program.pid, "-d", "1", *gospect.BUDGET, "-o", "x.pb.gz",
                prefix=forbidding("process_vm_readv")).ok()
    assert pprof.read(pathlib.Path("x.pb.gz")).time_in("main.spin") > 0.9e9


@pytest.mark.parametrize("error", ["EPERM", "ENOSYS"])
def test_recording_without_perf_says_so(targets, error):
    program = targets.start("states", args=("-only=chan", "-spin=1"))
    result = gospect.run("record", "-p", program.pid, "-d", "1", *gospect.BUDGET, "-o", "x.pb.gz",
                         prefix=forbidding("perf_event_open", error)).ok()
    assert_says(result.words[0], "no on-CPU stacks", "seccomp filter",
                "perf_event_open", "--cap-add PERFMON")
    profile = pprof.read(pathlib.Path("x.pb.gz"))
    assert profile.total("wall") > 5e9
    assert any("seccomp filter" in comment for comment in profile.comments)


# What is denied

def test_another_users_process_names_that_user(targets, tool, folder):
    program = targets.start("states", args=("-only=chan",))
    line = denied(*as_user(NOBODY), pid=program.pid, binary=tool)
    assert_says(line, f"cannot read process {program.pid}: permission denied", "belongs to root", "with sudo")


def test_watch_names_the_process_that_it_may_not_read(targets, tool, folder):
    program = start_as(targets, NOBODY, folder)
    line = gospect.run("watch", program.pid, "-o", folder / "w", "--when", "goroutines > 1", binary=tool,
                       prefix=as_user(NOBODY - 1)).fails(1)
    assert line.startswith(f"gospect: cannot watch process {program.pid} (states): permission denied: it belongs to ")


def test_the_same_user_needs_nothing_more(targets, tool, folder):
    if pathlib.Path("/proc/sys/kernel/yama/ptrace_scope").exists():
        pytest.skip("Yama decides here")
    program = start_as(targets, NOBODY, folder)
    assert holds_channels(dump(*as_user(NOBODY), pid=program.pid, binary=tool))


@pytest.fixture
def undumpable():
    """A process of the user nobody that is undumpable."""
    code = ("import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); print('ready', flush=True);"
            "input()")
    process = subprocess.Popen([*as_user(NOBODY), container.PYTHON, "-c", code],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    yield process
    process.communicate(b"\n")
    assert process.returncode == 0


def test_an_undumpable_process_is_said_to_be_so(undumpable, tool):
    line = denied(*as_user(NOBODY), pid=undumpable.pid, binary=tool)
    assert_says(line, "undumpable", "with sudo")


def test_sudo_is_not_proposed_where_it_does_not_work(undumpable, tool):
    prefix = ("setpriv", "--no-new-privs", *as_user(NOBODY)[1:])
    line = denied(*prefix, pid=undumpable.pid, binary=tool)
    assert_says(line, "undumpable", "docker run --cap-add SYS_PTRACE", "kubectl debug")
    assert "sudo" not in line


def test_root_without_the_capability_is_told_which(targets, tool, folder):
    weak = without("sys_ptrace")
    ours = targets.start("states", args=("-only=chan",))
    line = denied(*weak, pid=ours.pid, binary=tool)
    assert_says(line, "CAP_SYS_PTRACE, which gospect lacks", "--cap-add SYS_PTRACE")
    theirs = start_as(targets, NOBODY, folder)
    line = denied(*weak, pid=theirs.pid, binary=tool)
    assert_says(line, "belongs to nobody", "root without CAP_SYS_PTRACE", "--cap-add SYS_PTRACE")


def test_a_programs_file_that_may_not_be_read_is_named(targets, tool, folder):
    copy = shutil.copy(golang.build("states", golang.NEWEST), folder / "states")
    os.chown(copy, NOBODY, NOBODY)
    os.chmod(copy, 0o700)
    program = Program(copy, "-only=chan")
    targets.own.append(program)
    line = denied(*without("dac_override", "dac_read_search"), pid=program.pid, binary=tool)
    assert_says(line, "but not its program file", str(copy), "CAP_DAC_READ_SEARCH")


def test_the_capability_to_read_files_is_needed_for_another_users_process(targets, tool, folder):
    program = start_as(targets, NOBODY, folder)
    line = denied(*without("dac_override", "dac_read_search"), pid=program.pid, binary=tool)
    assert_says(line, "belongs to nobody", "CAP_SYS_PTRACE but not CAP_DAC_READ_SEARCH",
                "--cap-add DAC_READ_SEARCH")
    assert holds_channels(dump(*without("dac_override"), pid=program.pid, binary=tool))


def test_root_of_an_inner_user_namespace_is_told_so(targets, tool):
    program = targets.start("states", args=("-only=chan",))
    line = denied("unshare", "--user", "--map-root-user", pid=program.pid, binary=tool)
    assert_says(line, "another user namespace", "has no effect", "on the host")


@pytest.mark.parametrize("other", ["process", "container"])
def test_a_user_without_a_name_in_an_inner_user_namespace(targets, tool, folder, contained, other):
    pid = contained.pid if other == "container" else start_as(targets, NOBODY, folder).pid
    prefix = (*as_user(1234), "unshare", "--user", "--map-root-user")
    line = denied(*prefix, pid=pid, binary=tool)
    assert_says(line, "another user namespace", "on the host")


def with_hidepid(value, *prefix):
    script = f'mount -t proc -o hidepid={value} proc /proc && exec "$@"'
    return ("unshare", "--mount", "sh", "-c", script, "sh", *prefix)


@pytest.mark.parametrize("value", ["noaccess", "invisible", "ptraceable"])
def test_hidepid_is_named(targets, tool, value):
    program = targets.start("states", args=("-only=chan",))
    line = denied(*with_hidepid(value, *as_user(NOBODY)), pid=program.pid, binary=tool)
    assert_says(line, f"hidepid={value}", "with sudo", "remount")
    gone = denied(*with_hidepid(value, *as_user(NOBODY)), pid=0x3ffffffe, binary=tool)
    assert_says(gone, "no such process")


def test_hidepid_does_not_hide_ones_own(targets, tool, folder):
    program = start_as(targets, NOBODY, folder)
    prefix = with_hidepid("invisible", *as_user(NOBODY))
    assert holds_channels(dump(*prefix, pid=program.pid, binary=tool))


def test_an_inner_pid_namespace_does_not_see_the_process(targets):
    program = targets.start("states", args=("-only=chan",))
    line = denied("unshare", "--pid", "--fork", "--mount-proc", pid=program.pid,
                  binary=gospect.BINARY)
    assert_says(line, "no such process", "pid namespace", "--pid=container:ID", "--target=",
                "shareProcessNamespace")


def test_a_proc_of_another_pid_namespace_is_not_believed(contained):
    line = denied("unshare", "--pid", "--fork", pid=contained.pid, binary=gospect.BINARY)
    assert_says(line, "another pid namespace", "nsenter", "mount -t proc")
    # The mount namespace of a container alone: what one does who forgets --pid.
    only_mount = ("nsenter", "-t", str(contained.pid), "--mount")
    image = pathlib.Path(f"/proc/{contained.pid}/root")
    image_of(gospect.BINARY, image)
    line = denied(*only_mount, pid=contained.inner, binary=gospect.BINARY)
    assert_says(line, "another pid namespace", "nsenter")
    for verb in ("ps",), ("dump", "-p", "states"), ("watch", "--host", "--when", "goroutines > 1", "-o", "w"):
        found = gospect.run(*verb, prefix=("unshare", "--pid", "--fork"))
        assert_says(found.fails(1), "another pid namespace", "nsenter", "mount -t proc")
        assert not found.text
    both = (*only_mount, "--pid")
    assert holds_channels(dump(*both, pid=contained.inner, binary=gospect.BINARY))


def test_a_root_without_proc_is_said(folder):
    image_of(gospect.BINARY, folder)
    line = denied("chroot", str(folder), pid=1, binary=gospect.BINARY)
    assert_says(line, "/proc is not mounted", "mount")
