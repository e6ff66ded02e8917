"""Servers that take what `gospect push` sends, and do what servers do when they fail."""

import http.server
import socket
import ssl
import struct
import subprocess
import threading

from lib import pprof


def certificate(folder, name, names="IP:127.0.0.1"):
    """Of a server, signed by itself: the files with it and with its key."""
    files = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=localhost", "-addext", f"subjectAltName={names}", "-out", files[0],
                    "-keyout", files[1]], check=True, capture_output=True)
    return files


class Received:
    """One profile: its labels and its pprof file."""

    def __init__(self, series):
        pairs = [pprof.message(pair) for pair in series[1]]
        self.labels = {pair[1].decode(): pair.get(2, b"").decode() for pair in pairs}
        [sample] = series[2]
        self.name = self.labels.pop("__name__")
        self.file = pprof.message(sample)[1]
        assert len(self.labels) == len(pairs) - 1

    @property
    def profile(self):
        return pprof.parse(self.file)


class Pyroscope:
    """push.v1.PusherService/Push over HTTP/1.1. `mode` says what it answers."""

    PATH = "/push.v1.PusherService/Push"

    def __init__(self, port=0, tls=None):
        self.mode = 200
        self.requests = []  # (path, headers, body) of those that were taken
        self.tries = []  # the mode of each
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):  # noqa: N802
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.answer(self, body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self.leave = threading.Event()
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def answer(self, handler, body):
        mode = self.mode
        self.tries.append(mode)
        if mode == "hang":
            self.leave.wait(60)
        if mode in ("close", "hang"):
            # Without an answer, and as a crash ends it.
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            handler.close_connection = True
            return
        if mode == "half":
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of")
            handler.close_connection = True
            return
        if mode == 200:
            self.requests.append((handler.path, handler.headers, body))
        text = b"{}" if mode == 200 else b"the \x1b[31mserver\x1b[0m says no\nand more"
        handler.send_response(mode)
        handler.send_header("Content-Length", str(len(text)))
        if mode == 429:
            handler.send_header("Retry-After", "2")
        handler.end_headers()
        handler.wfile.write(text)

    @property
    def received(self):
        """All profiles, in the order in which they came."""
        return [Received(pprof.message(series, (1, 2))) for _, _, body in self.requests
                for series in pprof.message(body, (1,))[1]]

    def named(self, name):
        return [r for r in self.received if r.name == name]

    def stop(self):
        self.leave.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
