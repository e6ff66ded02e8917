"""Lets the machine's clock drift for a while, as NTP does when it corrects it."""

import contextlib
import ctypes
import os
import threading

ADJ_FREQUENCY = 2
PPM = 1 << 16  # of the kernel's unit


class Timex(ctypes.Structure):
    """struct timex of Linux on 64-bit machines."""
    _fields_ = [("modes", ctypes.c_uint), ("offset", ctypes.c_long), ("freq", ctypes.c_long),
                ("rest", ctypes.c_long * 24)]


_libc = ctypes.CDLL(None, use_errno=True)


def adjust(frequency=None):
    """Sets the clock's frequency, in the kernel's unit; gives the one that it had."""
    timex = Timex()
    if _libc.adjtimex(ctypes.byref(timex)) < 0:
        raise OSError(ctypes.get_errno(), "adjtimex")
    before = timex.freq
    if frequency is not None:
        timex = Timex(modes=ADJ_FREQUENCY, freq=frequency)
        if _libc.adjtimex(ctypes.byref(timex)) < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
    return before


@contextlib.contextmanager
def drifting(ppm=500, seconds=7):
    """500 ppm is as much as the kernel permits; the sign changes every so many seconds."""
    before, done = adjust(), threading.Event()

    def drift():
        sign = 1
        while not done.is_set():
            adjust(sign * ppm * PPM)
            sign = -sign
            done.wait(seconds)

    thread = threading.Thread(target=drift)
    try:
        adjust(ppm * PPM)  # fails here when it is not permitted
        thread.start()
        yield
    finally:
        done.set()
        if thread.ident:
            thread.join()
        adjust(before)
