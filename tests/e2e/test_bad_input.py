"""A failure is one clear line with the right exit status, and harms no process."""

import os
import random
import re
import signal
import stat
import struct
import subprocess
import time

import pytest

from lib import golang, gospect, spoil, traceback
from lib.params import in_full
from lib.process import Program, wait_until

VERBS = ("dump", "record")
READERS = (*VERBS, "serve")  # serve has no -o
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def refuse(*args, status=1, **kwargs):
    """gospect refuses; gives the line in which it says why."""
    before = sorted(os.listdir("."))
    line = gospect.run(*args, **kwargs).fails(status)
    assert sorted(os.listdir(".")) == before, "it left something behind"
    return line


def on(verb, pid, *args):
    """The command line of a verb on a process; a recording is short."""
    more = {"record": ("-d", "0.3", "-o", "out.pb.gz"), "serve": ("--listen", "127.0.0.1:0")}
    return (verb, "-p", pid, *more.get(verb, ()), *args)


# Wrong usage

@pytest.mark.parametrize("args", [
    (), ("nonsense",), ("--nonsense",), ("dump",), ("record",), ("record", "-d", "1"),
    ("dump", "--nonsense"), ("dump", "-p"), ("dump", "-p", ""), ("dump", "-p", "1", "2"),
    ("dump", "-p", "-5"), ("dump", "-p", "0"), ("dump", "-p", "1.5"),
    ("dump", "-p", "99999999999999999999"), ("ps", "extra"),
], ids=" ".join)
def test_wrong_usage_without_a_target(args):
    refuse(*args, status=2)


@pytest.mark.parametrize("args", [
    ("dump", "-f", "nonsense"), ("dump", "--func", "("), ("dump", "-g", "x"), ("dump", "extra"),
    ("dump", "--state", "nonsense"), ("dump", "--label", "=x"),
    ("record", "-f", "nonsense"), ("record", "-o", "out.nonsense"), ("record", "-r", "0"),
    ("record", "-r", "abc"), ("record", "-r", "-1"), ("record", "-d", "-1"), ("record", "-d", "1x"),
    ("record", "--budget", "0"), ("record", "--budget", "much"), ("record", "--func", "[a"),
    ("record", "--on-cpu", "--off-cpu"), ("record", "--", "true"),
], ids=" ".join)
def test_wrong_usage_with_a_target(states, args):
    refuse(args[0], "-p", states.pid, *args[1:], status=2)


def test_a_usage_error_names_what_is_wrong():
    assert "nonsense" in refuse("nonsense", status=2)
    assert "--nonsense" in refuse("dump", "--nonsense", status=2)
    assert "-12" in refuse("dump", "-p", "-12", status=2)


@pytest.mark.parametrize("verb", re.findall(r"^  (\w+) ", gospect.run("--help").text, re.M))
def test_help_ends_with_two_examples(verb):
    text = gospect.run(verb, "--help").ok().text
    assert gospect.run(verb, "-h").ok().text == text
    examples = text.split("\nExamples:\n")[1].splitlines()
    assert len(examples) == 2
    assert all(re.match(rf"  (sudo )?gospect {verb}\b", line) for line in examples)
    assert "Mandatory or optional" not in text


def test_help_shows_core_where_core_files_are_read():
    has = {verb for verb in ("dump", "stack", "record", "top", "trace", "offcpu")
           if "--core" in gospect.run(verb, "--help").text}
    assert has == {"dump", "stack"}


def test_version():
    assert re.search(r"\d+\.\d+", gospect.run("--version").ok().text)


# Not a target

@pytest.mark.parametrize("verb", READERS)
def test_missing_process_is_reported(verb):
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert str(gone.pid) in refuse(*on(verb, gone.pid))


@pytest.mark.parametrize("verb", READERS)
def test_a_zombie(verb):
    zombie = subprocess.Popen(["true"])
    wait_until(lambda: open(f"/proc/{zombie.pid}/stat").read().split()[2] == "Z")
    refuse(*on(verb, zombie.pid))
    zombie.wait()


