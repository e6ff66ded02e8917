"""A reader of the pprof format: just what the tests look at."""

import dataclasses
import gzip


@dataclasses.dataclass
class Sample:
    stack: list  # of function names, innermost first, inlined calls expanded
    addresses: list
    values: dict  # by sample type
    labels: dict


@dataclasses.dataclass
class Profile:
    sample_types: list  # of (type, unit)
    default_type: str
    samples: list
    mappings: list  # of (start, limit, file, build id)
    comments: list
    duration_ns: int
    period: int
    lines: list  # of (function, file, line), all locations
    functions: int
    time_ns: int  # when it began, since 1970

    def total(self, kind, where=lambda sample: True):
        return sum(s.values[kind] for s in self.samples if where(s))

    def time_in(self, func, kind="wall"):
        return self.total(kind, lambda s: func in s.stack)


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def signed(value):
    return value - (1 << 64) if value >> 63 else value


def fields(data):
    """(number, value) of a message; value is an int or bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
            assert len(value) == size, "the message is cut off"
        else:
            raise AssertionError(f"wire type {key & 7}")
        yield key >> 3, value


def numbers(value):
    """A repeated integer, packed or not."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = varint(value, at)
        found.append(number)
    return found


def message(data, repeated=()):
    ret = {number: [] for number in repeated}
    for number, value in fields(data):
        if number in repeated:
            ret[number].append(value)
        else:
            ret[number] = value
    return ret


def flat(values):
    return [number for value in values for number in numbers(value)]


def read(path):
    return parse(path.read_bytes())


def parse(data):
    top = message(gzip.decompress(data), repeated=(1, 2, 3, 4, 5, 6, 13))
    strings = [value.decode() for value in top[6]]
    assert strings[0] == ""
    types = [tuple(strings[message(v).get(i, 0)] for i in (1, 2)) for v in top[1]]
    functions = {}
    for value in top[5]:
        m = message(value)
        functions[m[1]] = strings[m.get(2, 0)], strings[m.get(4, 0)]
    locations, lines = {}, []
    for value in top[4]:
        m = message(value, repeated=(4,))
        calls = [message(line) for line in m[4]]
        named = [(*functions[c[1]], c.get(2, 0)) for c in calls]
        lines += named
        locations[m[1]] = [func for func, _, _ in named], m.get(3, 0)
    profile = Profile(
        types, strings[top.get(14, 0)], [], [mapping(v, strings) for v in top[3]],
        [strings[i] for i in flat(top[13])], top.get(10, 0), top.get(12, 0), lines, len(functions),
        top.get(9, 0))
    for value in top[2]:
        profile.samples.append(sample(value, profile, locations, strings))
    return profile


def mapping(data, strings):
    m = message(data)
    return m.get(2, 0), m.get(3, 0), strings[m.get(5, 0)], strings[m.get(6, 0)]


def sample(data, profile, locations, strings):
    m = message(data, repeated=(1, 2, 3))
    places = [locations[i] for i in flat(m[1])]
    values = [signed(v) for v in flat(m[2])]
    assert len(values) == len(profile.sample_types)
    labels = {}
    for value in m[3]:
        label = message(value)
        labels[strings[label[1]]] = strings[label.get(2, 0)]
    return Sample([func for names, _ in places for func in names],
                  [address for _, address in places],
                  {kind: v for (kind, _), v in zip(profile.sample_types, values)}, labels)
