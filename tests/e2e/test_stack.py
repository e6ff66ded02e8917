"""gospect stack: every line of it against what delve sees of the same process, stopped."""

import dataclasses
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import time

import pytest

from lib import delve, golang, gospect, spoil, traceback
from lib.fixtures import Fixture
from lib.params import every_version
from lib.process import wait_until

BUILDS = [(version, mode) for version in golang.VERSIONS
          for mode in (golang.PLAIN, golang.NOT_OPTIMIZED)]
IDS = [f"go{version}-{mode}" for version, mode in BUILDS]
every_annotated_build = pytest.mark.parametrize("version,mode", BUILDS, ids=IDS)

SECCOMP = pathlib.Path(gospect.__file__).with_name("seccomp.py")
HEADER = re.compile(r"^regs {4}addr {2,} +offset  value +explanation$")
PARTS = ("arg ", "var ")


@dataclasses.dataclass
class Row:
    arrow: str
    address: int
    offset: int
    value: int
    text: str

    def variables(self):
        return [part for part in self.text.split("; ") if part.startswith(PARTS)]


@dataclasses.dataclass
class Stack:
    rows: list  # from the top down
    registers: dict  # explanation -> (register, value)

    def at(self, address):
        return next(row for row in self.rows if row.address == address)

    def texts(self, start=""):
        return [row.text for row in self.rows if row.text.startswith(start)]

    def arrow(self, name):
        found = [row for row in self.rows if row.arrow == f"{name} -->"]
        assert len(found) <= 1
        return found[0] if found else None

    @property
    def end(self):
        return self.rows[0].address + 8


def parse(text):
    header, *lines = text.splitlines()
    assert HEADER.match(header), header
    explanation = header.index("explanation")
    stack = Stack([], {})
    for line in lines:
        regs, rest, words = line[:8].strip(), line[8:explanation].split(), line[explanation:]
        if len(rest) == 1:
            stack.registers[words] = regs, int(rest[0], 16)
        else:
            address, offset, value = rest
            stack.rows.append(Row(regs, int(address, 16), int(offset), int(value, 16), words))
    for i, row in enumerate(stack.rows):
        assert row.offset == -8 * i and row.address == stack.rows[0].address - 8 * i
    return stack


def look(*args, **kwargs):
    return parse(gospect.run("stack", *args, **kwargs).ok().text)


def goid_in(pid, func):
    return max(g.id for g in traceback.having(gospect.dump(pid), func))


# What delve says


def pieces(frame, variable, end):
    """(where in the variable, its size or None, address) of what of a variable is on the stack."""
    cfa = end + frame["FrameOffset"]
    expression = re.sub(r"^\[[^]]*\] *", "", variable["LocationExpr"])
    found, at, place = [], 0, None
    for op, operand in re.findall(r"(DW_OP_\w+)(?: (-?0x[0-9a-f]+))?", expression):
        if op == "DW_OP_fbreg":
            place = cfa + int(operand, 16)
        elif op == "DW_OP_call_frame_cfa":
            place = cfa
        elif op == "DW_OP_piece":
            size = int(operand, 16)
            if place is not None:
                found.append((at, size, place))
            at, place = at + size, None
        else:
            place = None
    return found or ([(0, None, place)] if place is not None and not at else [])


def expected_value(variable):
    """The value of a number, as delve says it; None for what is no number."""
    match = re.fullmatch(r"(?:\w+ \()?(-?[0-9.]+|true|false)\)?", variable["value"])
    return match[1] if match and variable["type"] != "string" else None


def said_value(part, row):
    match = re.search(r" = (\S+?)(?: of .*)?$", part)
    return match[1] if match else str(row.value)


