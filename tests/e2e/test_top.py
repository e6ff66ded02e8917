"""gospect top, in a terminal."""

import contextlib
import json
import math
import os
import pathlib
import re
import signal
import statistics
import time

import pytest

from lib import golang, gospect, pprof, terminal
from lib.process import wait_until

pytestmark = pytest.mark.skipif(terminal.why_not() is not None, reason=str(terminal.why_not()))

# One goroutine runs, 20 wait for a channel.
QUIET = ("-only", "none", "-spin", "1", "-extra", "20")
TABLE = 8  # the line in which it begins, where there are no requests


def top(*args, **kwargs):
    return terminal.Terminal(gospect.BINARY, "top", *args, **kwargs)


def rows(screen):
    """The table's rows, as words."""
    return [line.split() for line in screen.split("\n")[TABLE:-1] if line.strip()]


def row_of(screen, name):
    return next(row for row in rows(screen) if row[-1] == name)


def state(screen, name):
    """How many goroutines the head says to be in that state."""
    return value(next(line for line in screen.split("\n") if line.startswith(name)).split()[1])


def value(word):
    """Of a cell: next to nothing is a dash."""
    return 0 if word == "-" else float(word)


def goids(screen):
    return [int(row[0]) for row in rows(screen)]


def test_functions_goroutines_and_creators(targets):
    """The spinning goroutine runs or, when its time slice has ended, waits for another: on a busy
    machine that may be long. It does nothing else, and the program's CPU time is its own."""
    program = targets.start("states", args=QUIET)
    with top("-p", program.pid, width=200, height=60) as t:
        t.wait_for("main.spin", "main.waitForChannel")
        cpu, start = program.cpu_seconds(), time.monotonic()
        time.sleep(3)
        used = (program.cpu_seconds() - cpu) / (time.monotonic() - start)
        screen = t.screen()
        assert all(len(line) <= 200 for line in screen.split("\n"))
        spin = row_of(screen, "main.spin")
        running, runnable = value(spin[2]), value(spin[4])
        assert running + runnable == pytest.approx(1, abs=0.05)
        assert running >= used - 0.15 and int(spin[3].rstrip("%")) >= 95
        assert state(screen, "running") + state(screen, "runnable") == pytest.approx(1, abs=0.3)
        assert float(row_of(screen, "main.waitForChannel")[7]) == pytest.approx(20, abs=0.01)
        t.press("4")
        screen = t.wait_for("[4 creators]", "main.main")
        created = row_of(screen, "main.main")
        assert float(created[0]) >= 21 and created[2:4] == ["0", "0"]
        assert re.fullmatch(r"[\d.]+m?s", created[7])
        # The main goroutine's is none that anybody wrote.
        assert "runtime.newproc" not in screen and "(program start)" in screen
        t.press("Enter")
        t.wait_for("[3 goroutines]", "filter: =main.main", "main.waitForChannel")
        t.press("s", "s")
        t.wait_for("*state")
        wait_until(lambda: rows(t.screen())[0][2:] == ["running", "main.spin"], what="it runs")
        t.press("Escape")
        t.wait_for("[3 goroutines]", without=["filter:"])
        t.press("q")
        assert t.status() == 0 and t.err() == ""


def test_wait_reasons_and_where_they_are(targets):
    program = targets.start("states", args=QUIET)
    with top("-p", program.pid) as t:
        t.wait_for("main.spin")
        t.press("2")
        screen = t.wait_for("[2 waits]", "chan receive")
        row = next(row for row in rows(screen) if "receive" in row)
        # 20 wait for a value that only others could send: for work, as far as anybody can tell.
        assert row[:2] == ["-", "-"] and float(row[2]) >= 20
        assert row[-1] == "main.waitForChannel"
        t.press("Enter")
        t.wait_for("[3 goroutines]", "filter: =chan rec", "main.waitForChannel")
        t.press("q")
        assert t.status() == 0


