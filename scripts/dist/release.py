"""What is released: its name, version and date, and a build for each machine.

Everything that is made depends on the sources and on Debian's packages only: two runs give the same bytes.
"""

import dataclasses
import json
import os
import pathlib
import shlex
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Who publishes the packages, in Debian's own variables. Without them the address is one that receives no mail.
MAINTAINER = (f"{os.environ.get('DEBFULLNAME', 'gospect maintainers')} "
              f"<{os.environ.get('DEBEMAIL', 'maintainers@gospect.example')}>")
SUMMARY = "profiler and tracer for running Go programs"
DESCRIPTION = """\
gospect shows what a running Go program does, from outside: goroutines,
wall-clock profiles, execution traces, slow requests and what they wait for.
The program needs no preparation and no restart.
The command is statically linked and needs no other package."""


@dataclasses.dataclass(frozen=True)
class Machine:
    """A kind of machine: what Debian, rpm and the compiler call it."""
    name: str
    rpm: str
    triplet: str
    compiler: str


MACHINES = (Machine("amd64", "x86_64", "x86_64-linux-gnu", "gcc"),
            Machine("arm64", "aarch64", "aarch64-linux-gnu", "aarch64-linux-gnu-gcc"))


def run(*command, **options):
    """Its output. A failure ends all, with what the command said."""
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, **options)
    if done.returncode != 0:
        raise SystemExit(f"dist: {' '.join(map(str, command))}: exit status {done.returncode}\n"
                         f"{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def cache():
    """Of what is fetched once for this user."""
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "gospect"


def version():
    """That of meson.build, the one place."""
    return json.loads(run("meson", "introspect", "--projectinfo", ROOT / "meson.build"))["version"]


def date():
    """Seconds since 1970: of SOURCE_DATE_EPOCH, or of the last commit."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given)
    done = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit("dist: no git history to take the date from: set SOURCE_DATE_EPOCH")
    return int(done.stdout)


class Build:
    """A static gospect for one kind of machine."""

    def __init__(self, machine, folder):
        self.machine = machine
        self.folder = folder
        self.curl = folder.with_name(f"curl-{machine.name}")  # where curl.py puts it
        self.root = pathlib.Path("/")
        self.cross = []
        if machine.compiler != "gcc":
            self.root = pathlib.Path(run(ROOT / "scripts" / "arm64-packages", "libraries").strip())
            self.cross = ["--cross-file", self.root.parent / "constants.ini",
                          "--cross-file", ROOT / "scripts" / "cross" / f"{machine.name}.ini"]

    def make(self):
        if not (self.folder / "build.ninja").exists():
            run("meson", "setup", self.folder, "--prefix=/usr", "-Dstatic=true", "-Ddebug=false", "-Doptimization=2",
                "-Dtests=disabled", f"-Dstatic_curl={self.curl}", *self.cross, cwd=ROOT)
        run("ninja", "-C", self.folder, "gospect")

    def install(self, tree):
        """Into a new folder, below which is usr/."""
        shutil.rmtree(tree, ignore_errors=True)
        run("meson", "install", "-C", self.folder, "--no-rebuild", "--strip", "--tags", "command,man,completions",
            "--destdir", tree)
        run(self.binary("strip"), "--remove-section=.comment", tree / "usr" / "bin" / "gospect")

    def binary(self, name):
        """Of binutils, for this kind of machine."""
        return self.machine.compiler.removesuffix("gcc") + name

    def command_line(self):
        """The words with which gospect was linked."""
        lines = run("ninja", "-C", self.folder, "-t", "commands", "-s", "gospect").strip().splitlines()
        return shlex.split(lines[-1])


class Release:
    def __init__(self, out, work):
        self.version = version()
        self.date = date()
        self.out = out
        self.work = work
        os.environ.update(SOURCE_DATE_EPOCH=str(self.date), LC_ALL="C", TZ="UTC")
        os.umask(0o022)

    def build(self, machine):
        return Build(machine, self.work / f"build-{machine.name}")