class View:
    """What delve sees of a goroutine, by address."""

    def __init__(self, frames, end):
        self.variables = {}  # (address, "arg a", part) -> (type, frame, variable)
        self.returns = {}
        self.frame_pointers = {}
        for i, frame in enumerate(frames):
            inlined = i + 1 < len(frames) and frames[i + 1]["FrameOffset"] == frame["FrameOffset"]
            for kind, key in (("arg", "Arguments"), ("var", "Locals")):
                for variable in frame[key] or []:
                    self.add_variable(frame, kind, variable, inlined, end)
            if i and frames[i - 1]["FrameOffset"] != frame["FrameOffset"]:
                self.returns[end + frames[i - 1]["FrameOffset"] - 8] = frame
            if not inlined and frame["function"]["name"] != "runtime.goexit":
                self.frame_pointers[end + frame["FramePointerOffset"]] = frame["function"]["name"]

    def add_variable(self, frame, kind, variable, inlined, end):
        name, type_name = variable["name"], variable["type"]
        if "(escaped)" in variable["LocationExpr"]:
            name, type_name = f"&{name}", f"*{type_name}"
        for at, size, address in pieces(frame, variable, end):
            of = f" of {frame['function']['name']}, inlined" if inlined else ""
            self.variables[address, f"{kind} {name}", at] = type_name, of, size, variable


def assert_variables(stack, view):
    for (address, name, at), (type_name, of, size, variable) in view.variables.items():
        row = stack.at(address & ~7)
        start = f"{name} {type_name}" if at == 0 and size is None else name
        part = [p for p in row.variables() if p.startswith(start) and of in p]
        assert part, f"{name} {type_name}{of} is not at {row}"
        value = expected_value(variable)
        if value and size is None and "(escaped)" not in variable["LocationExpr"]:
            said = said_value(part[0], row)
            assert said == value or float(said) == float(value), f"{variable}: {row}"


def assert_nothing_is_made_up(stack, view, above):
    """In the program's own frames delve shows all that there is."""
    first = {(address & ~7, name) for address, name, _ in view.variables}
    names = {name.split()[1] for _, name in first}
    for row in stack.rows:
        for part in row.variables() if row.address >= above else []:
            kind, name = part.split()[:2]
            if name.startswith(".autotmp"):
                continue  # the compiler's own, which delve hides
            if re.search(r"[.\[]", name):
                assert re.split(r"[.\[]", name)[0] in names or name in names, row
            else:
                assert (row.address, f"{kind} {name}") in first, row


def assert_returns(stack, view):
    for address, frame in view.returns.items():
        row, name = stack.at(address), frame["function"]["name"]
        assert row.value == frame["pc"]
        if name == "runtime.goexit":
            assert row.text == "return addr to runtime.goexit"
        else:
            where = f"return addr to {name} at {frame['file']}:{frame['line']}"
            assert (row.text + ",").startswith(where + ","), row
    assert len(stack.texts("return addr")) == len(view.returns)


def assert_frame_pointers(stack, view):
    found = {row.address: row.text for row in stack.rows if row.text.startswith("frame pointer")}
    assert found == {a: f"frame pointer for {name}" for a, name in view.frame_pointers.items()}


def assert_as_delve_sees_it(program, tmp_path, func):
    goid = goid_in(program.pid, func)
    stack = look("-p", program.pid, "-g", goid)
    with delve.Delve(program.pid, program.binary, tmp_path) as debugger:
        frames = debugger.stack(goid)
        words = debugger.words(stack.rows[-1].address, len(stack.rows))
        stopped = look("-p", program.pid, "-g", goid)
    assert stopped == stack == look("-p", program.pid, "-g", goid)
    assert [row.value for row in reversed(stack.rows)] == words
    view = View(frames, stack.end)
    assert any(func == frame["function"]["name"] for frame in frames)
    assert_variables(stack, view)
    callee = next(i for i, f in enumerate(frames) if f["function"]["name"].startswith("main."))
    assert_nothing_is_made_up(stack, view, stack.end + frames[callee - 1]["FrameOffset"])
    assert_returns(stack, view)
    assert_frame_pointers(stack, view)
    assert stack.arrow("sp") is stack.rows[-1]
    assert stack.arrow("bp").address == stack.end + frames[0]["FramePointerOffset"]
    return stack, view


