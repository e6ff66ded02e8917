"""How the kernel schedules a thread: all that sched_setattr(2) can change, and its timer slack."""

import ctypes
import errno
import os
import pathlib

GETATTR, SETATTR = 315, 314
OTHER, FIFO, BATCH, IDLE = 0, 1, 3, 5
RESET_ON_FORK = 1

_libc = ctypes.CDLL(None, use_errno=True)


class Attributes(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("policy", ctypes.c_uint32), ("flags", ctypes.c_uint64),
                ("nice", ctypes.c_int32), ("priority", ctypes.c_uint32),
                ("runtime", ctypes.c_uint64), ("deadline", ctypes.c_uint64),
                ("period", ctypes.c_uint64)]


def threads(pid):
    return [int(entry) for entry in os.listdir(f"/proc/{pid}/task")]


def get(thread):
    """(policy, flags, nice, priority, slice, timer slack); None: it has ended."""
    a = Attributes()
    if _libc.syscall(GETATTR, thread, ctypes.byref(a), ctypes.sizeof(a), 0):
        assert ctypes.get_errno() == errno.ESRCH
        return None
    try:
        slack = int(pathlib.Path(f"/proc/{thread}/timerslack_ns").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return None
    return a.policy, a.flags, a.nice, a.priority, a.runtime, slack


def set_to(thread, policy, flags=0, nice=0, priority=0, runtime=0, slack=None):
    """False: it has ended."""
    a = Attributes(ctypes.sizeof(Attributes), policy, flags, nice, priority, runtime)
    if _libc.syscall(SETATTR, thread, ctypes.byref(a), 0):
        assert ctypes.get_errno() == errno.ESRCH, os.strerror(ctypes.get_errno())
        return False
    if slack:
        pathlib.Path(f"/proc/{thread}/timerslack_ns").write_text(str(slack))
    return True


def all_of(pid):
    return {thread: get(thread) for thread in threads(pid)}
