"""The target that measures itself (bench/targets/meter)."""
import json
import subprocess

from .build import Failed


class Meter:
    def __init__(self, program, parked, work="none", heap=64):
        self.process = subprocess.Popen(
            [program, "-parked", str(parked), "-work", work, "-heap", str(heap)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
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
