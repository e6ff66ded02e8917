"""Puts the agent into programs by trace_probe, and says what that has left in them."""

import collections
import os
import pathlib
import platform
import signal
import subprocess
import time

from lib import golang, gospect
from lib.process import SLOWER, comm, status, wait_until

PROBE = pathlib.Path(os.environ.get(
    "GOSPECT_TRACE_PROBE", gospect.BINARY.parent / "src" / "collect" / "trace_probe"))
ARM64 = platform.machine() == "aarch64"

CGO = "cgo"
RACE = "race"
SHARED = "shared"
DEBUG = "debug"
FLAGS = {CGO: (), RACE: ("-race",), SHARED: ("-buildmode=c-shared",),
         DEBUG: ("-gcflags=all=-N -l",)}


def hectic(version, mode=golang.PLAIN):
    """The program hectic, also built with cgo, the race detector, as a library for C, without optimisation."""
    if mode not in FLAGS:
        return golang.build("hectic", version, mode)
    plain = golang.build("hectic", version)
    binary = plain.parent.parent / mode / "hectic"
    with golang.building(binary.parent):
        if not binary.exists():
            binary.parent.mkdir(exist_ok=True)
            env = {**golang.environment(version), "CGO_ENABLED": "1"}
            partial = binary.with_suffix(f".{os.getpid()}")
            subprocess.run([golang.go_command(), "build", *FLAGS[mode], "-o", partial, "."],
                           env=env, cwd=plain.parent.parent / "src", check=True)
            partial.rename(binary)
    return binary


class Probed:
    """What trace_probe said: its counts by name (of the last run, if there were several), and the lines about what
    cannot be."""

    def __init__(self, completed):
        self.status = completed.returncode
        self.err = completed.stderr
        self.out = completed.stdout
        self.counts = collections.Counter()
        self.runs = []
        for line in self.out.splitlines():
            words = line.split()
            if words == ["run"] or not self.runs:
                self.runs.append(collections.Counter())
            self.counts = self.runs[-1]
            if len(words) == 2 and words[1].isdigit():
                self.counts[words[0]] = int(words[1])

    def ok(self):
        assert self.status == 0, f"exit status {self.status}: {self.err}"
        return self

    def sound(self):
        """Goroutines did one thing after the other, unless records were lost."""
        self.ok()
        assert self.counts["events"] > 0
        for counts in self.runs:
            assert counts["backwards"] == 0
            if not counts["lost_records"]:
                assert counts["illegal"] == 0, self.out
                assert counts["unannounced"] == 0, self.out
        return self

    def refused(self):
        """The one line that says why."""
        assert self.status == 1, f"exit status {self.status}: {self.out}"
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        return lines[0]


def probe(pid, seconds, *args, fault=None, victim=None, guarded=True, sent=None,
          timeout=100, prefix=(), surgeon=False, times=None):
    """surgeon: it has a process of its own, in which the places of `fault` are. times: so often, by one process."""
    env = dict(os.environ)
    if times:
        env["PROBE_TIMES"] = str(times)
    if surgeon:
        env["PROBE_SURGEON"] = "1"
    if sent:
        env["GOSPECT_FAULT_SIGNAL"] = str(int(sent))
    if fault:
        env["GOSPECT_FAULT"] = fault
    if not guarded:
        env["GOSPECT_FAULT_UNGUARDED"] = "1"
    if victim:
        env["GOSPECT_FAULT_VICTIM"] = str(victim)
    command = [*prefix, PROBE, str(pid), str(seconds), *map(str, args)]
    return Probed(subprocess.run(command, env=env, capture_output=True, text=True,
                                 timeout=timeout * SLOWER))


def start(pid, seconds):
    """One that runs on; it has put the agent in when this returns."""
    process = subprocess.Popen([PROBE, str(pid), str(seconds)], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "GOSPECT_FAULT": "list"})
    for line in process.stderr:
        if line.strip() == "fault-point attached":
            return process
    raise AssertionError(f"the probe ended: {process.stdout.read()}")


