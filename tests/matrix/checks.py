"""The checks of every build: see tests/matrix/run."""

import collections
import subprocess
import time

from lib import emulated, golang, gotrace, traceback
from matrix import builds

RIGHT, REFUSED, WRONG, NONE = "yes", "refused", "WRONG", "-"
ENOUGH_CPU = 0.1  # seconds of a recording: ten samples
TRIES = 5
Result = collections.namedtuple("Result", "verdict why")


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def check_ps(place, program, version, build):
    # An emulated machine may leave ps no time for a program: then its row has no version.
    for _ in range(TRIES):
        lines = [line.split() for line in place.gospect("ps").ok().text.splitlines()]
        lines = [words for words in lines if words[:1] == [str(program.pid)]]
        if not lines or lines[0][1] != "-":
            break
    check(len(lines) == 1, f"ps has {len(lines)} lines about it")
    check(lines[0][1] == f"go{version}", f"ps says {lines[0][1]}")
    said = lines[0][2].split(",")
    check(set(build.words) <= set(said), f"ps says {said}, not {build.words}")


def check_dump(place, program, version, build):
    program.idle()
    outside = place.dump(program.pid)
    inside = traceback.parse(program.stack())
    # The goroutine that answers runs while it looks at itself, and reads while we look.
    ignore = {g.id for g in traceback.having(inside, "main.main")}
    check(len(ignore) == 1, f"{len(ignore)} goroutines are in main.main")
    check(len(inside) > 35, f"the program has {len(inside)} goroutines")
    found = traceback.differences(inside, outside, golang.minor(version), ignore=ignore)
    check(not found, f"dump: {len(found)} differences; {'; '.join(found[:2])}")
    check(bool(build.cgo) == bool(traceback.having(outside, "main.holdThroughC")),
          "dump: goroutines through C")


def check_record(place, program, build):
    # Where others leave the program no time to compute, a recording shows nothing of it.
    for i in range(TRIES):
        said, profile, used = place.record(program, 2 if i else 1)
        if used > ENOUGH_CPU:
            break
    check(used > ENOUGH_CPU, f"record: the machine is too busy, the program got {used:.2f} s of it")
    seconds = profile.duration_ns / 1e9
    check(seconds > 0.9, f"record: {seconds} s")
    for func, count in (("main.holdSelect", 1), ("main.holdDeep", 1), ("main.holdRead", 1),
                        ("main.(*pointer).hold", 2), ("main.inner", 1)):
        share = profile.time_in(func) / 1e9 / seconds
        check(abs(share - count) < 0.05 * count, f"record: {share:.2f} of {count} in {func}; {said}")
    spinning = profile.total("cpu", lambda s: {"main.spin", "main.spinInside"} <= set(s.stack))
    check(spinning / 1e9 > min(0.2, used / 2),
          f"record: {spinning / 1e9:.2f} of {used:.2f} s of CPU in main.spin; {said}")
    if build.cgo:
        check(profile.time_in("main.holdInC") > 0.9e9, "record: C")
    check(any(start < address < limit for s in profile.samples for address in s.addresses
              for start, limit, _, _ in profile.mappings), "record: mappings")


SENT = 1000  # by the goroutine of main.compute, on a channel that holds nothing


def happened(goroutine, transition):
    return sum(n for words, n in goroutine["events"].items() if words.startswith(transition))


def check_sender(goroutines):
    """The one goroutine that main.compute starts, and the channel both wait at."""
    senders = [g for g in goroutines if g["name"].startswith("main.compute")]
    check(len(senders) == 1, f"trace: {len(senders)} goroutines of main.compute")
    g = senders[0]
    for transition in ("NotExist->Runnable", "Running->NotExist"):
        check(happened(g, transition) == 1, f"trace: {transition} of main.compute: {g['events']}")
    mains = max(happened(other, "Running->Waiting chan receive") for other in goroutines)
    waits = happened(g, "Running->Waiting chan send") + mains
    check(SENT * 0.9 < waits <= 2 * SENT + 1, f"trace: {waits} waits for {SENT} sent")
    check(happened(g, "Running->Waiting") + 1 <= happened(g, "Runnable->Running"),
          f"trace: main.compute starts less often than it waits: {g['events']}")


def check_trace(place, program):
    with place.tracing(program) as file:
        check(program.ask("spin") == "done", "it does not spin")
        program.assert_well()
        time.sleep(0.3)
    trace = gotrace.read_valid(file)
    goroutines = list(trace["goroutines"].values())
    check(len(goroutines) > 35, f"trace: {len(goroutines)} goroutines")
    check_sender(goroutines)
    spinning = [g["running"] + g["runnable"] for g in goroutines if g["name"] == "main.spin"]
    check(spinning and max(spinning) > 0.25e9, f"trace: main.spin is at work for {spinning} ns")


def check_refusal(place, program):
    """gospect refuses, and says why in one line, with the same words in ps and dump."""
    why = place.gospect("dump", "-p", program.pid).fails(1)
    place.gospect("record", "-p", program.pid, "-d", "1", "-o", place.folder / "refused.folded").fails(1)
    place.gospect("trace", "-p", program.pid, "-d", "1", "-o", place.folder / "refused.trace").fails(1)
    check(why.removeprefix("gospect: ").split(": ")[-1] in place.gospect("ps").ok().text,
          f"ps does not say why: {why}")
    return Result(REFUSED, why)


def check_program(place, program, version, build):
    if not build.says_version:
        return check_refusal(place, program)
    check_ps(place, program, version, build)
    check_dump(place, program, version, build)
    check_record(place, program, build)
    check_trace(place, program)
    return Result(RIGHT, "")


def run_one(version, build, place):
    if golang.minor(version) < build.since:
        return Result(NONE, "")
    try:
        program = place.start(builds.make(version, build, arch=place.arch), build)
    except emulated.Ended:
        raise
    except (RuntimeError, AssertionError, OSError, subprocess.CalledProcessError) as error:
        return Result(WRONG, f"not built or not started: {error}")
    try:
        result = check_program(place, program, version, build)
        program.assert_well()
        return result
    except (AssertionError, subprocess.TimeoutExpired) as error:
        return Result(WRONG, str(error))
    finally:
        program.stop()
