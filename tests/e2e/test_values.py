"""gospect dump --values and --locals against the runtime's own text, the program's own addresses, and delve."""

import json
import os
import re
import signal

import pytest

from lib import delve, golang, gospect, traceback
from lib.params import every_build

CONNECTION = re.compile(r", fd \d+(?:, [^]]*)?\]:$", re.M)
BUILDS = [(golang.OLDEST, golang.PLAIN), (golang.OLDEST, golang.STRIPPED), (golang.MIDDLE, golang.PLAIN),
          (golang.NEWEST, golang.PLAIN), (golang.NEWEST, golang.STRIPPED)]
every_valued_build = pytest.mark.parametrize("version,mode", BUILDS, ids=[f"go{v}-{m}" for v, m in BUILDS])


def blocks(text):
    """The text of each goroutine by its id; without the connections, which the runtime does not print."""
    found = [CONNECTION.sub("]:", block) for block in text.strip("\n").split("\n\n")]
    return {int(block.split()[1]): block for block in found if block.startswith("goroutine ")}


def assert_same_text(inside, outside, least, but=(1,)):
    """Character for character. Goroutine 1 is the one that answers us."""
    inside, outside = blocks(inside), blocks(outside)
    assert inside.keys() == outside.keys() and len(inside) > least
    for goid, text in inside.items():
        if goid not in but:
            assert outside[goid] == text
    return inside


def values(program, *args, option="--values"):
    return gospect.run("dump", "-p", program.pid, option, *args).ok().text


@every_valued_build
def test_arguments_are_printed_as_the_runtime_prints_them(targets, version, mode):
    program = targets.keep("valued", version, mode)
    inside = assert_same_text(program.stack(), values(program), 20)
    text = "\n".join(inside.values())
    for printed in ("main.many(0xff, 0x2, ", ", 0x9, ...)", "{{{{...}}}}", "panic({0x", "main.deep(0x"):
        assert printed in text, printed
    assert re.search(r"main\.dead\(.*\?", text) or version == golang.OLDEST


@pytest.mark.slow
@every_build(versions=golang.NEWEST_OF_EACH, modes=[golang.PLAIN, golang.PIE, golang.NOT_OPTIMIZED])
def test_arguments_of_every_version_and_build(targets, version, mode):
    program = targets.start("valued", version, mode)
    assert_same_text(program.stack(), values(program), 20)


def calls(text):
    """The lines of a traceback that have arguments."""
    return [line for line in text.splitlines() if re.match(r"[^\t].*\(.*\)$", line)]


def test_arguments_are_those_of_sigquit(targets, tmp_path):
    with open(tmp_path / "stderr", "wb") as stderr:
        program = targets.start("valued", golang.MIDDLE, env={"GOTRACEBACK": "system"}, stderr=stderr)
    program.idle()
    outside = blocks(values(program, "--all"))
    program.process.send_signal(signal.SIGQUIT)
    targets.forget(program).process.wait(60)
    inside = blocks((tmp_path / "stderr").read_text().split("\n\nrax")[0])
    parked = [goid for goid, text in inside.items() if "main.wait()" in text or "[IO wait" in text]
    assert len(parked) > 15
    for goid in parked:
        assert calls(outside[goid]) == calls(inside[goid])


def goroutines_json(program, option):
    return json.loads(values(program, "-f", "json", option=option))["goroutines"]


@every_build(versions=[golang.OLDEST, golang.NEWEST], modes=[golang.STRIPPED])
def test_connections_are_those_of_the_program(targets, version, mode):
    program = targets.keep("valued", version, mode)
    said = [tuple(c.split(",")) for c in program.ask("connections").split()]
    waiting = [g for g in goroutines_json(program, "--values") if g["wait_reason"] == "IO wait"]
    seen = {(g.get("local"), g.get("peer")) for g in waiting}
    for kind, listener, client in said:
        assert (listener, None) in seen
        assert {(client, listener), (listener, client)} <= seen
    fds = [g["fd"] for g in waiting]
    assert len(set(fds)) == len(fds) == 9
    for fd in fds:
        assert os.readlink(f"/proc/{program.pid}/fd/{fd}").startswith("socket:")
    headers = [line for line in values(program).splitlines() if ", fd " in line]
    # What panicparse takes for a header; the parts behind the state may be any.
    assert len(headers) == 9
    assert all(re.fullmatch(r"goroutine \d+ \[([^]]+)\]:", header) for header in headers)
    _, v6, _ = said[1]
    assert any(f"{v6[1:].replace(']:', '.')} -> ::1." in header for header in headers)


