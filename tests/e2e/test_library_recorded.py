"""Requests and recorded files by libgospect: by ctypes, against what the traced program knows."""

import errno
import json
import threading

import pytest

from lib import library
from lib.library import Code, Failed, Requests, Target, Trace

COUNT = 300


@pytest.fixture
def served(targets):
    """The program's own report of each request, and the trace of them."""
    program = targets.start("requests")
    cancel = library.c.c_void_p(library.lib.gospect_cancel_create())
    with Target(program.pid, cancel=cancel) as target, \
            Trace(target, flags=library.TRACE_IN_MEMORY, stack_depth=127) as trace:
        thread = threading.Thread(target=trace.run)
        thread.start()
        requests = json.loads(program.ask(f"serve {COUNT} 4"))
        library.lib.gospect_cancel_request(cancel)
        thread.join(30)
        assert trace.stats.lost == 0
        data = trace.bytes()
    library.lib.gospect_cancel_destroy(cancel)
    return requests, data


def wakers(place):
    return [place.wakers[i].contents for i in range(place.waker_count)]


def seen(request):
    places = [request.places[i].contents for i in range(request.place_count)]
    return {
        "name": request.name.decode(), "elapsed": request.elapsed_ns, "cut": request.is_cut,
        "total": request.total_ns, "goroutines": request.goroutines,
        "states": (request.running_ns, request.runnable_ns, request.syscall_ns,
                   request.waiting_ns),
        "slept": sum(place.ns for place in places if place.wait_reason == b"sleep"
                     and "main.doSleep" in place.stack.contents.functions()),
        "places": sum(place.ns for place in places),
        "ended": [(place.wait_reason, waker.cause, waker.stack.contents.functions())
                  for place in places for waker in wakers(place)],
        "all ended": all(sum(w.ns for w in wakers(p)) == p.ns for p in places if p.wait_reason)}


def test_requests_are_what_the_program_did(served):
    said, data = served
    with Requests(data, label=b"trace_id") as requests:
        assert requests.count() == COUNT
        rows = requests.each(seen)
    assert [row["elapsed"] for row in rows] == sorted((r["elapsed"] for r in rows), reverse=True)
    rows = {row["name"]: row for row in rows}
    assert set(rows) == {request["id"] for request in said}
    for request in said:
        row = rows[request["id"]]
        least = request["unset"][0] - request["set"][1]
        assert not row["cut"] and row["goroutines"] == 1 + request["children"]
        assert sum(row["states"]) == row["total"] >= row["places"] - row["states"][0]
        assert row["elapsed"] >= least - max(20_000, least / 100)
        if "sleep" in request["did"]:
            began, ended = request["did"]["sleep"]
            assert row["slept"] <= ended - began
        assert row["all ended"]
        for reason, cause, functions in row["ended"]:
            if reason == b"sleep":
                assert cause == b"timer" and not functions
            elif reason in (b"sync", b"chan receive"):
                assert not cause and functions, reason
    # One that is preempted between its clock and its sleep may find that it is over.
    slept = [request["did"]["sleep"] for request in said if "sleep" in request["did"]]
    assert sum(row["slept"] for row in rows.values()) > 0.8 * sum(b - a for a, b in slept) > 0


def test_groups_of_requests(served):
    _, data = served
    with Requests(data, label=b"trace_id", per=b"route") as requests:
        groups = requests.groups(lambda g: (g.name.decode(), g.count, g.cut, g.p50_ns <= g.p90_ns
                                            <= g.p99_ns <= g.max_ns))
        first = requests.groups(lambda g: g.p99_ns)
    assert sorted(groups) == [("/fast", 100, 0, True), ("/slow", 100, 0, True),
                              ("/with space=%", 100, 0, True)]
    assert first == sorted(first, reverse=True)


def test_requests_under_a_function(served):
    _, data = served
    with Requests(data, label=b"trace_id") as requests:
        slept = sum(row["slept"] > 0 for row in requests.each(seen))
    with Requests(data, root=rb"^main\.doSleep$") as requests:
        names = set(requests.each(lambda r: r.name))
        assert names == {b"main.doSleep"}
        assert requests.count() == slept > COUNT / 2


def test_trace_without_requests_is_reported(served):
    _, data = served
    for options in dict(label=b"nobody"), dict(root=b"^nobody$"), {}:
        with pytest.raises(Failed, match="the trace") as failed:
            Requests(data, **options)
        assert failed.value.code == Code.FAILED
    with pytest.raises(Failed) as failed:
        Requests(b"no trace")
    assert failed.value.code == Code.CORRUPT
    for options in dict(label=b"a", root=b"b"), dict(root=b"("):
        with pytest.raises(Failed) as failed:
            Requests(data, **options)
        assert failed.value.code == Code.INVALID


