"""libgospect by ctypes: what include/gospect/*.h declare, and objects that close themselves."""

import ctypes as c
import enum
import pathlib
import typing

from lib import gospect, traceback

LIBRARY = gospect.BINARY.parent / "src" / "lib" / "libgospect.so.0"
HEADERS = gospect.ROOT / "include"

TEXT, JSON, PPROF, FOLDED, SPEEDSCOPE, HTML = range(1, 7)
WRITE_GROUPS, WRITE_ADDRESSES = 1, 2
STATES = ("running", "runnable", "syscall", "waiting")
LOCKED, SYSTEM, NO_STACK, TRUNCATED = 1, 2, 4, 8
RECORD_OFF_CPU, RECORD_ADDRESSES = 2, 32
TRACE_IN_MEMORY = 2
RECORDED_LABELS = 1
RECORDED_GOROUTINES = 4
TOP_NEW_PAGE, TOP_RESTS = 1, 2
TOP_NOTHING, TOP_SHOW, TOP_WRITE, TOP_QUIT = range(4)
TOP_KEY_ENTER = 0x110006
GROUP_ROOT, GROUP_FUNCTION, GROUP_STATE, GROUP_WAIT, GROUP_LABEL = range(5)
PERMIT_LIMITS, PERMIT_PRIORITY, PERMIT_MAPPING = 1, 2, 4


class Code(enum.IntEnum):
    FAILED, NO_MEMORY, FAULT, GONE, DENIED, NOT_GO, UNSUPPORTED, CORRUPT, CANCELLED, INVALID = \
        range(10)


class Frame(c.Structure):
    _fields_ = [("pc", c.c_uint64), ("entry", c.c_uint64), ("function", c.c_char_p),
                ("file", c.c_char_p), ("line", c.c_int32), ("is_inlined", c.c_uint32)]


class Stack(c.Structure):
    _fields_ = [("count", c.c_size_t), ("frames", c.POINTER(c.POINTER(Frame)))]

    def list(self):
        return [self.frames[i].contents for i in range(self.count)]

    def functions(self):
        return [frame.function.decode() for frame in self.list()]


class Label(c.Structure):
    _fields_ = [("key", c.c_char_p), ("value", c.c_char_p)]


class Goroutine(c.Structure):
    _fields_ = [("id", c.c_uint64), ("parent", c.c_uint64), ("waited_ns", c.c_uint64),
                ("state", c.c_int), ("flags", c.c_uint32), ("thread", c.c_int32),
                ("label_count", c.c_uint32), ("labels", c.POINTER(Label)), ("status", c.c_char_p),
                ("wait_reason", c.c_char_p), ("stack", c.POINTER(Stack)),
                ("created_by", c.POINTER(Frame)), ("start_pc", c.c_uint64),
                ("bubble", c.c_uint64)]


class Sample(c.Structure):
    _fields_ = [("count", c.c_uint64), ("wall_ns", c.c_uint64), ("cpu_ns", c.c_uint64),
                ("idle_ns", c.c_uint64), ("state", c.c_int), ("label_count", c.c_uint32),
                ("labels", c.POINTER(Label)), ("wait_reason", c.c_char_p),
                ("stack", c.POINTER(Stack))]


class StackWord(c.Structure):
    _fields_ = [("address", c.c_uint64), ("offset", c.c_int64), ("value", c.c_uint64),
                ("explanation", c.c_char_p), ("in_register", c.c_char_p), ("is_sp", c.c_uint32),
                ("is_fp", c.c_uint32)]


class TargetInfo(c.Structure):
    _fields_ = [("pid", c.c_int32), ("is_core", c.c_uint32), ("exe", c.c_char_p),
                ("go_version", c.c_char_p), ("build", c.c_char_p), ("build_id", c.c_char_p),
                ("machine", c.c_char_p)]


