"""The programs of tests/programs that use modules of the module proxy: grpc and receiver."""

import os
import shutil
import subprocess

import pytest

from lib import golang


def require(folder, name, version, modules):
    lines = [f"module {name}", f"go {golang.language(version)}"]
    lines += [f"require {path} {number}" for path, number in modules.items()]
    (folder / "go.mod").write_text("\n".join(lines) + "\n")
    (folder / "go.sum").unlink()
    tidy = subprocess.run([golang.go_command(), "mod", "tidy"], cwd=folder, capture_output=True,
                          env=golang.environment(version), text=True)
    if tidy.returncode != 0:
        pytest.skip(f"the modules of {name} cannot be had: {tidy.stderr.strip()[-300:]}")


def program(name="grpc", version=golang.NEWEST, **modules):
    """With `modules`, such as {"google.golang.org/grpc": "v1.40.0"}, in these versions."""
    source = golang.TESTS / "programs" / name
    of = "".join(f"-{path.rsplit('/', 1)[-1]}-{number}" for path, number in modules.items())
    folder = golang.CACHE / f"go{version}" / f"{name}{of}-{golang.digest(source)}"
    binary = folder / name
    with golang.building(folder):
        if not binary.exists():
            partial = folder.with_suffix(f".{os.getpid()}")
            shutil.copytree(source, partial)
            if modules:
                require(partial, name, version, modules)
            made = subprocess.run([golang.go_command(), "build", "-o", name, "."], cwd=partial,
                                  env=golang.environment(version), capture_output=True, text=True)
            if made.returncode != 0 and "dial tcp" in made.stderr:
                pytest.skip(f"the modules of {name} cannot be had: {made.stderr.strip()[-300:]}")
            assert made.returncode == 0, made.stderr
            partial.rename(folder)
    return binary
