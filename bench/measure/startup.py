"""From gospect's start to its first sample and to a finished dump, on a large binary."""
import os
import socket
import subprocess
import tempfile
import time
import urllib.request

from . import tool
from .build import BIG_MODULE, BIG_VERSION, Unavailable, say
from .numbers import spread
from .pprof import Profile


def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return "127.0.0.1:" + str(probe.getsockname()[1])


class Big:
    """Prometheus, with nothing to scrape."""

    def __init__(self, program, folder):
        config = os.path.join(folder, "prometheus.yml")
        with open(config, "w", encoding="utf-8") as out:
            out.write("global: {}\n")
        self.address = free_address()
        self.log = open(os.path.join(folder, "log"), "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [program, "--config.file=" + config, "--storage.tsdb.path=" + os.path.join(folder, "data"),
             "--web.listen-address=" + self.address], stdout=self.log, stderr=self.log)
        self.pid = self.process.pid

    def wait_ready(self):
        for _ in range(200):
            try:
                with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=1) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                pass
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        self.log.seek(0)
        raise Unavailable("prometheus did not start: " + self.log.read().strip()[-300:])

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


def measure(programs, quick):
    whole = programs.big()
    stripped = whole + "-stripped"
    subprocess.run(["strip", "-o", stripped, whole], check=True)
    return [measure_binary(programs, path, 3 if quick else 9) for path in (whole, stripped)]


def measure_binary(programs, binary, rounds):
    say(f"start-up on {os.path.basename(binary)}, {rounds} times")
    dumps, records, first = [], [], []
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as errors:
        with Big(binary, folder) as big:
            big.wait_ready()
            out = os.path.join(folder, "first.pb.gz")
            for _ in range(rounds):
                dumps.append(tool.run([programs.gospect, "dump", "-p", str(big.pid), "-o", "-"], errors,
                                      stdout=subprocess.DEVNULL))
                began = time.time_ns()
                records.append(tool.run([programs.gospect, "record", "-p", str(big.pid), "-d", "0.1", "-o", out],
                                        errors))
                first.append(Profile(out).time_nanos - began)
    return {
        "binary": f"{BIG_MODULE}/cmd/prometheus {BIG_VERSION}" + (" stripped" if "stripped" in binary else ""),
        "mb": os.path.getsize(binary) / 1e6,
        "first_sample_ms": spread([ns / 1e6 for ns in first]),
        "dump_ms": spread([1000 * r.wall for r in dumps]),
        "dump_cpu_ms": spread([1000 * r.cpu for r in dumps]),
        "record_100ms_ms": spread([1000 * r.wall for r in records]),
        "rss_mb": spread([r.rss_mb for r in dumps]),
    }
