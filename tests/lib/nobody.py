"""Programs of a user who may nothing: what a hostile one can do is done without root's rights."""

import pathlib
import shutil
import tempfile

from lib.process import Program

USER = 65534
COMMAND = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--inh-caps=-all")


class Hostile(Program):
    """One of tests/programs, in a folder that this user can reach; `folder` is its own."""

    def __init__(self, binary, *args, prefix=(), **kwargs):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir="/tmp", prefix="hostile."))
        self.folder.chmod(0o755)
        copy = shutil.copy(binary, self.folder)
        try:
            super().__init__(*prefix, *COMMAND, copy, *args, **kwargs)
        except BaseException:
            shutil.rmtree(self.folder)
            raise

    def stop(self):
        super().stop()
        shutil.rmtree(self.folder, ignore_errors=True)
