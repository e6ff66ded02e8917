"""Large programs of others, built from the Go module proxy, with a little load."""

import contextlib
import itertools
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


def _get(url, body=None):
    try:
        with urllib.request.urlopen(url, data=body, timeout=10) as response:
            return response.read()
    except (urllib.error.URLError, OSError):
        return None


# Each of these gives the arguments of a program, the URL that answers once it is up, and what makes clients: a client
# asks once each time that it is called.


def _getting(url):
    return lambda: lambda: _get(url)


class NatsClient:
    """Publishes messages into a stream on disk, to which it has subscribed, too."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.lines = self.socket.makefile("rb")
        self.lines.readline()  # INFO
        stream = b'{"name":"load","subjects":["load"],"storage":"file","max_msgs":1000}'
        self._send(b'CONNECT {"verbose":false}', b"SUB load 1", b"PUB $JS.API.STREAM.CREATE.load %d" % len(stream), stream)

    def _send(self, *lines):
        self.socket.sendall(b"".join(line + b"\r\n" for line in lines))

    def __call__(self):
        self._send(b"PUB load 5", b"hello")
        while not (line := self.lines.readline()).startswith(b"MSG"):
            assert line and not line.startswith(b"-ERR"), line
            if line.startswith(b"PING"):
                self._send(b"PONG")
        self.lines.readline()


def _nats(folder, port):
    client = free_port()
    return (["-a", "127.0.0.1", "-p", str(client), "-m", str(port), "-js", "-sd", str(folder)], "/varz",
            lambda: NatsClient(client))


def _caddy(folder, port):
    config = folder / "Caddyfile"
    config.write_text(f"{{\n admin off\n}}\nhttp://127.0.0.1:{port} {{\n respond \"hello\"\n}}\n")
    return ["run", "--config", str(config)], "/", _getting(f"http://127.0.0.1:{port}/")


def _etcd(folder, port):
    peer = free_port()
    url = f"http://127.0.0.1:{port}"

    def client():
        turns = itertools.cycle(((f"{url}/v3/kv/put", b'{"key":"a2V5","value":"dmFsdWU="}'),
                                 (f"{url}/v3/kv/range", b'{"key":"a2V5"}')))
        return lambda: _get(*next(turns))

    return (["--data-dir", str(folder / "data"), "--listen-client-urls", url, "--advertise-client-urls", url,
             "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
             "--initial-cluster", f"default=http://127.0.0.1:{peer}"], "/version", client)


def _prometheus(folder, port):
    config = folder / "prometheus.yml"
    config.write_text("global:\n  scrape_interval: 1s\nscrape_configs:\n- job_name: self\n  static_configs:\n"
                      f"  - targets: ['127.0.0.1:{port}']\n")
    return [f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}"], "/api/v1/query?query=up", _getting(
                f"http://127.0.0.1:{port}/api/v1/query?query=sum(rate(go_gc_duration_seconds_count[30s]))")


ARGUMENTS = {"nats": _nats, "caddy": _caddy, "etcd": _etcd, "prometheus": _prometheus}


def _load(make_client, pause, ended):
    client = make_client()
    while not ended.wait(pause):
        client()


@contextlib.contextmanager
def running(name, pause=0.4):
    """Its process id; it answers four clients meanwhile, each of which pauses for so long."""
    binary = build(name)
    with tempfile.TemporaryDirectory(prefix="gospect-real-") as folder:
        port = free_port()
        arguments, path, make_client = ARGUMENTS[name](pathlib.Path(folder), port)
        url = f"http://127.0.0.1:{port}{path}"
        process = subprocess.Popen([binary, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, preexec_fn=_in_child, cwd=folder,
                                   env={**os.environ, "HOME": folder})
        ended = threading.Event()
        clients = [threading.Thread(target=_load, args=(make_client, pause, ended)) for _ in range(4)]
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
