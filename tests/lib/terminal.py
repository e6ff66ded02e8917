"""A terminal with a program in it: tmux, on a server of its own."""

import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile

from lib.process import PATIENCE, wait_until


def why_not():
    return None if shutil.which("tmux") else "tmux is not installed"


class Terminal:
    """Runs a command; its standard error and its exit status are kept in files."""

    def __init__(self, *command, width=80, height=24, env=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="term"))
        words = " ".join(shlex.quote(str(word)) for word in command)
        settings = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", **(env or {})}
        given = " ".join(f"{key}={shlex.quote(value)}" for key, value in settings.items())
        # The shell's own pid is the command's, but for what is behind it.
        script = (f"cd {shlex.quote(os.getcwd())}; env {given} {words} 2>{self.folder}/err; "
                  f"echo $? >{self.folder}/part; mv {self.folder}/part {self.folder}/status; "
                  "exec sleep 1000")
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", width, "-y", height,
                   f"sh -c {shlex.quote(script)}")
        self.shell = int(self._tmux("list-panes", "-F", "#{pane_pid}"))

    def _tmux(self, *args):
        command = ["tmux", "-S", self.folder / "socket", *map(str, args)]
        environment = {key: value for key, value in os.environ.items() if key != "TMUX"}
        done = subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE,
                              env={**environment, "LC_ALL": "C.UTF-8"})
        return done.stdout.decode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["tmux", "-S", self.folder / "socket", "kill-server"],
                       capture_output=True, timeout=PATIENCE, check=False)
        shutil.rmtree(self.folder)

    @property
    def pid(self):
        """The pid of the command."""
        children = pathlib.Path(f"/proc/{self.shell}/task/{self.shell}/children")
        return int(children.read_text().split()[0])

    def lines(self):
        return self._tmux("capture-pane", "-p").splitlines()

    def title(self):
        """That an escape sequence has given it; "" as it was."""
        title = self._tmux("display-message", "-p", "#{pane_title}").strip()
        return "" if title == os.uname().nodename else title

    def colours(self):
        """The screen with its escape sequences."""
        return self._tmux("capture-pane", "-e", "-p")

    def screen(self):
        return "\n".join(self.lines())

    def press(self, *keys):
        """Names as tmux has them: a, Enter, Escape, Down."""
        self._tmux("send-keys", *keys)

    def type(self, text):
        self._tmux("send-keys", "-l", text)

    def resize(self, width, height):
        self._tmux("resize-window", "-x", width, "-y", height)

    def wait_for(self, *texts, seconds=PATIENCE, without=()):
        """The screen, once all of these are on it and none of those."""
        def there():
            now = self.screen()
            return all(t in now for t in texts) and not any(t in now for t in without)

        try:
            wait_until(there, seconds, f"{texts} without {without}")
        except AssertionError as error:
            raise AssertionError(f"{error}:\n{self.screen()}\n{self.err()}") from None
        return self.screen()

    def running(self):
        return not (self.folder / "status").exists()

    def status(self, seconds=PATIENCE):
        wait_until(lambda: not self.running(), seconds, "the command's end")
        return int((self.folder / "status").read_text())

    def err(self):
        return (self.folder / "err").read_text()
