"""The target that measures itself (bench/targets/meter)."""
import json
import os
import subprocess

from . import machine
from .build import Failed


class Meter:
    """core: it has that one for itself, and one processor of Go's. mixed: its heap has objects of several kinds. environment: for its process."""

    def __init__(self, program, parked, work="none", heap=64, core=None, mixed=False, **environment):
        self._start([*machine.on_core(core), program, "-parked", str(parked), "-work", work, "-heap", str(heap),
                     *(["-mixed"] if mixed else [])],
                    **({} if core is None else {"GOMAXPROCS": "1"}), **environment)

    def _start(self, command, **environment):
        self.process = subprocess.Popen(command, env={**os.environ, **environment}, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.about = self._answer()
        self.pid = self.process.pid

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise Failed("the meter ended, see above")
        answer = json.loads(line)
        if "error" in answer:
            raise Failed("meter: " + answer["error"])
        return answer

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self._answer()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Service(Meter):
    """The gRPC server of bench/targets/echo, with its client in a process of its own."""

    def __init__(self, program):  # pylint: disable=super-init-not-called
        self._start([program])