@pytest.mark.slow  # delve is built for it
@pytest.mark.time_limit(180)
@every_annotated_build
@pytest.mark.parametrize("func", ["main.bar", "main.kinds", "main.recurse"])
def test_every_line_is_as_delve_sees_it(targets, tmp_path, version, mode, func):
    program = targets.keep("annotated", version, mode)
    stack, view = assert_as_delve_sees_it(program, tmp_path, func)
    if mode == golang.NOT_OPTIMIZED:
        assert len(view.variables) > 10
    if func == "main.recurse":
        assert len(stack.texts("return addr to main.recurse at ")) == 21


@pytest.mark.slow  # delve is built for it
@pytest.mark.time_limit(180)
def test_a_program_that_was_moved_is_as_delve_sees_it(targets, tmp_path):
    program = targets.keep("annotated", golang.NEWEST, golang.PIE)
    assert_as_delve_sees_it(program, tmp_path, "main.kinds")


@every_version()
def test_the_example_is_as_in_the_interface(targets, version):
    """main.foo calls main.bar: each word between their return addresses, in order."""
    program = targets.keep("annotated", version, golang.NOT_OPTIMIZED)
    stack = look("-p", program.pid, "-g", goid_in(program.pid, "main.bar"))
    texts = [row.text for row in stack.rows]
    bar = stack.rows[texts.index("frame pointer for main.bar"):]
    values = {row.text: row.value for row in bar[:8]}
    assert values["var s int"] == 5 and values["var i int"] == 0
    to_foo, = stack.texts("return addr to main.foo at ")
    arguments = stack.rows[texts.index(to_foo) - 2:texts.index(to_foo)]
    assert [(row.text, row.value) for row in arguments] == [("arg b int", 2), ("arg a int", 1)]
    assert texts.index("return addr to runtime.goexit") == 4
    assert stack.rows[4].offset == -32
    assert re.fullmatch(r"frame pointer for main\.main.*wrap.*", stack.rows[5].text)
    assert stack.rows[5].value == 0


# Without DWARF


@every_version()
def test_a_stripped_program_shows_its_frames_and_the_unstripped_file_its_variables(targets, version):
    program = targets.keep("annotated", version, golang.STRIPPED)
    goid = goid_in(program.pid, "main.kinds")
    result = gospect.run("stack", "-p", program.pid, "-g", goid).ok()
    assert len(result.words) == 1 and "--exe" in result.words[0]
    bare = parse(result.text)
    assert not [row for row in bare.rows if row.variables()]
    assert "frame pointer for main.kinds" in bare.texts()
    twin = golang.build("annotated", version)
    result = gospect.run("stack", "-p", program.pid, "-g", goid, "--exe", twin).ok()
    assert result.words == []
    whole = parse(result.text)
    assert whole.texts("return addr") == bare.texts("return addr")
    assert whole.texts("frame pointer") == bare.texts("frame pointer")
    assert sum(len(row.variables()) for row in whole.rows) > 15
    assert [row.value for row in whole.rows] == [row.value for row in bare.rows]


def test_an_unstripped_file_of_another_build_is_refused_by_stack(targets):
    program = targets.keep("annotated", golang.NEWEST, golang.STRIPPED)
    other = golang.build("annotated", golang.NEWEST, golang.NOT_OPTIMIZED)
    message = gospect.run("stack", "-p", program.pid, "-g", 1, "--exe", other).fails(1)
    assert "not of the same build" in message


