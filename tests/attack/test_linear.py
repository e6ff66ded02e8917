"""No input makes gospect slow or big: time and memory are limited by the size of the input.

Each parser is fed, through the entry point of its fuzz target, with inputs of 64 KB, 256 KB and 1 MB
in which parts of a good one are there again and again, with and without counts that lie. A byte may
take 2 us of processor time and 256 bytes of memory, beside 0.5 s and 64 MB for all (tests/fuzz/replay.c).
`ROUNDS=20 tests/run -k linear` takes more rounds.
"""

import os
import re
import subprocess

import pytest

from lib import gospect
from lib.params import in_full

BUILD = gospect.BINARY.parent / "tests" / "fuzz"
ROUNDS = int(os.environ.get("ROUNDS", in_full(2, 1)))
# What reads what: an ELF file and its build information (buildinfo, layout), function tables, DWARF
# types, variables and call frames, core files and their notes, recordings, traces, raw dumps, memory.
TARGETS = ("buckets", "buildinfo", "core", "dominators", "dwarf", "fixture", "go_trace", "heap", "labels", "layout",
           "stale_agent", "liar", "objects", "own_files", "pclntab", "perfdata", "perfetto", "probe_sites", "pprof", "raw", "rings", "stacks",
           "types", "waits")
# Capstone keeps 2 KB for an instruction, which may be of one byte; of a function 64 KB are decoded.
BYTES = {"probe_sites": 3072}
# A byte may be a step. The worst input is three of them again and again: look at all rings, begin a
# generation of both formats, look once more. That takes 9 to 19 us, so 3 to 6 us a byte, at every
# size. In gospect a generation begins by the clock or the file's size, not by what the target writes.
NS = {"rings": 8000}


def test_every_fuzz_target_is_here():
    sources = (gospect.ROOT / "tests" / "fuzz").glob("fuzz_*.c")
    assert set(TARGETS) == {source.stem.removeprefix("fuzz_") for source in sources}


@pytest.mark.parametrize("target", TARGETS)
def test_time_and_memory_grow_no_faster_than_the_input(target):
    program = BUILD / f"replay_{target}"
    if not program.exists():
        pytest.skip("not built for this processor")
    done = subprocess.run([program, "--grow", str(ROUNDS), str(BYTES.get(target, 256)),
                           str(NS.get(target, 2000))],
                          stdout=subprocess.PIPE, text=True, timeout=100, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout
    assert int(re.search(r"(\d+) inputs", done.stdout)[1]) >= 2 * ROUNDS