def test_creators_and_how_many_they_became(targets):
    """Sixteen clients and their server, which go when they are done."""
    program = targets.start("requests")
    with top("-p", program.pid, width=120) as t:
        t.wait_for("main.main")
        t.press("4")
        screen = t.wait_for("[4 creators]", "growth", "(program start)")
        assert all(row[2:4] == ["0", "0"] for row in rows(screen))
        program.send("steady 6 16 50 100")
        assert program.line().startswith("begun")
        wait_until(lambda: "+17" in t.screen(), what="17 goroutines")
        row = row_of(t.screen(), "main.serveSteadily")
        assert (row[0], row[2], row[3]) == ("17.0", "+17", "+17")
        program.line()
        wait_until(lambda: "+17" not in t.screen(), what="none of them")
        t.press("q")
        assert t.status() == 0


NUMBERS = re.compile(r"requests \(estimated\) (>?)([\d.]+)/s  p50 (<?)([\d.]+)(m?s)  "
                     r"p99 <?[\d.]+m?s  ([\d.]+) in progress")


def in_window(served, end, seconds, first, last):
    """How many were in progress on average, when a request is from its first time to its last."""
    spans = ((max(r[first], end - seconds), min(last(r), end)) for r in served)
    return sum(to - since for since, to in spans if to > since) / seconds


class Steady:
    """A program that serves so many clients, in `hold` ms; each comes again `think` ms later. And top."""

    def __init__(self, targets, stack, clients, hold, think):
        self.clients, self.think = clients, think
        self.program = targets.start("requests")
        self.t = stack.enter_context(top("-p", self.program.pid, width=120))
        self.t.wait_for("[1 functions]")
        assert "requests (estimated)" not in self.t.screen()
        self.program.send(f"steady 20 {clients} {hold} {think}")
        # Its clock, by ours.
        self.offset = int(self.program.line().split()[1]) / 1e9 - time.monotonic()

    def look(self):
        screen, self.now = self.t.screen(), time.monotonic() + self.offset
        self.found = NUMBERS.search(screen)
        assert self.found, screen

    def judge(self):
        found, think = self.found, self.think
        served = [[at / 1e9 for at in request] for request in json.loads(self.program.line())]
        # The ten seconds that the screen is of, whole intervals of a second or more, end up to
        # two seconds ago.
        windows = [(self.now - ago / 4, seconds) for ago in range(9) for seconds in (9.5, 10, 10.5, 11.5)]
        within = [[r for r in served if end - seconds <= r[1] < end] for end, seconds in windows]
        rates = [len(some) / window[1] for some, window in zip(within, windows)]
        # A request is in the server from before its handler begins, and its client waits longer;
        # but a server that was preempted may be done with it only after that.
        handlers = [statistics.median(r[1] - r[0] for r in some) for some in within]
        waits = [statistics.median(max(r[3], r[4]) - r[2] for r in some) for some in within]
        busy = [in_window(served, *w, 0, lambda r: r[1]) for w in windows]
        there = [in_window(served, *w, 2, lambda r: max(r[3], r[4])) for w in windows]
        shown = float(found[4]) / (1000 if found[5] == "ms" else 1)
        # Without "<" the gap is not shown: ten times of what it is on an idle machine.
        gap = shown if found[3] else 0.1
        count, each = max(map(len, within)), max(there) / min(rates)
        sd = math.sqrt(count * gap * min(2 * each, gap / 2)) / 10
        print(f"{found[0]}; true: {min(rates)} to {max(rates)} /s, p50 {min(handlers):.4f} to "
              f"{max(waits):.4f} s, in progress {min(busy):.3f} to {max(there):.3f}, sd {sd:.3f}")
        again = gap / 2 / (think / 1000)
        missed = again if found[3] == "" else max(there) / self.clients
        several = again if found[3] else 0
        rounding = 0.5 / min(rates)
        chance = 4 * math.sqrt(several / count) + rounding
        assert (1 - missed - chance) * min(rates) <= float(found[2])
        assert float(found[2]) <= (1 + several + chance) * max(rates)
        assert shown >= min(handlers) - 0.06
        if found[3] == "":
            assert shown <= max(waits) + 0.06
        # Rounded to a tenth.
        assert min(busy) - 4 * sd - 0.05 <= float(found[6]) <= max(there) + 4 * sd + 0.05
        self.t.press("q")
        assert self.t.status() == 0


