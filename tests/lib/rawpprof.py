"""Takes the functions out of a pprof file, as if it had been recorded with --raw."""

import gzip

from lib import pprof


def varint(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def encode(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def rebuild(data, change):
    """The message with the fields of `change` replaced: a list of values."""
    return b"".join(encode(number, other) for number, value in pprof.fields(data)
                    for other in change(number, value))


def strip_location(data):
    if not pprof.message(data).get(3, 0):
        return data  # "[running]" and its like
    return rebuild(data, lambda number, value: [] if number == 4 else [value])


def strip_mapping(data):
    return rebuild(data, lambda number, value: [] if 7 <= number <= 10 else [value])


def strip(data):
    change = {3: strip_mapping, 4: strip_location}
    return gzip.compress(rebuild(gzip.decompress(data), lambda number, value: [
        change[number](value) if number in change else value]))


def with_mappings(data, change):
    """Its mappings' fields changed: `change` gives the value of (number, value)."""
    return gzip.compress(rebuild(gzip.decompress(data), lambda number, value: [
        rebuild(value, lambda n, v: [change(n, v)]) if number == 3 else value]))
