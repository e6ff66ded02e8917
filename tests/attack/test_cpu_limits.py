"""Reading a file takes no more CPU time than a file of its size may take, and gospect says so.

An older gospect limited its memory alone: a file that its readers did not get to the end of held a CPU
for ever.
"""

import gzip
import os
import re
import shutil

import pytest

from lib import gospect
from test_reader_bombs import waits

MEGABYTE = 1 << 20

VERBS = {"report": ("report", "file"), "symbolize": ("symbolize", "file", "-o", "x.pb.gz"),
         "dump": ("dump", "--core", "file"), "stack": ("stack", "--core", "file", "-g", "1"), "unwind-info": ("unwind-info", "file", "-o", "x")}


def limits(verb):
    """(soft, hard) as the verb has set them."""
    gospect.run(*verb, prefix=("strace", "-o", "log", "-e", "trace=prlimit64,setrlimit"))
    with open("log", encoding="utf-8") as log:
        found = re.findall(r"RLIMIT_CPU, {rlim_cur=(\d+), rlim_max=(\d+)}", log.read())
    assert found, verb
    return tuple(map(int, found[-1]))


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is missing")
@pytest.mark.parametrize("verb", VERBS)
def test_the_limit_grows_with_the_file(verb):
    with open("file", "wb") as file:
        file.write(b"x" * 100)
    soft, hard = limits(VERBS[verb])
    assert 60 <= soft < hard <= soft + 10
    os.truncate("file", 500 * MEGABYTE)
    larger, hard = limits(VERBS[verb])
    assert larger == soft + 500 and hard > larger


def test_a_file_that_takes_longer_ends_in_a_line():
    with open("file", "wb") as file:
        file.write(gzip.compress(b"".join(waits(2_000_000)), 1))
    result = gospect.run("report", "file", prefix=("prlimit", "--cpu=1:30"))
    assert result.status == 1, result.err
    assert result.err.startswith("gospect: reading the file takes more than 1 s of CPU time")
    assert result.err.count("\n") == 1
