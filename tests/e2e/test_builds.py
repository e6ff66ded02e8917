"""Builds that need something of their own; tests/matrix/run has all of them."""

import pytest

from lib import golang
from matrix import builds, checks


@pytest.mark.parametrize("version,name,verdict", [
    (golang.OLDEST, "zero-buildinfo-strip", checks.RIGHT),
    (golang.NEWEST, "zero-buildinfo-strip", checks.RIGHT),
    (golang.NEWEST, "no-version", checks.REFUSED),
    (golang.NEWEST, "c-shared-strip", checks.RIGHT),
])
def test_is_read_or_refused_with_a_reason(tmp_path, version, name, verdict):
    (build,) = [b for b in builds.BUILDS if b.name == name]
    result = checks.run_one(version, build, tmp_path)
    assert result.verdict == verdict, result.why