def test_a_trace_as_a_profile_and_as_tables(served):
    said, data = served
    duration, gomaxprocs, processors = library.machine(data)
    assert duration > max(r["unset"][0] for r in said) - min(r["set"][1] for r in said)
    assert 0 < processors <= gomaxprocs
    with pytest.raises(Failed) as failed:
        library.machine(b"no trace")
    assert failed.value.code == Code.CORRUPT
    assert library.lib.gospect_recorded_kind(data, library.c.c_size_t(len(data))) == 1
    with library.recorded_profile(data, flags=library.RECORDED_LABELS) as profile:
        states = dict(profile.groups(library.GROUP_STATE, lambda g: (g.name.decode(), g.total_ns)))
        assert set(states) == set(library.STATES)
        routes = dict(profile.groups(library.GROUP_LABEL, lambda g: (g.name, g.total_ns),
                                     b"route"))
        assert {b"/fast", b"/slow", b"/with space=%"} <= set(routes)
        all_ns = {g for g in profile.groups(library.GROUP_WAIT, lambda g: g.all_ns)}
        assert all_ns == {sum(states.values())} == {sum(routes.values())}
        assert profile.keep_label(b"route", b"/slow") > 0
        kept = profile.groups(library.GROUP_LABEL, lambda g: (g.name, g.total_ns), b"route")
        assert kept == [(b"/slow", routes[b"/slow"])]
    for flags, has_rows in ((library.RECORDED_LABELS, False), (library.RECORDED_GOROUTINES, True)):
        with library.recorded_profile(data, flags=flags) as profile:
            assert (b'"goroutines":{"rows":' in profile.written(library.HTML)) == has_rows
    starts = library.recorded_starts(data, lambda s: (s.name.decode(), s.goroutines, s.total_ns ==
                                                      s.running_ns + s.runnable_ns +
                                                      s.syscall_ns + s.waiting_ns))
    assert all(sums for _, _, sums in starts)
    assert "main.serveAll.func1" in [name for name, _, _ in starts]


def options_of(kind, **kwargs):
    return library.c.byref(kind(**kwargs))


def test_every_reading_of_a_file_can_be_cancelled(served, states):
    _, trace = served
    lib, size = library.lib, library.c.c_size_t
    with Target(states.pid) as target:
        with target.record(duration=0.3, budget=100, flags=library.RECORD_ADDRESSES) as profile:
            raw = profile.written(library.PPROF)
        with target.snapshot() as snapshot:
            text = snapshot.written(library.TEXT, library.WRITE_ADDRESSES)
    files = (library.c.c_char_p * 1)(str(states.binary).encode())
    cancel = library.c.c_void_p(lib.gospect_cancel_create())

    def symbolized(profile):
        library.check(lib.gospect_profile_symbolize(profile.pointer, options_of(
            library.SymbolizeOptions, files=files, file_count=1, cancel=cancel)))

    def text_symbolized():
        return library.written(lambda data, sink: lib.gospect_text_symbolize(
            data, size(len(text)), options_of(library.SymbolizeOptions, cancel=cancel), sink), text)

    calls = [lambda: Requests(trace, label=b"trace_id", cancel=cancel),
             lambda: library.recorded_profile(trace, cancel=cancel),
             lambda: library.recorded_profile(raw, cancel=cancel),
             lambda: library.recorded_starts(trace, lambda s: s, cancel=cancel),
             lambda: library.machine(trace, cancel=cancel),
             text_symbolized]
    with library.read_profile(raw) as profile:
        calls.append(lambda: symbolized(profile))
        for call in calls:
            lib.gospect_cancel_request(cancel)
            assert lib.gospect_cancel_is_requested(cancel) == 1
            with pytest.raises(Failed) as failed:
                call()
            assert failed.value.code == Code.CANCELLED
            lib.gospect_cancel_reset(cancel)
            assert lib.gospect_cancel_is_requested(cancel) == 0
            call()
    lib.gospect_cancel_destroy(cancel)


def test_a_sink_cancels_the_writing(served):
    _, trace = served
    pieces = []

    def write(arg, data, size):
        pieces.append(size)
        return errno.ECANCELED

    sink = library.Sink(library.WRITE(write), None, -1)
    with library.recorded_profile(trace) as profile:
        for kind in library.PPROF, library.FOLDED, library.SPEEDSCOPE, library.HTML:
            pieces.clear()
            with pytest.raises(Failed) as failed:
                library.check(library.lib.gospect_profile_write(profile.pointer, kind, sink))
            assert failed.value.code == Code.CANCELLED
            assert len(pieces) == 1


def test_a_profile_that_is_no_trace(states):
    with Target(states.pid) as target, target.record(duration=0.5, budget=100) as profile:
        data = profile.written(library.PPROF)
        before = profile.groups(library.GROUP_ROOT, lambda g: (g.name, g.total_ns))
    assert library.lib.gospect_recorded_kind(data, library.c.c_size_t(len(data))) == 0
    with library.recorded_profile(data) as profile:
        assert profile.groups(library.GROUP_ROOT, lambda g: (g.name, g.total_ns)) == before
    with pytest.raises(Failed):
        library.recorded_profile(data, exe=b"/bin/true")
    with pytest.raises(Failed):
        library.recorded_starts(data, lambda s: s)
