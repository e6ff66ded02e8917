"""The Go module: a program that looks at itself with the gospect that it carries."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request

import pytest

from lib import gomodule, gotrace, nobody, pprof, process
from lib.params import every_version

VERSIONS = ("1.17.13", "1.20.14", "1.22.12", "1.27.2")


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    return gomodule.packed(tmp_path_factory.mktemp("module"))


class Refused(Exception):
    def __init__(self, code, body):
        super().__init__(f"{code} {body}")
        self.code = code


class Server:
    """The program of one Go version, in a folder that nobody can reach."""

    def __init__(self, version, module, prefix=()):
        self.folder = tempfile.mkdtemp(dir="/tmp", prefix="module.")
        os.chmod(self.folder, 0o755)
        program = gomodule.build(version, module, self.path("src"))
        self.process = subprocess.Popen([*prefix, program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=open(self.path("words"), "w"), text=True)
        self.ready, self.pid, self.address = self.process.stdout.readline().split()

    def path(self, name):
        return pathlib.Path(self.folder) / name

    def get(self, path):
        """(headers, body)."""
        try:
            with urllib.request.urlopen(f"http://{self.address}{path}", timeout=60) as answer:
                return answer.headers, answer.read()
        except urllib.error.HTTPError as refused:
            raise Refused(refused.code, refused.read().decode()) from refused

    def words(self):
        return self.path("words").read_text()

    def children(self):
        return pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()

    def close(self):
        self.process.kill()
        self.process.communicate()
        shutil.rmtree(self.folder)


@contextlib.contextmanager
def served(version, module, **options):
    server = Server(version, module, **options)
    try:
        yield server
    finally:
        server.close()


def requests_meanwhile(server, over):
    while not over.is_set():
        server.get("/slow")


@contextlib.contextmanager
def load(server):
    over = threading.Event()
    thread = threading.Thread(target=requests_meanwhile, args=(server, over))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@every_version(VERSIONS)
def test_fgprofs_handler_with_one_line_changed(module, tmp_path, version):
    with served(version, module) as server:
        headers, body = server.get("/debug/fgprof?seconds=1")
        assert "Gospect-Fallback" not in headers, headers["Gospect-Fallback"]
        profile = pprof.parse(body)
        assert profile.default_type == "wall" and f"go{version}" in " ".join(profile.comments)
        # nap and waitForever wait all the time, and work works for half of it.
        duration = profile.duration_ns
        for func in "main.nap", "main.waitForever":
            assert abs(profile.time_in(func) - duration) < 0.1 * duration
        assert profile.time_in("main.work") > 0.1 * duration
        assert profile.time_in("main.work", "cpu") > 0
        # What the module itself does takes no goroutine: fgprof hides its own, too.
        waiting = {s.stack[-1] for s in profile.samples}
        assert not [f for f in waiting if "os/exec" in f], waiting

        folded = server.get("/called?format=folded")[1].decode()
        assert re.search(r"^main\.nap;time\.Sleep\S* \d+$", folded, re.M), folded
        with load(server):
            (tmp_path / "out.trace").write_bytes(server.get("/debug/gospect/trace?seconds=1")[1])
            rows = json.loads(server.get("/debug/gospect/requests?seconds=1&format=json")[1])
        trace = gotrace.read_valid(tmp_path / "out.trace")
        assert trace["events"] > 100 and gotrace.tool_trace_takes("1.27.2", tmp_path / "out.trace") is None
        whole = [row for row in rows if row["whole"] and row["waits"].get("sleep")]
        assert whole and all(row["waits"]["sleep"] >= 29e6 for row in whole)
        assert b"main.waitForever" in server.get("/debug/gospect/goroutines")[1]
        assert b'href="trace?seconds=3"' in server.get("/debug/gospect/")[1]
        assert server.children() == []
        assert server.words() == ""


def test_what_the_handler_refuses(module):
    with served(VERSIONS[-1], module) as server:
        for query in "seconds=0", "seconds=x", "seconds=-1", "seconds=1&format=gif":
            with pytest.raises(Refused) as refused:
                server.get(f"/debug/fgprof?{query}")
            assert refused.value.code == 400
        with pytest.raises(Refused) as refused:
            server.get("/debug/gospect/none")
        assert refused.value.code == 404


def test_without_the_right_to_read_itself_it_writes_the_runtimes_profile(module):
    with served(VERSIONS[0], module, prefix=nobody.COMMAND) as server:
        headers, body = server.get("/debug/fgprof?seconds=1")
        assert "Gospect-Fallback" not in headers, headers["Gospect-Fallback"]
        assert pprof.parse(body).time_in("main.nap") > 0
        server.get("/hide")
        headers, body = server.get("/debug/fgprof?seconds=1")
        assert "ermission" in headers["Gospect-Fallback"] or "may not" in headers["Gospect-Fallback"]
        profile = pprof.parse(body)
        assert profile.comments == [f"gospect could not record: {headers['Gospect-Fallback']}"]
        assert profile.total("goroutine", lambda s: "main.waitForever" in s.stack) == 1
        assert "main.waitForever 1\n" in re.sub(r"main\.waitForever;.* 1\n", "main.waitForever 1\n",
                                                server.get("/called?format=folded")[1].decode())
        process.wait_until(lambda: server.words().count("wrote the runtime's goroutine profile instead") == 2)
        with pytest.raises(Refused) as refused:
            server.get("/debug/gospect/trace?seconds=1")
        assert refused.value.code == 500


def test_its_own_tests(module):
    assert "ok" in gomodule.test(VERSIONS[-1], module)
