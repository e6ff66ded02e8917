"""The process that parses a target's program and memory has no privilege to lose."""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

from lib import golang, gospect, process, terminal, tracing
from lib.process import wait_until

CAP_IPC_LOCK, CAP_SYS_PTRACE, CAP_SYS_NICE, CAP_BPF = 14, 19, 23, 39
FEW = 1 << CAP_IPC_LOCK | 1 << CAP_SYS_PTRACE | 1 << CAP_SYS_NICE | 1 << CAP_BPF

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def wait_until_confined(pid):
    wait_until(lambda: process.status(pid)["Seccomp"] == "2", what="gospect to be confined")
    return process.status(pid)


def assert_confined(status):
    assert status["Seccomp"] == "2"
    assert status["NoNewPrivs"] == "1"
    assert int(status["CapEff"], 16) & ~FEW == 0
    assert int(status["CapPrm"], 16) & ~FEW == 0
    assert int(status["CapInh"], 16) == 0


@needs_root
def test_a_recording_has_few_capabilities_and_a_filter(states, tmp_path):
    recording = gospect.start("record", "-p", states.pid, "-d", 30, "-o", tmp_path / "p.pb.gz")
    try:
        assert_confined(wait_until_confined(recording.pid))
        threads = list(pathlib.Path(f"/proc/{recording.pid}/task").iterdir())
        for thread in threads:
            assert_confined(process.status(f"{recording.pid}/task/{thread.name}"))
        gospect.await_recording(recording)
    finally:
        recording.terminate()
        recording.communicate(timeout=60)
    assert recording.returncode == 0
    assert (tmp_path / "p.pb.gz").stat().st_size


@needs_root
@pytest.mark.skipif(terminal.why_not() is not None, reason=str(terminal.why_not()))
def test_top_has_few_capabilities_and_a_filter(states):
    with terminal.Terminal(gospect.BINARY, "top", "-p", states.pid) as t:
        t.wait_for("goroutines")
        for thread in pathlib.Path(f"/proc/{t.pid}/task").iterdir():
            assert_confined(process.status(f"{t.pid}/task/{thread.name}"))
        t.press("q")
        assert t.status() == 0


@needs_root
@pytest.mark.skipif(not shutil.which("strace"), reason="strace is missing")
def test_doctor_itself_does_not_open_what_the_target_has(states, tmp_path):
    """A worker reads it, which has few capabilities and a filter by then."""
    log = tmp_path / "log"
    result = gospect.run("doctor", "-p", states.pid,
                         prefix=("strace", "-f", "-o", log, "-e",
                                 "trace=openat,process_vm_readv,seccomp"))
    assert " threads\n" in result.text  # a traced process cannot trace, which doctor says, too
    calls = [line.split(None, 1) for line in log.read_text().splitlines()]
    doctor = calls[0][0]
    filtered = {pid for pid, call in calls if call.startswith("seccomp(") and " = 0" in call}
    readers = {pid for pid, call in calls if call.startswith(f"process_vm_readv({states.pid},")}
    openers = {pid for pid, call in calls if re.search(r'openat\(\d+, "exe"', call)}
    assert filtered and readers and openers, calls
    assert doctor not in filtered | openers
    assert readers <= filtered | {doctor}
    # It asks whether it may read, as everybody does who opens a process.
    # What another process interrupts is in two lines, of which the second has the result.
    assert all(re.search(r" = (-1 \w+|[0-8])\b|<unfinished ...>$", call) for pid, call in calls
               if pid == doctor and re.match(r"(<\.\.\. )?process_vm_readv", call)), calls
    assert not [call for pid, call in calls if pid == doctor and "exe" in call]


@needs_root
@pytest.mark.skipif(not shutil.which("strace"), reason="strace is missing")
def test_doctor_does_not_open_the_program_of_which_it_removes_the_agent(untouched, tmp_path):
    """It parsed it with all capabilities."""
    program = untouched(tracing.hectic(golang.NEWEST), "-calm", "-only=channels,births")
    tracing.probe(program.pid, 0.05, fault="attached", guarded=False)
    assert tracing.is_patched(program.pid)
    log = tmp_path / "log"
    result = gospect.run("doctor", "-p", program.pid,
                         prefix=("strace", "-f", "-o", log, "-e", "trace=openat"))
    assert "removed the agent" in result.text
    calls = [line.split(None, 1) for line in log.read_text().splitlines()]
    openers = {pid for pid, call in calls if re.search(r'openat\(\d+, "exe"', call)}
    assert openers and calls[0][0] not in openers
    tracing.assert_untouched(program)


