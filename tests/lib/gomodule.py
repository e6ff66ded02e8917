"""The Go module of go/, packed with the gospect of this build, and programs that import it."""

import re
import subprocess
import sys

from lib import golang, gospect

sys.path.insert(0, str(golang.ROOT / "scripts"))
from dist import gomodule  # noqa: E402

PROGRAM = golang.TESTS / "programs" / "module"


def packed(folder):
    """The module, with the command for this machine only."""
    command = folder / "gospect"
    subprocess.run(["strip", "-o", command, gospect.BINARY], check=True)
    return gomodule.pack(folder / "module", {"amd64": command})


def build(version, module, folder):
    """tests/programs/module, with the import line of fgprof's README changed and nothing else."""
    source = (PROGRAM / "main.go").read_text()
    line = f'\tfgprof "{gomodule.path()}"\n'
    changed, count = re.subn(r'^\t"github.com/felixge/fgprof"\n', line, source, flags=re.M)
    assert count == 1
    folder.mkdir()
    (folder / "main.go").write_text(changed)
    (folder / "go.mod").write_text(f"module program\n\ngo {golang.language(version)}\n\n"
                                   f"require {gomodule.path()} v0.0.0\n\nreplace {gomodule.path()} => {module}\n")
    golang.go(version, "build", "-o", folder / "program", ".", cwd=folder)
    return folder / "program"


def test(version, module):
    """The module's own tests."""
    golang.go(version, "vet", ".", cwd=module)
    return golang.go(version, "test", ".", cwd=module)