class ProfileInfo(c.Structure):
    _fields_ = [("command", c.c_char_p), ("go_version", c.c_char_p), ("start_ns", c.c_uint64),
                ("duration_ns", c.c_uint64), ("period_ns", c.c_uint64), ("samples", c.c_uint64),
                ("has_functions", c.c_uint32), ("is_recording", c.c_uint32),
                ("ticks", c.c_uint64), ("missed", c.c_uint64), ("torn", c.c_uint64),
                ("rate", c.c_double), ("goroutines", c.c_double), ("looks", c.c_double),
                ("error", c.c_double), ("cpu_percent", c.c_double)]


REMARK = c.CFUNCTYPE(None, c.c_void_p, c.c_char_p)
PROGRESS = c.CFUNCTYPE(None, c.c_void_p, c.c_double, c.c_uint64)
WRITE = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_void_p, c.c_size_t)
READ = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_uint64, c.c_void_p, c.c_size_t)
SAMPLE = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(Sample))
DETACHED = c.CFUNCTYPE(None, c.c_void_p)
FLIGHT = c.CFUNCTYPE(None, c.c_void_p, c.c_double, c.c_void_p)
INCIDENT = c.CFUNCTYPE(None, c.c_void_p, c.c_char_p, c.c_double, c.c_void_p)


class Options(c.Structure):
    """Begins with its size."""

    def __init__(self, **kwargs):
        super().__init__(size=c.sizeof(type(self)), **kwargs)


class TargetOptions(Options):
    _fields_ = [("size", c.c_size_t), ("exe", c.c_char_p), ("cancel", c.c_void_p),
                ("remark", REMARK), ("arg", c.c_void_p), ("start_timeout", c.c_double),
                ("exec_timeout", c.c_double), ("hold", c.c_void_p)]


class Mapping(c.Structure):
    _fields_ = [("start", c.c_uint64), ("end", c.c_uint64), ("offset", c.c_uint64),
                ("access", c.c_uint32), ("reserved", c.c_uint32), ("path", c.c_char_p)]


class Memory(Options):
    _fields_ = [("size", c.c_size_t), ("read", READ), ("arg", c.c_void_p), ("exe", c.c_char_p),
                ("entry", c.c_uint64), ("mappings", c.POINTER(Mapping)),
                ("mapping_count", c.c_size_t)]


class Filter(Options):
    _fields_ = [("size", c.c_size_t), ("goroutine", c.c_uint64), ("wait", c.c_char_p),
                ("function", c.c_char_p), ("label", c.c_char_p), ("states", c.c_uint32),
                ("reserved", c.c_uint32)]


class SnapshotOptions(Options):
    _fields_ = [("size", c.c_size_t), ("filter", c.POINTER(Filter)), ("system", c.c_uint32),
                ("unwind", c.c_uint32)]


class RecordOptions(Options):
    _fields_ = [("size", c.c_size_t), ("rate", c.c_double), ("duration", c.c_double),
                ("budget", c.c_double), ("filter", c.POINTER(Filter)), ("progress", PROGRESS),
                ("arg", c.c_void_p), ("flags", c.c_uint32), ("unwind", c.c_uint32)]


class SymbolizeOptions(Options):
    _fields_ = [("size", c.c_size_t), ("files", c.POINTER(c.c_char_p)), ("file_count", c.c_size_t),
                ("folders", c.POINTER(c.c_char_p)), ("folder_count", c.c_size_t),
                ("remark", REMARK), ("arg", c.c_void_p), ("cancel", c.c_void_p)]


class ProcessesOptions(Options):
    _fields_ = [("size", c.c_size_t), ("cancel", c.c_void_p), ("remark", REMARK),
                ("arg", c.c_void_p)]


class GoProcess(c.Structure):
    _fields_ = [("pid", c.c_int32), ("reserved", c.c_uint32), ("goroutines", c.c_int64),
                ("threads", c.c_uint64), ("go_version", c.c_char_p), ("build", c.c_char_p),
                ("command", c.c_char_p), ("problem", c.c_char_p)]


