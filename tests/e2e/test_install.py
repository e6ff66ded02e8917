"""`make install DESTDIR=` puts each file where it belongs, and nothing elsewhere."""

import os
import re
import subprocess

from lib import gospect

DOCUMENTS = gospect.ROOT / "docs" / "reference"
HEADERS = gospect.ROOT / "include" / "gospect"


def test_installing_into_a_folder_puts_each_file(tmp_path):
    environment = {**os.environ, "PATH": f"{sudo_that_fails(tmp_path)}:{os.environ['PATH']}"}
    done = subprocess.run(["make", "install", f"DESTDIR={tmp_path}/root"], cwd=gospect.ROOT, env=environment,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    root = tmp_path / "root" / "usr" / "local"
    library = next(root.glob("lib/**/libgospect.a")).parent.relative_to(root)
    version = subprocess.run([gospect.BINARY, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    expected = {"bin/gospect", "share/bash-completion/completions/gospect", "share/zsh/site-functions/_gospect",
                "share/fish/vendor_completions.d/gospect.fish", f"{library}/libgospect.a", f"{library}/libgospect.so",
                "lib/systemd/system/gospect-push.service", "lib/systemd/system/gospect-serve.service",
                f"{library}/libgospect.so.0", f"{library}/libgospect.so.{version}", f"{library}/pkgconfig/gospect.pc"}
    expected |= {f"share/man/man1/{path.name}" for path in DOCUMENTS.glob("*.1")}
    expected |= {f"include/gospect/{path.name}" for path in HEADERS.glob("*.h")}
    found = {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}
    assert found == expected
    assert not (tmp_path / "called").exists()


def sudo_that_fails(folder):
    """A folder with a sudo and an apt-get that say that they were called."""
    programs = folder / "programs"
    programs.mkdir()
    for name in "sudo", "apt-get":
        (programs / name).write_text(f"#!/bin/sh\ntouch {folder}/called\nexit 1\n")
        (programs / name).chmod(0o755)
    return programs


def test_the_change_log_begins_with_the_version():
    first = re.search(r"^## (\S+)", (gospect.ROOT / "CHANGELOG.md").read_text(), re.M)[1]
    assert first in subprocess.run([gospect.BINARY, "--version"], capture_output=True, text=True, check=True).stdout
