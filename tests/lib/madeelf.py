"""Writes tiny ELF programs of amd64 that wait for ever, with headers as a test wants them."""

import struct

BASE = 0x400000
CODE_AT = 0xF000
CODE = bytes.fromhex("b822000000" "0f05" "ebf7")  # pause() again and again
DATA_AT, DATA_BASE = 0x10000, 0x500000
READ_EXECUTE, READ_WRITE = 5, 6


def header(segments, shoff=0, shnum=0):
    return struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 2, 62, 1, BASE + CODE_AT, 64, shoff, 0,
                       64, 56, segments, 64, shnum, 0)


def segment(flags, offset, address, size):
    return struct.pack("<IIQQQQQQ", 1, flags, offset, address, address, size, size, 4096)


def section(kind=0, offset=0, size=0, name=0):
    return struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, offset, size, 0, 0, 1, 0)


def build_information(version=b"go1.26.8"):
    text = b"\xff Go buildinf:" + bytes([8, 2]) + bytes(16) + bytes([len(version)]) + version
    return (text + b"\0").ljust(256, b"\0")


def write(path, segments, pieces, size, shoff=0, shnum=0):
    """A program of those segments beside its code, with (offset, bytes) in it."""
    segments = [segment(READ_EXECUTE, 0, BASE, DATA_AT), *segments]
    with open(path, "wb") as file:
        file.truncate(size)
        for offset, data in ((0, header(len(segments), shoff, shnum) + b"".join(segments)),
                             (CODE_AT, CODE), *pieces):
            file.seek(offset)
            file.write(data)
    path.chmod(0o755)
    return path
