"""From gospect's start to its first sample and to a finished dump, on large programs."""
import os
import socket
import subprocess
import tempfile
import time

from lib import pprof

from . import tool
from .build import Unavailable, say
from .numbers import spread

LISTENS_SECONDS = 40


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def prometheus(binary, folder, port):
    """With nothing to scrape."""
    config = os.path.join(folder, "prometheus.yml")
    with open(config, "w", encoding="utf-8") as out:
        out.write("global: {}\n")
    return [binary, "--config.file=" + config, "--storage.tsdb.path=" + os.path.join(folder, "data"),
            f"--web.listen-address=127.0.0.1:{port}"]


def telegraf(binary, folder, port):
    """Listens for measurements that never come."""
    config = os.path.join(folder, "telegraf.conf")
    with open(config, "w", encoding="utf-8") as out:
        out.write(f'[[inputs.http_listener_v2]]\n  service_address = "tcp://127.0.0.1:{port}"\n'
                  '  data_format = "influx"\n[[outputs.discard]]\n')
    return [binary, "--config", config]


class Big:
    """A large program that runs, and listens to a port of this machine."""

    def __init__(self, command, binary):
        # pylint: disable=consider-using-with
        self.folder = tempfile.TemporaryDirectory(prefix="gospect-bench-")
        self.log = tempfile.TemporaryFile("w+")
        self.port = free_port()
        self.process = subprocess.Popen(command(binary, self.folder.name, self.port),
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.pid = self.process.pid

    def _listens(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def wait_ready(self):
        end = time.monotonic() + LISTENS_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            if self._listens():
                time.sleep(2)  # until it has come to rest
                return
            time.sleep(0.1)
        self.log.seek(0)
        raise Unavailable("a large program did not start: " + self.log.read().strip()[-300:])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        self.folder.cleanup()


def measure(programs, quick):
    rows = []
    for name, command, build in (("Prometheus 3.0.0", prometheus, programs.prometheus),
                                 ("Telegraf 1.37.2", telegraf, programs.telegraf)):
        try:
            whole = build()
        except Unavailable as why:
            say(f"no {name}: {why}")
            continue
        for title, binary in ((name, whole), ("  stripped", programs.stripped(whole))):
            rows.append({"name": title, **measure_binary(programs, command, binary, 3 if quick else 9)})
    if not rows:
        raise Unavailable("no large program could be built")
    return rows


def measure_binary(programs, command, binary, rounds):
    say(f"start-up on {os.path.basename(binary)}, {rounds} times")
    dumps, records, first = [], [], []
    with Big(command, binary) as big, tempfile.TemporaryDirectory(prefix="gospect-bench-") as folder:
        big.wait_ready()
        out = os.path.join(folder, "first.pb.gz")
        for _ in range(rounds):
            dumps.append(tool.run(programs, [programs.gospect, "dump", "-p", big.pid, "-o", "-"]))
            records.append(tool.run(programs, [programs.gospect, "record", "-p", big.pid, "-d", "0.1", "-o", out]))
            with open(out, "rb") as profile:
                first.append(pprof.parse(profile.read()).time_ns - records[-1].start_ns)
    return {
        "mb": os.path.getsize(binary) / 1e6,
        "first_sample_ms": spread([ns / 1e6 for ns in first]),
        "dump_ms": spread([1000 * r.wall for r in dumps]),
        "dump_cpu_ms": spread([1000 * r.cpu for r in dumps]),
        "dump_rss_mb": spread([r.rss_mb for r in dumps]),
        "record_rss_mb": spread([r.rss_mb for r in records]),
    }
