"""No name of a hostile program (functions, files, labels, itself) controls a terminal.

The program "escapes" is patched: escape sequences, C1 controls, newlines and U+202E stand in names
that a compiler would refuse. An older gospect failed all but two of these tests.
"""

import json
import re
import shutil
import subprocess

import pytest

from lib import golang, gospect, spoil, terminal
from lib.process import Program

NASTY = "\x1bcab\x1b]0;x\x07\x9b31m\u202e\nforged 5 \u2028".encode("utf-8") + b"\xff"
NAMES = {b"sleeperAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA": b"sleeper", b"F" * 16: b"\x1b[2J\n\xc2\x9b2J\xff",
         b"worker_BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB": b"worker_"}
HIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
LABEL = "label:k\x1b[31m\u202e</script>"


def replacement(name, start):
    text = start + (NASTY if len(name) > 20 else b"")
    return text + b"x" * (len(name) - len(text))


@pytest.fixture(scope="module")
def binary(tmp_path_factory):
    """Its path has a newline and an escape sequence, too."""
    data = golang.build("escapes", golang.NEWEST).read_bytes()
    for name, start in NAMES.items():
        assert name in data
        data = data.replace(name, replacement(name, start))
    folder = tmp_path_factory.mktemp("hostile")
    path = folder / "esc\x1b[31m\n      1  go1.27  forged\u202e"
    path.write_bytes(data)
    path.chmod(0o755)
    yield path
    shutil.rmtree(folder)


@pytest.fixture
def program(binary):
    program = Program(binary)
    yield program
    program.assert_well()
    program.stop()


def assert_clean(result):
    """No control character but gospect's own newlines and indentation, no line of the program's."""
    for data in (result.out, result.err.encode()):
        text = data.decode()
        found = HIDDEN.search(re.sub("^\t+", "", text, flags=re.M))
        assert not found, f"{text[max(0, found.start() - 40):found.end() + 40]!r}"
        assert not any(line.lstrip().startswith(("forged", "main.forged", "1  go1.27"))
                       for line in text.splitlines())
    return result


def run(*args):
    return assert_clean(gospect.run(*args))


def test_live_outputs(program):
    for args in (["dump"], ["dump", "--group"], ["dump", "--all"], ["dump", "-f", "json"],
                 ["dump", "-f", "folded"], ["dump", "--raw"], ["doctor"],
                 *(["record", "-d", 0.3, "-o", "-", "-f", f] for f in ("folded", "speedscope")),
                 *(["offcpu", "-d", 0.3, "--by", by] for by in ("request", LABEL)),
                 ["dump", "--values", "--locals"], ["waits"], ["waits", "-f", "dot"],
                 ["leaks"], ["leaks", "-f", "json"],
                 ["heap", "--retained"], ["heap", "--retained", "-f", "json"], ["memory"], ["memory", "-f", "json"],
                 ["why", "-d", 0.3], ["why", "-d", 0.3, "--json"],
                 ["record", "--children", "-d", 0.3, "-o", "-", "-f", "folded"]):
        result = run(*args, "-p", program.pid)
        assert result.out or result.err
        assert args[0] in ("doctor", "offcpu") or result.status == 0, result.err
    text = gospect.run("dump", "-p", program.pid).text
    assert "main.sleeper\\x1bcab\\x1b]0;x\\x07\\u009b31m\\u202e\\nforged 5 \\u2028\\xff" in text
    goid = re.search(r"goroutine (\d+) \[chan receive\]", text)[1]
    for form in ("text", "json"):
        run("stack", "-p", program.pid, "-g", goid, "-f", form).ok()


# As many bytes as a name has. The kernel writes it raw, in brackets, before the state in /proc/PID/stat.
THREADS = (r"\x1b]0;x\x07\nforged", r"\u202e\u009b2J\xff\r\n5 ", r") D 1 1 1 1 1", r"a) Z 0 (", r"x\n) T 1 1 1\n")


@pytest.mark.parametrize("name", THREADS)
def test_names_of_threads(program, tmp_path, name):
    """They are neither printed raw nor taken for the state that stands behind them."""
    assert program.ask(f'threads "{name}"') == "ok"
    for args in (["dump", "--all"], ["dump", "-f", "json"], ["record", "-d", 0.3, "-o", "-", "-f", "folded"],
                 ["trace", "-d", 0.2, "-o", tmp_path / "t.trace"],
                 ["trace", "-d", 0.2, "-f", "perfetto", "-o", tmp_path / "t.pftrace"],
                 ["offcpu", "-d", 0.3, "--by", LABEL]):
        run(*args, "-p", program.pid).ok()
    run("report", tmp_path / "t.trace", "--by", "state").ok()
    found = run("doctor", "-p", program.pid).text
    assert re.search(r"^ok  trace  ", found, re.M), found
    assert re.search(rf"^ *{program.pid}  go1", run("ps").ok().text, re.M)


