"""The programs that take part."""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GO_VERSION = "go1.27.2"
# A large real program: 145 MB with symbols and DWARF.
BIG_MODULE = "github.com/prometheus/prometheus"
BIG_VERSION = "v0.300.0"  # Prometheus 3.0.0


class Failed(Exception):
    """It cannot be measured at all."""


class Unavailable(Exception):
    """This part cannot be measured here."""


def say(text):
    print("bench:", text, file=sys.stderr, flush=True)


class Programs:
    """Paths of the programs; what is not there yet is built when it is asked for."""

    def __init__(self):
        self.folder = os.path.join(ROOT, "build", "bench")
        self.gospect = self._built("gospect")
        self.snapshot_bench = self._built("bench", "snapshot_bench")
        self._go = None

    @staticmethod
    def _built(*path):
        program = os.path.join(ROOT, "build", *path)
        if not os.access(program, os.X_OK):
            raise Failed(f"there is no {program} yet: run make")
        return program

    def _build_go(self, module, package, output):
        if not self._go:
            self._go = subprocess.run([os.path.join(ROOT, "scripts", "go-command")], check=True,
                                      stdout=subprocess.PIPE, text=True).stdout.strip()
        env = dict(os.environ, GOTOOLCHAIN=GO_VERSION, GOFLAGS="-mod=mod -buildvcs=false", GOWORK="off")
        say(f"building {os.path.basename(output)} with {GO_VERSION}")
        done = subprocess.run([self._go, "build", "-o", output, package], cwd=module, env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"{package} does not build: {done.stdout.strip().splitlines()[-1]}")
        return output

    def meter(self):
        os.makedirs(self.folder, exist_ok=True)
        return self._build_go(os.path.join(ROOT, "bench", "targets", "meter"), ".",
                              os.path.join(self.folder, "meter"))

    def big(self):
        module = os.path.join(self.folder, "big")
        os.makedirs(module, exist_ok=True)
        go_mod = os.path.join(module, "go.mod")
        if not os.path.exists(go_mod):
            with open(go_mod, "w", encoding="utf-8") as out:
                out.write(f"module big\n\ngo 1.23\n\nrequire {BIG_MODULE} {BIG_VERSION}\n")
        return self._build_go(module, BIG_MODULE + "/cmd/prometheus", os.path.join(self.folder, "prometheus"))
