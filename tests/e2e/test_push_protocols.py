"""gospect push to servers made of the protocols' own code: Pyroscope's connect service, OpenTelemetry's pdata over
HTTP and gRPC, grpc-go for Parca; and by way of a whole OpenTelemetry collector. What arrives is what the programs say
of themselves."""

import base64
import json
import re
import signal

import pytest

from lib import golang, gospect, grpc, pprof, traceback
from lib.process import Program
from lib.real_programs import free_port

SECONDS = 4
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def receiver(tmp_path_factory):
    folder = tmp_path_factory.mktemp("received")
    program = Program(grpc.program("receiver"), folder)
    program.folder, program.urls = folder, json.loads(program.ask("urls"))
    yield program
    program.assert_well()
    program.stop()


COLLECTOR = """
receivers:
  otlp:
    protocols:
      http: {endpoint: "127.0.0.1:%d"}
      grpc: {endpoint: "127.0.0.1:%d"}
exporters:
  otlphttp:
    endpoint: %s
    sending_queue: {enabled: false}
    retry_on_failure: {enabled: false}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    profiles: {receivers: [otlp], exporters: [otlphttp]}
"""


@pytest.fixture(scope="module")
def collector(receiver, tmp_path_factory):
    """OpenTelemetry's own, which answers when what it got has arrived at the receiver."""
    config = tmp_path_factory.mktemp("collector") / "config.yaml"
    http, grpc_port = free_port(), free_port()
    config.write_text(COLLECTOR % (http, grpc_port, receiver.urls["otlp"]))
    program = Program(grpc.program("collector"), config)
    program.urls = {"collector": f"http://127.0.0.1:{http}", "collector-grpc": f"grpc://127.0.0.1:{grpc_port}"}
    yield program
    program.assert_well()
    program.stop()


def pushed(receiver, spool, kind, url, *pids):
    """The requests that arrived, as the receiver has written them."""
    for path in receiver.folder.iterdir():
        path.unlink()
    targets = [arg for pid in pids for arg in ("-p", pid)]
    words = gospect.run("push", "--to", kind, url, *targets, "--interval", "1s", "-d", SECONDS, "--spool", spool,
                        *gospect.BUDGET, "--label", "team=a/b", seconds=60).ok().words
    files = sorted(receiver.folder.glob(f"*-{kind}.json"))
    sent = int(re.search(r"(\d+) sent, 0 lost, 0 refused, 0 wait", words[-1])[1])
    assert len(files) == sent >= 2 * len(pids), words
    return [json.loads(path.read_text()) for path in files]


def raw_profiles(requests, pid):
    """(name, pprof) of one process, in order."""
    return [(series["labels"]["__name__"], pprof.parse(base64.b64decode(series["profile"])))
            for request in requests for series in request if series["labels"]["pid"] == str(pid)]