def start_until(pid, fault, stop=signal.SIGSTOP):
    """One that has sent itself a stop signal at that place, and has stopped. In a process group of
    its own: job control stops only what has a parent in another one."""
    process = subprocess.Popen([PROBE, str(pid), "0.1"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, process_group=0,
                               env={**os.environ, "GOSPECT_FAULT": fault,
                                    "GOSPECT_FAULT_SIGNAL": str(int(stop))})
    wait_until(lambda: status(process.pid)["State"][0] == "T")
    return process


def clean(pid):
    """What inject_clean() says."""
    return probe(pid, -1).ok().out.strip()


def maps(pid):
    lines = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
    return [line.split(maxsplit=5) for line in lines]


def changed_bytes(program):
    """How many bytes of the program's code, and of its libraries', are not as in their files."""
    changed = 0
    with open(f"/proc/{program.pid}/mem", "rb", 0) as memory:
        for line in maps(program.pid):
            if "x" not in line[1] or not line[-1].startswith("/") or line[-1].startswith("/memfd:"):
                continue
            start, end = (int(part, 16) for part in line[0].split("-"))
            memory.seek(start)
            with open(f"/proc/{program.pid}/root{line[-1]}", "rb") as file:
                file.seek(int(line[2], 16))
                now, then = memory.read(end - start), file.read(end - start)
            if now != then[:len(now)]:
                changed += sum(a != b for a, b in zip(now, then))
    return changed


def mappings(pid):
    """The sizes of what is mapped of gospect's."""
    sizes = []
    for line in maps(pid):
        if line[-1].startswith("/memfd:gospect-"):
            start, end = (int(part, 16) for part in line[0].split("-"))
            sizes.append(end - start)
    return sizes


def stubs_page(pid):
    """Where the jumps of hooked functions lead; None: nowhere."""
    return next((int(line[0].split("-")[0], 16) for line in maps(pid)
                 if "memfd:gospect-code" in line[-1] and line[2] == "00000000"), None)


def begins_with_jump(code):
    """amd64's jmp, arm64's b."""
    return code[3] >> 2 == 0b000101 if ARM64 else code[0] == 0xE9


def is_patched(pid):
    """The first function that is hooked begins with a jump: all threads stand still until the last
    one does (inject/code_page.h: struct code_head)."""
    head = stubs_page(pid)
    if head is None:
        return False
    with open(f"/proc/{pid}/mem", "rb") as memory:
        try:
            memory.seek(head + 152)
            memory.seek(int.from_bytes(memory.read(8), "little"))
            return begins_with_jump(memory.read(4))
        except OSError:  # the page of the trace before
            return False


def is_switched_on(pid):
    """Hooks come to the agent (inject/code_page.h: struct code_head and code_control)."""
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(stubs_page(pid) + 48)
        memory.seek(int.from_bytes(memory.read(8), "little"))
        return int.from_bytes(memory.read(4), "little") != 0


def is_surgeon_of(pid, gospect):
    """The process that puts the agent in and takes it out for this gospect."""
    try:
        return comm(pid) == "gospect-surgeon" and \
            int(status(pid)["PPid"]) == gospect
    except (FileNotFoundError, ProcessLookupError):
        return False


def guardian(gospect):
    """The process that takes the agent out for this gospect when that cannot: its own child, or its surgeon's."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if comm(folder.name) == "gospect-guard":
                parent = int(status(folder.name)["PPid"])
                if gospect in (parent, int(status(parent)["PPid"])):
                    return int(folder.name)
        except (FileNotFoundError, ProcessLookupError):
            pass
    return None


def is_guarded(pid):
    """Somebody is there who would take the agent out of this target."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if comm(folder.name) == "gospect-guard" and any(
                    os.readlink(fd) == f"/proc/{pid}" for fd in (folder / "fd").iterdir()):
                return True
        except (FileNotFoundError, ProcessLookupError):
            pass
    return False


def kill_unguarded(process):
    """Kills gospect, and before it who would take the agent out then."""
    wait_until(lambda: guardian(process.pid), what="the guardian")
    os.kill(guardian(process.pid), signal.SIGKILL)
    process.kill()
    process.wait()


def descendants(pid):
    """The children of all threads of that process, theirs, and so on."""
    found = []
    for folder in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for child in (folder / "children").read_text().split():
            found += [int(child), *descendants(child)]
    return found


def kill_all(process):
    """Kills gospect with all its processes: its broker, its surgeon and its guardian, that one first."""
    wait_until(lambda: guardian(process.pid), 30, "the guardian to have its name")
    first = guardian(process.pid)
    others = [pid for pid in descendants(process.pid) if pid != first]
    for pid in (first, *others, process.pid):
        os.kill(pid, signal.SIGKILL)
    process.communicate()
    return [first, *others]


def descriptors(pid):
    found = 0
    for entry in os.scandir(f"/proc/{pid}/fd"):
        try:
            found += os.readlink(entry.path).startswith("/memfd:gospect-")
        except FileNotFoundError:
            pass
    return found


# Sizes of the code page, which stays: with handlers and a database it is several. On arm64 one is of 64 KB.
UNIT = 65536 if ARM64 else 4096
LEFT = [], *([n * UNIT] for n in range(1, 5))


def assert_untouched(program):
    """Its code is its own, and nothing is left but the one page that docs/internals/trace.md names."""
    assert changed_bytes(program) == 0
    assert mappings(program.pid) in LEFT
    assert descriptors(program.pid) == 0
    program.assert_well()


def is_untouched(pid):
    return mappings(pid) in LEFT and not descriptors(pid)


def assert_cleaned_soon(program, seconds=10):
    """Nobody takes out what a gospect that is gone has left, but its guardian, which then ends."""
    def is_clean():
        return not is_guarded(program.pid) and is_untouched(program.pid)

    # A guardian that has just begun has no name yet, and maps a page to work from.
    wait_until(lambda: is_clean() and not time.sleep(0.2) and is_clean(), seconds, "the agent to be taken out")
    assert_untouched(program)
