"""A target that calls exec all the time is read, or the message says so; it never says that the target has exited.

Before, it "has exited" or "has no entry point in its auxv" about once in 40 times.
"""

import collections

import pytest

from lib import golang, gospect, hostile


@hostile.NEEDS_ROOT
@pytest.mark.parametrize("pause,tries", [
    (15, 20), pytest.param(1, 150, marks=pytest.mark.slow)])
def test_exec_is_not_reported_as_exit(pause, tries):
    said = collections.Counter()
    with hostile.folder() as folder:
        binary = folder / "execer"
        binary.write_bytes(golang.build("execer", golang.NEWEST).read_bytes())
        binary.chmod(0o755)
        with hostile.running(binary, pause) as pid:
            for _ in range(tries):
                result = gospect.run("dump", "-p", pid)
                words = result.err.replace(str(pid), "PID").strip()
                said[words if result.status else "read"] += 1
    for words in said:
        assert "exited" not in words and "auxv" not in words, said
        assert words == "read" or "exec" in words or "starting" in words, said
