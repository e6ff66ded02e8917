"""Builds the programs of tests/programs with several Go versions and in several ways.

Everything lands in build/testcache, keyed by the program's source, so that a second run builds
nothing.
"""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import subprocess

TESTS = pathlib.Path(__file__).resolve().parent.parent
ROOT = TESTS.parent
CACHE = pathlib.Path(os.environ.get("GOSPECT_TESTCACHE", ROOT / "build" / "testcache"))


def _tables():
    """(first, last) release of each generated table of field offsets, as "1.27.2", oldest first."""
    pattern = re.compile(r'^RELEASES\((\d+), (\d+), *"go(.*)", *"go(.*)"\)$', re.M)
    found = [match for file in (ROOT / "src" / "golayout" / "generated").glob("go1_*.h")
             for match in pattern.findall(file.read_text())]
    return [(first, last) for *_, first, last in sorted(found, key=lambda m: (int(m[0]), int(m[1])))]


def minor(version):
    """(1, 27) of "1.27.2"."""
    return tuple(int(part) for part in version.split(".")[:2])


# tools/gen-layout adds a version here by making its table.
TABLES = _tables()
# The newest patch release of each minor version, and the first.
NEWEST_OF_EACH = tuple({minor(last): last for _, last in TABLES}.values())
FIRST_OF_EACH = tuple({minor(first): first for first, _ in reversed(TABLES)}.values())[::-1]

OLDEST = NEWEST_OF_EACH[0]
MIDDLE = NEWEST_OF_EACH[len(NEWEST_OF_EACH) // 2]
NEWEST = NEWEST_OF_EACH[-1]
VERSIONS = (OLDEST, MIDDLE, NEWEST)  # the middle one is slow: conftest.py

PLAIN = "plain"
STRIPPED = "strip"  # by strip(1): no symbols, no DWARF
LDFLAGS_SW = "ldflags-s-w"  # by Go's own linker
PIE = "pie"
NOT_OPTIMIZED = "not-optimized"
MODES = (PLAIN, STRIPPED, LDFLAGS_SW)

ARM64 = "arm64"
STRIP = {None: "strip", ARM64: "aarch64-linux-gnu-strip"}


def language(version):
    """"1.27" of "1.27.2", as go.mod wants it."""
    return "{}.{}".format(*minor(version))


def go_command():
    """The go command that fetches all others; scripts/go-command brings one when there is none."""
    result = subprocess.run([ROOT / "scripts" / "go-command"], capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(f"no Go toolchain: {result.stderr.strip()}")
    return result.stdout.strip()


def environment(version, arch=None):
    env = dict(os.environ)
    env["GOTOOLCHAIN"] = "go" + version
    # Not empty: an empty one would give way to the user's own `go env -w GOFLAGS`, which Go 1.17
    # may not know.
    env["GOFLAGS"] = "-mod=mod" if minor(version) < (1, 18) else "-buildvcs=false"
    env["CGO_ENABLED"] = "0"
    env["GOWORK"] = "off"
    for name in ("GODEBUG", "GOEXPERIMENT", "GOTRACEBACK", "GOGC", "GOMAXPROCS", "GOARCH", "GOOS"):
        env.pop(name, None)
    if arch:
        env["GOARCH"] = arch
    if minor(version) == (1, 19):
        # Its index of packages does not find the standard library inside the module cache.
        env["GODEBUG"] = "goindex=0"
    return env


def go(version, *args, arch=None, **kwargs):
    """Runs the go command of that version and gives its output."""
    result = subprocess.run([go_command(), *args], env=environment(version, arch), text=True,
                            capture_output=True, **kwargs)
    if result.returncode != 0:
        raise RuntimeError(f"go {' '.join(map(str, args))} (Go {version}): {result.stderr.strip()}")
    return result.stdout


def digest(folder):
    state = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        state.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return state.hexdigest()[:16]


@contextlib.contextmanager
def building(path):
    """Nobody else makes what is at that path, or below it, meanwhile: tests run side by side."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.parent / f"{path.name}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(program, version, mode=PLAIN, arch=None):
    """The path of a binary of tests/programs/PROGRAM, for this machine or for that `arch`."""
    source = TESTS / "programs" / program
    folder = CACHE / f"go{version}" / f"{program}-{digest(source)}"
    binary = folder / (arch or "") / mode / program
    if binary.exists():
        return binary
    plain = build(program, version, PLAIN, arch) if mode == STRIPPED else None
    with building(folder):
        if not binary.exists():
            binary.parent.mkdir(parents=True, exist_ok=True)
            partial = binary.with_suffix(f".{os.getpid()}")
            if plain:
                subprocess.run([STRIP[arch], "-o", partial, plain], check=True)
            else:
                compile_program(source, folder / "src", partial, version, mode, arch)
            partial.rename(binary)
    return binary


def compile_program(source, copy, binary, version, mode, arch):
    if not copy.exists():
        partial = copy.with_name(f"src.{os.getpid()}")
        shutil.copytree(source, partial)
        # The language of the toolchain: type parameters, iterators and the defaults of GODEBUG.
        (partial / "go.mod").write_text(f"module {source.name}\n\ngo {language(version)}\n")
        partial.rename(copy)
    flags = {LDFLAGS_SW: ["-ldflags=-s -w"], PIE: ["-buildmode=pie"],
             NOT_OPTIMIZED: ["-gcflags=all=-N -l"]}.get(mode, [])
    go(version, "build", *flags, "-o", binary, ".", arch=arch, cwd=copy)
