"""A hostile user of the machine: nobody, without any group."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from lib.process import Program

UID = GID = 65534
PREFIX = (f"--reuid={UID}", f"--regid={GID}", "--clear-groups")
USER = UID
COMMAND = ("setpriv", *PREFIX, "--inh-caps=-all")


def run(*command):
    return subprocess.run(["setpriv", *PREFIX, *map(str, command)], check=True)


@contextlib.contextmanager
def running(script, *args):
    """A Python script that nobody runs meanwhile; it says a line once it has begun."""
    process = subprocess.Popen(["setpriv", *PREFIX, sys.executable, "-c", script,
                                *map(str, args)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


def shared_folder(path):
    """Where everybody may put files, as in /tmp, and nobody reaches it."""
    for parent in path.parents:
        if parent.stat().st_uid == os.geteuid() and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    path.mkdir()
    path.chmod(0o1777)
    return path


class Hostile(Program):
    """One of tests/programs, in a folder that this user can reach; `folder` is its own."""

    def __init__(self, binary, *args, prefix=(), **kwargs):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir="/tmp", prefix="hostile."))
        self.folder.chmod(0o755)
        copy = shutil.copy(binary, self.folder)
        try:
            super().__init__(*prefix, *COMMAND, copy, *args, **kwargs)
        except BaseException:
            shutil.rmtree(self.folder)
            raise

    def stop(self):
        super().stop()
        shutil.rmtree(self.folder, ignore_errors=True)