class GivenFinding(c.Structure):
    _fields_ = [("kind", c.c_int), ("is_good", c.c_uint32), ("name", c.c_char_p),
                ("text", c.c_char_p)]


class Finding(typing.NamedTuple):
    name: str
    text: str
    is_good: int
    is_verb: int


class TopOptions(Options):
    _fields_ = [("size", c.c_size_t), ("budget", c.c_double), ("filter", c.POINTER(Filter)),
                ("flags", c.c_uint32), ("reserved", c.c_uint32)]


class TopLine(c.Structure):
    _fields_ = [("text", c.c_char_p), ("style", c.c_int), ("reserved", c.c_uint32)]


class TopPage(c.Structure):
    _fields_ = [("count", c.c_size_t), ("lines", c.POINTER(c.POINTER(TopLine)))]


class Sink(c.Structure):
    _fields_ = [("write", WRITE), ("arg", c.c_void_p), ("fd", c.c_int)]


class TraceOptions(Options):
    _fields_ = [("size", c.c_size_t), ("duration", c.c_double), ("flight", c.c_double),
                ("max_bytes", c.c_uint64), ("max_pause", c.c_double), ("stack_depth", c.c_uint32),
                ("format", c.c_uint32), ("flags", c.c_uint32), ("reserved", c.c_uint32),
                ("root", c.c_char_p), ("path", c.c_char_p), ("sink", Sink),
                ("progress", PROGRESS), ("detached", DETACHED), ("flight_written", FLIGHT),
                ("arg", c.c_void_p), ("incident_written", INCIDENT),
                ("wire", c.c_uint32), ("reserved2", c.c_uint32)]


class TraceStats(c.Structure):
    _fields_ = [("duration_ns", c.c_uint64), ("events", c.c_uint64), ("lost", c.c_uint64),
                ("stacks", c.c_uint64), ("stacks_lost", c.c_uint64), ("texts_lost", c.c_uint64),
                ("pause_ns", c.c_uint64), ("is_full", c.c_uint32), ("reserved", c.c_uint32)]


class ConfineOptions(Options):
    _fields_ = [("size", c.c_size_t), ("pid", c.c_int32), ("child", c.c_int32),
                ("flags", c.c_uint32), ("reserved", c.c_uint32),
                ("files", c.POINTER(c.c_char_p)), ("output", c.c_void_p), ("trace", c.c_void_p),
                ("path", c.c_char_p), ("new_folders", c.POINTER(c.c_char_p)),
                ("new_endings", c.POINTER(c.c_char_p)), ("memory", c.c_uint64),
                ("cpu_seconds", c.c_uint64), ("remark", REMARK), ("arg", c.c_void_p)]


class RequestsOptions(Options):
    _fields_ = [("size", c.c_size_t), ("label", c.c_char_p), ("root", c.c_char_p),
                ("per", c.c_char_p), ("name", c.c_char_p), ("remark", REMARK), ("arg", c.c_void_p),
                ("cancel", c.c_void_p)]


class Waker(c.Structure):
    _fields_ = [("goroutine", c.c_uint64), ("ns", c.c_uint64), ("count", c.c_uint64),
                ("cause", c.c_char_p), ("stack", c.POINTER(Stack))]


class RequestPlace(c.Structure):
    _fields_ = [("ns", c.c_uint64), ("count", c.c_uint64), ("state", c.c_int),
                ("reserved", c.c_uint32), ("wait_reason", c.c_char_p), ("stack", c.POINTER(Stack)),
                ("waited_ns", c.c_uint64), ("waker_count", c.c_size_t),
                ("wakers", c.POINTER(c.POINTER(Waker)))]


_STATES_NS = [(f"{name}_ns", c.c_uint64)
              for name in ("total", "running", "runnable", "syscall", "waiting")]


