"""Builds programs of tests/programs that have C in them, and the shared library that one loads."""

import os
import shutil
import subprocess

from lib import golang

LIBRARY = golang.TESTS / "programs" / "cgo_library"


def library(stripped=False):
    folder = golang.CACHE / f"cgo_library-{golang.digest(LIBRARY)}"
    path = folder / ("stripped" if stripped else "plain") / "libburn.so"
    with golang.building(folder):
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(f".{os.getpid()}")
            subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", "-fPIC", "-shared",
                            "-Wl,--build-id", *(["-s"] if stripped else []), "-o", partial,
                            LIBRARY / "library.c"], check=True)
            partial.rename(path)
    return path


def program(version, name="cgo"):
    source = golang.TESTS / "programs" / name
    folder = golang.CACHE / f"go{version}" / f"{name}-{golang.digest(source)}"
    binary = folder / name
    with golang.building(folder):
        if not binary.exists():
            copy = folder / f"src.{os.getpid()}"
            shutil.copytree(source, copy)
            partial = folder / f"{name}.{os.getpid()}"
            subprocess.run([golang.go_command(), "build", "-o", partial, "."], cwd=copy, check=True,
                           capture_output=True,
                           env={**golang.environment(version), "CGO_ENABLED": "1"})
            partial.rename(binary)
            shutil.rmtree(copy)
    return binary
