"""Builds tests/programs/pluggable and the plugin that it opens."""

import functools
import os
import shutil
import subprocess

import pytest

from lib import golang

PROGRAMS = golang.TESTS / "programs"


def _go_build(version, source, to, *flags):
    copy = to.with_name(f"{source.name}-src")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(source, copy)
    (copy / "go.mod").write_text(f"module {source.name}\n\ngo {golang.language(version)}\n")
    partial = to.with_suffix(f".{os.getpid()}")
    subprocess.run([golang.go_command(), "build", *flags, "-o", partial, "."], cwd=copy, check=True,
                   capture_output=True, text=True,
                   env={**golang.environment(version), "CGO_ENABLED": "1"})
    partial.rename(to)


@functools.cache
def build(version):
    """The paths of the program and of its plugin."""
    key = "-".join(golang.digest(PROGRAMS / name) for name in ("pluggable", "plugged"))
    folder = golang.CACHE / f"go{version}" / f"pluggable-{key}"
    program, plugin = folder / "pluggable", folder / "plugin.so"
    folder.mkdir(parents=True, exist_ok=True)
    with golang.building(folder):
        if not plugin.exists():
            _go_build(version, PROGRAMS / "pluggable", program)
            _go_build(version, PROGRAMS / "plugged", plugin, "-buildmode=plugin")
    return program, plugin


NEEDS_C = pytest.mark.skipif(not shutil.which("gcc"), reason="plugins need a C compiler")
