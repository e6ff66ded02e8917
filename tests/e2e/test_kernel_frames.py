"""record --kernel: the kernel's functions inside the stacks of running goroutines."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

from lib import golang, gospect, pprof
from lib.params import in_full

SECCOMP = pathlib.Path(gospect.__file__).with_name("seccomp.py")
USER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--"]
PARANOID = pathlib.Path("/proc/sys/kernel/perf_event_paranoid")


def record(program, path, *args, **kwargs):
    return gospect.run("record", "-p", program.pid, "-d", 2, "-r", 500, "--budget", 100,
                       "--on-cpu", "--kernel", "-o", path, *args, **kwargs)


def recorded(program, path):
    result = gospect.record_cpu(program, path, "-r", 500, "--budget", 100, "--on-cpu", "--kernel")
    if result.status and ("perf_event_paranoid" in result.err or "no perf events" in result.err or
                          "kptr_restrict" in result.err):
        pytest.skip("the kernel does not permit its frames here")
    result.ok()
    return pprof.read(path)


def split(stack):
    """The kernel's frames, and the others."""
    kernel = [func for func in stack if func.endswith("_[k]") or func == "[kernel]"]
    return kernel, [func for func in stack if func not in kernel]


def in_kernel(profile):
    return [s for s in profile.samples if split(s.stack)[0]]


def test_kernel_frames_are_inside_the_functions_that_entered_it(targets, tmp_path):
    profile = recorded(targets.start("switches", args=("zero",)), tmp_path / "p.pb.gz")
    found = in_kernel(profile)
    assert sum(s.values["cpu"] for s in found) > 0.7 * profile.total("cpu")
    reading = 0
    for sample in found:
        kernel, user = split(sample.stack)
        assert sample.stack == kernel + user
        assert "[kernel]" not in kernel
        if "main.zero" in user:
            assert user[user.index("main.zero"):] == ["main.zero", "main.main.func1",
                                                      "runtime/pprof.Do"]
        if "vfs_read_[k]" in kernel and "os.(*File).Read" in user:
            reading += sample.values["cpu"]
    assert reading > 0.6 * profile.total("cpu")


def test_computing_goroutine_has_few_kernel_frames(targets, tmp_path):
    profile = recorded(targets.start("callers"), tmp_path / "p.pb.gz")
    assert sum(s.values["cpu"] for s in in_kernel(profile)) < 0.1 * profile.total("cpu")
    assert profile.total("cpu") > 0.2e9


def test_every_format_names_kernel_frames(targets, tmp_path):
    program = targets.start("switches", args=("zero",))
    recorded(program, tmp_path / "p.pb.gz")
    for name in in_full(("p.folded", "p.html", "p.json"), ("p.html",)):
        record(program, tmp_path / name).ok()
        assert "vfs_read_[k]" in (tmp_path / name).read_text()


def test_kernel_option_without_perf_fails(targets, tmp_path):
    program = targets.start("callers")
    result = record(program, tmp_path / "p.pb.gz",
                    prefix=(sys.executable, SECCOMP, "perf_event_open", "EPERM"))
    assert "seccomp filter" in result.fails(1)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("args", [("--off-cpu",), ("--raw",)])
def test_kernel_frames_exclude_other_options(targets, tmp_path, args):
    program = targets.start("callers")
    result = gospect.run("record", "-p", program.pid, "-d", 1, "--kernel", *args, "-o",
                         tmp_path / "p.pb.gz")
    assert args[0] in result.fails(2)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="takes root")
@pytest.mark.skipif(PARANOID.read_text().strip() != "2", reason="takes perf_event_paranoid 2")
def test_an_unprivileged_user_is_told_the_missing_permission():
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        for binary in gospect.BINARY, golang.build("switches", golang.NEWEST, golang.PLAIN):
            shutil.copy(binary, folder)
        program = subprocess.Popen(
            [*USER, "sh", "-c", f"sleep 5 | {folder}/gospect record -d 1 --kernel -f folded -- "
             f"{folder}/switches zero"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        text, words = program.communicate(timeout=60)
    assert program.returncode == 1
    assert "_[k]" not in text
    assert "kernel.perf_event_paranoid is 2" in words and "sudo" in words