@needs_root
def test_the_broker_ends_with_a_recording_that_is_killed(states, tmp_path):
    recording = gospect.start("record", "-p", states.pid, "-d", 30, "-o", tmp_path / "p.pb.gz")
    wait_until_confined(recording.pid)
    children = pathlib.Path(f"/proc/{recording.pid}/task/{recording.pid}/children")
    broker = [int(pid) for pid in children.read_text().split()]
    assert len(broker) == 1
    recording.kill()
    out, err = recording.communicate(timeout=5)  # the end of both is seen at once
    assert (out, err) == (b"", b"")
    wait_until(lambda: not pathlib.Path(f"/proc/{broker[0]}").exists()
               or process.status(broker[0])["State"].startswith("Z"), what="the end of the broker")
    assert list(tmp_path.iterdir()) == []


@needs_root
def test_a_file_that_a_core_names_is_not_read_unless_it_is_a_program(tmp_path, targets):
    """A forged core file may name any program: it must not be a file of root's."""
    states = targets.keep("states", golang.NEWEST, golang.STRIPPED)  # gcore reads all symbols
    core = tmp_path / "core"
    subprocess.run(["gcore", "-o", core, str(states.pid)], check=True, capture_output=True)
    core = tmp_path / f"core.{states.pid}"
    program = os.readlink(f"/proc/{states.pid}/exe").encode()
    with tempfile.NamedTemporaryFile(dir="/tmp", prefix="g") as secret:
        secret.write(b"root's own")
        name = secret.name.encode().ljust(len(program), b"\0")
        assert len(name) == len(program), "the program's path has no room for the other"
        core.write_bytes(core.read_bytes().replace(program, name))
        result = gospect.run("dump", "--core", core)
    assert result.status == 1
    assert "Permission denied" in result.err, result.err


TRACES = {"trace": ("trace", "-o", "t.trace"), "offcpu": ("offcpu", "--by", "request", "-o", "t.txt")}


