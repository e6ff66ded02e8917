"""A running `gospect serve`, and requests to it."""

import contextlib
import http.client
import re
import signal
import socket
import threading
import urllib.parse

from lib import gospect


class Served:
    def __init__(self, *args, prefix=()):
        self.process = gospect.start("serve", "--listen", "127.0.0.1:0", *args, prefix=prefix)
        self.words = []
        for line in iter(self.process.stderr.readline, b""):
            self.words.append(line.decode())
            if found := re.search(r"at (https?)://(127\.0\.0\.1):(\d+)/", self.words[-1]):
                break
        assert self.words and found, f"it does not listen: {self.words}"
        self.url, self.port = found.group(0)[3:-1], int(found.group(3))
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        self.words += [line.decode() for line in self.process.stderr]

    @property
    def host(self):
        return f"127.0.0.1:{self.port}"

    def get(self, path, method="GET", body=None, headers=None, port=None):
        """The response, with its body in `data`."""
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            response.data = response.read()
        return response

    def ok(self, path, **kwargs):
        response = self.get(path, **kwargs)
        assert response.status == 200, f"{path}: {response.status} {response.data[:300]}"
        return response.data

    def socket(self):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        return s

    def raw(self, data):
        """What comes back for these bytes, to the end of the connection."""
        with self.socket() as s:
            s.sendall(data)
            answer = b""
            with contextlib.suppress(ConnectionResetError):
                while piece := s.recv(65536):
                    answer += piece
        return answer

    def stop(self, number=signal.SIGTERM):
        """Its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(30)
        self.reader.join()
        self.process.stdout.close()
        self.process.stderr.close()
        return status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def quoted(path):
    return urllib.parse.quote(path, safe="/?=&")
