"""Large programs of others, built from the Go module proxy, with a little load."""

import contextlib
import os
import pathlib
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

from lib import golang
from lib.process import _in_child, wait_until

# name: module, version, package
MODULES = {
    "nats": ("github.com/nats-io/nats-server/v2", "v2.10.22", "github.com/nats-io/nats-server/v2"),
    "caddy": ("github.com/caddyserver/caddy/v2", "v2.8.4", "github.com/caddyserver/caddy/v2/cmd/caddy"),
    "etcd": ("go.etcd.io/etcd/server/v3", "v3.5.17", "go.etcd.io/etcd/server/v3"),
    "prometheus": ("github.com/prometheus/prometheus", "v0.300.0", "github.com/prometheus/prometheus/cmd/prometheus"),
}
# Caddy 2.8 compares names of types of encoding/json, which Go 1.27 has renamed: it panics.
VERSIONS = {"caddy": "1.24.13"}
START_SECONDS = 60


class Unavailable(Exception):
    """It cannot be fetched or built here."""


def build(name):
    version = VERSIONS.get(name, golang.NEWEST)
    module, release, package = MODULES[name]
    folder = golang.CACHE / "real" / f"{name}-{release}-{version}"
    binary = folder / name
    if binary.exists():
        return binary
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "go.mod").write_text(f"module real\n\ngo 1.22\n\nrequire {module} {release}\n")
    (folder / "real.go").write_text(f'package main\n\nimport _ "{package}"\n')
    try:
        golang.go(version, "get", f"{package}@{release}", cwd=folder)
        golang.go(version, "build", "-o", f"{binary}.partial", package, cwd=folder)
    except (RuntimeError, subprocess.CalledProcessError) as error:
        raise Unavailable(f"{name}: {getattr(error, 'stderr', None) or error}") from error
    os.rename(f"{binary}.partial", binary)
    return binary


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _nats(folder, port):
    return ["-a", "127.0.0.1", "-p", str(free_port()), "-m", str(port), "-js", "-sd", str(folder)], "/varz"


def _caddy(folder, port):
    config = folder / "Caddyfile"
    config.write_text(f"{{\n admin off\n}}\nhttp://127.0.0.1:{port} {{\n respond \"hello\"\n}}\n")
    return ["run", "--config", str(config)], "/"


def _etcd(folder, port):
    peer = free_port()
    return ["--data-dir", str(folder / "data"), "--listen-client-urls", f"http://127.0.0.1:{port}",
            "--advertise-client-urls", f"http://127.0.0.1:{port}", "--listen-peer-urls", f"http://127.0.0.1:{peer}",
            "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
            "--initial-cluster", f"default=http://127.0.0.1:{peer}"], "/version"


def _prometheus(folder, port):
    config = folder / "prometheus.yml"
    config.write_text("global:\n  scrape_interval: 1s\nscrape_configs:\n- job_name: self\n  static_configs:\n"
                      f"  - targets: ['127.0.0.1:{port}']\n")
    return [f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}"], "/api/v1/query?query=up"


ARGUMENTS = {"nats": _nats, "caddy": _caddy, "etcd": _etcd, "prometheus": _prometheus}


def _get(url):
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return response.read()
    except (urllib.error.URLError, OSError):
        return None


def _load(url, ended):
    """Some ten requests a second, from four clients."""
    while not ended.wait(0.4):
        _get(url)


@contextlib.contextmanager
def running(name):
    """Its process id; it answers requests meanwhile."""
    binary = build(name)
    with tempfile.TemporaryDirectory(prefix="gospect-real-") as folder:
        port = free_port()
        arguments, path = ARGUMENTS[name](pathlib.Path(folder), port)
        url = f"http://127.0.0.1:{port}{path}"
        process = subprocess.Popen([binary, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, preexec_fn=_in_child, cwd=folder,
                                   env={**os.environ, "HOME": folder})
        ended = threading.Event()
        clients = [threading.Thread(target=_load, args=(url, ended)) for _ in range(4)]
        try:
            wait_until(lambda: process.poll() is None and _get(url) is not None, START_SECONDS, f"{name} to answer")
            for client in clients:
                client.start()
            time.sleep(2)
            yield process.pid
            assert process.poll() is None and _get(url) is not None, f"{name} ended"
        finally:
            ended.set()
            for client in clients:
                if client.ident:
                    client.join()
            process.kill()
            process.wait()