@pytest.mark.time_limit(180)
@pytest.mark.parametrize("section", ["info", "abbrev", "loclists", "rnglists", "addr"])
def test_broken_dwarf_takes_nothing_from_what_is_known_without(targets, tmp_path, section):
    program = targets.keep("annotated", golang.NEWEST, golang.STRIPPED)
    goid = goid_in(program.pid, "main.kinds")
    bare = look("-p", program.pid, "-g", goid)
    plain = tmp_path / "plain"
    subprocess.run(["objcopy", "--decompress-debug-sections",
                    golang.build("annotated", golang.NEWEST), plain], check=True)
    offset, size, _ = spoil.sections(plain)[f".debug_{section}"]
    for seed in range(24):
        count = 5000 if seed % 4 == 0 else 20
        twin = spoil.copy_with_bytes(plain, tmp_path / "twin",
                                     spoil.flips(offset, size, count, seed))
        result = gospect.run("stack", "-p", program.pid, "-g", goid, "--exe", twin)
        assert result.status in (0, 1), f"seed {seed}: {result.status} {result.err}"
        if result.status == 1:
            assert len(result.words) == 1
            continue
        found = parse(result.text)
        assert found.texts("return addr") == bare.texts("return addr")
        assert found.texts("frame pointer") == bare.texts("frame pointer")


# Core files

ENVIRONMENT = {"GOTRACEBACK": "crash", "GODEBUG": "asyncpreemptoff=1", "GOMAXPROCS": "4"}


def gcore(pid, folder):
    if not shutil.which("gcore"):
        pytest.skip("gcore is missing: install gdb")
    subprocess.run(["gcore", "-o", folder / "core", str(pid)], check=True, capture_output=True)
    return folder / f"core.{pid}"


@pytest.mark.parametrize("version,mode", BUILDS[:2] + BUILDS[-2:], ids=IDS[:2] + IDS[-2:])
def test_a_core_is_what_the_living_program_was(targets, tmp_path, version, mode):
    program = targets.start("annotated", version, mode, args=("-spin",), env=ENVIRONMENT)
    goids = [goid_in(program.pid, f) for f in ("main.bar", "main.kinds", "main.recurse")]
    live = [look("-p", program.pid, "-g", goid) for goid in goids]
    spinning = goid_in_state(program.pid, "running")
    core = gcore(program.pid, tmp_path)
    assert [look("--core", core, "-g", goid) for goid in goids] == live
    running = look("--core", core, "-g", spinning)
    texts = [row.text for row in running.rows]
    assert "return addr to runtime.goexit" in texts
    assert running.arrow("sp") is running.rows[-1]
    values = [row.value for row in running.rows if "arg n int" in row.variables()]
    values += [value for text, (_, value) in running.registers.items() if text == "arg n int"]
    assert 11 in values


def goid_in_state(pid, state):
    end = time.monotonic() + 10
    while time.monotonic() < end:
        found = [g.id for g in gospect.dump(pid).values() if g.state == state]
        if found:
            return found[0]
    raise AssertionError(f"no goroutine is {state}")


def die(folder, binary):
    """The core that the kernel writes of a program that crashes, and its goroutine."""
    with open("/proc/sys/kernel/core_pattern") as pattern:
        if pattern.read().startswith(("|", "/")):
            pytest.skip("the kernel's cores go elsewhere")
    process = subprocess.Popen(
        [binary, "-die"], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, env={**os.environ, **ENVIRONMENT},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (-1, -1)))
    assert process.wait(60) < 0
    core, = (path for path in folder.iterdir() if path.name.startswith("core"))
    return core


@every_annotated_build
def test_the_goroutine_that_crashed(tmp_path, version, mode):
    core = die(tmp_path, golang.build("annotated", version, mode))
    stack = look("--core", core, "-g", 1)
    texts = stack.texts("return addr to ")
    assert any(text.startswith("return addr to main.die at ") for text in texts)
    assert texts[0] == "return addr to runtime.goexit"
    if mode == golang.NOT_OPTIMIZED:
        assert 42 in [row.value for row in stack.rows if "arg n int" in row.variables()]
    found = traceback.parse(gospect.run("dump", "--core", core, "--all", "-g", 1).ok().text)
    names = [re.match(r"return addr to (\S+)", text)[1] for text in texts]
    assert is_part(names, physical(found[1].frames)), names


