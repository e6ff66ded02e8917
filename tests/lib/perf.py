"""Linux perf: what `gospect report` reads."""

import re
import shutil
import subprocess

from lib import golang, gospect

FIXTURES = golang.TESTS / "fixtures" / "perf"
# perf takes a program from its cache, ~/.debug, by its build id, and a copy has that of its original.
NO_CACHE = ("--buildid-dir", "/nonexistent")
EVENT = ("-e", "cpu-clock", "-F", "499")


def why_not():
    """Why nothing can be recorded here; None when it can."""
    if not shutil.which("perf"):
        return "perf is missing: scripts/install-deps test"
    tried = subprocess.run(["perf", "record", "-q", "-N", *EVENT, "-o", "/dev/null", "true"],
                           capture_output=True, text=True)
    return None if tried.returncode == 0 else f"perf: {tried.stderr.strip().splitlines()[-1]}"


def record(path, *args, seconds=2):
    """Into a file, or, with -o - in args, through a pipe into it."""
    piped = "-" in args
    output = () if piped else ("-o", path)
    with open(path if piped else "/dev/null", "wb") as out:
        subprocess.run(["perf", "record", "-q", "-N", *EVENT, *map(str, args), *output, "--",
                        "sleep", str(seconds)], stdout=out, stderr=subprocess.PIPE, check=True,
                       timeout=seconds + 40)
    return path


def chains(path):
    """The stacks that perf itself makes of a file: function names, innermost first, without the
    kernel's."""
    script = subprocess.run(["perf", *NO_CACHE, "script", "-i", path, "-F", "ip,sym"], capture_output=True,
                            text=True, check=True).stdout
    frames = re.compile(r"^\s+([0-9a-f]+) (\S+)", re.M)
    return [[name for ip, name in frames.findall(block) if len(ip) < 16 or ip < "8"]
            for block in script.split("\n\n") if block.strip()]


def periods(path):
    """The period of each sample, in events: nanoseconds of cpu-clock."""
    script = subprocess.run(["perf", "script", "-i", path, "-G", "-F", "period"],
                            capture_output=True, text=True, check=True).stdout
    return [int(word) for word in script.split()]


def probe_records(path, program):
    """Which frame records gospect expects, held against the registers in samples: (samples, wrong
    ones)."""
    probe = gospect.BINARY.parent / "src" / "perfdata" / "record_probe"
    done = subprocess.run([probe, path, program], capture_output=True, text=True)
    assert done.returncode in (0, 1) and not done.stderr, done.stderr
    *wrong, last = done.stdout.splitlines()
    return int(last.split()[0]), wrong


def recorded_program(folder, version):
    """The program of the fixtures, which came from an arm64 machine."""
    source = folder / f"src-{version}"
    shutil.copytree(FIXTURES / "program", source)
    (source / "go.mod").write_text(f"module callers\n\ngo {golang.language(version)}\n")
    binary = folder / f"callers-{version}"
    golang.go(version, "build", "-trimpath", "-o", binary, ".", arch=golang.ARM64, cwd=source)
    return binary
