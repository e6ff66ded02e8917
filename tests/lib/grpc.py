"""The programs of tests/programs that use modules of the module proxy: grpc and receiver."""

import os
import shutil
import subprocess

import pytest

from lib import golang


def program(name="grpc"):
    source = golang.TESTS / "programs" / name
    folder = golang.CACHE / f"go{golang.NEWEST}" / f"{name}-{golang.digest(source)}"
    binary = folder / name
    with golang.building(folder):
        if not binary.exists():
            partial = folder.with_suffix(f".{os.getpid()}")
            shutil.copytree(source, partial)
            made = subprocess.run([golang.go_command(), "build", "-o", name, "."], cwd=partial,
                                  env=golang.environment(golang.NEWEST), capture_output=True,
                                  text=True)
            if made.returncode != 0 and "dial tcp" in made.stderr:
                pytest.skip(f"the modules of {name} cannot be had: {made.stderr.strip()[-300:]}")
            assert made.returncode == 0, made.stderr
            partial.rename(folder)
    return binary
