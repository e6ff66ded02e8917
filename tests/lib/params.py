"""What tests are run with: Go versions and ways to build."""

import pytest

from lib import golang


def every_build(versions=golang.VERSIONS, modes=golang.MODES):
    pairs = [(version, mode) for version in versions for mode in modes]
    return pytest.mark.parametrize("version,mode", pairs,
                                   ids=[f"go{version}-{mode}" for version, mode in pairs])


def every_version(versions=golang.VERSIONS):
    return pytest.mark.parametrize("version", versions, ids=[f"go{v}" for v in versions])
