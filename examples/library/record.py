#!/usr/bin/env python3
"""Records a process for some seconds and writes a flame graph, by ctypes alone:

    record.py PID SECONDS OUT.html
"""

import ctypes as c
import os
import sys

GOSPECT_HTML = 6


class RecordOptions(c.Structure):
    """struct gospect_record_options, as far as it is used: what is left out is 0."""
    _fields_ = [("size", c.c_size_t), ("rate", c.c_double), ("duration", c.c_double)]


class Sink(c.Structure):
    """struct gospect_sink: without a function it writes to a file descriptor."""
    _fields_ = [("write", c.c_void_p), ("arg", c.c_void_p), ("fd", c.c_int)]


lib = c.CDLL(os.environ.get("LIBGOSPECT", "libgospect.so.0"))
for name in "target_open_process", "record", "profile_write":
    getattr(lib, f"gospect_{name}").restype = c.c_void_p
lib.gospect_error_message.restype = c.c_char_p


def check(error):
    """Raises what a function returned, if it is an error."""
    if error:
        message = lib.gospect_error_message(c.c_void_p(error)).decode(errors="replace")
        lib.gospect_error_destroy(c.c_void_p(error))
        raise RuntimeError(message)


def main(pid, seconds, path):
    target, profile = c.c_void_p(), c.c_void_p()
    options = RecordOptions(c.sizeof(RecordOptions), 0, float(seconds))
    check(lib.gospect_target_open_process(int(pid), None, c.byref(target)))
    try:
        check(lib.gospect_record(target, c.byref(options), c.byref(profile)))
        with open(path, "wb") as out:
            check(lib.gospect_profile_write(profile, GOSPECT_HTML, Sink(None, None, out.fileno())))
    finally:
        lib.gospect_profile_destroy(profile)
        lib.gospect_target_close(target)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except RuntimeError as error:
        sys.exit(f"record.py: {error}")
