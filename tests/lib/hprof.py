"""Reads heap dumps in the format of Java's HPROF 1.0.2."""

import collections

TYPES = {2: "object", 8: "byte", 11: "long"}


class Dump:
    def __init__(self):
        self.counts = collections.Counter()  # of the objects of each class
        self.fields = {}                     # of each class: (name, type)
        self.globals, self.frames = set(), set()
        self._texts, self._names, self._class_fields = {}, {}, {}
        self._objects, self._references = set(), []

    @property
    def dangling(self):
        return [r for r in self._references if r and r not in self._objects]


class Bytes:
    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def number(self, size):
        self.at += size
        assert self.at <= len(self.data)
        return int.from_bytes(self.data[self.at - size:self.at], "big")


def _class(dump, b):
    ident = b.number(8)
    b.at += 4 + 6 * 8 + 4
    assert b.number(2) == 0
    for _ in range(b.number(2)):
        dump.globals.add(dump._texts[b.number(8)])
        assert b.number(1) == 2
        dump._references.append(b.number(8))
    fields = [(dump._texts[b.number(8)], TYPES[b.number(1)]) for _ in range(b.number(2))]
    dump._class_fields[ident] = dump.fields[dump._names[ident]] = fields


def _instance(dump, b):
    dump._objects.add(b.number(8))
    b.at += 4
    ident, size = b.number(8), b.number(4)
    fields = dump._class_fields[ident]
    assert size == 8 * len(fields)
    dump.counts[dump._names[ident]] += 1
    for _, kind in fields:
        value = b.number(8)
        if kind == "object":
            dump._references.append(value)


def _array(dump, b, is_bytes):
    dump._objects.add(b.number(8))
    b.at += 4
    count = b.number(4)
    if is_bytes:
        assert b.number(1) == 8
        b.at += count
        return
    dump.counts[dump._names[b.number(8)]] += 1
    dump._references += [b.number(8) for _ in range(count)]


def _segment(dump, b, end):
    while b.at < end:
        tag = b.number(1)
        if tag in (0x01, 0x03):
            dump._references.append(b.number(8))
            b.at += 8
        elif tag == 0x05:
            assert b.number(8) in dump._names
        elif tag == 0x08:
            b.at += 16
        elif tag == 0x20:
            _class(dump, b)
        elif tag == 0x21:
            _instance(dump, b)
        else:
            assert tag in (0x22, 0x23), hex(tag)
            _array(dump, b, tag == 0x23)
    assert b.at == end


def read(path):
    data, dump = path.read_bytes(), Dump()
    head = b"JAVA PROFILE 1.0.2\0"
    assert data.startswith(head)
    b = Bytes(data, len(head))
    assert b.number(4) == 8
    b.at += 8
    tags = []
    while b.at < len(data):
        tag = b.number(1)
        b.at += 4
        length = b.number(4)
        end = b.at + length
        tags.append(tag)
        if tag == 0x01:
            ident = b.number(8)
            dump._texts[ident] = data[b.at:end].decode()
        elif tag == 0x02:
            b.at += 4
            ident = b.number(8)
            b.at += 4
            dump._names[ident] = dump._texts[b.number(8)]
        elif tag == 0x04:
            b.at += 8
            dump.frames.add(dump._texts[b.number(8)])
        elif tag == 0x1c:
            _segment(dump, b, end)
        b.at = end
    # Readers want the segments together, behind all else.
    assert tags[-1] == 0x2c and set(tags[tags.index(0x1c):]) == {0x1c, 0x2c}
    return dump
