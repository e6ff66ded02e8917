"""A second build, elsewhere and without what the first one left, has the same bytes."""

import os
import shutil
import subprocess

import pytest

from lib import release
from lib.golang import ROOT


def files_of_the_project():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True,
                            check=True).stdout
    return [name.decode() for name in listed.split(b"\0") if name and (ROOT / name.decode()).exists()]


@pytest.mark.time_limit(3000)
def test_two_builds_are_equal_byte_for_byte(tmp_path):
    copy = tmp_path / "a-folder-of-another-length" / "gospect"
    for name in files_of_the_project():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name)
    date = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=True)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": date.stdout.strip(), "TZ": "Asia/Tokyo", "CCACHE_DISABLE": "1",
                   "LC_ALL": "C.UTF-8", "USER": "somebody"}
    subprocess.run(["sh", "-c", "umask 077; exec scripts/make-dist"], cwd=copy, env=environment, check=True)
    sums = [(folder / "SHA256SUMS").read_text().splitlines() for folder in (release.DIST, copy / "dist")]
    assert sums[0] == sums[1]
    assert len(sums[0]) == 10
