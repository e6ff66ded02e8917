"""record --every: a file each DURATION, of which the newest are kept."""

import os
import re
import signal
import time

import pytest

from lib import gospect, pprof
from lib.process import wait_until

NAME = re.compile(r"server-\d{8}-\d{6}(-\d+)?\.pb\.gz")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_written_each_time_and_the_newest_are_kept(states, tmp_path):
    others = {"server-20200101-000000.pb.gz.old", "server-2020.pb.gz", "server.pb.gz", "other-20200101-000000.pb.gz"}
    for name in others | {"server-20200101-000000.pb.gz"}:
        (tmp_path / name).write_text("of before")
        os.utime(tmp_path / name, (1577836800, 1577836800))
    began = time.time()
    result = gospect.run("record", "-p", states.pid, "--every", "1s", "--keep", "2", "-d", "4s", "-o",
                         tmp_path / "server.pb.gz", *gospect.BUDGET).ok()
    passed = time.time() - began
    written = re.findall(r"-> (\S+)$", result.err, re.M)
    assert len(written) == len(set(written)) == 4
    assert all((tmp_path / name).read_text() == "of before" for name in others)
    kept = [tmp_path / name for name in names(tmp_path) if name not in others]
    assert [str(path) for path in kept] == sorted(written[-2:]) and all(NAME.fullmatch(path.name) for path in kept)
    profiles = [pprof.read(path) for path in kept]
    assert all(p.samples and p.time_in("main.main") for p in profiles)
    # Each begins a second after the one before, however long that took to write. The last one ends with the
    # duration, which the clock of the machine has counted too.
    begins = [p.time_ns / 1e9 for p in profiles]
    ends = begins[-1] + profiles[-1].duration_ns / 1e9
    assert begins[0] < begins[1] and ends - began <= passed
    assert all(p.duration_ns <= 1.0e9 + 1e9 * passed - 4e9 for p in profiles)


def test_a_signal_ends_the_last_one_and_writes_it(states, tmp_path):
    gospect_ = gospect.start("record", "-p", states.pid, "--every", "1h", "-o", tmp_path / "server.pb.gz")
    children = f"/proc/{gospect_.pid}/task/{gospect_.pid}/children"
    wait_until(lambda: open(children).read().strip(), what="the recording to begin")
    gospect.await_recording(gospect_)
    time.sleep(1)
    gospect_.send_signal(signal.SIGTERM)
    assert gospect_.wait(60) == 0
    gospect_.communicate()
    [name] = names(tmp_path)
    assert NAME.fullmatch(name) and pprof.read(tmp_path / name).samples


def test_it_ends_when_the_program_does(targets, tmp_path):
    program = targets.start("states", args=("-only", "chan"))
    gospect_ = gospect.start("record", "-p", program.pid, "--every", "1s", "-o", tmp_path / "server.pb.gz")
    wait_until(lambda: names(tmp_path), what="the first file")
    targets.forget(program).stop()
    assert gospect_.wait(60) == 1
    assert str(program.pid) in gospect_.communicate()[1].decode().splitlines()[-1]
    assert all(NAME.fullmatch(name) for name in names(tmp_path))


@pytest.mark.parametrize("args,said", [
    (("-p", "1", "--every", "1s"), "--every needs -o FILE"),
    (("-p", "1", "--every", "1s", "-o", "-", "-f", "pprof"), "--every needs -o FILE"),
    (("-p", "1", "--keep", "2", "-o", "x.pb.gz"), "--keep needs --every DURATION"),
    (("--every", "1s", "-o", "x.pb.gz", "--", "true"), "--every and -- COMMAND are mutually exclusive"),
    (("-p", "1", "--every", "10ms", "-o", "x.pb.gz"), "duration"),
])
def test_wrong_usage_is_said(args, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert said in gospect.run("record", *args).fails(2)
    assert not names(tmp_path)
