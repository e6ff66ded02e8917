"""Routes of requests that the routers gin, echo, chi and gorilla/mux have found.

The program routers notes of each request what the router itself says.
"""

import json
import subprocess

import pytest

from lib import golang, grpc
from lib.requesting import offcpu

KEYS = ("method", "path", "route", "peer", "status")


def in_order(requests):
    return sorted(json.dumps(request, sort_keys=True) for request in requests)


@pytest.mark.time_limit(300)
@pytest.mark.parametrize("mode", (golang.PLAIN, golang.STRIPPED))
def test_requests_have_the_routes_of_routers(untouched, mode, tmp_path):
    binary = grpc.program("routers")
    if mode == golang.STRIPPED:
        subprocess.run(["strip", "-o", tmp_path / "routers", binary], check=True)
        binary = tmp_path / "routers"
    program = untouched(binary)
    for kind in ("gin", "echo", "chi", "gorilla"):
        requests, status, out, err = offcpu(program, f"serve {kind} 40", "-f", "json")
        assert status == 0 and len(err.splitlines()) == 1, err
        rows = [{key: row[key] for key in KEYS if key in row} for row in json.loads(out)]
        assert len({row.get("route") for row in rows}) == 4
        assert in_order(rows) == in_order(requests)
        assert "secret" not in out
