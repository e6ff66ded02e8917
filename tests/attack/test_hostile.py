"""A program that lies about everything while it is looked at, by every verb, under ASan and UBSan.

Each run of gospect ends in time and in bounded memory, with a result or with a refusal. `make hostile`
takes HOSTILE_SECONDS for it, an hour.
"""

import collections
import itertools
import os
import pathlib
import random
import re
import signal
import subprocess
import tempfile
import time

import pytest

from lib import golang, gospect, terminal

SANITIZED = pathlib.Path(os.environ.get("GOSPECT_SANITIZED",
                                         gospect.ROOT / "build-asan" / "gospect"))
SECONDS = int(os.environ.get("HOSTILE_SECONDS", "30"))
# A sanitizer takes some three times as much memory.
MOST_MB = 3000
# Of one run, on a machine with a processor for it; each asks for a second or less of the target's time.
MOST_SECONDS = 60
LIES = ["goroutines", "threads", "shared", "head", "stale_agent", "buckets", "spans", "objects",
        "goroutines,threads,shared,head,stale_agent,buckets,spans,objects"]
# A verb that ran so often under all lies has answered at times: where it refuses each time, nothing is
# read, and nothing is shown. doctor's answer is that something is wrong.
OFTEN = 12
VERBS = [("ps",), ("dump",), ("dump", "-f", "json"), ("dump", "--locals"),
         ("dump", "--unwind", "fp"), ("stack", "-g", "1"),
         ("record", "-d", "0.7", "-o", "x.pb.gz"), ("record", "-d", "0.7", "--budget", "100", "-f",
                                                    "html", "-o", "x.html", "--all"),
         ("trace", "-d", "0.5", "-o", "x.trace"), ("trace", "-d", "0.5", "-o", "x.pftrace"),
         ("offcpu", "-d", "0.5", "--by", "label:id"),
         ("offcpu", "-d", "0.5", "--sampled", "--by", "label:id"), ("doctor",), ("top",),
         ("waits",), ("heap",), ("heap", "--kind", "mutex", "-f", "json"),
         ("memory",), ("memory", "-f", "html"), ("why", "-d", "0.5"), ("why", "-d", "0.5", "--json"),
         ("leaks",), ("leaks", "-f", "json"), ("leaks", "--exact"), ("heap", "-f", "debug1"),
         ("heap", "--retained"), ("heap", "--retained", "-f", "json"),
         ("heap", "--retained", "-f", "hprof", "-o", "x.hprof"), ("dump", "--group"),
         ("dump", "--values", "--locals")]
REPORT = re.compile(r"AddressSanitizer|runtime error:|LeakSanitizer|stack smashing|buffer overflow")


def sanitizers():
    return {**os.environ, "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",
            "UBSAN_OPTIONS": "halt_on_error=1:abort_on_error=1:print_stacktrace=1"}


class Hostile:
    """The hostile program, run as nobody. It may crash by its own lies."""

    def __init__(self, folder, lies, seed):
        program = folder / "hostile"
        if not program.exists():
            program.write_bytes(golang.build("hostile", golang.NEWEST).read_bytes())
            program.chmod(0o755)
        user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        self.process = subprocess.Popen(
            [*(user if os.geteuid() == 0 else []), program, f"-lies={lies}", f"-seed={seed}"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.ready = self.process.stdout.readline().startswith(b"ready")

    def stop(self):
        self.process.kill()
        self.process.communicate()


def most_seconds():
    """Where others want the processors too, a run has its share of them only."""
    return MOST_SECONDS * max(1, os.getloadavg()[0] / os.cpu_count())


def run_top(pid, binary):
    with terminal.Terminal(binary, "top", "-p", pid, env={
            key: value for key, value in sanitizers().items() if key.endswith("SAN_OPTIONS")}) as t:
        for key in ("2", "Enter", "Escape", "3", "4", "1", "q"):
            time.sleep(0.3)
            if t.running():
                t.press(key)
        status = t.status(most_seconds())
        return status, t.err()


def run_verb(verb, pid, binary):
    """Its status, what it said, its megabytes."""
    target = () if verb[0] == "ps" else ("-p", str(pid))
    with open("err", "w+", encoding="utf-8", errors="replace") as err:
        process = subprocess.Popen([binary, *verb, *target], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=err, env=sanitizers())
        most = most_seconds()
        timer = time.monotonic() + most
        while True:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            if time.monotonic() > timer:
                process.send_signal(signal.SIGABRT)
                os.wait4(process.pid, 0)
                raise AssertionError(f"{verb} takes more than {most:.0f} s")
            time.sleep(0.02)
        process.returncode = os.waitstatus_to_exitcode(status)
        err.seek(0)
        return process.returncode, err.read(), usage.ru_maxrss / 1024


def check(verb, lies, seed, pid, binary):
    where = f"{' '.join(verb)} of -lies={lies} -seed={seed}"
    if verb[0] == "top":
        status, err = run_top(pid, binary)
    else:
        status, err, megabytes = run_verb(verb, pid, binary)
        assert megabytes < MOST_MB, f"{where}: {megabytes:.0f} MB"
    assert status in (0, 1) and not REPORT.search(err), f"{where}: {status}\n{err[-6000:]}"
    return status


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.time_limit(SECONDS + 300)
def test_every_verb_refuses_or_answers():
    if not SANITIZED.exists():
        pytest.skip("build-asan/gospect is missing: make attack builds it")
    verbs = [verb for verb in VERBS if verb[0] != "top" or terminal.why_not() is None]
    end = time.monotonic() + SECONDS
    answered = collections.Counter()
    refused = collections.Counter()
    first = random.randrange(1 << 20)
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        os.chmod(name, 0o755)
        for seed in itertools.count(first):
            lies = LIES[seed % len(LIES)]
            for verb in random.sample(verbs, 5):
                if time.monotonic() > end:
                    print(f"answered: {dict(answered)}\nrefused: {dict(refused)}")
                    assert answered and refused
                    assert not [verb for verb in refused if refused[verb] >= OFTEN and
                                not answered[verb] and verb != "doctor"]
                    return
                hostile = Hostile(pathlib.Path(name), lies, seed)
                try:
                    if hostile.ready:
                        status = check(verb, lies, seed, hostile.process.pid, SANITIZED)
                        (refused if status else answered)[verb[0]] += 1
                finally:
                    hostile.stop()