def children(pid):
    """By their names, with those of theirs."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if int(process.status(folder.name)["PPid"]) == pid:
                found[process.comm(folder.name)] = int(folder.name)
    return found


@needs_root
@pytest.mark.parametrize("verb", TRACES)
def test_tracing_process_has_few_capabilities_and_cannot_write_to_the_target(untouched, tmp_path, verb):
    program = untouched(tracing.hectic(golang.NEWEST), "-calm", "-only=channels,births")
    name, *args = TRACES[verb]
    traced = gospect.start(name, "-p", program.pid, "-d", 30, *args, cwd=tmp_path)
    try:
        assert_confined(wait_until_confined(traced.pid))
        wait_until(lambda: tracing.is_patched(program.pid), what="the hooks")
        kept = 0
        for thread in pathlib.Path(f"/proc/{traced.pid}/task").iterdir():
            status = process.status(f"{traced.pid}/task/{thread.name}")
            assert_confined(status)
            kept |= int(status["CapEff"], 16)
        assert verb != "trace" or kept & ~(1 << CAP_SYS_PTRACE | 1 << CAP_SYS_NICE) == 0
        for fd in pathlib.Path(f"/proc/{traced.pid}/fd").iterdir():
            try:
                flags = pathlib.Path(f"/proc/{traced.pid}/fdinfo/{fd.name}").read_text().split()[3]
                link = os.readlink(fd)
            except FileNotFoundError:  # it has been closed
                continue
            assert not link.endswith("/mem") or int(flags, 8) & os.O_ACCMODE == os.O_RDONLY
        surgeon = children(traced.pid)["gospect-surgeon"]
        opened = {os.readlink(fd) for fd in pathlib.Path(f"/proc/{surgeon}/fd").iterdir()}
        assert not any(link.startswith(str(path)) for link in opened
                       for path in (tmp_path, program.binary)), opened
    finally:
        traced.terminate()
        _, err = traced.communicate(timeout=60)
    assert traced.returncode == 0 or b"gRPC handler" in err, err  # it has none


class Calls:
    """System calls of a gospect and of its children, by strace: (pid, call), as they happened."""

    LINE = re.compile(r"^(\d+) +(?:<\.\.\. )?(\w+)(.*)$")

    def __init__(self, file):
        self.all, begun = [], {}
        for m in filter(None, map(self.LINE.match, file.read_text().splitlines())):
            pid, rest = int(m[1]), m[3]
            if rest.endswith(" <unfinished ...>"):
                begun[pid] = rest.removesuffix(" <unfinished ...>")
                continue
            if rest.startswith(" resumed>"):
                rest = begun.pop(pid) + rest.removeprefix(" resumed>")
            self.all.append((pid, m[2], rest))
        self.main = self.all[0][0]

    def of(self, pids, *names):
        return [(i, rest) for i, (pid, name, rest) in enumerate(self.all)
                if pid in pids and name in names]

    def started_by(self, pid):
        """Processes and threads, directly and not."""
        found = [int(rest.rpartition("= ")[2]) for _, rest in self.of({pid}, "clone", "clone3", "fork", "vfork")
                 if rest.rpartition("= ")[2].strip().isdigit()]
        return found + [k for f in found for k in self.started_by(f)]


@needs_root
@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
@pytest.mark.parametrize("verb", TRACES)
def test_parser_cannot_trace_and_tracer_parses_nothing(untouched, tmp_path, verb):
    """The program was parsed by root with all capabilities, who then traced it."""
    program = untouched(tracing.hectic(golang.NEWEST), "-calm", "-only=channels,births")
    log = tmp_path / "calls"
    name, *args = TRACES[verb]
    subprocess.run(["strace", "-f", "-qq", "-o", log, "-e",
                    "trace=openat,open,ptrace,seccomp,capset,clone,clone3,fork,vfork,process_vm_writev,prctl",
                    gospect.BINARY, name, "-p", str(program.pid), "-d", "0.3", *args], check=False,
                   capture_output=True, cwd=tmp_path, timeout=60)
    calls = Calls(log)
    halves = {rest: pid for pid, call, rest in calls.all
              if call == "prctl" and "PR_SET_NAME" in rest and pid != calls.main}
    surgeon = next(pid for rest, pid in halves.items() if "gospect-surgeon" in rest)
    broker = next(pid for rest, pid in halves.items() if "gospect-broker" in rest)
    surgeons = {surgeon, *calls.started_by(surgeon)}
    others = {pid for pid, _, _ in calls.all} - surgeons

    # It is confined first; only then does anybody open the program, for it to be parsed.
    confined = next(i for i, rest in calls.of({calls.main}, "seccomp")
                    if "SECCOMP_SET_MODE_FILTER" in rest and rest.endswith("= 0"))
    parsed = [i for i, rest in calls.of({broker, calls.main}, "openat", "open") if '"exe"' in rest]
    assert parsed and min(parsed) > confined
    assert not [rest for i, rest in calls.of({calls.main}, "openat", "open")
                if i > confined and "EPERM" not in rest]
    # Only the surgeon traces and writes, and it opens only files that the kernel writes.
    assert calls.of(surgeons, "ptrace") and not calls.of(others, "ptrace")
    assert not calls.of(others, "process_vm_writev")
    assert not [rest for _, rest in calls.of(others, "openat") if "/mem\"" in rest and "O_RDWR" in rest]
    opened = [rest for _, rest in calls.of(surgeons, "openat", "open") if "ENOENT" not in rest]
    kernels = re.compile(r'AT_FDCWD, "(/proc/(self|\d+)[/"]|/sys/|/dev/null)|^\(\d+, "(mem|auxv|maps|task|status|stat|\.)"')
    strange = [rest for rest in opened if not kernels.search(rest)]
    assert opened and not strange, strange
    assert not [rest for rest in opened if re.search(r'"(exe|.*/exe|.*map_files.*|.*/root/.*)"', rest)]


# What reads a target in any way but as above; a file, if it writes one.
READING = {
    "dump": ("--values", "--locals"), "stack": ("-g", "1"), "waits": (), "leaks": ("--exact",), "memory": (),
    "why": ("-d", "0.3"), "heap": ("--retained", "--exact"), "record": ("--children", "-d", "0.3", "-o", "r.pb.gz"),
    "offcpu": ("--sampled", "-d", "0.3"), "watch": ("-o", "w", "--when", "goroutines > 1000000"),
    "push": ("--to", "pyroscope", "http://127.0.0.1:9", "--spool", "spool", "--interval", "1s"),
}
ENDLESS = {"watch", "push"}
QUICK = {"leaks", "record", "watch"}


@needs_root
@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
@pytest.mark.parametrize("verb", [verb if verb in QUICK else pytest.param(verb, marks=pytest.mark.slow)
                                  for verb in READING])
def test_whoever_reads_a_target_is_confined_before(states, tmp_path, verb):
    log = tmp_path / "calls"
    limit = ("timeout", "-s", "INT", "3") if verb in ENDLESS else ()
    subprocess.run([*limit, "strace", "-f", "-qq", "-o", log, "-e",
                    "trace=openat,seccomp,clone,clone3,fork,vfork,process_vm_readv", gospect.BINARY, verb,
                    "-p", str(states.pid), *READING[verb]], check=False, capture_output=True, cwd=tmp_path,
                   timeout=100)
    calls = Calls(log)
    confined = {pid: i for i, (pid, name, rest) in enumerate(calls.all)
                if name == "seccomp" and "SECCOMP_SET_MODE_FILTER" in rest and rest.endswith("= 0")}
    since = {thread: i for pid, i in confined.items() for thread in (*calls.started_by(pid), pid)} | confined
    # Whether one may read, some ask before, by a word.
    reads = [(i, pid) for i, (pid, name, rest) in enumerate(calls.all) if name == "process_vm_readv"
             and rest.startswith(f"({states.pid},") and int(rest.rpartition("= ")[2].split()[0]) > 8]
    assert reads and confined
    assert all(pid in since and i > since[pid] for i, pid in reads)
    openers = {pid for pid, name, rest in calls.all if name == "openat" and '"exe"' in rest and "= -1" not in rest}
    assert openers and not openers & set(confined)
