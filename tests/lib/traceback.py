"""Reads the Go runtime's traceback format, from gospect or from the runtime, and compares.

What legitimately differs between the two is dropped while reading: the values of arguments, and
the addresses that the runtime adds when it dies of SIGQUIT.
"""

import ast
import dataclasses
import re

HEADER = re.compile(
    r"^goroutine (?P<id>\d+)(?: gp=\S+ m=\S+(?: mp=\S+)?)? \[(?P<status>[^]]*)\]"
    r"(?: (?P<labels>\{.*\}))?:$")
PLACE = re.compile(
    r"^\t(?P<file>.*):(?P<line>\d+)(?: \+(?P<offset>0x[0-9a-f]+))?(?: fp=\S+ sp=\S+ pc=\S+)?$")
CREATED = re.compile(r"^created by (?P<func>.*?)(?: in goroutine (?P<id>\d+))?$")
ELIDED = re.compile(r"^\.\.\.(?P<count>\d+|additional) frames elided\.\.\.$")
UNAVAILABLE = "\tgoroutine running on other thread; stack unavailable"
# Gospect's alone, which reads stacks of what goes on running.
NEVER_STILL = "\tgoroutine's stack changed during every attempt to read it; stack unavailable"

# The runtime shows at most this many frames of a stack.
MAX_FRAMES = 100


@dataclasses.dataclass(frozen=True)
class Frame:
    func: str
    file: str
    line: int
    offset: str  # None for an inlined call

    def __str__(self):
        return f"{self.func} {self.file}:{self.line} {self.offset or 'inlined'}"


@dataclasses.dataclass
class Goroutine:
    id: int
    state: str  # or the wait reason
    details: tuple  # "locked to thread", "synctest bubble 1"
    minutes: int = 0
    labels: dict = None
    frames: list = dataclasses.field(default_factory=list)
    elided_at: int = None  # the place in frames where the runtime left some out
    elided: int = 0  # how many; None when it did not say
    created_by: Frame = None
    creator: int = None
    available: bool = True

    def functions(self):
        return [frame.func for frame in self.frames]


def unquote(text):
    return ast.literal_eval(text) if text.startswith('"') else text


def parse_labels(text):
    """{"a b": c, d: ""} as the runtime prints labels from Go 1.27 on."""
    token = r'(?:"(?:[^"\\]|\\.)*"|[^",:{} ]*)'
    labels, rest = {}, text[1:-1]
    while rest:
        match = re.match(rf"({token}): ({token})(?:, |$)", rest)
        assert match, f"labels: {text!r}"
        labels[unquote(match[1])] = unquote(match[2])
        rest = rest[match.end():]
    return labels


def parse_header(match):
    status, *details = match["status"].split(", ")
    minutes = 0
    for detail in list(details):
        if detail.endswith(" minutes"):
            minutes = int(detail.split()[0])
            details.remove(detail)
    labels = parse_labels(match["labels"]) if match["labels"] else None
    return Goroutine(int(match["id"]), status, tuple(details), minutes, labels)


def parse_goroutine(lines):
    """One goroutine: its header and the lines up to the next empty one."""
    goroutine = parse_header(HEADER.match(lines[0]))
    lines = iter(lines[1:])
    for line in lines:
        if line in (UNAVAILABLE, NEVER_STILL):
            goroutine.available = False
        elif elided := ELIDED.match(line):
            goroutine.elided_at = len(goroutine.frames)
            goroutine.elided = None if elided["count"] == "additional" else int(elided["count"])
        elif created := CREATED.match(line):
            goroutine.created_by = parse_frame(created["func"], next(lines))
            goroutine.creator = int(created["id"]) if created["id"] else None
        else:
            assert line.endswith(")"), f"not a call: {line!r}"
            goroutine.frames.append(parse_frame(line[:line.rindex("(")], next(lines)))
    return goroutine


def parse_frame(func, place):
    match = PLACE.match(place)
    assert match, f"not a place: {place!r}"
    return Frame(func, match["file"], int(match["line"]), match["offset"])


def parse(text):
    """Every goroutine of a traceback by its id; lines between goroutines are skipped."""
    goroutines = {}
    for block in text.split("\n\n"):
        lines = block.strip("\n").split("\n")
        while lines and not HEADER.match(lines[0]):
            lines.pop(0)
        if lines:
            goroutine = parse_goroutine(lines)
            assert goroutine.id not in goroutines, f"goroutine {goroutine.id} is there twice"
            goroutines[goroutine.id] = goroutine
    return goroutines


def truncated(goroutine, version):
    """The frames that the runtime of that version would show, as strings."""
    frames = [str(frame) for frame in goroutine.frames]
    if version < (1, 21):
        return frames[:MAX_FRAMES]
    if goroutine.elided_at is not None:
        return [*frames[:goroutine.elided_at], f"...{goroutine.elided}...",
                *frames[goroutine.elided_at:]]
    if len(frames) <= MAX_FRAMES:
        return frames
    half = MAX_FRAMES // 2
    return [*frames[:half], f"...{len(frames) - MAX_FRAMES}...", *frames[-half:]]


def frame_differences(inside, outside, version):
    ours, theirs = truncated(outside, version), truncated(inside, version)
    # Before Go 1.21 the runtime gives up after 100 frames, counting those that it does not show.
    if version < (1, 21) and len(theirs) > MAX_FRAMES - 10:
        ours = ours[:len(theirs)]
    if ours == theirs:
        return []
    same = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b),
                min(len(ours), len(theirs)))
    context = slice(max(0, same - 1), same + 3)
    return [f"frame {same} of {len(theirs)}: gospect {ours[context]}, runtime {theirs[context]}"]


def goroutine_differences(inside, outside, version, labels):
    found = []
    for what in ("state", "details", "created_by", "creator", "available"):
        ours, theirs = getattr(outside, what), getattr(inside, what)
        if ours != theirs:
            found.append(f"{what}: gospect {ours}, runtime {theirs}")
    if labels and outside.labels != inside.labels:
        found.append(f"labels: gospect {outside.labels}, runtime {inside.labels}")
    return found + frame_differences(inside, outside, version)


def differences(inside, outside, version, ignore=(), labels=False):
    """Every difference between the runtime's word and gospect's, a line each."""
    found = []
    for goid in sorted(set(inside) | set(outside)):
        if goid in ignore:
            continue
        if goid not in outside:
            found.append(f"goroutine {goid} is missing: {inside[goid].functions()[:4]}")
        elif goid not in inside:
            found.append(f"goroutine {goid} is too many: {outside[goid].functions()[:4]}")
        else:
            found += [f"goroutine {goid}, {difference}" for difference in
                      goroutine_differences(inside[goid], outside[goid], version, labels)]
    return found


def having(goroutines, func):
    """The goroutines with a call of that function."""
    return [g for g in goroutines.values() if func in g.functions()]


def one(goroutines, func):
    found = having(goroutines, func)
    assert len(found) == 1, f"{len(found)} goroutines are in {func}"
    return found[0]
