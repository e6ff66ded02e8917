"""A traced program that makes gospect keep ever more, wait for ever, or lose what it has."""

import shutil
import signal
import time

import pytest

from lib import gospect, gotrace, growth
from lib.process import wait_until
from lib.traced import Tracing, incidents

FORMATS = ("trace", "pftrace")
FLIGHT_MB = 8
MOST_LOST = 0.05  # of all records
# Goroutines of the program fresh: each has more than 40 bytes in either format.
FILLS_IT = (FLIGHT_MB << 20) // 40


@pytest.mark.alone
@pytest.mark.parametrize("suffix", [pytest.param("trace", marks=pytest.mark.slow), "pftrace"])
@pytest.mark.time_limit(240)
def test_texts_that_never_come_twice_do_not_fill_memory(targets, tmp_path, suffix):
    """Before texts were forgotten, memory grew by megabytes a second, and a Perfetto trace hung at
    its first generation, beyond SIGINT. When they were, but each lay in the heap by itself, gospect
    took 18 to 26 MB for a file of 8. tests/soak/trace does this for longer."""
    program = targets.start("fresh", args=("-workers=80", "-pause=1ms"))
    t = Tracing(program.pid, tmp_path / f"t.{suffix}", "--flight", 60, "--max-size", FLIGHT_MB)
    t.has_begun()

    def has_ended(goroutines):
        return int(program.ask("count")) >= goroutines

    wait_until(lambda: has_ended(FILLS_IT), 120, "the flight to have all its bytes")
    samples = growth.sample(t.process.pid, lambda: has_ended(2 * FILLS_IT))
    first, last = growth.of_tenths(samples)
    t.end()
    print(f"{first} kB, {last} kB, {max(samples)} kB at most, {t.lost} of {t.events} lost")
    assert last <= 1.1 * first, (first, last)
    # What is not kept takes no memory.
    assert t.events > FILLS_IT and t.lost <= MOST_LOST * (t.events + t.lost), (t.events, t.lost)
    # What is kept, and a generation, an eighth of that, with its texts while it is made.
    assert max(samples) <= 2 * FLIGHT_MB << 10
    assert t.file.stat().st_size <= FLIGHT_MB << 20
    if suffix == "trace":
        gotrace.read_valid(t.file)


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_region_that_ends_without_a_beginning_does_not_hang_gospect(targets, tmp_path, suffix):
    """As Perfetto, gospect once waited for ever at the first generation's end."""
    program = targets.start("fresh", args=("-workers=4", "-pause=5ms"))
    t = Tracing(program.pid, tmp_path / f"t.{suffix}", "--flight", 1).has_begun()
    time.sleep(2.5)
    t.end()
    assert t.seconds > 0.5


def test_a_flight_that_cannot_be_written_goes_on(targets, tmp_path):
    """Before, the first SIGUSR1 that found no folder, or a full disk, ended a trace of days."""
    program = targets.start("fresh", args=("-workers=2", "-pause=5ms"))
    folder = tmp_path / "gone"
    folder.mkdir()
    file = folder / "t.trace"
    err = open(tmp_path / "err", "w+b")
    process = gospect.start("trace", "-p", program.pid, "-o", file, "--flight", 5, stderr=err)

    def said(words):
        assert process.poll() is None, (tmp_path / "err").read_text()
        return words in (tmp_path / "err").read_text()

    try:
        time.sleep(2)
        shutil.rmtree(folder)
        process.send_signal(signal.SIGUSR1)
        wait_until(lambda: said("the trace continues"), what="a word of what failed")
        folder.mkdir()
        process.send_signal(signal.SIGUSR1)
        wait_until(lambda: said(f" s to {folder}/t-"), what="a second attempt")
        only, = incidents(file)
        assert only.stat().st_size > 0
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        err.close()
