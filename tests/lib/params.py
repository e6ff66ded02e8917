"""What tests are run with: Go versions, ways to build, how often."""

import os

import pytest

from lib import golang


def every_build(versions=golang.VERSIONS, modes=golang.MODES):
    pairs = [(version, mode) for version in versions for mode in modes]
    return pytest.mark.parametrize("version,mode", pairs,
                                   ids=[f"go{version}-{mode}" for version, mode in pairs])


def every_version(versions=golang.VERSIONS):
    return pytest.mark.parametrize("version", versions, ids=[f"go{v}" for v in versions])


def newest_version(versions=golang.VERSIONS):
    """The newest; the others are slow. For what takes seconds and hardly depends on the version."""
    slow = [pytest.param(v, marks=pytest.mark.slow, id=f"go{v}") for v in versions if v != golang.NEWEST]
    return pytest.mark.parametrize("version", [*slow, pytest.param(golang.NEWEST, id=f"go{golang.NEWEST}")])


def in_full(full, short):
    """How often, how long or how many: with tests/run --slow, and in `make test`."""
    return full if "GOSPECT_SLOW" in os.environ else short