@pytest.mark.alone
def test_requests_are_counted_and_timed(targets):
    """Against the times that the program itself takes. Errors of looks at random times, each `gap`
    after the last, with a standard deviation of up to a gap (no tick of a hundred a second is free
    on a busy machine):

    A request of length d is in sight for m looks, and counts as m gaps: for d on average, and with
    a variance of at most 2 d gap for a short one, gap^2 / 2 for others (of a part of a gap alone).
    So many of them add up to a normal distribution, of which 4 standard deviations hold in each
    run of many years.

    Looks that find a connection idle give the number of requests behind them, of which the time of
    the next look decides: a look's next has one or several with a variance of rate * gap / 2 a
    request. The client of a short one comes again only after a pause, and gospect takes it to come
    at any time: it expects up to rate * gap / 2 too many. After a look that found a request, those
    of the rest of the gap are missed.

    Two programs at once, which have nothing to do most of the time."""
    with contextlib.ExitStack() as stack:
        both = [Steady(targets, stack, *args) for args in ((16, 200, 400), (48, 3, 150))]
        for one in both:
            one.t.wait_for("requests (estimated)")
        time.sleep(12)
        for one in both:
            one.look()
        for one in both:
            one.judge()


@pytest.mark.parametrize("name, text, colours", [("X", "", True), ("NO_COLOR", "1", False),
                                                 ("NO_COLOR", "", True), ("CLICOLOR", "0", False),
                                                 ("CLICOLOR", "1", True)])
def test_colours_are_obeyed(targets, name, text, colours):
    program = targets.start("states", args=QUIET)
    with top("-p", program.pid, env={name: text, "TERM": "xterm-256color"}) as t:
        t.wait_for("main.spin")
        assert bool(re.search(r"\x1b\[[\d;]*3[1-7]m", t.colours())) == colours
        t.press("q")
        assert t.status() == 0


def test_what_stands_out_is_said_in_a_line(targets):
    program = targets.start("states", args=QUIET)
    with top("-p", program.pid) as t:
        t.wait_for(" cores busy; ")
        # The go statement's wrapper is all that is known of it where it has no CPU sample.
        assert re.fullmatch(r"[\d.]+ cores busy; [\d.]+ % of CPU time in "
                            r"main\.(spin|main\.gowrap\d)", t.lines()[1])
        t.press("q")
        assert t.status() == 0


def test_sort_filter_and_the_stack_of_a_goroutine(targets):
    program = targets.start("states", args=QUIET)
    with top("-p", program.pid) as t:
        t.wait_for("main.spin")
        t.press("3", "/")
        t.type("waitforX")
        t.press("BSpace")
        t.wait_for("filter: waitfor_")
        t.press("Enter")
        screen = t.wait_for("filter: waitfor", "main.waitForChannel",
                            without=["running              main.spin"])
        shown = goids(screen)
        # 20 do not fit below the head.
        assert len(shown) == 15 and "for" in screen.split("\n")[7]
        t.press("s")
        ascending = goids(t.wait_for("*goroutine"))
        assert ascending == sorted(ascending)
        t.press("r")
        descending = goids(t.wait_for("^goroutine"))
        assert descending == sorted(descending, reverse=True) and descending != ascending
        t.press("End", "Enter")
        screen = t.wait_for("goroutine ", "created in main.main")
        assert f"goroutine {ascending[0]} [chan receive, " in screen
        assert re.search(r"main\.waitForChannel\n[< ]*\S*main\.go:\d+", screen)
        t.press("Escape", "Escape")
        t.wait_for("^goroutine", without=["filter:"])
        t.press("s")
        t.wait_for("*state", "main.spin")
        t.press("/")
        t.type("no such function")
        t.press("Enter")
        t.wait_for("nothing matches the filter")
        t.press("?")
        t.wait_for("freeze (Space too); go on", "its stack", "come and gone unseen")
        t.press("q")
        assert t.status() == 0