class Request(c.Structure):
    _fields_ = [("name", c.c_char_p), ("per", c.c_char_p), ("goroutine", c.c_uint64),
                ("goroutines", c.c_uint64), ("begin_ns", c.c_uint64), ("end_ns", c.c_uint64),
                ("elapsed_ns", c.c_uint64), *_STATES_NS, ("uncertain_ns", c.c_uint64),
                ("is_cut", c.c_uint32), ("reserved", c.c_uint32), ("place_count", c.c_size_t),
                ("places", c.POINTER(c.POINTER(RequestPlace)))]


class RequestGroup(c.Structure):
    _fields_ = [("name", c.c_char_p), ("count", c.c_uint64), ("cut", c.c_uint64),
                *((f"{name}_ns", c.c_uint64) for name in ("p50", "p90", "p99", "max")),
                *_STATES_NS]


class RecordedOptions(Options):
    _fields_ = [("size", c.c_size_t), ("exe", c.c_char_p), ("name", c.c_char_p),
                ("label", c.c_char_p), ("value", c.c_char_p), ("flags", c.c_uint32),
                ("reserved", c.c_uint32), ("remark", REMARK), ("arg", c.c_void_p), ("cancel", c.c_void_p)]


class MachineOptions(Options):
    _fields_ = [("size", c.c_size_t), ("name", c.c_char_p), ("remark", REMARK), ("arg", c.c_void_p),
                ("cancel", c.c_void_p)]


class MachineInfo(c.Structure):
    """The first members."""
    _fields_ = [("duration_ns", c.c_uint64), ("gomaxprocs", c.c_uint64),
                ("processor_count", c.c_size_t)]


class Wait(c.Structure):
    _fields_ = [("reason", c.c_char_p), ("ns", c.c_uint64), ("waited_ns", c.c_uint64),
                ("waker_count", c.c_size_t), ("wakers", c.POINTER(c.POINTER(Waker)))]


class Start(c.Structure):
    _fields_ = [("name", c.c_char_p), ("goroutines", c.c_uint64), *_STATES_NS,
                ("wait_count", c.c_size_t), ("waits", c.POINTER(c.POINTER(Wait)))]


class Group(c.Structure):
    _fields_ = [("name", c.c_char_p), ("count", c.c_uint64), ("total_ns", c.c_uint64),
                ("cpu_ns", c.c_uint64), ("self_ns", c.c_uint64), ("state_ns", c.c_uint64 * 4),
                ("all_ns", c.c_uint64), ("all_count", c.c_uint64), ("wait_count", c.c_size_t),
                ("waits", c.POINTER(c.POINTER(Wait)))]


