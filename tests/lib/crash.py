"""The traceback of a dying Go program (GOTRACEBACK=crash), compared with gospect's output."""

import re

from lib import golang, traceback


def said(text):
    """The goroutines of a crash; each of its threads may have said some again, and registers."""
    found = {}
    for part in re.split(r"^-----$", text, flags=re.M):
        part = re.sub(r"^(rax|r0) .*", "", part, flags=re.M | re.S)
        for goid, goroutine in traceback.parse(part).items():
            if goid and (goid not in found or not found[goid].available):
                found[goid] = goroutine
    return found


def strip_start(goroutine, frames):
    """Without the runtime's own frames from where it began to crash."""
    extra = len(goroutine.frames) - len(frames)
    assert extra >= 0 and all(f.func.startswith("runtime.") for f in goroutine.frames[:extra])
    goroutine.frames = goroutine.frames[extra:]


def differences(inside, outside, version):
    """Every difference between the program's last words and `gospect dump --all`, a line each."""
    for goid, goroutine in inside.items():
        if goroutine.state == "running" and goroutine.available:
            strip_start(outside[goid], goroutine.frames)
        elif not goroutine.available:
            # The runtime cannot look at other threads; the core has their registers.
            assert outside[goid].available
            assert "main.spin" in outside[goid].functions()
            goroutine.available, goroutine.frames = True, outside[goid].frames
    return traceback.differences(inside, outside, golang.minor(version))
