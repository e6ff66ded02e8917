"""The programs that take part.

What gospect's own sources make is in build/; what is fetched and takes minutes to build (a large
program, delve, benchstat) is kept in $XDG_CACHE_HOME/gospect/bench and used again.
"""
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "scripts"))  # its dist packs the Go module
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "gospect", "bench")

from dist import gomodule  # noqa: E402  pylint: disable=wrong-import-position

GO_VERSION = "go1.27.2"
# Real programs: 146 MB and 400 MB with symbols and DWARF.
PROMETHEUS = ("github.com/prometheus/prometheus", "v0.300.0")  # Prometheus 3.0.0
TELEGRAF = ("github.com/influxdata/telegraf", "v1.37.2")
DELVE = "github.com/go-delve/delve/cmd/dlv@v1.27.2"
# OpenTelemetry's eBPF profiler: the newest that this bench's kernels without kprobes in tracefs can start.
EBPF_PROFILER = ("go.opentelemetry.io/ebpf-profiler", "v0.0.202547")
GOREF = "github.com/cloudwego/goref/cmd/grf@v0.0.12-0.20260324070435-3a10bfecc6ba"
VIEWCORE = "golang.org/x/debug/cmd/viewcore@v0.0.0-20260819171427-4da508dbc948"
BENCHSTAT = "golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da"


class Failed(Exception):
    """It cannot be measured at all."""


class Unavailable(Exception):
    """This part cannot be measured here."""


def say(text):
    print("bench:", text, file=sys.stderr, flush=True)


def last_line(text):
    return (text.strip().splitlines() or ["no words"])[-1]


