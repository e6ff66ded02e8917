"""The caller of the running function, by gospect, perf, OpenTelemetry's eBPF profiler and Go's own CPU profile.

The program of golang/go#73753, tests/programs/callers: `leaf` has no frame of its own, and in
runtime.duffcopy and in prologues the caller's frame is not yet, or no longer, in the chain.
"""
import os
import re
import shutil
import subprocess
import tempfile
import time

from lib import golang, pprof

from .build import Failed, Unavailable, last_line, say
from .numbers import spread

VERSIONS = ((1, 19), (1, 23), (1, 27))
HZ = 199
# Seconds until it has read the programs of the machine.
EBPF_STARTS = 12
# Functions that the program's `work` calls directly.
GROUPS = {"leaf": {"main.leaf"}, "duff": {"main.duff", "runtime.duffcopy", "runtime.duffzero"}}
CALLER = "main.work"


class Unsupported(Exception):
    """This way cannot look at a program of this Go version."""


class Callers:
    def __init__(self, version):
        self.process = subprocess.Popen([str(golang.build("callers", version))], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = int(self._line().split()[1])

    def _line(self):
        line = self.process.stdout.readline()
        if not line:
            raise Failed("the program callers ended")
        return line

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self._line()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def run(*args, **kwargs):
    done = subprocess.run([str(a) for a in args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, errors="replace", check=False, **kwargs)
    if done.returncode:
        raise Failed(f"{' '.join(map(str, args))}: {done.stderr.strip()[-300:]}")
    return done.stdout


def read_profile(path, kind):
    """[(weight, stack)], innermost first."""
    with open(path, "rb") as file:
        profile = pprof.parse(file.read())
    return [(s.values[kind], s.stack) for s in profile.samples if s.values[kind]]


def by_gospect(programs, program, folder, seconds):
    out = os.path.join(folder, "gospect.pb.gz")
    run(programs.gospect, "record", "-p", program.pid, "-d", seconds, "-r", HZ, "--on-cpu", "-o", out)
    return read_profile(out, "cpu")


def by_itself(_programs, program, folder, seconds):
    """Go's own profile is taken 100 times a second, always."""
    out = os.path.join(folder, "own.pb.gz")
    program.ask("profile " + out)
    run("sleep", seconds)
    program.ask("over")
    return read_profile(out, "cpu")


def by_perf(*mode):
    def record(_programs, program, folder, seconds):
        out = os.path.join(folder, "perf.data")
        run("perf", "record", "-q", "-F", HZ, *mode, "-o", out, "-p", program.pid, "--", "sleep", seconds)
        return read_script(run("perf", "script", "-i", out, "-F", "comm,ip,sym"))
    return record


def by_ebpf(programs, program, folder, seconds):
    """It samples the whole machine: stacks of other programs have no function of ours. It needs tracefs, which it
    has in a mount namespace of its own."""
    out = os.path.join(folder, "otlp.txt")
    with open(out, "w+", encoding="utf-8") as file, subprocess.Popen([programs.otlp()], stdout=file) as sink:
        try:
            said = run_ebpf_profiler(programs.ebpf_profiler(), port_of(out), seconds)
        finally:
            sink.terminate()
    with open(out, encoding="utf-8") as file:
        stacks = [line.split("\t") for line in file.read().splitlines()[1:]]
    samples = [(int(weight), functions.split(";")) for weight, functions in stacks if "main." in functions]
    if not samples:
        raise Unsupported(next((line for line in said.splitlines() if "unsupported" in line), last_line(said)))
    return samples


def port_of(path):
    for _ in range(100):
        with open(path, encoding="utf-8") as file:
            words = file.readline().split()
        if len(words) == 2:
            return words[1]
        time.sleep(0.1)
    raise Failed("the program otlp does not listen")


def run_ebpf_profiler(profiler, port, seconds):
    """What it says."""
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", 'mount -t tracefs none /sys/kernel/tracing; exec timeout -s INT "$@"', "sh",
         str(seconds + EBPF_STARTS), profiler, "-collection-agent", f"127.0.0.1:{port}", "-disable-tls",
         "-samples-per-second", str(HZ), "-reporter-interval", "1s", "-no-kernel-version-check"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
        check=False).stderr


def read_script(text):
    """Samples of perf script, without frames of the kernel and what the signal handler's are named."""
    samples = []
    for block in re.split(r"\n\s*\n", text):
        stack = []
        for line in block.strip().splitlines()[1:]:
            found = re.match(r"\s*([0-9a-f]+) (.*)$", line)
            if found and int(found[1], 16) < 1 << 63:
                stack.append(found[2].strip())
        if stack:
            samples.append((1, stack))
    return samples


WAYS = {"gospect": by_gospect, "perf -g": by_perf("-g"), "perf dwarf": by_perf("--call-graph", "dwarf,1024"),
        "eBPF": by_ebpf, "own": by_itself}


def right_shares(samples):
    """Per group: samples whose caller is right, of all in it, and the group's share of all."""
    everything = sum(weight for weight, _ in samples)
    result = {}
    for group, functions in GROUPS.items():
        inside = [(weight, stack) for weight, stack in samples if stack[0] in functions]
        total = sum(weight for weight, _ in inside)
        right = sum(weight for weight, stack in inside if caller_of(stack, functions) == CALLER)
        result[group] = {"right": right / total if total else 0, "share": total / max(everything, 1),
                         "samples": len(inside)}
    return result


def caller_of(stack, functions):
    """For the outermost function of the group: work calls duff, and both call runtime.duffcopy."""
    for func in stack:
        if func not in functions:
            return func
    return None


def available_ways(programs):
    ways = {name: way for name, way in WAYS.items() if not name.startswith("perf") or shutil.which("perf")}
    try:
        programs.ebpf_profiler(), programs.otlp()
    except Unavailable as why:
        say(f"without the eBPF profiler: {why}")
        del ways["eBPF"]
    return ways


def measure(programs, quick):
    ways = available_ways(programs)
    versions = [v for v in golang.NEWEST_OF_EACH if golang.minor(v) in VERSIONS]
    return [measure_version(programs, ways, version, *((2, 2) if quick else (5, 5))) for version in versions]


def measure_once(way, programs, program, folder, seconds):
    """The shares; None: this way cannot."""
    try:
        return right_shares(way(programs, program, folder, seconds))
    except Unsupported as why:
        say(str(why))
        return None
    except Failed as why:
        raise Unavailable(str(why)) from why


def measure_version(programs, ways, version, rounds, seconds):
    say(f"callers on Go {version}, {rounds} times {seconds} s, {', '.join(ways)}")
    seen = {name: [] for name in ways}
    with Callers(version) as program, tempfile.TemporaryDirectory(prefix="gospect-bench-") as folder:
        for _ in range(rounds):
            for name, way in ways.items():
                seen[name].append(measure_once(way, programs, program, folder, seconds))
    able = {name: slices for name, slices in seen.items() if all(slices)}
    return {"version": version, "groups": {
        group: {name: {"right": spread([s[group]["right"] for s in slices]),
                       "share": spread([s[group]["share"] for s in slices])}
                for name, slices in able.items()}
        for group in GROUPS}}
