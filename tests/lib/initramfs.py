"""Makes the archive that a kernel unpacks into its first root file system.

The format is cpio's "newc": Documentation/driver-api/early-userspace/buffer-format.rst of Linux.
"""

import io
import pathlib
import stat


class Initramfs:
    def __init__(self, folders):
        self._archive = io.BytesIO()
        self._folders = set()
        self._count = 0
        for folder in folders:
            self._add_folder(pathlib.PurePath(folder))

    def _add(self, name, mode, content=b""):
        self._count += 1
        name = str(name).encode() + b"\0"
        fields = (self._count, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0)
        header = b"070701" + b"".join(b"%08x" % field for field in fields)
        self._write_padded(header + name)
        self._write_padded(content)

    def _write_padded(self, data):
        self._archive.write(data + bytes(-len(data) % 4))

    def _add_folder(self, folder):
        if folder in self._folders or not folder.name:
            return
        self._add_folder(folder.parent)
        self._folders.add(folder)
        self._add(folder, stat.S_IFDIR | 0o755)

    def add_file(self, name, content):
        """A program, or what programs read."""
        name = pathlib.PurePath(name)
        self._add_folder(name.parent)
        self._add(name, stat.S_IFREG | 0o755, content)

    def data(self):
        self._add("TRAILER!!!", 0)
        return self._archive.getvalue()
