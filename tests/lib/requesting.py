"""Traces a program while it obeys a command, and gives what the program says of its requests."""

import json
import os
import signal

from lib import gospect, tracing
from lib.process import wait_until

LONGEST_PATH = 200  # bytes that the agent copies
FACTS = ("method", "path", "route", "peer", "status", "trace_id", "span_id")


def rings(pid):
    """What the agent has written in the target: its records, the fresh ones and the read ones."""
    content = bytearray()
    for mapping in tracing.maps(pid):
        if "gospect-data" not in mapping[-1]:
            continue
        with open(f"/proc/{pid}/map_files/{mapping[0]}", "rb") as file:
            at = 0
            while True:
                try:
                    begin = os.lseek(file.fileno(), at, os.SEEK_DATA)
                except OSError:
                    break
                at = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
                content += os.pread(file.fileno(), at - begin, begin)
    return bytes(content)


def offcpu(program, command, *args, look=None):
    """`look` is called while the program is still traced."""
    process = gospect.start("offcpu", program.pid, "-n", 0, *args)
    wait_until(lambda: tracing.is_patched(program.pid), 30, what="the agent")
    answer = json.loads(program.ask(command))
    if look:
        look(program.pid)
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


def as_shown(request):
    """What a row must have of it: bytes beyond the limit are left out, and so is what is not known."""
    facts = {key: request[key] for key in FACTS if request[key]}
    path = request["path"].encode()
    if len(path) > LONGEST_PATH:
        facts["path"] = path[:LONGEST_PATH].decode(errors="replace") + "..."
    return facts


def in_order(facts):
    return sorted(json.dumps(item, sort_keys=True) for item in facts)


def assert_named(requests, rows):
    assert len(rows) == len(requests)
    shown = in_order({key: row[key] for key in FACTS if key in row} for row in rows)
    for want, have in zip(in_order(as_shown(request) for request in requests), shown):
        assert want == have, f"{want}, not {have}"
