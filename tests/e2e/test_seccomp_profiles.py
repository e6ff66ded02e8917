"""Under the filters of system calls that Docker, containerd and systemd publish: a program and gospect itself."""

import json
import os
import pathlib
import shutil

import pytest

from lib import golang, gospect, seccomp_profile, traceback, tracing
from lib.process import Program, status

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="only root has the capabilities")]

SOURCE = pathlib.Path(seccomp_profile.__file__).with_name("profiles")
SCRIPT = pathlib.Path(seccomp_profile.__file__)
# Docker's without the ones that are not asked for here; then what the guide adds.
DOCKER = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_SETGID", "CAP_SETUID", "CAP_SYS_CHROOT")
SIDECAR = (*DOCKER, "CAP_SYS_PTRACE", "CAP_PERFMON", "CAP_BPF", "CAP_DAC_READ_SEARCH")
SYSTEMD = "@system-service"


def maker():
    folder = golang.CACHE / f"profiles-{golang.digest(SOURCE)}"
    with golang.building(folder):
        if not (folder / "profiles").exists():
            shutil.copytree(SOURCE, folder, dirs_exist_ok=True)
            golang.go(golang.NEWEST, "build", "-o", "made", ".", cwd=folder)
            (folder / "made").rename(folder / "profiles")
    return folder / "profiles"


def profile(name, capabilities):
    if name.startswith("@"):
        if not shutil.which("systemd-analyze"):
            pytest.skip("there is no systemd-analyze")
        return seccomp_profile.of_systemd(name)
    return seccomp_profile.of_engine(maker(), name, capabilities)


@pytest.fixture
def under(tmp_path):
    """Begins a command with these capabilities, under the profile that such a container has."""
    def prefix(name, capabilities):
        path = tmp_path / f"{name.strip('@')}-{len(capabilities)}.json"
        path.write_text(json.dumps(profile(name, capabilities)))
        bounding = ",".join("+" + cap.removeprefix("CAP_").lower() for cap in capabilities)
        return ("/usr/bin/python3", str(SCRIPT), str(path), "setpriv", f"--bounding-set=-all,{bounding}", "--inh-caps=-all", "--")
    return prefix


@pytest.fixture
def confined(targets, under):
    def start(name, program="states", *args):
        targets.own.append(Program(*under(name, DOCKER), golang.build(program, golang.NEWEST), *args))
        assert status(targets.own[-1].pid)["Seccomp"] == "2"
        return targets.own[-1]
    return start


@pytest.mark.parametrize("name", ("docker", "containerd", SYSTEMD))
def test_a_confined_program_is_seen_from_outside(confined, tmp_path, name):
    program = confined(name)
    outside = gospect.dump(program.pid)
    inside = traceback.parse(program.stack())
    assert not traceback.differences(inside, outside, golang.minor(golang.NEWEST),
                                     ignore={g.id for g in traceback.having(inside, "main.control")})
    for verb in ("record", "-d", 1, "-o", tmp_path / "p.pb.gz"), ("leaks",), ("memory",):
        gospect.run(*verb, "-p", program.pid).ok()
    gospect.run("trace", "-p", program.pid, "-d", 1, "-o", tmp_path / "t.trace").ok()
    gospect.run("leaks", "--exact", "-p", program.pid).ok()
    tracing.assert_untouched(program)


FORBIDS = "a seccomp filter forbids perf_event_open"
VERBS = ("dump", "leaks", "memory", "waits", "record -d 1 -o p.pb.gz", "record --on-cpu -d 1 -o c.pb.gz", "trace -d 1 -o t.trace",
         "leaks --exact", "offcpu --sampled -d 1")


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", ("docker", "containerd", SYSTEMD))
def test_a_confined_gospect_works_or_names_the_filter(targets, under, name, verb):
    """One that has the guide's capabilities, beside a program without a filter."""
    program = targets.start("states", args=("-only=chan", "-spin=1"))
    result = gospect.run(*verb.split(), "-p", program.pid, prefix=under(name, SIDECAR))
    if result.status:
        assert "seccomp filter" in result.words[-1], result.err
    elif "record" in verb:
        assert "no on-CPU stacks" not in result.err or FORBIDS in result.err, result.err
    tracing.assert_untouched(program)
