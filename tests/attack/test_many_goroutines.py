"""A list of 33 million invented goroutines: gospect says that the target's memory cannot hold them.

Before, `ps` took 568 MB, and `trace -d 1` 19 s.
"""

import re

import pytest

from lib import golang, hostile

pytestmark = hostile.NEEDS_ROOT

COUNT = 33_000_000
CLAIM = rf"claims {COUNT} goroutines, more than its memory can hold"


@pytest.mark.parametrize("stride", [8, 448])
def test_invented_goroutines_are_refused(stride):
    with hostile.folder() as folder:
        binary = folder / "inventor"
        binary.write_bytes(golang.build("inventor", golang.MIDDLE).read_bytes())
        binary.chmod(0o755)
        with hostile.running(binary, COUNT, stride, 0, "untouched") as pid:
            for verb in (["ps"], ["dump", "-p", pid], ["trace", "-p", pid, "-d", "1", "-o", "x.trace"],
                         ["record", "-p", pid, "-d", "1", "-o", "x.pb.gz"]):
                result = hostile.measure(*verb)
                assert re.search(CLAIM, result.err) or verb == ["ps"], result.err
                assert result.cpu < 3 and result.resident < 150 << 20, (verb, result.cpu, result.resident)