def test_labels_and_the_goroutines_that_have_one(targets):
    program = targets.start("ledger")
    with top("-p", program.pid, width=200) as t:
        t.wait_for("[1 functions]", "main.")
        t.press("5")
        screen = t.wait_for("worker=sleeper", "worker=burner")
        sleeper = row_of(screen, "worker=sleeper")
        assert sum(map(value, sleeper[0:5:2] + sleeper[5:6])) == pytest.approx(3, abs=0.1)
        t.press("/")
        t.type("worker=sleeper")
        t.press("Enter")
        t.wait_for("filter: worker=sleeper", without=["worker=burner"])
        t.press("3")
        t.wait_for("[3 goroutines]")
        wait_until(lambda: len(rows(t.screen())) == 3, what="three sleepers")
        t.press("q")
        assert t.status() == 0


def test_frozen_view_does_not_change(targets):
    program = targets.start("ledger")
    with top("-p", program.pid) as t:
        t.wait_for("main.", "max")
        t.press("3")
        t.wait_for("[3 goroutines]")
        t.press("f")
        frozen = t.wait_for("FROZEN")
        time.sleep(1.5)
        assert t.screen() == frozen
        t.press("s")
        shown = goids(t.wait_for("*goroutine", "FROZEN"))
        assert shown == sorted(shown)
        t.press("f")
        t.wait_for("[3 goroutines]", without=["FROZEN"])
        t.press("s", "s", "s")
        wait_until(lambda: rows(t.screen()) != rows(frozen), what="other times")
        t.press("q")
        assert t.status() == 0


def test_any_size_of_the_terminal(targets):
    program = targets.start("states", args=QUIET)
    with top("-p", program.pid) as t:
        t.wait_for("main.spin")
        for width, height in ((132, 43), (60, 15), (40, 9), (12, 3), (1, 1), (80, 24)):
            t.resize(width, height)
            if width > 20:
                wait_until(lambda: len(t.lines()) == height and "q quit" in t.lines()[-1],
                           what=f"the last line at {width}x{height}")
            assert all(len(line) <= width for line in t.lines())
            assert t.running()
        t.wait_for("main.spin", "runnable")
        t.press("q")
        assert t.status() == 0


def test_a_profile_of_the_last_minute(targets):
    program = targets.start("states", args=QUIET)
    with top("-p", program.pid) as t:
        t.wait_for("main.spin")
        t.press("w")
        t.wait_for(f"write to: top-{program.pid}-")
        t.press("Enter")
        t.wait_for(f" s to top-{program.pid}-")
        (path,) = pathlib.Path().glob(f"top-{program.pid}-*.pb.gz")
        profile = pprof.read(path)
        seconds = profile.duration_ns / 1e9
        assert 0.5 < seconds < 10
        waiting = profile.time_in("main.waitForChannel")
        assert waiting / 1e9 == pytest.approx(20 * seconds, rel=0.01)
        t.press("w", "C-u")
        t.type("/no/such/folder/x.folded")
        t.press("Enter")
        t.wait_for("cannot write /no/such/folder/x.folded: top creates files in")
        t.press("w", "C-u")
        t.type(path.name)
        t.press("Enter")
        t.wait_for(f"cannot write {path.name}: it exists already")
        t.press("w", "C-u")
        t.type("x.what")
        t.press("Enter")
        t.wait_for("unknown file extension of x.what")
        t.press("q")
        assert t.status() == 0
        assert os.listdir() == [path.name]


def test_the_file_of_the_command_line_is_replaced(targets, tmp_path):
    program = targets.start("states", args=QUIET)
    (tmp_path / "x").mkdir()
    path = tmp_path / "x" / "p.folded"
    path.write_text("before")
    with top("-p", program.pid, "-o", path, width=200) as t:
        t.wait_for("main.spin")
        for _ in range(2):
            t.press("w")
            t.wait_for(f"write to: {path}")
            t.press("Enter")
            t.wait_for(f" s to {path}")
            assert "main.waitForChannel" in path.read_text()
            path.write_text("once more")
        t.press("w", "C-u")
        t.type(str(path.with_name("beside.html")))
        t.press("Enter")
        t.wait_for("beside.html", without=["write to:", "cannot"])
        assert path.with_name("beside.html").read_text().startswith("<!")
        t.press("q")
        assert t.status() == 0


