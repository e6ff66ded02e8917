"""Traces a program while it obeys a command, and gives what the program says of its requests."""

import json
import signal

from lib import gospect, tracing
from lib.process import wait_until


def offcpu(program, command, *args):
    process = gospect.start("offcpu", program.pid, "-n", 0, *args)
    wait_until(lambda: tracing.is_patched(program.pid), 30, what="the agent")
    answer = json.loads(program.ask(command))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=100)
    return answer, process.returncode, out.decode(), err.decode()


def trace(program, command, file):
    process = gospect.start("trace", "-p", program.pid, "-o", file)
    wait_until(lambda: tracing.is_patched(program.pid), 30, what="the agent")
    answer = json.loads(program.ask(command))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 0 and " 0 lost" in err.decode(), err.decode()
    return answer
