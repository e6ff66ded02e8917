"""The output of gospect at a terminal, and without one."""

import fcntl
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import termios
import time
import urllib.parse

import pytest

from lib import gospect
from lib.process import wait_until


def at_terminal(*args, columns=80, status=0, **kwargs):
    """The lines that a terminal of this width shows at the end."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([gospect.BINARY, *map(str, args)], stdin=subprocess.DEVNULL,
                               stdout=theirs, stderr=theirs, **kwargs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 65536)
        except OSError:  # EIO: nobody has the other side any more
            break
    os.close(ours)
    assert process.wait(60) == status, shown
    text = re.sub(r"gospect: [^\n]*?\r\x1b\[K", "", shown.decode().replace("\r\n", "\n"))
    return text.replace("\r\x1b[K", "").splitlines()


def test_record_writes_a_page_and_says_what_stands_out(states, tmp_path):
    lines = at_terminal("record", states.pid, "-d", "1s", cwd=tmp_path)
    page = tmp_path / f"states-{states.pid}.html"
    (url,) = [line for line in lines if line.startswith("file://")]
    assert pathlib.Path(urllib.parse.unquote(url[7:])) == page.resolve()
    assert "<html" in page.read_text()
    assert 5 <= len(lines) <= 16 and any("wait: " in line for line in lines)
    goroutines = len(gospect.dump(states.pid))
    assert re.fullmatch(rf"gospect: 1\.\d s, {goroutines} goroutines, [\d,]+ samples -> {page.name}", lines[-1])


def test_a_second_page_does_not_replace_the_first(states, tmp_path):
    for _ in range(2):
        at_terminal("record", states.pid, "-d", "200ms", cwd=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"states-{states.pid}-2.html",
                                                                f"states-{states.pid}.html"]


def test_verbose_and_a_pipe_have_all_numbers(states, tmp_path):
    lines = at_terminal("record", states.pid, "-d", "200ms", "-v", "-o", "p.pb.gz", cwd=tmp_path)
    piped = gospect.run("record", states.pid, "-d", "200ms", "-o", tmp_path / "q.pb.gz").ok().words
    for line in (lines[-1], piped[-1]):
        for part in ("goroutines", "samples at", "Hz", "ticks missed", "dropped as torn", "% of a core"):
            assert part in line
    assert "dropped" not in at_terminal("record", states.pid, "-d", "200ms", "-o", "p.pb.gz", cwd=tmp_path)[-1]


@pytest.mark.parametrize("args", [("dump", "-f", "html"), ("dump", "-f", "pprof"), ("record", "-d", "1s", "-f", "html")], ids=" ".join)
def test_a_page_is_not_shown_on_a_terminal(states, args):
    lines = at_terminal(*args, "-p", states.pid, status=2)
    assert len(lines) == 1 and "use -o FILE" in lines[0]


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_tables_fit_the_terminal(states, tmp_path, columns):
    gospect.run("record", states.pid, "-d", "300ms", "-o", tmp_path / "p.pb.gz").ok()
    for args in (("ps",), ("doctor",), ("doctor", states.pid), ("report", tmp_path / "p.pb.gz"),
                 ("report", tmp_path / "p.pb.gz", "--by", "func"),
                 ("report", "--diff", tmp_path / "p.pb.gz", tmp_path / "p.pb.gz")):
        lines = at_terminal(*args, columns=columns)
        words = [line for line in lines if not line.startswith("gospect: ")]
        assert words and max(map(len, words)) <= columns, max(words, key=len)


def test_tables_of_a_trace_have_room_for_names_on_80_columns(targets, tmp_path):
    program, trace = targets.start("requests"), tmp_path / "t.trace"
    tracing = subprocess.Popen([gospect.BINARY, "trace", str(program.pid), "-d", "2s", "-o", trace], stderr=subprocess.PIPE)
    while tracing.poll() is None:
        program.send("http 20")
        program.line()
    assert tracing.returncode == 0, tracing.communicate()
    for args in (("--by", "request", "-n", "5"), ("--by", "request", "--per", "all"), ()):
        lines = at_terminal("report", trace, *args)
        assert any(name in line for line in lines for name in ("GET / 200", "serverHandler.ServeHTTP", "main.main")) or "all" in lines[1]
        for line in lines:
            # A longer name than this is cut.
            assert not line.endswith("...") or len(line.rsplit("  ", 1)[-1]) >= 31, lines
        assert max(map(len, lines)) <= 80
    assert any(re.search(r"in main\.doSleep:\d+$", line) for line in at_terminal("report", trace, "--by", "request", "-n", "5"))


def test_long_work_shows_one_line_that_is_gone_at_the_end(states, tmp_path):
    text = gospect.run("dump", states.pid, "--raw", "--all").ok().out
    (tmp_path / "dump.txt").write_bytes(text * (8_000_000 // len(text)))
    ours, theirs = pty.openpty()
    with open(tmp_path / "out", "wb") as out:
        process = subprocess.Popen([gospect.BINARY, "symbolize", tmp_path / "dump.txt"], stdin=subprocess.DEVNULL,
                                   stdout=out, stderr=theirs)
    os.close(theirs)
    wait_until(lambda: "Seccomp:\t2" in open(f"/proc/{process.pid}/status").read(), what="confinement")
    process.send_signal(signal.SIGSTOP)  # it works for more than a second
    time.sleep(1.2)
    process.send_signal(signal.SIGCONT)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 65536)
        except OSError:
            break
    os.close(ours)
    assert process.wait(60) == 0, shown
    assert re.search(rb"\r\x1b\[Kgospect: reading .*dump\.txt, \d+ s", shown), shown
    assert shown.endswith(b"\r\x1b[K"), shown
    quiet = gospect.run("symbolize", tmp_path / "dump.txt", seconds=60, stdout=subprocess.DEVNULL)
    assert quiet.status == 0 and quiet.err == ""
