"""Runs gospect."""
import os
import subprocess
import time

from .build import Failed


class Run:
    """What a process used from its start to its end."""

    def __init__(self, process, began, errors):
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.wall = time.monotonic() - began
        self.cpu = usage.ru_utime + usage.ru_stime
        self.rss_mb = usage.ru_maxrss / 1024
        if process.returncode:
            errors.seek(0)
            raise Failed(f"{' '.join(process.args)}: status {process.returncode}: {errors.read().strip()}")


def run(args, errors, stdout=None):
    """Runs a command to its end; `errors` is an open file for what it says."""
    began = time.monotonic()
    # pylint: disable=consider-using-with
    process = subprocess.Popen(args, stdout=stdout or errors, stderr=errors)
    return Run(process, began, errors)
