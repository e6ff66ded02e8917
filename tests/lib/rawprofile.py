"""All that a pprof file says of its samples, in a form that does not depend on numbers given out."""

import collections
import gzip

from lib import pprof


class Raw:
    """header: types, period, default type and comments. samples: a Counter of (values, labels, stack);
    a stack is a tuple of locations, each with its address and its (function, file, line, start line)."""

    def __init__(self, data):
        top = pprof.message(gzip.decompress(data), repeated=(1, 2, 3, 4, 5, 6, 13))
        self.strings = [value.decode() for value in top[6]]
        self.types = [self._type(value) for value in top[1]]
        self.header = {
            "types": self.types, "period type": self._type(top[11]), "period": top.get(12, 0),
            "default": self.strings[top.get(14, 0)], "duration": top.get(10, 0),
            "comments": [self.strings[i] for i in pprof.flat(top[13])]}
        functions = {m[1]: m for m in map(pprof.message, top[5])}
        places = dict(self._place(value, functions) for value in top[4])
        self.samples = collections.Counter(self._sample(value, places) for value in top[2])

    def _type(self, data):
        m = pprof.message(data)
        return self.strings[m.get(1, 0)], self.strings[m.get(2, 0)]

    def _place(self, data, functions):
        m, lines = pprof.message(data, repeated=(4,)), []
        for line in map(pprof.message, m[4]):
            f = functions[line[1]]
            lines.append((self.strings[f.get(2, 0)], self.strings[f.get(4, 0)], line.get(2, 0), f.get(5, 0)))
        return m[1], (hex(m.get(3, 0)), *lines)

    def _sample(self, data, places):
        m = pprof.message(data, repeated=(1, 2, 3))
        labels = []
        for label in map(pprof.message, m[3]):
            text = self.strings[label[2]] if label.get(2, 0) else label.get(3, 0)
            labels.append((self.strings[label[1]], str(text)))
        return (tuple(map(pprof.signed, pprof.flat(m[2]))), tuple(sorted(labels)),
                tuple(places[number] for number in pprof.flat(m[1])))

    def nonzero(self):
        return collections.Counter({s: n for s, n in self.samples.items() if any(s[0])})


def read(path):
    return Raw(path.read_bytes())


def differences(own, ours):
    """In words, the first few."""
    lines = []
    for name, left in ("only in the program's own", own - ours), ("only in gospect's", ours - own):
        lines += [f"{name}: {count} x {sample}" for sample, count in sorted(left.items())[:4]]
    return lines