class Failed(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


lib = c.CDLL(str(LIBRARY))


def _declare(result, *names):
    for name in names:
        getattr(lib, f"gospect_{name}").restype = result


_declare(c.c_void_p, "target_open_process", "target_open_core", "target_open_memory",
         "target_count_goroutines", "target_symbolize", "snapshot_take", "snapshot_goroutines",
         "snapshot_write", "record", "record_stream", "profile_read", "profile_samples",
         "profile_write", "profile_symbolize", "text_symbolize", "stack_memory_take",
         "stack_memory_write", "cancel_create", "trace_create", "trace_begin", "trace_run",
         "trace_clean",
         "surgeon_start", "confine", "hold_start", "output_open", "output_commit", "trace_bytes",
         "requests_read", "requests_each", "requests_groups", "recorded_profile",
         "recorded_starts", "machine_read", "profile_groups", "processes_each",
         "top_create", "top_step", "top_press", "top_profile", "top_page")
_declare(None, "doctor_machine", "doctor_process")
_declare(c.c_char_p, "top_ended", "top_input", "version", "error_message", "state_name", "profile_comment")
_declare(c.c_size_t, "snapshot_count", "requests_count", "profile_keep_label")
_declare(c.POINTER(MachineInfo), "machine_info")
_declare(c.POINTER(TargetInfo), "target_info")
_declare(c.POINTER(TraceStats), "trace_stats")
_declare(c.POINTER(ProfileInfo), "profile_info")
_declare(c.POINTER(c.POINTER(StackWord)), "stack_memory_words")


def check(error):
    if error:
        error = c.c_void_p(error)
        code = Code(lib.gospect_error_code(error))
        message = lib.gospect_error_message(error).decode(errors="replace")
        lib.gospect_error_destroy(error)
        raise Failed(code, message)


def written(function, handle, *args):
    """The bytes that it writes to a sink function."""
    pieces = []

    def write(arg, data, size):
        pieces.append(c.string_at(data, size))
        return 0

    check(function(handle, *args, Sink(WRITE(write), None, -1)))
    return b"".join(pieces)


class Handle:
    def __init__(self, pointer, destroy):
        self.pointer, self._destroy = pointer, destroy

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._destroy(self.pointer)


def _made(function, destroy, *args):
    pointer = c.c_void_p()
    check(function(*args, c.byref(pointer)))
    return pointer, destroy


class Target(Handle):
    """A process id, the path of a core file, or a Memory."""

    def __init__(self, what, options=None, **kwargs):
        self.remarks = []
        self._remark = REMARK(lambda arg, line: self.remarks.append(line.decode()))
        options = options or TargetOptions(remark=self._remark, **kwargs)
        if isinstance(what, int):
            made = lib.gospect_target_open_process
        elif isinstance(what, Memory):
            made, what = lib.gospect_target_open_memory, c.byref(what)
        else:
            made, what = lib.gospect_target_open_core, str(what).encode()
        super().__init__(*_made(made, lib.gospect_target_close, what, c.byref(options)))

    @property
    def info(self):
        return lib.gospect_target_info(self.pointer).contents

    def count(self):
        count = c.c_size_t()
        check(lib.gospect_target_count_goroutines(self.pointer, c.byref(count)))
        return count.value

    def symbolize(self, address):
        stack = c.POINTER(Stack)()
        check(lib.gospect_target_symbolize(self.pointer, c.c_uint64(address), c.byref(stack)))
        # The next call overwrites them.
        return [(frame.function, frame.line) for frame in stack.contents.list()]

    def snapshot(self, filter=None, **kwargs):
        options = SnapshotOptions(filter=c.pointer(filter) if filter else None, **kwargs)
        return Snapshot(*_made(lib.gospect_snapshot_take, lib.gospect_snapshot_destroy,
                               self.pointer, c.byref(options)))

    def record(self, filter=None, **kwargs):
        options = RecordOptions(filter=c.pointer(filter) if filter else None, **kwargs)
        return Profile(*_made(lib.gospect_record, lib.gospect_profile_destroy, self.pointer,
                              c.byref(options)))

    def stream(self, sample, interval, **kwargs):
        def give(arg, pointer):
            return int(bool(sample(pointer.contents)))

        options = RecordOptions(**kwargs)
        check(lib.gospect_record_stream(self.pointer, c.byref(options), c.c_double(interval),
                                        SAMPLE(give), None))

    def stack_memory(self, goroutine, unwind=0):
        return StackMemory(*_made(lib.gospect_stack_memory_take, lib.gospect_stack_memory_destroy,
                                  self.pointer, c.c_uint64(goroutine), unwind))


def _listed(function, pointer, kind):
    items, count = c.POINTER(c.POINTER(kind))(), c.c_size_t()
    check(function(pointer, c.byref(items), c.byref(count)))
    return [items[i].contents for i in range(count.value)]


class Snapshot(Handle):
    def goroutines(self):
        return _listed(lib.gospect_snapshot_goroutines, self.pointer, Goroutine)

    def count(self):
        return lib.gospect_snapshot_count(self.pointer)

    def written(self, format, flags=0):
        return written(lib.gospect_snapshot_write, self.pointer, format, c.c_uint32(flags))


class Profile(Handle):
    @property
    def info(self):
        return lib.gospect_profile_info(self.pointer).contents

    def samples(self):
        return _listed(lib.gospect_profile_samples, self.pointer, Sample)

    def comments(self):
        found = []
        while line := lib.gospect_profile_comment(self.pointer, c.c_size_t(len(found))):
            found.append(line.decode())
        return found

    def written(self, format):
        return written(lib.gospect_profile_write, self.pointer, format)

    def groups(self, key, what, label=None):
        return _each(lib.gospect_profile_groups, Group, what, self.pointer, key, label)

    def keep_label(self, label, value):
        return lib.gospect_profile_keep_label(self.pointer, label, value)

    def symbolize(self, *files):
        names = (c.c_char_p * len(files))(*(str(file).encode() for file in files))
        check(lib.gospect_profile_symbolize(
            self.pointer, c.byref(SymbolizeOptions(files=names, file_count=len(files)))))


class Top(Handle):
    def __init__(self, target, **kwargs):
        super().__init__(*_made(lib.gospect_top_create, lib.gospect_top_destroy, target.pointer,
                                c.byref(TopOptions(**kwargs))))

    def step(self):
        state = c.c_uint32()
        check(lib.gospect_top_step(self.pointer, c.byref(state)))
        return state.value

    def press(self, character):
        action = c.c_int()
        check(lib.gospect_top_press(self.pointer, c.c_uint32(ord(character)), c.byref(action)))
        return action.value

    def page(self, width, height):
        """(text, style) of each line."""
        page = c.POINTER(TopPage)()
        check(lib.gospect_top_page(self.pointer, c.c_size_t(width), c.c_size_t(height),
                                   c.byref(page)))
        lines = [page.contents.lines[i].contents for i in range(page.contents.count)]
        return [(line.text.decode(), line.style) for line in lines]

    def ended(self):
        return lib.gospect_top_ended(self.pointer)

    def profile(self):
        return Profile(*_made(lib.gospect_top_profile, lib.gospect_profile_destroy, self.pointer))


class Trace(Handle):
    """Has begun when it is made."""

    def __init__(self, target, path=None, surgeon=None, **kwargs):
        self.data = b""

        def write(arg, data, size):
            self.data += c.string_at(data, size)
            return 0

        self.options = TraceOptions(path=path and str(path).encode(),
                                    sink=Sink(WRITE(write), None, -1), **kwargs)
        super().__init__(*_made(lib.gospect_trace_create, lib.gospect_trace_destroy,
                                c.byref(self.options)))
        if target:
            self.begin(target, surgeon)

    def begin(self, target, surgeon=None):
        try:
            check(lib.gospect_trace_begin(self.pointer, target.pointer, surgeon))
        except Failed:
            lib.gospect_trace_destroy(self.pointer)
            raise

    def run(self):
        check(lib.gospect_trace_run(self.pointer))
        return self.stats

    @property
    def stats(self):
        return lib.gospect_trace_stats(self.pointer).contents

    def bytes(self):
        size = c.c_size_t()
        data = lib.gospect_trace_bytes(self.pointer, c.byref(size))
        return c.string_at(data, size.value)


def _each(function, kind, what, *args):
    """What `what` makes of all that the function hands over."""
    found = []

    def take(arg, pointer):
        found.append(what(pointer.contents))
        return 0

    check(function(*args, c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(kind))(take), None))
    return found


