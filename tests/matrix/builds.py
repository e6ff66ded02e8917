"""The ways to build a Go program that the matrix knows."""

import dataclasses
import os
import pathlib
import shutil
import subprocess
import tempfile

from lib import arm64, golang, spoil

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = HERE / "program"
MAGIC = b"\xff Go buildinf:"
AARCH64 = b"\xb7\x00"  # e_machine of an ELF file


@dataclasses.dataclass(frozen=True)
class Build:
    name: str
    meaning: str
    flags: tuple = ()  # of go build
    cgo: bool = False
    after: object = None  # (the linker's output, the binary to make): what changes it afterwards
    words: tuple = ()  # that ps says of it
    since: tuple = (1, 17)
    says_version: bool = True  # False: gospect may refuse, when it says why


def strip_command(linked):
    return golang.STRIP[golang.ARM64 if linked.read_bytes()[18:20] == AARCH64 else None]


def strip(linked, binary):
    subprocess.run([strip_command(linked), "-o", binary, linked], check=True)


def remove_buildinfo(linked, binary):
    subprocess.run(["objcopy", "--remove-section", ".go.buildinfo", linked, binary], check=True,
                   stderr=subprocess.DEVNULL)


def overwrite_buildinfo(linked, binary):
    """As an obfuscator leaves it: the whole of the build information is zeros."""
    offset, size, _ = spoil.sections(linked)[".go.buildinfo"]
    assert linked.read_bytes()[offset:].startswith(MAGIC)
    spoil.copy_with_bytes(linked, binary, [(offset, bytes(size))])


def strip_and_overwrite(linked, binary):
    overwrite_buildinfo(linked, binary)
    subprocess.run(["strip", binary], check=True)


def forget_version(linked, binary):
    """Neither the build information nor the runtime's own variable says the version."""
    overwrite_buildinfo(linked, binary)
    data = binary.read_bytes()
    version = b"go" + subprocess.run(
        [golang.go_command(), "version", linked], capture_output=True, text=True,
        check=True).stdout.split()[-1][2:].encode()
    binary.write_bytes(data.replace(version, b"unknown".ljust(len(version))))
    subprocess.run(["strip", binary], check=True)


BUILDS = (
    Build("plain", "`go build`, without cgo", words=("static",)),
    Build("ldflags-s-w", "`-ldflags='-s -w'`", ("-ldflags=-s -w",), words=("static", "stripped")),
    Build("strip", "`strip`", after=strip, words=("static", "stripped")),
    Build("pie", "`-buildmode=pie`, Go's own linker", ("-buildmode=pie",), words=("pie",)),
    Build("pie-external", "`-buildmode=pie -ldflags=-linkmode=external`, cgo",
          ("-buildmode=pie", "-ldflags=-linkmode=external"), cgo=True,
          words=("dynamic", "pie")),
    Build("pie-external-strip", "the same, `strip`",
          ("-buildmode=pie", "-ldflags=-linkmode=external"), cgo=True, after=strip,
          words=("dynamic", "pie", "stripped")),
    Build("cgo", "cgo, dynamic", cgo=True, words=("dynamic",)),
    Build("cgo-static", "cgo, `-ldflags='-linkmode=external -extldflags=-static'`",
          ("-ldflags=-linkmode=external -extldflags=-static",), cgo=True, words=("static",)),
    Build("race", "`-race`", ("-race",), cgo=True),
    Build("debug", "`-gcflags='all=-N -l'`", ("-gcflags=all=-N -l",)),
    Build("pgo", "`-pgo=FILE`", ("-pgo=PROFILE",), since=(1, 21)),
    Build("trimpath", "`-trimpath`", ("-trimpath",)),
    Build("c-shared", "`-buildmode=c-shared`, loaded into a C program by `dlopen`",
          ("-buildmode=c-shared",), cgo=True, words=("library",)),
    Build("c-shared-strip", "the same, `strip`", ("-buildmode=c-shared",), cgo=True, after=strip,
          words=("library", "stripped")),
    Build("no-buildinfo", "`objcopy --remove-section .go.buildinfo`", after=remove_buildinfo),
    Build("zero-buildinfo", "the build information overwritten", after=overwrite_buildinfo),
    Build("zero-buildinfo-strip", "the same, `strip`", after=strip_and_overwrite,
          words=("stripped",)),
    Build("no-version", "the same, and the runtime's own version overwritten",
          after=forget_version, says_version=False),
)


