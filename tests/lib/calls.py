"""Whether one function called another, by the instruction before a return address.

Knows the calls of amd64: E8 with the distance, FF /2 through a register or memory; and E9 and the
conditional jumps, by which assembly and wrappers go on to another function.
"""

import bisect
import struct
import subprocess

# What a signal or a fault puts between the interrupted instruction and the handler is no call.
INJECTED = {"runtime.asyncPreempt", "runtime.asyncPreempt.abi0", "runtime.sigpanic",
            "runtime.sigpanic.abi0", "runtime.sigreturn", "runtime.sigreturn__sigaction",
            "runtime.sigreturn__sigaction.abi0"}
# Wrappers, which profiles leave out: between these and what they call there is a frame more.
LEFT_OUT = {"runtime.deferreturn"}


class Code:
    """Functions and bytes of a program that is linked to a fixed place."""

    def __init__(self, binary):
        self.bytes = binary.read_bytes()
        self.segments = list(self._segments())
        lines = subprocess.run(["nm", "-n", binary], check=True, capture_output=True,
                               text=True).stdout.splitlines()
        symbols = [line.split(maxsplit=2) for line in lines]
        found = {s[2]: int(s[0], 16) for s in symbols if len(s) == 3}
        self.text, self.etext = found["runtime.text"], found["runtime.etext"]
        functions = {int(s[0], 16): s[2] for s in symbols if len(s) == 3 and s[1] in "tT" and
                     s[2] not in ("runtime.text", "runtime.etext")}
        self.entries = sorted(functions)
        self.names = functions
        self.jumps = {}

    def _segments(self):
        offset, = struct.unpack_from("<Q", self.bytes, 32)
        size, count = struct.unpack_from("<HH", self.bytes, 54)
        for i in range(count):
            kind, _, at, address, _, length = struct.unpack_from("<IIQQQQ", self.bytes,
                                                                 offset + i * size)
            if kind == 1:
                yield address, at, length

    def read(self, address, length):
        for start, at, size in self.segments:
            if start <= address and address + length <= start + size:
                return self.bytes[at + address - start:at + address - start + length]
        raise ValueError(f"{address:#x} is not in the file")

    def has(self, address):
        return self.text <= address < self.etext

    def entry(self, address):
        return self.entries[bisect.bisect_right(self.entries, address) - 1]

    def name(self, address):
        return self.names[self.entry(address)]

    def jumps_of(self, entry):
        """The functions that this one goes on to by a jump."""
        if entry not in self.jumps:
            at = bisect.bisect_right(self.entries, entry)
            end = self.entries[at] if at < len(self.entries) else self.etext
            code, found = self.read(entry, end - entry), set()
            for i in range(len(code) - 4):
                far = code[i] == 0xE9 or (i and code[i - 1] == 0x0F and code[i] & 0xF0 == 0x80)
                if far or code[i] == 0xEB:
                    form, size = ("<i", 4) if far else ("<b", 1)
                    target = entry + i + 1 + size + struct.unpack_from(form, code, i + 1)[0]
                    if self.has(target) and self.entry(target) != entry:
                        found.add(self.entry(target))
            self.jumps[entry] = found
        return self.jumps[entry]

    def leads_to(self, entry, wanted, steps=3):
        return entry == wanted or bool(steps) and any(
            self.leads_to(e, wanted, steps - 1) for e in self.jumps_of(entry))

    def called(self, return_address, callee):
        """Whether the instruction before this address called the function that callee is in."""
        before = self.read(return_address - 8, 8)
        if before[3] == 0xE8:
            target = return_address + struct.unpack_from("<i", before, 4)[0]
            if self.has(target) and (self.name(target) in LEFT_OUT or
                                     self.leads_to(self.entry(target), self.entry(callee))):
                return True
        return any(is_indirect_call(before[i:]) for i in range(7))


def is_indirect_call(code):
    """Whether these bytes are one call through a register or memory, to their end."""
    if 0x40 <= code[0] <= 0x4F:
        code = code[1:]
    if len(code) < 2 or code[0] != 0xFF or code[1] >> 3 & 7 != 2:
        return False
    mod, base = code[1] >> 6, code[1] & 7
    length = 2
    if mod != 3:
        if base == 4:
            length += 1
            base = code[2] & 7 if len(code) > 2 else 0
        length += {0: 4 if base == 5 else 0, 1: 1, 2: 4}[mod]
    return len(code) == length
