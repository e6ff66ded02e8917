"""Runs gospect and others."""
import json
import subprocess
import tempfile

from .build import Failed


class Run:
    """The resources that a command used from its start to its end."""

    def __init__(self, used, words):
        self.start_ns, self.wall, self.cpu = used["start_ns"], used["wall_ns"] / 1e9, used["cpu_ns"] / 1e9
        self.rss_mb, self.words = used["rss_kb"] / 1024, words


def run(programs, args, stdout=subprocess.DEVNULL, said=None):
    """Runs a command to its end; `said` is its standard input."""
    with tempfile.NamedTemporaryFile("r") as cost, tempfile.TemporaryFile("w+") as errors:
        done = subprocess.run([programs.run_cost, cost.name, *map(str, args)], input=said or "",
                              stdout=stdout, stderr=errors, text=True, check=False)
        errors.seek(0)
        words = errors.read().strip()
        if done.returncode:
            raise Failed(f"{' '.join(map(str, args))}: status {done.returncode}: {words}")
        used = json.load(cost)
    return Run(used, words)