def test_ctrl_z_gives_the_terminal_back_and_fg_goes_on(targets):
    """The shell sees that it stopped, and writes to a terminal as it was."""
    program = targets.start("states", args=QUIET)
    with terminal.Terminal("sh", "-c", "exec bash --norc -i 2>/dev/tty",
                           env={"PS1": "shell> "}) as t:
        t.wait_for("shell>")
        t.type(f"{gospect.BINARY} top -p {program.pid}")
        t.press("Enter")
        t.wait_for("main.spin", "runnable")
        t.press("C-z")
        t.wait_for("Stopped", without=["main.spin"])
        t.type("echo still $((40 + 2))")
        t.press("Enter")
        t.wait_for("still 42")
        t.type("fg")
        t.press("Enter")
        t.wait_for("main.spin", "runnable")
        t.resize(100, 30)
        wait_until(lambda: len(t.lines()) == 30 and "q quit" in t.lines()[-1], what="the new size")
        t.press("3")
        t.wait_for("[3 goroutines]")
        t.press("q")
        t.wait_for("shell>", without=["q quit"])
        t.type("echo then $?")
        t.press("Enter")
        t.wait_for("then 0")


def test_the_targets_end_is_said_and_the_last_view_stays(targets):
    program = targets.start("states", args=QUIET)
    # Tall enough for whatever was running once.
    with top("-p", program.pid, height=50) as t:
        t.wait_for("main.spin", "main.waitForChannel")
        targets.forget(program).stop()
        screen = t.wait_for(f"process {program.pid} has exited", "q quits")
        assert float(row_of(screen, "main.waitForChannel")[5]) == pytest.approx(20, abs=0.5)
        t.press("3", "Enter")
        t.wait_for("goroutine ", "created in")
        t.press("w", "C-u")
        t.type("end.folded")
        t.press("Enter")
        t.wait_for("s to end.folded")
        assert "main.waitForChannel" in pathlib.Path("end.folded").read_text()
        t.press("q")
        assert t.status() == 0 and len(t.err().splitlines()) == 1


def test_a_commands_exit_status_is_passed_on(tmp_path):
    binary = golang.build("states", golang.NEWEST)
    os.mkfifo("input")
    held = os.open("input", os.O_RDWR)
    with top("--", "sh", "-c", f"exec '{binary}' {' '.join(QUIET)} <input") as t:
        screen = t.wait_for("main.spin")
        assert "ready" not in screen
        pid = int(re.search(r"\(pid (\d+)", screen)[1])
        os.kill(pid, signal.SIGKILL)
        t.wait_for("q quits")
        t.press("q")
        assert t.status() == 128 + signal.SIGKILL
    os.close(held)


def test_top_without_a_terminal_suggests_record(states):
    assert "gospect record" in gospect.run("top", "-p", states.pid).fails(2)
    with top("-p", states.pid, env={"TERM": "nonsense"}) as t:
        assert t.status() == 1
        assert t.err().startswith("gospect: unknown terminal type") and t.err().count("\n") == 1


def test_a_terminal_without_a_description_gets_one_of_its_family(states):
    with top("-p", states.pid, env={"TERM": "xterm-nonsense", "LC_ALL": "xx_XX.UTF-8"}) as t:
        wait_until(lambda: not t.screen().isascii(), what="the characters of a UTF-8 terminal")
        t.press("q")
        assert t.status() == 0


@pytest.mark.alone
def test_uses_little_of_a_core_with_ten_thousand_goroutines(targets):
    program = targets.start("crowd", args=("-goroutines", "10000"))
    with top("-p", program.pid) as t:
        t.wait_for("10001 goroutines")
        t.press("3")
        t.wait_for("1000 of 10001")
        schedstat = pathlib.Path(f"/proc/{t.pid}/schedstat")
        before, start = int(schedstat.read_text().split()[0]), time.monotonic()
        time.sleep(8)
        used, passed = int(schedstat.read_text().split()[0]) - before, time.monotonic() - start
        print(f"{100 * used / 1e9 / passed:.2f} % of a core")
        assert used / 1e9 <= 0.012 * passed
        assert used > 0
        t.press("q")
        assert t.status() == 0
