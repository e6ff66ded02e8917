"""The program of tests/programs/grpc, with the gRPC of the module proxy."""

import os
import shutil
import subprocess

import pytest

from lib import golang


def program():
    source = golang.TESTS / "programs" / "grpc"
    folder = golang.CACHE / f"go{golang.NEWEST}" / f"grpc-{golang.digest(source)}"
    binary = folder / "grpc"
    with golang.building(folder):
        if not binary.exists():
            partial = folder.with_suffix(f".{os.getpid()}")
            shutil.copytree(source, partial)
            made = subprocess.run([golang.go_command(), "build", "-o", "grpc", "."], cwd=partial,
                                  env=golang.environment(golang.NEWEST), capture_output=True,
                                  text=True)
            if made.returncode != 0 and "dial tcp" in made.stderr:
                pytest.skip(f"gRPC cannot be had: {made.stderr.strip()[-300:]}")
            assert made.returncode == 0, made.stderr
            partial.rename(folder)
    return binary
