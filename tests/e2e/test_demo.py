"""The demo's table: what `go tool pprof -traces` prints of the shop, summed up by hand."""

import json
import pathlib
import subprocess

from lib import golang, gospect
from lib.process import wait_until

TABLE = pathlib.Path(__file__).parents[2] / "examples" / "where.awk"
CHECKOUT = ["net/http.(*conn).serve"]
LOCKED = ["shop/stock.(*Shelves).Reserve", "shop/api.(*Server).checkout"]
UNLOCKED = ["shop/stock.(*Shelves).reserveQuoted", *LOCKED]
ROUND_TRIP = ["internal/poll.(*FD).Read", "shop/db.(*conn).roundTrip", "shop/db.(*Pool).Query"]
QUOTE = ["shop/pricing.(*Pricing).Quote"]

SAMPLES = [
    (8000, "checkout", "sync.Mutex.Lock", ["sync.(*Mutex).Lock", *LOCKED, *CHECKOUT]),
    (3000, "checkout", "IO wait", [*ROUND_TRIP, *QUOTE, *LOCKED, *CHECKOUT]),
    (1000, "checkout", "select", ["shop/db.(*Pool).acquire", *QUOTE, *LOCKED, *CHECKOUT]),
    (2000, "checkout", "IO wait", [*ROUND_TRIP, *QUOTE, *UNLOCKED, *CHECKOUT]),
    (5000, None, "IO wait", [*ROUND_TRIP, "shop/jobs.(*Background).salesOf"]),
]


def traces(samples):
    """As pprof prints them."""
    lines = ["File: shop", "Type: wall", "Duration: 10s, Total samples = 19000ms"]
    for value, route, wait, frames in samples:
        lines.append("-----------+" + "-" * 40)
        lines += [f"      route:  {route}"] if route else []
        lines += ["      state:  waiting", f"       wait:  {wait}"]
        lines.append(f"{value:8}ms   {frames[0]}")
        lines += [" " * 13 + frame for frame in frames[1:]]
    return "\n".join([*lines, "-----------+" + "-" * 40, ""])


def test_the_demo_says_where_requests_are_and_who_has_what_they_wait_for():
    done = subprocess.run(["awk", "-f", TABLE], input=traces(SAMPLES), capture_output=True,
                          text=True, check=True, timeout=60)
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "checkout 1.40" in lines
    assert "shop/stock.(*Shelves).Reserve 0.80 57 % sync.Mutex.Lock" in lines
    # What asks for the price outside the lock does not hold it.
    held = lines.index("the lock of the stock is held in 0.40")
    assert lines[held + 1:held + 3] == ["shop/db.(*conn).roundTrip 0.30 75 %",
                                        "shop/db.(*Pool).acquire 0.10 25 %"]
    used = lines.index("connections to the database are used by 1.00")
    assert lines[used + 1:used + 4] == ["shop/jobs.(*Background).salesOf 0.50 50 %",
                                        "shop/stock.(*Shelves).Reserve 0.30 30 %",
                                        "shop/stock.(*Shelves).reserveQuoted 0.20 20 %"]


def test_what_is_no_profile_of_the_shop_is_refused():
    done = subprocess.run(["awk", "-f", TABLE], input="", capture_output=True, text=True,
                          check=False, timeout=60)
    assert done.returncode == 1 and "no profile of the shop" in done.stderr


def listed_as(name):
    processes = json.loads(gospect.run("ps", "-f", "json").ok().text)
    return sorted(p["name"] for p in processes if p["name"].startswith(name))


def test_the_service_alone_has_the_name_of_the_shop(tmp_path):
    """Its database and its clients are processes of the same program under other names."""
    shop = tmp_path / "a-shop"
    golang.go(golang.NEWEST, "build", "-buildvcs=false", "-o", shop, ".", cwd=TABLE.parent / "shop")
    with subprocess.Popen([shop, "-load", "2"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as service:
        try:
            assert b"serves" in service.stdout.readline()
            # A process has its name a moment after it has begun.
            wait_until(lambda: listed_as("a-shop") == ["a-shop", "a-shop-database", "a-shop-load"], what="their names")
            process = json.loads(gospect.run("dump", "-f", "json", "a-shop").ok().text)["process"]
            assert process["pid"] == service.pid
            assert list(tmp_path.iterdir()) == [shop]
        finally:
            service.terminate()