@every_version()
def test_the_unstripped_file_of_a_program_gives_a_core_its_variables(tmp_path, version):
    core = die(tmp_path, golang.build("annotated", version, golang.STRIPPED))
    result = gospect.run("stack", "--core", core, "-g", 1).ok()
    assert len(result.words) == 1 and "no DWARF" in result.words[0]
    whole = look("--core", core, "-g", 1, "--exe", golang.build("annotated", version))
    assert whole.texts("return addr") == parse(result.text).texts("return addr")
    assert any(row.variables() for row in whole.rows)


def test_a_truncated_core_gives_a_stack_or_a_reason(tmp_path):
    core = die(tmp_path, golang.build("annotated", golang.NEWEST))
    content = core.read_bytes()
    whole = look("--core", core, "-g", 1)
    for size in (*range(0, 6 << 20, 256 << 10), len(content) - 1):
        (tmp_path / "cut").write_bytes(content[:size])
        result = gospect.run("stack", "--core", tmp_path / "cut", "-g", 1)
        if result.status == 0:
            assert parse(result.text).texts("return addr") == whole.texts("return addr")
        else:
            result.fails(1)


def physical(frames):
    """The functions that a stack returns to, outermost first: inlined calls have no frame."""
    names = [f.func for f in reversed(frames[1:])]
    return [{"panic": "runtime.gopanic"}.get(name, name) for name in names]


def is_part(part, whole):
    rest = iter(whole)
    return all(name in rest for name in part)


@pytest.mark.time_limit(120)
@pytest.mark.parametrize("arch", ["amd64", "arm64"])
@every_version()
def test_a_core_of_any_machine(tmp_path, version, arch):
    """Return addresses are those of the dump, and each frame pointer leads to an outer one."""
    fixture = Fixture(version, arch)
    args = ("--core", fixture.core, "--exe", fixture.unpack_program(tmp_path))
    goroutines = traceback.parse(gospect.run("dump", *args, "--all").ok().text)
    for goroutine in [g for g in goroutines.values() if g.available and g.elided_at is None]:
        stack = look(*args, "-g", goroutine.id)
        returns = stack.texts("return addr to ")
        names = [re.match(r"return addr to (.+?)(?: at | \(|, |$)", text)[1] for text in returns]
        assert is_part(names, physical(goroutine.frames)), (names, goroutine.functions())
        assert returns[0].startswith("return addr to runtime.goexit")
        assert arch == "amd64" or all(text.endswith(")") for text in returns)
        pointers = [row for row in stack.rows if row.text.startswith("frame pointer for ")]
        if (version, arch) == (golang.OLDEST, "arm64"):
            continue  # leaves saved frame pointers as they are when a stack moves
        assert len(pointers) >= len(names) - 3 and pointers[0].value == 0
        for outer, inner in zip(pointers, pointers[1:]):
            assert inner.value == outer.address


# Goroutines whose stack cannot be shown


@every_version([golang.OLDEST, golang.NEWEST])
def test_a_running_goroutine_is_shown_as_of_a_sample(targets, version):
    program = targets.start("annotated", version, args=("-spin",), env=ENVIRONMENT)
    goid = goid_in_state(program.pid, "running")
    result = gospect.run("stack", "-p", program.pid, "-g", goid).ok()
    assert f"goroutine {goid} is running: this is its stack at a sample" in result.words[0]
    stack = parse(result.text)
    assert "return addr to runtime.goexit" in stack.texts()
    assert any(text.startswith("return addr to main.main") for text in stack.texts())
    assert stack.arrow("sp") is stack.rows[-1]
    values = [row.value for row in stack.rows if "arg n int" in row.variables()]
    values += [value for text, (_, value) in stack.registers.items() if text == "arg n int"]
    assert 11 in values or "arg m int" in stack.registers


def test_a_running_goroutine_needs_samples(targets):
    program = targets.start("annotated", golang.NEWEST, args=("-spin",), env=ENVIRONMENT)
    goid = goid_in_state(program.pid, "running")
    refused = (sys.executable, SECCOMP, "perf_event_open", "EPERM")
    begin = time.monotonic()
    message = gospect.run("stack", "-p", program.pid, "-g", goid, prefix=refused).fails(1)
    assert f"goroutine {goid}, which is running" in message and f"gcore {program.pid}" in message
    assert time.monotonic() - begin < 10