class Programs:
    """Paths of the programs; what is not there yet is built when it is asked for."""

    def __init__(self, made):
        self.made = made
        self.folder = os.path.join(made, "bench")
        self.gospect = self._built("gospect")
        self.snapshot_bench = self._built("bench", "snapshot_bench")
        self.unwind_bench = self._built("bench", "unwind_bench")
        self.run_cost = self._built("bench", "run_cost")
        self._go = None

    def _built(self, *path):
        program = os.path.join(self.made, *path)
        if not os.access(program, os.X_OK):
            raise Failed(f"there is no {program} yet: run make")
        return program

    def go_command(self):
        """The go command, and its environment for GO_VERSION."""
        if not self._go:
            self._go = subprocess.run([os.path.join(ROOT, "scripts", "go-command")], check=True,
                                      stdout=subprocess.PIPE, text=True).stdout.strip()
        return self._go, dict(os.environ, GOTOOLCHAIN=GO_VERSION, GOFLAGS="-mod=mod -buildvcs=false", GOWORK="off")

    def go(self, *args, folder=ROOT, **environment):
        """The output of the go command of GO_VERSION."""
        command, env = self.go_command()
        done = subprocess.run([command, *args], cwd=folder, env=dict(env, **environment), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if done.returncode:
            raise Unavailable(f"go {' '.join(args)}: {last_line(done.stderr)}")
        return done.stdout

    def _build(self, module, package, output, **environment):
        say(f"building {os.path.basename(output)} with {GO_VERSION}")
        self.go("build", "-o", output, package, folder=module, **environment)
        return output

    def _target(self, name):
        os.makedirs(self.folder, exist_ok=True)
        return self._build(os.path.join(ROOT, "bench", "targets", name), ".", os.path.join(self.folder, name))

    def meter(self):
        return self._target("meter")

    def meter_with_module(self):
        """The meter, with gospect's Go module beside fgprof."""
        folder, module = os.path.join(self.folder, "meter-module"), os.path.join(self.folder, "module")
        for old in folder, module:
            shutil.rmtree(old, ignore_errors=True)
        os.makedirs(self.folder, exist_ok=True)
        command = os.path.join(self.folder, "gospect.stripped")
        subprocess.run(["strip", "-o", command, self.gospect], check=True)
        gomodule.pack(pathlib.Path(module), {"amd64": command})
        shutil.copytree(os.path.join(ROOT, "bench", "targets", "meter"), folder)
        with open(os.path.join(folder, "go.mod"), "a", encoding="utf-8") as file:
            file.write(f"\nrequire {gomodule.path()} v0.0.0\n\nreplace {gomodule.path()} => {module}\n")
        output = os.path.join(self.folder, "meter-with-module")
        say(f"building the meter with the Go module, with {GO_VERSION}")
        self.go("build", "-tags", "gospect_module", "-o", output, ".", folder=folder)
        return output

    def switcher(self):
        return self._target("switcher")

    def switcher_for_arm64(self):
        os.makedirs(self.folder, exist_ok=True)
        return self._build(os.path.join(ROOT, "bench", "targets", "switcher"), ".", os.path.join(self.folder, "switcher-arm64"),
                           GOARCH="arm64", CGO_ENABLED="0")

    def probed(self):
        return self._target("probed")

    def named(self):
        return self._target("named")

    def gaps(self):
        return self._target("gaps")

    def held(self):
        return self._target("held")

    def echo(self):
        return self._target("echo")

    def burst(self):
        return self._build(os.path.join(ROOT, "tests", "programs", "burst"), "main.go", os.path.join(self.folder, "burst"))

    @staticmethod
    def _cached(name):
        """A path in the cache, and whether it is there already."""
        os.makedirs(CACHE, exist_ok=True)
        path = os.path.join(CACHE, name)
        return path, os.path.exists(path)

    def _module_folder(self, module, version, **environment):
        say(f"fetching {module} {version}")
        return json.loads(self.go("mod", "download", "-json", f"{module}@{version}", folder="/", **environment))["Dir"]

    def _module_program(self, module, version, package, name, **environment):
        """A command of a module, built in the module's own folder, with its own requirements."""
        path, there = self._cached(f"{name}-{version}-{GO_VERSION}")
        if not there:
            folder = self._module_folder(module, version)
            partial = f"{path}.{os.getpid()}"
            self._build(folder, package, partial, CGO_ENABLED="0", GOFLAGS="-mod=readonly -buildvcs=false",
                        **environment)
            os.rename(partial, path)
        return path

    def ebpf_profiler(self):
        """It asks for more locked memory than root may have in some containers. Kernels since 5.11 need none for
        eBPF, so its only function that asks is replaced."""
        module, version = EBPF_PROFILER
        path, there = self._cached(f"ebpf-profiler-{version}-{GO_VERSION}")
        if there:
            return path
        # The checksum database does not have every version that the proxy has.
        folder = self._module_folder(module, version, GONOSUMDB=module)
        with tempfile.TemporaryDirectory(prefix="gospect-bench-") as made:
            source = os.path.join(made, "source")
            shutil.copytree(folder, source, copy_function=shutil.copyfile)
            os.chmod(os.path.join(source, "rlimit"), 0o700)
            with open(os.path.join(source, "rlimit", "rlimit.go"), "w", encoding="utf-8") as file:
                file.write("package rlimit\n\nfunc MaximizeMemlock() (func(), error) { return func() {}, nil }\n")
            partial = f"{path}.{os.getpid()}"
            self._build(source, ".", partial, CGO_ENABLED="0", GOFLAGS="-mod=readonly -buildvcs=false")
            os.rename(partial, path)
        return path

    @functools.lru_cache
    def otlp(self):
        return self._target("otlp")

    def prometheus(self):
        return self._module_program(*PROMETHEUS, "./cmd/prometheus", "prometheus")

    def telegraf(self):
        return self._module_program(*TELEGRAF, "./cmd/telegraf", "telegraf")

    def stripped(self, binary):
        path, there = self._cached(os.path.basename(binary) + "-stripped")
        if not there:
            partial = f"{path}.{os.getpid()}"
            subprocess.run(["strip", "-o", partial, binary], check=True)
            os.rename(partial, path)
        return path

    def _tool(self, package):
        folder, there = self._cached(package.rsplit("/", 1)[1])
        name = package.rsplit("/", 1)[1].split("@")[0]
        if not there:
            say(f"fetching {package}")
            partial = f"{folder}.{os.getpid()}"
            self.go("install", package, folder="/", GOBIN=partial, GOFLAGS="", CGO_ENABLED="0")
            os.rename(partial, folder)
        return os.path.join(folder, name)

    def delve(self):
        return self._tool(DELVE)

    def goref(self):
        return self._tool(GOREF)

    def viewcore(self):
        return self._tool(VIEWCORE)

    def benchstat(self):
        return self._tool(BENCHSTAT)

    def json_test(self, version=GO_VERSION):
        """encoding/json's own tests and benchmarks, and the folder that they run in."""
        path = os.path.join(self.folder, f"json-{version}.test")
        os.makedirs(self.folder, exist_ok=True)
        self.go("test", "-c", "-o", path, "encoding/json", folder="/", GOFLAGS="", GOTOOLCHAIN=version)
        root = self.go("env", "GOROOT", folder="/", GOTOOLCHAIN=version).strip()
        return path, os.path.join(root, "src", "encoding", "json")