@pytest.mark.parametrize("verb", READERS)
def test_a_kernel_thread(verb):
    if not os.path.exists("/proc/2/stat") or "(kthreadd)" not in open("/proc/2/stat").read():
        pytest.skip("no kernel threads to be seen here")
    assert "a thread of the kernel" in refuse(*on(verb, 2))


C_PROGRAM = "int pause(void);\nint main(void) { return pause(); }\n"


@pytest.fixture
def not_go(tmp_path, request):
    """A running program that Go did not build."""
    if request.param == "C":
        (tmp_path / "p.c").write_text(C_PROGRAM)
        subprocess.run(["gcc", "-o", tmp_path / "p", tmp_path / "p.c"], check=True)
        command = [tmp_path / "p"]
    elif request.param == "script":
        (tmp_path / "script").write_text("#!/bin/sh\nwhile :; do sleep 0.1; done\n")
        (tmp_path / "script").chmod(0o755)
        command = [tmp_path / "script"]
    else:
        command = ["sleep", "60"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    time.sleep(0.1)
    yield process
    assert process.poll() is None, "it did not survive being looked at"
    process.kill()
    process.wait()


@pytest.mark.parametrize("verb", READERS)
@pytest.mark.parametrize("not_go", ["sleep", "C", "script"], indirect=True)
def test_not_a_go_program(not_go, verb):
    line = refuse(*on(verb, not_go.pid))
    assert re.search(r"not.*Go", line), line


def test_a_command_that_is_not_go_or_not_there():
    assert re.search(r"not.*Go", refuse("record", "-o", "x.folded", "--", "sleep", "0.2"))
    assert "/no/such/command" in refuse("record", "-o", "x.folded", "--", "/no/such/command")
    with open("text", "w") as file:
        file.write("not executable")
    assert "text" in refuse("record", "-o", "x.folded", "--", "./text")


@pytest.mark.parametrize("verb", READERS)
def test_another_users_process(states, run_as_nobody, verb):
    command = on(verb, states.pid)
    if verb == "record":
        command = command[:-1] + ("-",)
        command += ("-f", "folded")
    line = run_as_nobody(*command).fails(1)
    assert re.search("permi|denied|allow|may not", line), line
    assert re.search("root|sudo|CAP_SYS_PTRACE|user", line), f"no way out is named: {line}"


# Go versions

NEXT = "1.{}".format(golang.minor(golang.NEWEST)[1] + 1)


def run_with_version(tmp_path, version, said, mode=golang.STRIPPED):
    binary = golang.build("states", version, mode)
    copy = spoil.copy_with_version(binary, tmp_path / "patched", "go" + version, said)
    return Program(copy, "-only=chan")


@pytest.mark.parametrize("mode", [golang.PLAIN, golang.STRIPPED])
@pytest.mark.parametrize("version,said,named", [
    (golang.NEWEST, f"go{NEXT}.0", NEXT), (golang.NEWEST, "go1.99.1", "1.99"),
    (golang.OLDEST, "go1.16.15", "1.16"), (golang.OLDEST, "go1.9.123", "1.9"),
    (golang.NEWEST, "go2.27.2", "go2"), (golang.NEWEST, "nonsense", "nonsense"),
    (golang.OLDEST, "go1.1000.", "1.1000"), (golang.OLDEST, "go1.99rc1", "1.99"),
])
def test_a_go_that_is_not_known_is_refused_by_name(tmp_path, version, said, named, mode):
    program = run_with_version(tmp_path, version, said, mode)
    try:
        for verb in READERS:
            assert named in refuse(*on(verb, program.pid))
        program.assert_well()
    finally:
        program.stop()


def test_fields_that_lie_elsewhere_are_noticed(tmp_path):
    """A stripped binary that claims another known version must not be believed."""
    program = run_with_version(tmp_path, golang.OLDEST, "go1.25.11")
    try:
        refuse(*on("dump", program.pid))
        program.assert_well()
    finally:
        program.stop()


# Targets that go away or change

def acceptable(result):
    """Either it worked, or it was said in one line why not."""
    if result.status == 0:
        traceback.parse(result.text)
    else:
        result.fails(1)
    return result.status


@pytest.mark.time_limit(120)
def test_a_target_that_is_killed_during_a_dump():
    """The moment of death goes through the whole of a dump."""
    binary = golang.build("states", golang.NEWEST, golang.STRIPPED)
    statuses = set()
    took = 0
    for i in range(30):
        program = Program(binary, "-only=chan", "-extra=3000")
        if i % 10 == 0:
            start = time.monotonic()
            gospect.run("dump", "-p", program.pid).ok()
            took = time.monotonic() - start
        process = gospect.start("dump", "-p", program.pid)
        time.sleep(took * i / 20)
        program.process.kill()
        out, err = process.communicate(timeout=60)
        program.stop()
        result = subprocess.CompletedProcess([], process.returncode, out, err)
        statuses.add(acceptable(gospect.Result(result)))
    assert statuses == {0, 1}, "the deaths came all too early or all too late"


def test_a_target_that_execs_all_the_time():
    times, least = in_full((800, 20), (250, 6))
    program = subprocess.Popen([golang.build("restless", golang.NEWEST), f"-times={times}",
                                "-pause=1ms"], stdout=subprocess.PIPE, text=True)
    assert program.stdout.readline() == f"ready {program.pid}\n"
    statuses = []
    while program.poll() is None:
        statuses.append(acceptable(gospect.run("dump", "-p", program.pid)))
    assert program.stdout.read() == f"ok {times}\n"
    assert len(statuses) > least


def test_a_target_that_execs_while_it_is_recorded(tmp_path):
    program = subprocess.Popen([golang.build("restless", golang.NEWEST), "-times=40",
                                "-pause=50ms"], stdout=subprocess.PIPE, text=True)
    program.stdout.readline()
    for i in range(8):
        result = gospect.run("record", "-p", program.pid, "-d", "0.3", "-o", f"{i}.folded")
        assert result.status in (0, 1), result.err
        assert (tmp_path / f"{i}.folded").exists() == (result.status == 0)
        assert result.words
    program.communicate(timeout=60)
    assert program.returncode == 0


# Garbage

@pytest.fixture
def stopped(request):
    """A stopped program, whose memory may be spoiled: it never runs again."""
    program = Program(golang.build("states", request.param, golang.STRIPPED))
    program.process.send_signal(signal.SIGSTOP)
    wait_until(lambda: open(f"/proc/{program.pid}/stat").read().split(") ")[1][0] == "T")
    memory = spoil.Memory(program.pid)
    yield program, memory
    memory.close()
    program.stop()


def spoiled_word(source, value):
    """What might do most harm in place of a word."""
    return source.choice([
        0, (1 << 64) - 1, 1 << 63, 0xFFFFFFFFFFFFF000, value + 8, value - 8, value + 1,
        value << 32, value ^ (1 << source.randrange(64)), source.getrandbits(64),
        source.getrandbits(47) & ~7]) & (1 << 64) - 1


@NEEDS_ROOT
@pytest.mark.time_limit(90)
@pytest.mark.parametrize("stopped", golang.VERSIONS, indirect=True)
@pytest.mark.parametrize("share", [0.001, 0.01, 0.2, 1.0])
def test_memory_that_is_garbage(stopped, share):
    program, memory = stopped
    before = set(gospect.dump(program.pid))
    words = list(memory.words())
    for seed in range(in_full(8, 3)):
        source = random.Random(seed)
        memory.write_all((address, struct.pack("<Q", spoiled_word(source, value)))
                         for address, value in source.sample(words, int(len(words) * share)))
        status = acceptable_garbage(gospect.run("dump", "-p", program.pid, "--all", seconds=20))
        if share == 1.0:
            assert status == 1, "nothing was left that could be believed"
        memory.restore()
    assert set(gospect.dump(program.pid)) == before, "the test did not restore what it spoiled"


def acceptable_garbage(result):
    """Strange names may be shown, but gospect neither crashes nor hangs nor talks nonsense."""
    assert result.status in (0, 1), f"status {result.status}: {result.err}"
    if result.status == 1:
        result.fails(1)
    else:
        result.words
    return result.status


def run_if_it_runs(copy):
    try:
        return Program(copy, "-only=chan", env={"GOGC": "off"}, seconds=5)
    except (AssertionError, OSError):
        return None


@pytest.mark.time_limit(120)
@pytest.mark.parametrize("version", golang.VERSIONS)
def test_function_tables_that_are_garbage(tmp_path, version):
    """Bytes of the tables are changed in the file; where the program still runs, it is read."""
    binary = golang.build("states", version, golang.STRIPPED)
    tables = spoil.function_tables(binary, golang.minor(version))
    spoilings = [(name, 2 << seed, seed) for name in tables for seed in range(6)]
    spoilings.append(("files", tables["files"][1], 6))
    read = set()
    for name, count, seed in spoilings:
        changes = spoil.flips(*tables[name], count, seed)
        copy = spoil.copy_with_bytes(binary, tmp_path / f"{name}-{seed}", changes)
        program = run_if_it_runs(copy)
        if program:
            read.add(name)
            acceptable_garbage(gospect.run("dump", "-p", program.pid, "--all"))
            acceptable_garbage(gospect.run("dump", "-p", program.pid, "-f", "json"))
            program.stop()
    assert read == set(tables)


ELF_HEADER = [
    (0x28, struct.pack("<Q", (1 << 64) - 1)), (0x28, struct.pack("<Q", 0)),
    (0x28, struct.pack("<Q", 1 << 40)), (0x3A, struct.pack("<H", 1)),
    (0x3C, struct.pack("<H", 0xFFFF)), (0x3C, struct.pack("<H", 0)),
    (0x3E, struct.pack("<H", 0xFFFF)),
]


@pytest.mark.parametrize("change", ELF_HEADER, ids=[f"{o:#x}-{d.hex()}" for o, d in ELF_HEADER])
def test_section_headers_that_are_garbage(tmp_path, change):
    """The kernel does not look at them, so the program runs."""
    binary = golang.build("states", golang.NEWEST)
    program = Program(spoil.copy_with_bytes(binary, tmp_path / "spoiled", [change]), "-only=chan")
    try:
        acceptable(gospect.run("dump", "-p", program.pid))
        gospect.run("ps").ok()
        program.assert_well()
    finally:
        program.stop()


@pytest.mark.time_limit(120)
def test_section_contents_that_are_garbage(tmp_path):
    """DWARF, symbols and section headers are of no use to the program, but gospect reads them."""
    binary = golang.build("states", golang.NEWEST)
    places = spoil.sections(binary)
    debug = [s for name, s in places.items() if name.startswith((".debug", ".zdebug"))]
    assert debug
    symbols = [places[name] for name in (".symtab", ".strtab", ".shstrtab") if name in places]
    headers = (struct.unpack("<Q", binary.read_bytes()[0x28:0x30])[0], 20 * 64, 0)
    for seed in range(15):
        spoil_these = [debug, symbols, [headers]][seed % 3]
        changes = [c for offset, size, _ in spoil_these
                   for c in spoil.flips(offset, size, min(size, 20 << seed), seed)]
        copy = spoil.copy_with_bytes(binary, tmp_path / f"s{seed}", changes)
        program = Program(copy, "-only=chan")
        try:
            acceptable(gospect.run("dump", "-p", program.pid))
            program.assert_well()
        finally:
            program.stop()


# Output

@pytest.mark.parametrize("verb", VERBS)
def test_an_output_folder_that_is_missing(states, verb):
    line = refuse(verb, "-p", states.pid, "-o", "no/such/folder/out.json",
                  *(("-d", "1") if verb == "record" else ()))
    assert "no/such/folder" in line


def test_a_recording_that_cannot_be_written_is_refused_at_once(states):
    start = time.monotonic()
    refuse("record", "-p", states.pid, "-d", "30", "-o", "no/such/folder/out.json")
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("verb", VERBS)
def test_an_output_that_is_a_folder(states, verb):
    os.mkdir("folder.json")
    refuse(verb, "-p", states.pid, "-o", "folder.json", *(("-d", "1") if verb == "record" else ()))
    assert os.listdir("folder.json") == []


@pytest.mark.parametrize("args", [("dump",), ("dump", "-f", "json"), ("ps",),
                                  ("record", "-d", "0.3", "-f", "folded", "-o", "-")],
                         ids=" ".join)
def test_standard_output_that_is_full(states, args):
    target = () if args == ("ps",) else ("-p", states.pid)
    with open("/dev/full", "wb") as full:
        result = gospect.run(*args, *target, stdout=full)
    assert result.status == 1
    assert len(result.words) == 1 and re.search("full|space", result.words[0])


def test_a_device_is_written_to_and_not_replaced(states):
    line = refuse("dump", "-p", states.pid, "-o", "/dev/full", "-f", "json")
    assert "/dev/full" in line
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    gospect.run("dump", "-p", states.pid, "-o", "/dev/null").ok()
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.fixture
def small_disk(tmp_path):
    """The beginning of a command that has a full disk in the folder "disk"."""
    private = ("unshare", "-m", "sh", "-c")
    if subprocess.run([*private, "mount -t tmpfs tmpfs /mnt"], capture_output=True).returncode:
        pytest.skip("this user may not mount a small disk")
    (tmp_path / "disk").mkdir()
    # A folder takes nothing of it, the one byte all of it.
    script = ('mount -t tmpfs -o size=4k tmpfs disk && printf x >disk/rest && '
              '"$@"; status=$?; ls -A disk >listing; exit $status')
    return *private, script, "sh"


@pytest.mark.parametrize("verb,name", [("dump", "out.json"), ("dump", "out.pb.gz"),
                                       ("record", "out.html"), ("record", "out.pb.gz")])
def test_a_disk_that_is_full(states, tmp_path, small_disk, verb, name):
    length = ("-d", "0.3") if verb == "record" else ()
    line = gospect.run(verb, "-p", states.pid, *length, "-o", f"disk/{name}",
                       prefix=small_disk).fails(1)
    assert re.search("full|space", line)
    assert (tmp_path / "listing").read_text().split() == ["rest"]


def test_an_old_file_stays_when_the_new_one_cannot_be_made(tmp_path):
    (tmp_path / "out.json").write_text("old")
    gone = subprocess.Popen(["true"])
    gone.wait()
    refuse("dump", "-p", gone.pid, "-o", "out.json")
    assert (tmp_path / "out.json").read_text() == "old"


def test_a_reader_that_stops_reading(states):
    process = gospect.start("dump", "-p", states.pid)
    process.stdout.read(10)
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) in (0, 1, -signal.SIGPIPE)
    assert err.count(b"\n") <= 1


# An exe that does not match

def test_an_unstripped_file_of_another_build_is_refused(targets):
    program = targets.keep("states", golang.NEWEST, golang.STRIPPED)
    other = golang.build("split", golang.NEWEST)
    line = refuse("dump", "-p", program.pid, "--exe", other)
    assert "build" in line
    refuse("dump", "-p", program.pid, "--exe", "no-such-file")


def test_an_unstripped_file_is_used(targets):
    program = targets.keep("states", golang.NEWEST, golang.STRIPPED)
    twin = golang.build("states", golang.NEWEST)
    assert len(gospect.dump(program.pid, "--exe", twin)) > 80