class Requests(Handle):
    def __init__(self, data, **kwargs):
        super().__init__(*_made(lib.gospect_requests_read, lib.gospect_requests_destroy, data,
                                c.c_size_t(len(data)), c.byref(RequestsOptions(**kwargs))))

    def count(self):
        return lib.gospect_requests_count(self.pointer)

    def each(self, what):
        return _each(lib.gospect_requests_each, Request, what, self.pointer)

    def groups(self, what):
        return _each(lib.gospect_requests_groups, RequestGroup, what, self.pointer)


def processes(what, most=None, **kwargs):
    """What `what` makes of the first Go processes, and how many could not be read."""
    found, denied = [], c.c_size_t()

    def take(arg, pointer):
        found.append(what(pointer.contents))
        return len(found) == most

    callback = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(GoProcess))(take)
    check(lib.gospect_processes_each(c.byref(ProcessesOptions(**kwargs)), callback, None,
                                     c.byref(denied)))
    return found, denied.value


def findings(function, *args):
    """All that a doctor's function hands over."""
    found = []

    def take(arg, pointer):
        f = pointer.contents
        found.append(Finding(f.name.decode(), f.text.decode(), f.is_good, f.kind))

    function(*args, c.CFUNCTYPE(None, c.c_void_p, c.POINTER(GivenFinding))(take), None)
    return found


