"""Asks delve, which stops the program while it looks."""

import base64
import json
import os
import socket
import subprocess

import pytest

from lib import golang
from lib.process import _in_child, wait_until

VERSION = "1.27.2"


def command():
    """dlv of our own: that of a distribution does not know the newest Go."""
    folder = golang.CACHE / f"dlv-{VERSION}"
    binary = folder / "dlv"
    with golang.building(folder):
        if not binary.exists():
            partial = folder.with_suffix(f".{os.getpid()}")
            made = subprocess.run(
                [golang.go_command(), "install", f"github.com/go-delve/delve/cmd/dlv@v{VERSION}"],
                capture_output=True, text=True, env={**os.environ, "GOBIN": str(partial),
                                                     "GOFLAGS": "", "GOTOOLCHAIN": "auto"})
            if made.returncode != 0:
                pytest.skip(f"delve {VERSION} cannot be had: {made.stderr.strip()[-300:]}")
            partial.rename(folder)
    return binary


class Delve:
    """Attached to a process as long as the with statement lasts; then the process runs on."""

    def __init__(self, pid, binary, folder):
        self.path = folder / "dlv.sock"
        self.process = subprocess.Popen(
            [command(), "attach", str(pid), str(binary), "--headless", "--api-version=2",
             "--check-go-version=false", f"--listen=unix:{self.path}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            preexec_fn=_in_child, env={**os.environ, "HOME": str(folder)})
        try:
            wait_until(self._connect, 30, "delve")
        except BaseException:
            self.process.kill()
            raise

    def _connect(self):
        assert self.process.poll() is None, self.process.stdout.read().decode()
        self.socket = socket.socket(socket.AF_UNIX)
        try:
            self.socket.connect(str(self.path))
        except OSError:
            self.socket.close()
            return False
        self.socket.settimeout(30)
        self.stream = self.socket.makefile("rw")
        return True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.ask("Detach", Kill=False)
            self.process.wait(10)
        finally:
            self.process.kill()
            self.process.wait(10)
            self.stream.close()
            self.socket.close()
            self.process.stdout.close()

    def ask(self, method, **arguments):
        json.dump({"method": f"RPCServer.{method}", "params": [arguments], "id": 1}, self.stream)
        self.stream.flush()
        answer = json.loads(self.stream.readline())
        assert answer["error"] is None, f"delve, {method}: {answer['error']}"
        return answer["result"]

    def stack(self, goid):
        """Its frames with their variables, innermost first, inlined calls among them."""
        config = {"FollowPointers": False, "MaxVariableRecurse": 1, "MaxStringLen": 64,
                  "MaxArrayValues": 64, "MaxStructFields": -1}
        return self.ask("Stacktrace", Id=goid, Depth=200, Full=True, Cfg=config)["Locations"]

    def words(self, address, count):
        found = []
        while count:
            n = min(count, 100)
            answer = self.ask("ExamineMemory", Address=address, Length=8 * n)
            data = base64.b64decode(answer["Mem"])
            found += [int.from_bytes(data[i:i + 8], "little") for i in range(0, 8 * n, 8)]
            address, count = address + 8 * n, count - n
        return found
