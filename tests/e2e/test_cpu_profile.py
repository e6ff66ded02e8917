"""The CPU profile against Go's own of the same seconds, and against the calls in the code."""

import collections
import math
import platform
import re
import sys

import pytest

from lib import calls, golang, gospect, pprof

SECONDS, HZ = 3, 400
SECCOMP = gospect.ROOT / "tests" / "lib" / "seccomp.py"
# Of 30 functions one is off by 4 standard errors once in 500 times.
MOST_SIGMAS = 4


class Recording:
    def __init__(self, program, folder):
        assert program.ask(f"start {folder / 'own.pb.gz'}") == "ok"
        result = gospect.run("record", "-p", program.pid, "-d", SECONDS, "-r", HZ, "--budget", 5,
                             "--on-cpu", "-o", folder / "p.pb.gz").ok()
        assert program.ask("stop") == "ok"
        if "perf_event_paranoid" in result.err or "no perf events" in result.err:
            pytest.skip("the kernel does not permit perf events here")
        self.err = result.err
        self.profile = pprof.read(folder / "p.pb.gz")
        self.own = pprof.read(folder / "own.pb.gz")


# Threads that look for work run too briefly for Go's own timers, which expire with a tick of the
# kernel.
IDLE = {"runtime.findRunnable", "runtime.stopm", "runtime.sysmon"}


VDSO = ("__vdso", "[vdso]", "clock_gettime")


def leaf(sample):
    """The innermost function as both name it. In the vDSO Go's own profile begins with the caller of
    the function that called the vDSO (nanotime1's caller). The signals for a sample and for a
    preemption often come together, and then it is in asyncPreempt."""
    stack = list(sample.stack)
    if stack and stack[0].startswith(VDSO):
        while stack and stack[0].startswith(VDSO):
            stack.pop(0)
        stack = stack[1:]
    while stack and stack[0].startswith("runtime.asyncPreempt"):
        stack.pop(0)
    return re.sub(r"\[.*\]", "[...]", stack[0]) if stack else None


def counts(profile, key):
    """Samples by what the key makes of each; one sample of gospect is a period of CPU time."""
    found = collections.Counter()
    for sample in profile.samples:
        ns = sample.values["cpu"]
        if ns and key(sample) is not None and not IDLE & set(sample.stack):
            found[key(sample)] += ns * (HZ if profile.default_type == "wall" else 100) / 1e9
    return found


def deviations(ours, own, most):
    """For the largest shares: how many standard errors lie between the two; and chi-squared of
    these and the rest, with its degrees of freedom."""
    n, m = sum(ours.values()), sum(own.values())
    assert n > 200 and m > 50, f"it hardly ran: {n} and {m} samples"
    keys = sorted({*ours, *own}, key=lambda key: ours[key] + own[key], reverse=True)
    table = [(ours[key], own[key]) for key in keys[:most]]
    if keys[most:]:
        table.append((sum(ours[k] for k in keys[most:]), sum(own[k] for k in keys[most:])))
    sigmas, squares = {}, 0
    for key, (a, b) in zip([*keys[:most], "the rest"], table):
        p = (a + b) / (n + m)
        square = (a / n - b / m) ** 2 / (1 / n + 1 / m) / p
        squares += square
        sigmas[key] = math.copysign((square / max(1 - p, 1e-9)) ** 0.5, a / n - b / m)
    return sigmas, squares, len(table) - 1


def sigmas_of_chi_squared(squares, freedom):
    """How improbable that is, as a deviation of the normal distribution (Wilson and Hilferty)."""
    spread = 2 / (9 * freedom)
    return ((squares / freedom) ** (1 / 3) - (1 - spread)) / spread ** 0.5


def differences(recording, key):
    """Which shares are larger or smaller than in Go's own profile, and hardly by chance."""
    sigmas, squares, freedom = deviations(counts(recording.profile, key),
                                          counts(recording.own, key), most=30)
    found = {(name, "more" if sigma > 0 else "less") for name, sigma in sigmas.items()
             if abs(sigma) >= MOST_SIGMAS}
    if freedom and sigmas_of_chi_squared(squares, freedom) >= MOST_SIGMAS:
        found.add(("all together", "different"))
    return found


def wrong_calls(profile, code):
    """(right, wrong) CPU time of samples in Go, by whether their caller called; and examples."""
    right = wrong = 0
    examples = collections.Counter()
    for sample in profile.samples:
        places, ns = sample.addresses, sample.values["cpu"]
        if len(places) < 2 or not ns or not code.has(places[0]) or not code.has(places[1]):
            continue
        if code.name(places[0]) in calls.INJECTED or code.called(places[1] + 1, places[0]):
            right += ns
        else:
            wrong += ns
            examples[code.name(places[0]), code.name(places[1])] += 1
    return right, wrong, examples


def work(sample):
    return sample.labels.get("work")


@pytest.mark.alone
# Up to Go 1.23 labels are a map, up to 1.20 crypto/sha256 uses the g register.
@pytest.mark.parametrize("name, version", [("http", golang.NEWEST),
                                           pytest.param("json", golang.NEWEST, marks=pytest.mark.slow),
                                           pytest.param("pingpong", golang.NEWEST, marks=pytest.mark.slow),
                                           ("http", "1.20.14")])
def test_on_cpu_profile_equals_gos_own(targets, tmp_path, name, version):
    """The time of functions, and of labels. On a quiet machine nothing was off by more than three
    standard errors (ping-pong, nine recordings), where much else runs one in three was by four: so
    what is wrong has to be wrong twice, in the same direction."""
    program = targets.start("profiled", version, args=(name,))
    r = Recording(program, tmp_path)
    if platform.machine() == "x86_64" and version == golang.NEWEST:
        right, wrong, examples = wrong_calls(r.profile, calls.Code(program.binary))
        assert right > 0.3e9
        assert wrong < 0.001 * right, examples
    keys = [leaf] if version == golang.NEWEST else []
    if "labels of running goroutines are read" not in r.err:  # late, where the kernel does not permit eBPF
        keys.append(work)
    found = {key: differences(r, key) for key in keys}
    if any(found.values()):
        again = Recording(program, tmp_path)
        for key in keys:
            same = found[key] & differences(again, key)
            assert not same, deviations(counts(again.profile, key), counts(again.own, key), 30)


def test_denied_ebpf_reports_late_labels(targets, tmp_path):
    program = targets.start("profiled", golang.NEWEST, args=("http",))
    result = gospect.run("record", "-p", program.pid, "-d", 1, "-o", tmp_path / "p.pb.gz",
                         prefix=(sys.executable, str(SECCOMP), "bpf", "EPERM")).ok()
    if "perf_event_paranoid" in result.err or "no perf events" in result.err:
        pytest.skip("the kernel does not permit perf events here")
    assert "read up to 10 ms late" in result.err and "seccomp" in result.err
    profile = pprof.read(tmp_path / "p.pb.gz")
    assert {"sort", "client"} <= {work(sample) for sample in profile.samples}
