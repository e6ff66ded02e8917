"""The little of a pprof file that the benchmarks need: profile.proto read by hand."""
import gzip

STRING_TABLE, TIME_NANOS, DURATION_NANOS, COMMENT = 6, 9, 10, 13


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _fields(data):
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == 0:
            value, at = _varint(data, at)
        elif tag & 7 == 2:
            size, at = _varint(data, at)
            value = data[at:at + size]
            at += size
        else:
            raise ValueError(f"wire type {tag & 7} in a profile")
        yield tag >> 3, value


def _numbers(value):
    """A repeated number: packed or alone."""
    if isinstance(value, int):
        return [value]
    numbers, at = [], 0
    while at < len(value):
        number, at = _varint(value, at)
        numbers.append(number)
    return numbers


class Profile:
    def __init__(self, path):
        strings, comments = [], []
        self.time_nanos = self.duration_nanos = 0
        with gzip.open(path) as packed:
            for field, value in _fields(packed.read()):
                if field == STRING_TABLE:
                    strings.append(value.decode("utf-8", "replace"))
                elif field == TIME_NANOS:
                    self.time_nanos = value
                elif field == DURATION_NANOS:
                    self.duration_nanos = value
                elif field == COMMENT:
                    comments += _numbers(value)
        self.comments = [strings[i] for i in comments]