@pytest.mark.parametrize("kind", ["pyroscope", "parca"])
def test_pprof_files_arrive_with_their_labels(receiver, states, tmp_path, kind):
    own = traceback.parse(states.stack())
    requests = pushed(receiver, tmp_path, kind, receiver.urls[kind], states.pid)
    profiles = raw_profiles(requests, states.pid)
    walls = [p for name, p in profiles if name == "wall"]
    goroutines = [p for name, p in profiles if name == "goroutine"]
    assert len(walls) == len(goroutines) == len(requests)
    for before, after in zip(walls, walls[1:]):
        assert after.time_ns == before.time_ns + before.duration_ns
    for p in walls:
        # All wait all the time: their time is that of the segment for each.
        assert p.total("wall") == pytest.approx(len(own) * p.duration_ns, rel=0.02)
        receiving = len(traceback.having(own, "main.holdReceive"))
        assert receiving and p.time_in("main.holdReceive") == pytest.approx(receiving * p.duration_ns, rel=0.02)
    assert all(p.total("goroutine") == len(own) for p in goroutines)
    labels = requests[0][0]["labels"]
    assert labels["service_name"] == "states" and labels["team"] == "a/b"
    assert all(re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", key) for key in labels)


@pytest.mark.parametrize("way", ["otlp", "otlp-grpc", "collector", "collector-grpc"])
def test_opentelemetry_takes_profiles_attributes_and_links(receiver, collector, states, tmp_path, way):
    own = traceback.parse(states.stack())
    url = {**receiver.urls, **collector.urls}[way]
    requests = pushed(receiver, tmp_path, "otlp", url, states.pid, receiver.pid)
    of_states = [r for r in requests if r["resource"]["process.pid"] == states.pid]
    resource = of_states[0]["resource"]
    assert resource["service.name"] == "states" and resource["team"] == "a/b"
    assert resource["process.runtime.version"] == f"go{golang.NEWEST}"
    profiles = [p for r in of_states for p in r["profiles"]]
    assert len({p["ID"] for p in profiles}) == len(profiles) and "0" * 32 not in {p["ID"] for p in profiles}
    walls = [p for p in profiles if p["Type"] == "wall"]
    for before, after in zip(walls, walls[1:]):
        assert after["Time"] == before["Time"] + before["Duration"]
    for p in walls:
        assert (p["Unit"], p["PeriodType"]) == ("nanoseconds", "wall") and p["Period"] > 0
        samples = p["Samples"]
        assert sum(s["values"][0] for s in samples) == pytest.approx(len(own) * p["Duration"], rel=0.02)
        inside = [s for s in samples if "main.holdReceive" in s["stack"]]
        assert inside and {s["attributes"]["state"] for s in inside} == {"waiting"}
    counts = [p for p in profiles if p["Type"] == "goroutine"]
    assert counts and all(sum(s["values"][0] for s in p["Samples"]) == len(own) for p in counts)
    # The receiver has a heap profile, and a goroutine in a span.
    others = [r for r in requests if r["resource"]["process.pid"] == receiver.pid]
    types = {p["Type"] for r in others for p in r["profiles"]}
    assert {"wall", "goroutine", "alloc_objects", "alloc_space", "inuse_objects", "inuse_space"} <= types
    linked = [s for r in others for p in r["profiles"] if p["Type"] == "wall" for s in p["Samples"] if "trace" in s]
    assert linked and {(s["trace"], s["span"]) for s in linked} == {(TRACE, SPAN)}
    assert all("main.inSpan" in s["stack"] and s["attributes"]["worker"] == "one" for s in linked)
    assert all("trace_id" not in s["attributes"] for s in linked)


def test_samples_of_requests_have_links_to_their_spans(receiver, targets, tmp_path):
    """The handlers' own labels say which request it was, and what its traceparent had."""
    for path in receiver.folder.iterdir():
        path.unlink()
    program = targets.start("serving", golang.NEWEST)
    push = gospect.start("push", "--to", "otlp", receiver.urls["otlp"], "-p", program.pid, "--interval", "1s", "--budget", 5,
                         "--spool", tmp_path)
    assert program.ask("serve http 2000 8") == "done"
    push.send_signal(signal.SIGINT)
    push.communicate(timeout=60)
    requests = [json.loads(path.read_text()) for path in receiver.folder.glob("*-otlp.json")]
    samples = [s for r in requests for p in r["profiles"] if p["Type"] == "wall" for s in p["Samples"] if "main.wait" in s["stack"]]
    assert len(samples) > 100
    for s in samples:
        of = s["attributes"]
        assert s.get("trace", of.get("truth_trace", "")) == of.get("truth_trace", ""), s
        assert s.get("span", of.get("truth_span", "")) == of.get("truth_span", ""), s
        assert of.get("route", of["truth_route"]) == of["truth_route"] and "path" not in of
    traced = [s for s in samples if s["attributes"].get("truth_trace")]
    linked = sum(s["values"][0] for s in traced if "trace" in s)
    assert len(traced) > 50 and linked >= 0.9 * sum(s["values"][0] for s in traced)
