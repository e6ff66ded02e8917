"""The recorded fixtures: what programs of every Go release left when they died; see
tests/fixtures/README.md."""

import lzma
import pathlib

from lib import golang

HERE = pathlib.Path(__file__).resolve().parent.parent / "fixtures"
CORES = HERE / "cores"
SOURCE = HERE / "program"
# The newest of each minor version, and the first where a later one moved fields.
RELEASES = tuple(last if last in golang.NEWEST_OF_EACH else first for first, last in golang.TABLES)
ARCHITECTURES = ("amd64", "arm64")


class Fixture:
    """A core file, the parts of its program that are needed to read it, and what the dying
    program said."""

    def __init__(self, version, arch):
        name = f"go{version}-{arch}"
        self.core = CORES / f"{name}.core.zst"
        self.packed_program = CORES / f"{name}.program.xz"
        self.packed_words = CORES / f"{name}.stderr.xz"

    def files(self):
        return self.core, self.packed_program, self.packed_words

    def unpack_program(self, folder):
        program = folder / "program"
        program.write_bytes(lzma.decompress(self.packed_program.read_bytes()))
        return program

    def words(self):
        return lzma.decompress(self.packed_words.read_bytes()).decode()


def recorded():
    """(version, architecture) of every fixture there is."""
    return sorted(tuple(file.name.removeprefix("go").removesuffix(".core.zst").split("-"))
                  for file in CORES.glob("*.core.zst"))
