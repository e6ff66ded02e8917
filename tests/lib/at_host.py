"""An emulated machine that runs tests has no Go and no compiler: it has its host run them.

tests/arm64/at-host, which is `go`, `gcc`, `strip` there, writes what to run into a folder that both have; run() runs
it for that architecture. All paths of the test cache are the same on both.
"""

import os
import pathlib
import subprocess
import threading
import time

from lib import arm64, golang

COMMANDS = {"gcc": "aarch64-linux-gnu-gcc", "cc": "aarch64-linux-gnu-gcc", "strip": golang.STRIP[golang.ARM64],
            "objcopy": "aarch64-linux-gnu-objcopy"}


def _environment(lines):
    """That of the test, and for cgo the compiler and where the libraries are."""
    root = arm64.packages("libraries")
    return {**os.environ, "CC": "aarch64-linux-gnu-gcc", "CGO_CFLAGS": f"-O2 -g --sysroot={root}",
            "CGO_LDFLAGS": f"-O2 -g --sysroot={root}", **dict(line.split("=", 1) for line in lines)}


def _command(name, args):
    """`at-host COMMAND` runs it as it is."""
    if name == "at-host":
        return args
    if name == "go":
        return [golang.go_command(), *args]
    if name in ("gcc", "cc"):
        args = [f"--sysroot={arm64.packages('libraries')}", *args]
    return [COMMANDS[name], *args]


def run(ask):
    """What is asked for is in that file: name, folder, arguments, environment, each part ended by a line of its own."""
    name, folder, args, env = (part.split("\n") for part in ask.read_text().removesuffix("\n").split("\n--gospect--\n"))
    env = _environment([line for line in env if "=" in line])
    if name[0] == "go":
        env.setdefault("GOARCH", golang.ARM64)
    with open(ask.with_suffix(".out"), "wb") as out, open(ask.with_suffix(".err"), "wb") as err:
        try:
            status = subprocess.run(_command(name[0], args if args != [""] else []), env=env, stdin=subprocess.DEVNULL,
                                    cwd=folder[0] if os.path.isdir(folder[0]) else "/", stdout=out, stderr=err).returncode
        except OSError as error:
            err.write(f"{error}\n".encode())
            status = 127
    done = ask.with_suffix(".part")
    done.write_text(str(status if status >= 0 else 128 - status))
    done.rename(ask.with_suffix(".status"))


class Host:
    """Runs what comes into the folder, until the block ends."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def _serve(self):
        while not self._over.is_set():
            for ask in self.folder.glob("*.ask"):
                begun = ask.rename(ask.with_suffix(".begun"))
                threading.Thread(target=run, args=(begun,), daemon=True).start()
            time.sleep(0.05)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()