def test_missing_goroutine_is_refused(targets):
    program = targets.keep("annotated", golang.NEWEST)
    assert "no goroutine 123456" in gospect.run("stack", "-p", program.pid, "-g",
                                                123456).fails(1)


@pytest.mark.parametrize("args,expected", [
    (("-p", "1"), "-g GOID"), (("-g", "1"), "no target"), (("-g", "x", "-p", "1"), "goroutine id"),
    (("-g", "0", "-p", "1"), "goroutine id"), (("-g", "1", "-p", "1", "-f", "pprof"), "format"),
    (("-g", "1", "-p", "1", "--state", "running"), "--state")])
def test_wrong_usage(args, expected):
    assert expected in gospect.run("stack", *args).fails(2)


# Output


def test_json_says_the_same(targets, tmp_path):
    program = targets.keep("annotated", golang.NEWEST, golang.NOT_OPTIMIZED)
    goid = goid_in(program.pid, "main.kinds")
    stack = look("-p", program.pid, "-g", goid)
    gospect.run("stack", "-p", program.pid, "-g", goid, "-o", tmp_path / "stack.json").ok()
    data = json.loads((tmp_path / "stack.json").read_text())
    assert data["goroutine"] == goid
    rows = [Row("".join(f"{name} -->" for name in word.get("pointed_to_by", [])),
                int(word["address"], 16), word["offset"], int(word["value"], 16),
                word["explanation"]) for word in data["words"]]
    assert rows == stack.rows


def test_a_file_appears_whole_or_not_at_all(targets, tmp_path):
    program = targets.keep("annotated", golang.NEWEST)
    gospect.run("stack", "-p", program.pid, "-g", 123456, "-o", tmp_path / "out").fails(1)
    assert not (tmp_path / "out").exists()
    gospect.run("stack", "-p", program.pid, "-g", 1, "-o", tmp_path / "out").ok()
    assert parse((tmp_path / "out").read_text()).rows


@pytest.mark.parametrize("verb, args, shown", [
    ("stack", ("-g", "1"), "return addr to runtime.goexit"), ("dump", (), "goroutine 1 ["),
    ("waits", ("--runtime",), ""), ("heap", ("--kind", "goroutine"), "runtime.")])
def test_a_command_is_started_and_its_status_passed_on(verb, args, shown, tmp_path):
    """It ends when it has been looked at; when it ended before, there was nothing to show."""
    binary = golang.build("annotated", golang.NEWEST)
    process = subprocess.Popen([gospect.BINARY, verb, *args, "-o", tmp_path / "out", "--", binary],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until((tmp_path / "out").exists, 30, "what was seen")
    _, err = process.communicate(b"die\n", timeout=60)
    assert process.returncode == 2, err
    assert shown in (tmp_path / "out").read_text()


def test_what_goes_wrong_with_a_command_is_said_before_it_ends():
    """The goroutine might yet be made, so gospect looks for some seconds."""
    with subprocess.Popen([gospect.BINARY, "stack", "-g", "123456", "--", golang.build("annotated", golang.NEWEST)],
                          stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stderr.readline() == b"gospect: there is no goroutine 123456\n"
        assert process.poll() is None
        process.communicate(b"die\n", timeout=60)
        assert process.returncode == 1


# On a process that does not stop


@every_version()
def test_a_goroutine_that_moves_is_shown_as_it_was_at_one_moment(targets, version):
    """Whatever it is doing, its stack leads to its end."""
    program = targets.start("churn", version)
    shown = 0
    for goid in list(gospect.dump(program.pid))[:30]:
        result = gospect.run("stack", "-p", program.pid, "-g", goid)
        if result.status == 0:
            assert "return addr to runtime.goexit" in parse(result.text).texts()
            shown += 1
        else:
            result.fails(1)
    assert shown > 0