@pytest.mark.skipif(terminal.why_not() is not None, reason=str(terminal.why_not()))
def test_top(program):
    """Each table, a goroutine's stack, a filter that is a name, and a message with the file's."""
    program.ask(f'threads "{THREADS[0]}"')
    with terminal.Terminal(gospect.BINARY, "top", "-p", program.pid, width=150, height=40) as t:
        for keys, shown in ((["1"], "[1 functions]"), (["2"], "[2 waits]"), (["3"], "[3 goroutines]"),
                            (["Enter"], "goroutine "), (["Escape"], "[3 goroutines]"),
                            (["5"], "[5 labels]"), (["Enter"], "filter:"), (["Escape"], "[3 g"),
                            (["4"], "[4 creators]"), (["Enter"], "filter:"),
                            (["w", "C-u"], "write to:")):
            t.wait_for("goroutines")
            t.press(*keys)
            screen = t.wait_for(shown)
            found = HIDDEN.search(screen)
            assert not found, (keys, screen)
            assert not any(line.lstrip().startswith(("forged", "1  go1.27"))
                           for line in screen.splitlines())
        t.press("Escape", "1")
        assert "sleeper" in t.wait_for("[1 functions]", "sleeper")
        assert t.title() == ""
        t.press("q")
        assert t.status() == 0


def test_ps(program, binary, tmp_path):
    """The list also has a program with a hostile version."""
    version = f"go{golang.NEWEST}"
    other = spoil.copy_with_version(binary, tmp_path / "other", version,
                                    "go1\x1b[2J\n" + "x" * (len(version) - 8))
    unreadable = subprocess.Popen([other], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    unreadable.stdout.readline()
    try:
        rows = run("ps").ok().text
    finally:
        unreadable.kill()
        unreadable.communicate()
    for pid in (program.pid, unreadable.pid):
        assert re.search(rf"^ *{pid}  go1", rows, re.M), rows


def test_recorded_outputs(program, binary):
    names = {"e.pb.gz": [], "raw.pb.gz": ["--raw"]}
    for name, options in names.items():
        gospect.run("record", "-p", program.pid, "-d", 0.5, "-o", name, *options)
    gospect.run("trace", "-p", program.pid, "-d", 0.5, "-o", "e.trace").ok()
    run("dump", "-p", program.pid, "--raw", "-o", "raw.txt").ok()
    for by in ("func", "root", "state", "wait", LABEL):
        for file in ("e.pb.gz", "e.trace"):
            run("report", file, "--by", by).ok()
            json.loads(run("report", file, "--by", by, "-f", "json").ok().text)
    run("report", "e.trace", "--by", "request")
    run("report", "--diff", "e.pb.gz", "e.pb.gz").ok()
    run("report", "e.trace", "-f", "folded").ok()
    for file in ("raw.pb.gz", "raw.txt"):
        run("symbolize", file, "--exe", binary).ok()
        run("symbolize", file)


def test_exact_strings_stay_exact(program):
    """Escapes in JSON stand for the original bytes, except invalid UTF-8."""
    found = gospect.dump_json(program.pid)["goroutines"]
    functions = {frame["func"] for g in found for frame in g["frames"]}
    expected = (b"main.sleeper" + NASTY).decode("utf-8", "replace")
    assert any(f.startswith(expected) for f in functions), (expected, sorted(functions)[-4:])
    labels = [g["labels"] for g in found if g["labels"]]
    assert labels and all(value.startswith("\x1b]0;x\x07\n\r") for label in labels
                          for value in label.values()), labels


@pytest.mark.parametrize("args", [["report", "NAME"], ["symbolize", "NAME"],
                                  ["dump", "--core", "NAME"], ["record", "-p", "1NAME"], ["NAME"],
                                  ["dump", "-p", "1", "-o", "NAME/x"], ["dump", "--NAME"],
                                  ["report", "x", "--by", "NAME"], ["record", "--", "/NAME"]])
def test_messages_about_names(args):
    """A script may have put the name there."""
    nasty = "\x1b[31m\nforged\u202e\x9b"
    result = run(*(arg.replace("NAME", nasty) for arg in args))
    assert result.status != 0
    assert len(result.words) == 1, result.err
