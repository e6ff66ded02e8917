"""gospect dump on recorded fixtures of every Go release: tests/fixtures/README.md.

Nothing runs but gospect: what it finds in the core is held against what the program said when it
died. A change in golayout, image, unwind or dump shows here, on every version and both
architectures, in seconds.
"""

import re

import pytest

from lib import crash, golang, gospect, traceback
from lib.fixtures import ARCHITECTURES, Fixture, recorded

FIXTURES = recorded()
# The program of the fixtures, by what a goroutine does: tests/fixtures/program.
WAITS = {"main.hold.func1": {"chan receive (nil chan)"}, "main.hold.func2": {"chan send"},
         "main.choose": {"select"}, "main.hold.func3": {"select (no cases)"},
         "main.hold.func4": {"semacquire", "sync.Mutex.Lock"},
         "main.hold.func5": {"semacquire", "sync.RWMutex.RLock"},
         "main.hold.func6": {"semacquire", "sync.WaitGroup.Wait"},
         "main.hold.func7": {"sync.Cond.Wait"}, "time.Sleep": {"sleep"},
         "main.readPipe": {"IO wait"}, "main.readRaw": {"syscall"}, "main.spin": {"running"},
         "main.recurse": {"chan receive"}, "main.innermost": {"chan receive"},
         "main.deferred": {"chan receive"}, "main.fall": {"running"}}


def dump(fixture, folder, *args):
    program = fixture.unpack_program(folder)
    return gospect.run("dump", "--core", fixture.core, "--exe", program, *args).ok()


pytestmark = pytest.mark.every_version
every_fixture = pytest.mark.parametrize("version,arch", FIXTURES,
                                        ids=[f"go{v}-{a}" for v, a in FIXTURES])


def patch(version):
    return int((version.split(".") + ["0"])[2])


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_table_of_offsets_has_a_fixture(arch):
    for first, last in golang.TABLES:
        assert any(a == arch and golang.minor(v) == golang.minor(first) and
                   patch(first) <= patch(v) <= patch(last) for v, a in FIXTURES), \
            f"none of {first} to {last} on {arch}: tools/record-fixture {last}"


@pytest.mark.parametrize("version", [version for version, arch in FIXTURES if arch == "amd64"])
def test_a_wait_for_a_pipe_has_its_descriptor(tmp_path, version):
    """runtime.pollDesc has other offsets in Go 1.17 to 1.17.6."""
    fixture = Fixture(version, "amd64")
    program = fixture.unpack_program(tmp_path)
    text = gospect.run("waits", "--core", fixture.core, "--exe", program).ok().text
    assert re.search(r"^network 0x[0-9a-f]+: fd \d+; 1 goroutine\n +goroutine \d+ \[IO wait\] in main.readPipe",
                     text, re.M)


@every_fixture
def test_all_is_what_the_program_said(tmp_path, version, arch):
    fixture = Fixture(version, arch)
    result = dump(fixture, tmp_path, "--all")
    inside, outside = crash.said(fixture.words()), traceback.parse(result.text)
    assert len(inside) > 30
    found = crash.differences(inside, outside, version)
    assert not found, "\n".join(found[:40])
    assert any("SIGABRT" in words for words in result.words)
    assert any(words.startswith("gospect: panic: runtime error: invalid memory address")
               for words in result.words)


@every_fixture
def test_each_goroutine_is_in_its_state(tmp_path, version, arch):
    goroutines = traceback.parse(dump(Fixture(version, arch), tmp_path).text)
    for func, states in WAITS.items():
        goroutine = traceback.one(goroutines, func)
        assert goroutine.state in states, f"{func}: {goroutine.state}"
        assert goroutine.available and goroutine.frames
    assert traceback.one(goroutines, "main.locked").details == ("locked to thread",)
    assert traceback.one(goroutines, "main.recurse").functions().count("main.recurse") == 41


def test_a_fixture_without_its_memory_is_no_dump(tmp_path):
    """The comparison would see it: with a page of the program gone, the dump is another or none."""
    fixture = Fixture(*FIXTURES[-1])
    whole = dump(fixture, tmp_path, "--all").text
    program = tmp_path / "program"
    data = bytearray(program.read_bytes())
    middle = len(data) * 3 // 4
    used = next(at for at in range(middle, len(data)) if data[at])
    data[used:used + 16384] = bytes(16384)
    program.write_bytes(data)
    spoiled = gospect.run("dump", "--all", "--core", fixture.core, "--exe", program)
    assert spoiled.status == 1 or spoiled.text != whole