def recorded_profile(data, **kwargs):
    return Profile(*_made(lib.gospect_recorded_profile, lib.gospect_profile_destroy, data,
                          c.c_size_t(len(data)), c.byref(RecordedOptions(**kwargs))))


def recorded_starts(data, what, **kwargs):
    return _each(lib.gospect_recorded_starts, Start, what, data, c.c_size_t(len(data)),
                 c.byref(RecordedOptions(**kwargs)))


def machine(data, **kwargs):
    """Duration, GOMAXPROCS and Ps of a trace."""
    pointer = c.c_void_p()
    check(lib.gospect_machine_read(data, c.c_size_t(len(data)), c.byref(MachineOptions(**kwargs)),
                                   c.byref(pointer)))
    info = lib.gospect_machine_info(pointer).contents
    found = info.duration_ns, info.gomaxprocs, info.processor_count
    lib.gospect_machine_destroy(pointer)
    return found


def read_profile(data):
    return Profile(*_made(lib.gospect_profile_read, lib.gospect_profile_destroy, data,
                          c.c_size_t(len(data))))


class StackMemory(Handle):
    def words(self):
        count = c.c_size_t()
        words = lib.gospect_stack_memory_words(self.pointer, c.byref(count))
        return [words[i].contents for i in range(count.value)]

    def written(self, format):
        return written(lib.gospect_stack_memory_write, self.pointer, format)


def _frame(frame):
    func = frame.function.decode()
    offset = frame.pc - frame.entry
    return traceback.Frame("panic" if func == "runtime.gopanic" else func, frame.file.decode(),
                           frame.line, hex(offset) if offset and not frame.is_inlined else None)


def _is_shown(func):
    return not func.startswith("runtime.") or func[len("runtime."):][:1].isupper()


def as_traceback(goroutines):
    """The goroutines of a snapshot as lib.traceback has those of the runtime's own text."""
    found = {}
    for g in goroutines:
        details = [*(["locked to thread"] if g.flags & LOCKED else []),
                   *([f"synctest bubble {g.bubble}"] if g.bubble else [])]
        labels = {g.labels[i].key.decode(): g.labels[i].value.decode()
                  for i in range(g.label_count)}
        creator = _frame(g.created_by.contents) if g.created_by else None
        shown = creator and _is_shown(creator.func)
        found[g.id] = traceback.Goroutine(
            g.id, g.status.decode(), tuple(details), 0, labels or None,
            [_frame(frame) for frame in g.stack.contents.list()],
            created_by=creator if shown else None, creator=g.parent or None if shown else None,
            available=not g.flags & NO_STACK)
    return found


def installed(folder):
    """Where `meson install` puts it, for compilers: the environment of pkg-config."""
    root = pathlib.Path(folder)
    pkgconfig = next(root.rglob("gospect.pc")).parent
    return {"PKG_CONFIG_PATH": str(pkgconfig), "PKG_CONFIG_SYSROOT_DIR": str(root)}
