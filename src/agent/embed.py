#!/usr/bin/env python3
"""Makes blob.c of the linked agent: the bytes that are put into a target.

    embed.py agent.elf > blob.c

Refuses what would not run wherever it is put: bytes outside the one segment, relocations, data that
can be written.
"""
import struct
import sys

PT_LOAD, PT_DYNAMIC, SHT_SYMTAB, SHT_RELA, SHT_REL = 1, 2, 2, 4, 9

# Those that stubs call, beside the one at the beginning: agent/entry.h.
ENTRIES = ("status", "change", "syscall", "syscall_exit")


def die(message):
    sys.exit(f"embed.py: {message}")


def table(elf, offset, size, count, form):
    return [struct.unpack_from(form, elf, offset + i * size) for i in range(count)]


def agent_bytes(elf):
    offset, sections, _, _, size, count, section_size, section_count = struct.unpack_from(
        "<QQIHHHHH", elf, 32)
    segments = [s for s in table(elf, offset, size, count, "<IIQQQQQQ") if s[0] == PT_LOAD]
    for section in table(elf, sections, section_size, section_count, "<IIQQQQ"):
        if section[1] in (SHT_RELA, SHT_REL) and section[5] and section[2] & 2:
            die("the agent has relocations left")
    if len(segments) != 1:
        die(f"the agent has {len(segments)} segments, not one")
    _, flags, start, address, _, in_file, in_memory, _ = segments[0]
    if flags & 2 or address or in_file != in_memory:
        die("the agent has data of its own, or does not begin at 0")
    return elf[start:start + in_file]


def symbol(elf, name):
    sections, count, size = (struct.unpack_from(form, elf, at)[0] for form, at in (("<Q", 40), ("<H", 60), ("<H", 58)))
    headers = table(elf, sections, size, count, "<IIQQQQII")
    for _, kind, _, _, offset, length, link, _ in headers:
        for at in range(offset, offset + length, 24) if kind == SHT_SYMTAB else ():
            word, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", elf, at)
            start = headers[link][4] + word
            if elf[start:elf.index(0, start)] == name:
                return value
    return die(f"the agent has no {name.decode()}()")


def main(path):
    with open(path, "rb") as f:
        elf = f.read()
    data = agent_bytes(elf)
    rows = [", ".join(map(str, data[i:i + 24])) for i in range(0, len(data), 24)]
    print('#include "agent/blob.h"\n')
    print("const unsigned char agent_blob[] = {\n" + ",\n".join(rows) + "\n};")
    print("const size_t agent_blob_size = sizeof(agent_blob);")
    for name in ENTRIES:
        address = symbol(elf, b"agent_" + name.encode())
        print(f"const size_t agent_blob_{name} = {address};")


main(*sys.argv[1:])