def name_of(source):
    return "matrix" if source == PROGRAM else source.name


def sources(version, source=PROGRAM):
    """The program with a go.mod of the toolchain's own language."""
    folder = golang.CACHE / f"go{version}" / f"matrix-{golang.digest(source)}"
    copy = folder / "src"
    with golang.building(folder):
        if not copy.exists():
            partial = folder / f"src.{os.getpid()}"
            shutil.copytree(source, partial)
            (partial / "go.mod").write_text(f"module {name_of(source)}\n\ngo {golang.language(version)}\n")
            partial.rename(copy)
    return folder, copy


def go_build(version, copy, output, flags, cgo, experiment="", arch=None):
    env = golang.environment(version, arch)
    if arch:
        root = arm64.packages("libraries")
        env.update(CC="aarch64-linux-gnu-gcc", CGO_CFLAGS=f"-O2 -g --sysroot={root}", CGO_LDFLAGS=f"-O2 -g --sysroot={root}")
    env["CGO_ENABLED"] = "1" if cgo else "0"
    env["GOEXPERIMENT"] = experiment
    # By name: Go 1.19's "go build ." is confused by newer go commands.
    files = ["main.go", *(["cgo.go"] if cgo else [])]
    files += ["profile.go"] if "-tags=profile" in flags else []
    result = subprocess.run(
        ["nice", golang.go_command(), "build", *flags, "-o", output, *files], env=env, cwd=copy,
        capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(f"go build: {result.stderr.strip()[-300:]}")


def profile():
    """A CPU profile of the program by Go itself, for builds with -pgo; one does for all."""
    folder, copy = sources(golang.NEWEST)
    file = folder / "cpu.pprof"
    with golang.building(file):
        if not file.exists():
            partial, binary = folder / f"cpu.{os.getpid()}", folder / "profiled"
            go_build(golang.NEWEST, copy, binary, ["-tags=profile"], False)
            subprocess.run([binary, partial], check=True, timeout=60)
            partial.rename(file)
    return file


def make(version, build, source=PROGRAM, arch=None):
    """The path of the program, or of the shared library, built that way; kept for the next run. `source` has a main.go,
    and a cgo.go for builds with cgo, which exports Main."""
    folder, copy = sources(version, source)
    folder = folder / arch if arch else folder
    folder.mkdir(exist_ok=True)
    binary = folder / build.name / name_of(source)
    if binary.exists():
        return binary
    linked = folder / ("linked-" + "-".join([*build.flags, str(build.cgo)])
                       .replace("/", "_").replace(" ", "_").replace("=", "_"))
    if not linked.exists():
        partial = linked.with_suffix(f".{os.getpid()}")
        flags = [flag.replace("PROFILE", str(profile())) if "PROFILE" in flag else flag
                 for flag in build.flags]
        go_build(version, copy, partial, flags, build.cgo, arch=arch)
        partial.rename(linked)
    binary.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=binary.parent) as scratch:
        made = pathlib.Path(scratch) / "made"
        (build.after or shutil.copy)(linked, made)
        made.chmod(0o755)
        made.rename(binary)
    return binary


def host():
    """The C program that loads a library."""
    source = HERE / "host"
    binary = golang.CACHE / f"host-{golang.digest(source)}"
    if not binary.exists():
        partial = binary.with_suffix(f".{os.getpid()}")
        subprocess.run(["cc", "-O", "-o", partial, source / "host.c", "-ldl"], check=True)
        partial.rename(binary)
    return binary
