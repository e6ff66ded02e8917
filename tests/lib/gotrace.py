"""Go's own readers of execution traces."""

import functools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import urllib.request

from lib import golang

SOURCE = pathlib.Path(__file__).resolve().parent / "gotrace" / "main.go"
PACKAGE = "cmd/gospect_gotrace"
# What `go tool trace` calls the output of all events, without its web page.
PRINT = {(1, 22): "-d=1", (1, 23): "-d=1"}


def link_tree(root, tree):
    """A Go tree of links, in which a package can be added."""
    for path in root.iterdir():
        if path.name != "src":
            (tree / path.name).symlink_to(path)
    (tree / "src" / "cmd").mkdir(parents=True)
    for folder in (pathlib.Path("src"), pathlib.Path("src/cmd")):
        for path in (root / folder).iterdir():
            if not (tree / folder / path.name).exists():
                (tree / folder / path.name).symlink_to(path)


@functools.cache
def checker(version=golang.NEWEST):
    """A program that reads traces as that Go does: with its reader, validator and summarizer."""
    folder = golang.CACHE / f"go{version}" / f"gotrace-{golang.digest(SOURCE.parent)}"
    with golang.building(folder):
        if not (folder / "gotrace").exists():
            tree = folder / "tree"
            shutil.rmtree(tree, ignore_errors=True)
            tree.mkdir(parents=True)
            link_tree(pathlib.Path(golang.go(version, "env", "GOROOT").strip()), tree)
            package = tree / "src" / PACKAGE
            package.mkdir()
            shutil.copy(SOURCE, package)
            env = {**golang.environment(version), "GOROOT": str(tree), "GOTOOLCHAIN": "local"}
            subprocess.run([tree / "bin" / "go", "build", "-o", folder / "gotrace", PACKAGE],
                           cwd=tree / "src" / "cmd", env=env, check=True)
            shutil.rmtree(tree)
    return folder / "gotrace"


def read(*files, newer=False, wire=None):
    """What Go's reader makes of each file, as gotrace/main.go says it. `newer`: not a trace of
    ours, so its header may be newer than Go 1.22's. `wire`: ours, with the header of Go 1.`wire`."""
    env = {**golang.environment(golang.NEWEST), **({"NEWER": "1"} if newer else {}),
           **({"WIRE": str(wire)} if wire else {})}
    result = subprocess.run([checker(), *files], env=env, capture_output=True, check=True)
    return [json.loads(line) for line in result.stdout.splitlines()]


def read_valid(file):
    result, = read(file)
    assert "error" not in result, f"Go's reader: {result['error']}"
    return result


def tool_trace_takes(version, file):
    """`go tool trace` of that version reads the whole file; its complaint, or None."""
    golang.go(version, "version")  # is fetched, the first time, which is said where complaints are
    result = subprocess.run(
        [golang.go_command(), "tool", "trace", PRINT.get(golang.minor(version), "-d=parsed"), file],
        env=golang.environment(version), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True)
    complaint = result.stderr.strip()
    if result.returncode == 0 and not complaint:
        return None
    return complaint or f"exit status {result.returncode}"


def programs_logs(read):
    """How often each log of the program came, without those that gospect writes (docs/internals/trace-file.md)."""
    return {text: n for text, n in read["logs"].items() if not text.startswith("gospect.")}


class Pages:
    """`go tool trace` of that version shows the file to a browser."""

    def __init__(self, version, file):
        self.process = subprocess.Popen(
            [golang.go_command(), "tool", "trace", "-http=127.0.0.1:0", file],
            env={**golang.environment(version), "BROWSER": "true"}, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, start_new_session=True)
        said = []
        for line in self.process.stderr:
            said.append(line)
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                self.address = found[0]
                return
        raise AssertionError(f"go tool trace: {''.join(said)}")

    def get(self, path):
        """The page; an error of the tool is one of ours."""
        with urllib.request.urlopen(self.address + path, timeout=30) as answer:
            assert answer.status == 200
            return answer.read()

    def close(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stderr.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