def test_json_has_arguments_as_lists(targets):
    program = targets.keep("valued", golang.NEWEST)
    frames = {f["func"]: f for g in goroutines_json(program, "--values") for f in g["frames"]}
    n, p, empty, after = frames["main.structures"]["args"]
    assert n[0][0] == "0x9" and n[0][1][1] == "0x4" and n[1] == [[[["..."]]]] and n[2] == ["0xffff", "0x1"]
    assert p.startswith("0xc") or p.startswith("0x")
    assert empty == [] and after == "0x5"
    assert frames["main.many"]["args"][-1] == "..."
    assert "locals" not in frames["main.many"]


# Local variables


def seen_by_delve(program, tmp_path, goid):
    with delve.Delve(program.pid, program.binary, tmp_path) as debugger:
        return [f for f in debugger.stack(goid) if f["function"]["name"].startswith("main.")]


def quoted(text):
    """As gospect writes what is not printable."""
    out = ""
    for byte in text:
        out += {"\n": "\\n", '"': '\\"', "\\": "\\\\"}.get(byte, byte)
    return f'"{out}"'


def expected(variable):
    """The beginning of the value, out of what delve says; None: delve cannot read it."""
    kind, value, children = variable["type"], variable["value"], variable["children"]
    if variable.get("unreadable") or variable["addr"] == 0 and not value:
        return None
    if kind == "string":
        return quoted(value)
    if kind == "[]uint8":
        return f"len {variable['len']} cap {variable['cap']} \"bytes\\x00\\xff\""
    if kind.startswith("[]"):
        if not children:
            return "nil"
        items = [expected(c) or "" for c in children]
        return f"len {variable['len']} cap {variable['cap']} [{', '.join(items)}]"
    if kind.startswith("["):
        return f"[{', '.join(expected(c) for c in children)}]"
    if kind.startswith("map["):
        return f" len {variable['len']}" if variable["len"] else "nil"
    if kind.startswith("chan "):
        return f" len {children[0]['value']} cap {children[1]['value']}"
    if kind in ("error", "interface {}"):
        inner = children[0]["type"] if children else ""
        return inner.removesuffix(" {...}") if inner not in ("", "void") else "nil"
    if kind == "main.pair":
        return "{a: %s, b: %s}" % (children[0]["value"], quoted(children[1]["value"]))
    if kind.startswith("*"):
        return "0x"
    return {"time.Duration": "3000000000"}.get(kind, value)


LOCALS = [(golang.OLDEST, golang.PLAIN), (golang.NEWEST, golang.PLAIN), (golang.NEWEST, golang.NOT_OPTIMIZED)]


@pytest.mark.slow  # delve is built for it
@pytest.mark.parametrize("version,mode", LOCALS, ids=[f"go{v}-{m}" for v, m in LOCALS])
def test_locals_are_as_delve_sees_them(targets, tmp_path, version, mode):
    program = targets.keep("valued", version, mode)
    for func, least in (("main.locals", 18), ("main.many", 8)):
        goid = max(g.id for g in traceback.having(gospect.dump(program.pid), func))
        ours = next(g for g in goroutines_json(program, "--locals") if g["id"] == goid)
        mine = {v["name"]: v for f in ours["frames"] if f["func"] == func for v in f["locals"]}
        frame, = [f for f in seen_by_delve(program, tmp_path, goid) if f["function"]["name"] == func]
        compared = 0
        for variable in [*(frame["Arguments"] or []), *(frame["Locals"] or [])]:
            value = expected(variable)
            if variable["name"].startswith("~") or value is None:
                continue
            assert variable["name"] in mine, variable["name"]
            found = mine[variable["name"]]
            assert found["type"] == variable["type"]
            assert value in found["value"], (variable["name"], variable["type"], value, found["value"])
            compared += 1
        assert compared >= least


def test_locals_of_a_stripped_program_need_its_unstripped_file(targets):
    program = targets.keep("valued", golang.NEWEST, golang.STRIPPED)
    result = gospect.run("dump", "-p", program.pid, "--locals").ok()
    assert any("has no DWARF" in word for word in result.words) and "\t\tvar " not in result.text
    plain = golang.build("valued", golang.NEWEST)
    text = values(program, "--exe", plain, option="--locals")
    assert '\t\tvar umlauts string = "naïve ☃"\n' in text
    assert '\t\tvar text string = "a \\"quoted\\" text\\n"\n' in text


def test_a_running_goroutine_has_values_too(targets):
    program = targets.start("valued", golang.NEWEST, args=("-spin",))
    text = values(program, "--func", "main.spin", option="--locals")
    if "stack unavailable" in text:
        pytest.skip("this machine gives no samples")
    assert re.search(r"^main\.spin\(0x[0-9a-f]+\??, ", text, re.M)
    assert "\t\targ n int = 3\n" in text


@pytest.mark.parametrize("args,expected", [
    (("--values", "--group"), "mutually exclusive"), (("--locals", "--raw"), "mutually exclusive"),
    (("--values", "-f", "pprof", "-o", "x.pb.gz"), "text and json only")])
def test_wrong_usage(args, expected):
    assert expected in gospect.run("dump", "-p", 1, *args).fails(2)
