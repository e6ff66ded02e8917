"""gospect serve against the net/http/pprof of a program that has it, and against hostile clients."""

import contextlib
import json
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import time
import urllib.parse
import urllib.request

import pytest

from lib import golang, gospect, gotrace, pprof, process, rawprofile, real_programs, traceback
from lib.served import Served

KINDS = ("heap", "allocs", "block", "mutex", "goroutine")
SYS_READ = 0


@pytest.fixture
def scraped(targets):
    return targets.keep("scraped", golang.NEWEST)


@pytest.fixture(scope="module")
def served_by_pid():
    """Servers that serve several tests, by the process that they serve."""
    servers = {}
    yield servers
    for server in servers.values():
        server.stop()


@pytest.fixture
def server(scraped, served_by_pid):
    if scraped.pid not in served_by_pid:
        served_by_pid[scraped.pid] = Served("-p", scraped.pid)
    return served_by_pid[scraped.pid]


@pytest.fixture
def own(scraped):
    """The port of the program's own server."""
    return int(scraped.ask("port"))


def of_main(raw):
    """The samples with a function of the program, but those of its own server."""
    return {s: n for s, n in raw.nonzero().items()
            if any(line[0].startswith("main.") for place in s[2] for line in place[1:])
            and not any(line[0] in ("main.burn", "main.main.gowrap1") for place in s[2] for line in place[1:])
            and not any(line[0].startswith("bufio.") for place in s[2] for line in place[1:])}


def reads_a_line(program):
    """Whether it has written its answer, and waits for the next line: read(0, ...)."""
    return any(path.read_text().startswith(f"{SYS_READ} 0x0 ")
               for path in pathlib.Path(f"/proc/{program.pid}/task").glob("*/syscall"))


@pytest.mark.parametrize("kind", KINDS)
def test_profiles_are_those_of_the_program(server, scraped, own, kind):
    assert scraped.ask("gc") == "ok"
    process.wait_until(lambda: reads_a_line(scraped), what="the program to wait")
    left = rawprofile.Raw(server.ok(f"/debug/pprof/{kind}", port=own))
    right = rawprofile.Raw(server.ok(f"/debug/pprof/{kind}"))
    assert right.header == left.header
    assert len(of_main(left)) >= 1
    assert of_main(right) == of_main(left), "\n".join(rawprofile.differences(
        rawprofile.collections.Counter(of_main(left)), rawprofile.collections.Counter(of_main(right))))


def pprof_raw(url):
    """go tool pprof -raw, from the types of the samples on."""
    done = subprocess.run([golang.go_command(), "tool", "pprof", "-raw", "-symbolize=none", url],
                          capture_output=True, text=True, timeout=60,
                          env={**golang.environment(golang.NEWEST), "PPROF_TMPDIR": os.getcwd()})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_go_tool_pprof_takes_the_cpu_profile(server, own):
    """The program uses a fifth of a CPU in main.spin: as many samples as in its own profile, as far as
    chance permits."""
    texts = [pprof_raw(f"http://127.0.0.1:{port}/debug/pprof/profile?seconds=2") for port in (own, server.port)]
    for text in texts:
        assert "PeriodType: cpu nanoseconds\nPeriod: 10000000\n" in text
        assert "\nsamples/count cpu/nanoseconds\n" in text
        assert " main.spin " in text and " main.burn " in text
    samples, nanoseconds = (sum(int(v) for v in column) for column in zip(
        *re.findall(r"^ +(\d+) +(\d+): ", texts[1], re.M)))
    # 2 ms in 10 ms at least: the rest of its loop takes no time, other work of this machine only adds pauses.
    assert 0 < nanoseconds <= 2.2e9 and samples >= 1
    assert abs(samples - nanoseconds / 1e7) <= samples, "a sample is 10 ms"


def texts_of(server, own, path):
    return [server.ok(path, port=port).decode() for port in (own, server.port)]


def records(text, function):
    """The records of a text of debug=1 with this function, each as a tuple of its words."""
    return {tuple(re.sub(r"\A[^\n]*profile: .*\n", "", block).split()) for block in text.split("\n\n")
            if f"\t{function}+0x" in block}


def without_addresses(found):
    """The runtime's functions that allocate are in the program's own list of addresses, and not in ours."""
    return {(record[:record.index("@")], record[record.index("#"):]) for record in found}


def frames_of(found):
    """Functions and lines. The program gives inlined calls addresses of their own here, from Go 1.24 on."""
    return {tuple(word.split("+0x")[0] for word in record[record.index("#"):] if not word.startswith("0x"))
            for record in found}


def test_texts_are_those_of_the_program(server, scraped, own):
    assert scraped.ask("gc") == "ok"
    left, right = texts_of(server, own, "/debug/pprof/heap?debug=1")
    assert right.startswith("heap profile: ") and " @ heap/2\n" in right and " @ heap/2\n" in left
    found = without_addresses(records(left, "main.keep"))
    assert found == without_addresses(records(right, "main.keep")) != set()
    left, right = texts_of(server, own, "/debug/pprof/goroutine?debug=1")
    assert re.match(r"goroutine profile: total \d+\n", right)
    assert records(left, "main.parked") == records(right, "main.parked") != set()
    assert '# labels: {"zone":"eu west"}' in right
    # The program counts cycles, gospect nanoseconds.
    for kind, function, head in (("block", "main.block", "--- contention:\ncycles/second="),
                                 ("mutex", "main.contend", "--- mutex:\ncycles/second=")):
        left, right = texts_of(server, own, f"/debug/pprof/{kind}?debug=1")
        assert left.startswith(head) and right.startswith(head)
        found = frames_of(records(left, function))
        assert found == frames_of(records(right, function)) != set()
    left, right = texts_of(server, own, "/debug/pprof/threadcreate?debug=1")
    assert left.split(":")[0] == right.split(":")[0] == "threadcreate profile"


def test_all_stacks_are_as_a_panic_prints_them(server, own):
    left, right = texts_of(server, own, "/debug/pprof/goroutine?debug=2")
    stacks = [sorted(re.sub(r"\(0x[^)]*\)|\({}\)|\(...\)", "()", block) for block in text.split("\n\n")
                     if "main.parked" in block) for text in (left, right)]
    strip = [[re.sub(r"(?m)^(goroutine \d+ )\[.*\]( ?{.*})?:$", r"\1", re.sub(r"\(.*\)$", "", s, flags=re.M))
              for s in found] for found in stacks]
    assert len(strip[0]) == 5 and strip[0] == strip[1]


def test_symbols_and_arguments_are_those_of_the_program(server, scraped, own):
    text = server.ok("/debug/pprof/goroutine?debug=1").decode()
    addresses = re.findall(r"^#\t(0x[0-9a-f]+)\t", text, re.M)[:20]
    assert len(addresses) >= 10
    body = "+".join(addresses)
    left, right = texts_of(server, own, f"/debug/pprof/symbol?{body}")
    assert right == left and right.startswith("num_symbols: 1\n") and " main." in right
    # Newer programs answer GET alone.
    assert server.ok("/debug/pprof/symbol", method="POST", body=body).decode() == left
    assert server.ok("/debug/pprof/cmdline") == server.ok("/debug/pprof/cmdline", port=own)


def test_go_reads_the_trace(server, tmp_path):
    response = server.get("/debug/pprof/trace?seconds=0.5")
    assert response.status == 200
    file = tmp_path / "out.trace"
    file.write_bytes(response.data)
    assert not gotrace.tool_trace_takes(golang.NEWEST, file)
    trace = gotrace.read(file)[0]
    assert "main.burn" in str(trace)


@pytest.mark.parametrize("path, status, media, disposition, body", [
    ("/debug/pprof/<script>scripty<script>", 404, "text/plain; charset=utf-8", None, b"Unknown profile\n"),
    ("/debug/pprof/heap", 200, "application/octet-stream", "heap", None),
    ("/debug/pprof/heap?debug=1", 200, "text/plain; charset=utf-8", None, None),
    ("/debug/pprof/cmdline", 200, "text/plain; charset=utf-8", None, None),
    ("/debug/pprof/profile?seconds=1", 200, "application/octet-stream", "profile", None),
    ("/debug/pprof/symbol", 200, "text/plain; charset=utf-8", None, None),
    ("/debug/pprof/trace", 200, "application/octet-stream", "trace", None),
    ("/debug/pprof/mutex", 200, "application/octet-stream", "mutex", None),
    ("/debug/pprof/goroutineleak", 200, "application/octet-stream", "goroutineleak", None),
    ("/debug/pprof/block?seconds=1", 200, "application/octet-stream", "block-delta", None),
    ("/debug/pprof/goroutine?seconds=1", 200, "application/octet-stream", "goroutine-delta", None),
    ("/debug/pprof/", 200, "text/html; charset=utf-8", None, None),
    ("/debug/pprof/heap?seconds=x", 400, "text/plain; charset=utf-8", None,
     b'invalid value for "seconds" - must be a positive integer\n'),
    ("/debug/pprof/heap?seconds=1&debug=1", 400, "text/plain; charset=utf-8", None,
     b"seconds and debug params are incompatible\n"),
    ("/debug/pprof/trace?seconds=1e9", 400, "text/plain; charset=utf-8", None, None),
    ("/wall?seconds=0.2", 200, "application/octet-stream", "wall", None),
    ("/offcpu?seconds=0.2&format=html", 200, "text/html; charset=utf-8", None, None),
    ("/waits", 200, "application/json", None, None),
    ("/waits?format=text", 200, "text/plain; charset=utf-8", None, None),
    ("/memory?format=html", 200, "text/html; charset=utf-8", None, None),
    ("/memory?format=pprof", 200, "application/octet-stream", "memory", None),
    ("/why?seconds=1", 200, "application/json", None, None),
    ("/leaks?format=text", 200, "text/plain; charset=utf-8", None, None),
    ("/leaks?format=html", 400, "text/plain; charset=utf-8", None, None),
    ("/memory?format=dot", 400, "text/plain; charset=utf-8", None, None),
])
def test_handlers_answer_as_those_of_net_http_pprof(server, path, status, media, disposition, body):
    """net/http/pprof's TestHandlers, and more of its kind."""
    response = server.get(path)
    assert response.status == status, response.data
    assert response.getheader("Content-Type") == media
    assert response.getheader("X-Content-Type-Options") == "nosniff"
    assert response.getheader("Content-Disposition") == (disposition and f'attachment; filename="{disposition}"')
    assert response.getheader("X-Go-Pprof") == ("1" if status != 200 else None)
    assert "default-src 'none'" in response.getheader("Content-Security-Policy")
    assert body in (None, response.data)
    if path == "/debug/pprof/":
        assert b"Types of profiles available:" in response.data


def test_a_difference_has_what_is_new_alone(server):
    """Nothing blocks in main.block any more; its stack is in the profile, and not in the difference."""
    whole = rawprofile.Raw(server.ok("/debug/pprof/block"))
    since = rawprofile.Raw(server.ok("/debug/pprof/block?seconds=1"))
    assert any("main.block" in str(s) for s in whole.samples)
    assert not any("main.block" in str(s) for s in since.samples)
    assert since.header["types"] == whole.header["types"]
    assert 1e9 <= since.header["duration"] < 20e9


def test_the_tree_of_memory_sums_to_the_resident_set(server, scraped):
    found = json.loads(server.ok("/memory"))
    assert found["rss_bytes"] == found["tree"]["bytes"] > 1 << 20
    # tests/e2e/test_memory.py holds it against the kernel's numbers; the program allocates meanwhile.
    rss = int(process.status(scraped.pid)["VmRSS"].split()[0]) * 1024
    assert rss / 2 < found["rss_bytes"] < rss * 2


def test_leaks_are_those_of_the_program(server):
    """Its five parked goroutines receive from a nil channel: nothing can wake them."""
    found = json.loads(server.ok("/leaks"))
    assert [row["count"] for row in found["leaked"] if "main.parked" in json.dumps(row)] == [5]
    assert isinstance(json.loads(server.ok("/why?seconds=1"))["findings"], list)


def test_leaked_goroutines_are_those_of_the_runtimes_own_profile(server, own):
    """gospect first: the runtime's search gives them another state. Then again, with that state."""
    path = "/debug/pprof/goroutineleak"
    before, text, own_file, after = (server.ok(path), server.ok(path + "?debug=1").decode(), server.ok(path, port=own),
                                     server.ok(path))
    theirs = rawprofile.Raw(own_file)
    for file in before, after:
        ours = rawprofile.Raw(file)
        assert ours.header == theirs.header
        assert sum(s[0][0] * n for s, n in of_main(ours).items()) == 5 and of_main(ours) == of_main(theirs)
    own_text, all_stacks = server.ok(path + "?debug=1", port=own).decode(), server.ok(path + "?debug=2").decode()
    assert re.match(r"goroutineleak profile: total \d+\n", text)
    assert records(text, "main.parked") == records(own_text, "main.parked") != set()
    heads = [block.split("\n")[0] for block in all_stacks.split("\n\n") if "main.parked" in block]
    assert len(heads) == 5 and all("[chan receive (nil chan) (leaked)" in head for head in heads), heads
    assert "\nmain.main(" in all_stacks


def test_metrics_count_the_requests(server, scraped):
    def count(text, code):
        return int(re.search(rf'^gospect_serve_requests_total{{code="{code}xx"}} (\d+)$', text, re.M).group(1))
    before = server.ok("/metrics").decode()
    assert server.get("/nothing").status == 404
    after = server.ok("/metrics").decode()
    assert count(after, 4) == count(before, 4) + 1 and count(after, 2) == count(before, 2) + 1
    goroutines = int(re.search(rf'^gospect_goroutines{{pid="{scraped.pid}",.*}} (\d+)$', after, re.M).group(1))
    # Its own server's goroutines come and go.
    assert 8 <= goroutines <= 40
    for line in after.splitlines():
        assert re.fullmatch(r'# (HELP|TYPE) gospect_\w+ .+|gospect_\w+({(\w+="[^"]*",?)+})? \d+(\.\d+)?', line), line


PROMETHEUS = """
global: {scrape_interval: 1s}
scrape_configs:
- job_name: gospect
  static_configs: [{targets: ["%s"]}]
"""


@contextlib.contextmanager
def prometheus(folder, target):
    """Prometheus itself, which scrapes this every second; yields a function that asks it."""
    try:
        binary = real_programs.build("prometheus")
    except real_programs.Unavailable as error:
        pytest.skip(str(error)[:300])
    (folder / "prometheus.yml").write_text(PROMETHEUS % target)
    address = f"127.0.0.1:{real_programs.free_port()}"
    running = subprocess.Popen([binary, f"--config.file={folder}/prometheus.yml", f"--web.listen-address={address}",
                                f"--storage.tsdb.path={folder}/data"], stderr=subprocess.DEVNULL)

    def ask(query):
        """The value of the one series that there is; None: there is none."""
        with contextlib.suppress(OSError), urllib.request.urlopen(
                f"http://{address}/api/v1/query?{urllib.parse.urlencode({'query': query})}", timeout=10) as answer:
            found = json.load(answer)["data"]["result"]
            assert len(found) <= 1, found
            return float(found[0]["value"][1]) if found else None
        return None
    try:
        yield ask
    finally:
        running.kill()
        running.wait()


@pytest.mark.slow
@pytest.mark.time_limit(900)
def test_prometheus_scrapes_the_metrics(targets, tmp_path):
    """What it has then is what the program says of itself."""
    program = targets.start("states", golang.NEWEST, args=("-only", "chan", "-extra", "100"))
    own = traceback.parse(program.stack())
    with Served("-p", program.pid) as server, prometheus(tmp_path, server.host) as ask:
        process.wait_until(lambda: ask('up{job="gospect"}') == 1, 60, "the first scrape")
        waiting = f'gospect_goroutine_seconds_total{{pid="{program.pid}",state="waiting"}}'
        watched = f'gospect_observed_seconds_total{{pid="{program.pid}"}}'
        process.wait_until(lambda: (ask(f"max_over_time({watched}[1m])") or 0) > 20, 60, "two looks")
        # The runtime's own goroutines count, too.
        assert len(own) <= ask(f'gospect_goroutines{{pid="{program.pid}"}}') <= len(own) + 10
        assert len(own) - 5 <= ask(f"increase({waiting}[30s]) / on(pid) increase({watched}[30s])") <= len(own) + 10
        assert ask("gospect_build_info") == 1


def test_the_last_hour_has_goroutines_by_state(server, scraped):
    def totals():
        text = server.ok("/metrics").decode()
        return {name: float(value) for name, value in re.findall(
            rf'^gospect_(?:goroutine_seconds_total{{pid="{scraped.pid}",state="|)(\w+)(?:"}}|{{pid="{scraped.pid}"}}) ([\d.]+)$', text, re.M)}
    process.wait_until(lambda: "observed_seconds_total" in totals(), what="the first second")
    found = totals()
    seconds = found["observed_seconds_total"]
    # Five are parked; main, burn and the server are three more, and a connection of the tests one.
    assert seconds >= 0.9
    assert 5 <= found["waiting"] / seconds <= 40
    # main reads its standard input in a system call.
    assert found["syscall"] / seconds <= 3
    assert 0 <= found["cpu_seconds_total"] <= found["running"] * 1.01 + 0.01
    response = server.get(f"/{scraped.pid}/")
    page = response.data.decode()
    assert "script-src 'self'" in response.getheader("Content-Security-Policy")
    assert re.findall(r"<script[^>]*>", page) == ['<script src="/hour.js">'] and page.count("<path ") >= 5
    beats = re.search(r' data-beats="([^"]*)"', page)[1].split(";")[:-1]
    at, length, *states = map(float, beats[-1].split(",")[:6])
    assert abs(at - time.time()) < 15 and length > 0 and 5 <= sum(states) <= 60
    rss = int(process.status(scraped.pid)["VmRSS"].split()[0]) * 1024
    assert float(beats[-1].split(",")[-1]) == pytest.approx(rss, rel=0.5)
    assert server.get("/hour.js").getheader("Content-Type") == "text/javascript; charset=utf-8"
    picture = server.get(f"/{scraped.pid}/hour.svg")
    assert picture.getheader("Content-Type") == "image/svg+xml" and picture.data.count(b"<path ") == 4


def test_a_part_of_the_last_hour_is_what_the_goroutines_did(server, scraped):
    path = f"/{scraped.pid}/range?format=pprof&"
    process.wait_until(lambda: server.get(path + "seconds=60").status == 200, 40, "the first ten seconds")
    found = pprof.parse(server.ok(path + "seconds=60"))
    # Five goroutines are parked all the time, one of them by a label.
    assert found.duration_ns >= 8e9
    assert found.time_in("main.parked") == pytest.approx(5 * found.duration_ns, rel=0.02)
    page = server.get(f"/{scraped.pid}/range")
    assert page.getheader("Content-Type").startswith("text/html") and b"main.parked" in page.data
    assert "sandbox allow-scripts" in page.getheader("Content-Security-Policy")
    end = found.time_ns / 1e9
    before = server.get(f"/{scraped.pid}/range?from={end - 500}&to={end - 400}")
    assert before.status == 404 and b"no history of that time" in before.data
    for wrong in "from=1", "from=2&to=1", "from=x&to=y", "from=nan&to=inf", "to=5":
        assert server.get(f"/{scraped.pid}/range?{wrong}").status == 400, wrong
    assert server.get("/1/range").status == 404


def test_several_processes_have_paths_of_their_own(targets, scraped):
    other = targets.keep("kept", golang.NEWEST, env={"GOGC": "off"})
    with Served("-p", scraped.pid, "-p", other.pid) as server:
        page = server.ok("/").decode()
        assert re.findall(r'<td><a href="/(\d+)/debug/pprof/">', page) == [
            str(pid) for pid in sorted((scraped.pid, other.pid))]
        for program in scraped, other:
            assert server.ok(f"/{program.pid}/debug/pprof/cmdline").decode() == str(program.binary)
        assert server.get("/debug/pprof/cmdline").status == 404
        assert server.get(f"/{os.getpid()}/debug/pprof/cmdline").status == 404
        assert server.get("/1/debug/pprof/cmdline").status == 404
        metrics = server.ok("/metrics").decode()
        for program, goroutines in (scraped, None), (other, None):
            assert re.search(rf'^gospect_goroutines{{pid="{program.pid}",.*}} \d+$', metrics, re.M)
        assert server.stop() == 0


# Two Go programs, alone in their pid namespace. The shell waits until gospect, which it starts, has ended.
HOST = """
sleep 100 | "$1" & sleep 100 | "$1" &
shift
"$@"
"""


def test_each_process_of_the_host_has_its_last_hour():
    """A host of its own: of the processes of tests only the first 64 would have an hour."""
    host = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", HOST, "sh", golang.build("kept", golang.NEWEST))
    with Served(prefix=host) as server:
        def served():
            return re.findall(r'<td><a href="/(\d+)/debug/pprof/">', server.ok("/").decode())
        process.wait_until(lambda: len(served()) == 2, 20, "both")
        for pid in served():
            process.wait_until(lambda: server.get(f"/{pid}/").status == 200, 20, "its history")
            process.wait_until(lambda: 'data-beats="1' in server.ok(f"/{pid}/").decode(), 20, "the first second")
            assert f'src="/{pid}/hour.svg"' in server.ok("/").decode()
        server.stop(signal.SIGKILL)


def of_process(pid, name):
    """A file of it; "" of one that has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/{name}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def tree(pid):
    """A process and all below it."""
    found = [pid]
    for one in found:
        with contextlib.suppress(FileNotFoundError):
            for thread in os.listdir(f"/proc/{one}/task"):
                found += map(int, of_process(one, f"task/{thread}/children").split())
    return found


def proportional_bytes(pids):
    """Each page that several have as a part."""
    found = (re.search(r"^Pss: +(\d+)", of_process(pid, "smaps_rollup"), re.M) for pid in pids)
    return sum(int(match[1]) << 10 for match in found if match)


def cpu_seconds(pids):
    return {pid: int(text.split()[0]) / 1e9 for pid in pids if (text := of_process(pid, "schedstat"))}


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.time_limit(300)
def test_fifty_processes_have_a_last_hour():
    binary = golang.build("states", golang.NEWEST)
    programs = [process.Program(binary, "-only", "chan", "-extra", "2000") for _ in range(50)]
    try:
        with Served(*(arg for p in programs for arg in ("-p", p.pid))) as server:
            def watched():
                return [p for p in programs if server.get(f"/{p.pid}/range?format=pprof&seconds=600").status == 200]
            process.wait_until(lambda: len(watched()) == 50, 120, "all")
            pids = tree(server.process.pid)
            before, began = cpu_seconds(pids), time.monotonic()
            time.sleep(30)
            after = cpu_seconds(pids)
            share = sum(after[pid] - before[pid] for pid in after) / (time.monotonic() - began)
            size = proportional_bytes(pids)
            print(f"{share:.2%} of a core, {size / 1e6:.0f} MB")
            # 0.1 % for each, and what they send.
            assert share < 50 * 0.0015 and size < 150e6
            found = pprof.parse(server.ok(f"/{programs[-1].pid}/range?format=pprof&seconds=20"))
            assert found.time_in("main.waitForChannel") == pytest.approx(2000 * found.duration_ns, rel=0.02)
    finally:
        for program in programs:
            program.stop()


def test_children_are_served_also_those_that_come_later(tmp_path):
    binary = golang.build("kept", golang.NEWEST)
    script = f"sleep 60 | {binary} & (sleep 2; sleep 60 | {binary}) & wait"
    shell = subprocess.Popen(["sh", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        with Served("-p", shell.pid, "--children") as server:
            def served():
                return re.findall(r'<td><a href="/(\d+)/debug/pprof/">', server.ok("/").decode())
            process.wait_until(lambda: len(served()) == 2, 20, "both")
            for pid in served():
                assert server.ok(f"/{pid}/debug/pprof/cmdline").decode().split("\0")[0] == str(binary)
            assert server.get(f"/{os.getpid()}/debug/pprof/cmdline").status == 404
            assert server.stop() == 0
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()


def test_a_process_that_has_ended_is_not_found(targets):
    program, other = targets.start("kept"), targets.start("kept")
    server = Served("-p", program.pid, "-p", other.pid)
    assert server.get(f"/{program.pid}/debug/pprof/heap").status == 200
    targets.forget(program).stop()
    assert server.get(f"/{program.pid}/debug/pprof/heap").status == 404
    targets.forget(other).stop()
    assert server.process.wait(20) == 0
    server.stop()
    assert any("have ended" in line for line in server.words)


def test_of_several_processes_one_that_cannot_be_read_is_named(scraped):
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            server = Served("-p", scraped.pid, "-p", other.pid)
            assert server.get(f"/{scraped.pid}/debug/pprof/heap").status == 200
            server.stop()
            assert any(f"process {other.pid}: " in line and "not a Go program" in line for line in server.words)
            refused = gospect.run("serve", other.pid, os.getpid(), "--listen", "127.0.0.1:0")
            assert refused.status == 1 and "none of these processes can be read" in refused.words[-1], refused.err
        finally:
            other.kill()


# --- hostile clients ---

@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "10.0.0.1:{port}",
                                  "localhost.evil.example:{port}", "", "127.0.0.1:{port}, evil.example"])
def test_a_host_that_is_not_ours_is_refused(server, host):
    response = server.get("/debug/pprof/heap", headers={"Host": host.format(port=server.port)})
    assert response.status == 403 and b"Host" in response.data
    assert server.get("/debug/pprof/cmdline", headers={"Host": f"localhost:{server.port}"}).status == 200


def test_a_request_has_one_host(server):
    twice = f"GET / HTTP/1.1\r\nHost: {server.host}\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    assert b" 403 " in server.raw(twice.encode()).splitlines()[0]
    for text in "GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\nConnection: close\r\n\r\n":
        assert server.raw(text.encode()).split()[1] in (b"403", b"400")


def test_a_page_of_another_site_cannot_ask(server):
    for site in "cross-site", "same-site":
        assert server.get("/debug/pprof/cmdline", headers={"Sec-Fetch-Site": site}).status == 403
    assert server.get("/debug/pprof/cmdline", headers={"Sec-Fetch-Site": "same-origin"}).status == 200
    assert server.get("/", headers={"Sec-Fetch-Site": "cross-site"}).status == 200


@pytest.mark.parametrize("path", ["/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/debug/pprof/..%2f..%2fetc%2fpasswd",
                                  "//etc/passwd", "/debug/pprof/heap%00.html/../..", "/proc/self/environ", "/%ff%fe",
                                  "/debug/pprof/" + "a" * 4000])
def test_paths_lead_to_no_file(server, path):
    response = server.get(path)
    assert response.status in (404, 200) and b"root:" not in response.data
    assert response.status == 404 or b"heap%00" in path.encode()


def test_what_is_no_request_is_refused(server):
    host = f"Host: {server.host}\r\n".encode()
    for data, least in ((b"GET / HTTP/1.1\r\n" + host + b"X: " + b"a" * 100000 + b"\r\n\r\n", 400),
                        (b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n" + host + b"\r\n", 400),
                        (b"GET / HTTP/1.1\r\n" + host + b"".join(b"H%d: x\r\n" % i for i in range(20000)) + b"\r\n", 400),
                        (b"PUT / HTTP/1.1\r\n" + host + b"Connection: close\r\n\r\n", 405),
                        (b"POST /debug/pprof/heap HTTP/1.1\r\n" + host + b"Content-Length: 0\r\nConnection: close\r\n\r\n", 405)):
        answer = server.raw(data)
        # The connection may be reset before the answer is read.
        assert not answer or least <= int(answer.split()[1]) < 500, answer[:100]
    with server.socket() as s, contextlib.suppress(OSError):
        s.sendall(b"POST /debug/pprof/symbol HTTP/1.1\r\n" + host + b"Content-Length: 100000000\r\n\r\n")
        for _ in range(100):
            s.sendall(b"0x1+" * 16384)
        pytest.fail("it takes a body without end")
    server.raw(os.urandom(5000))
    assert server.ok("/debug/pprof/cmdline")


def front_of(server):
    """The process that talks HTTP, and its parent's other children."""
    children = [int(p) for p in pathlib.Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()]
    return next(p for p in children if process.comm(p) == "gospect-http")


def test_the_http_process_has_no_privilege(server):
    status = process.status(front_of(server))
    for name in "CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb":
        # SETUID and SETGID, to become nobody: with NoNewPrivs it cannot get them back.
        assert int(status[name], 16) & ~(0xc0 if name == "CapBnd" else 0) == 0, f"{name}: {status[name]}"
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    if os.geteuid() == 0:
        assert set(status["Uid"].split()) == {"65534"} and status.get("Groups", "").split() == []


@pytest.mark.parametrize("count", [2000, pytest.param(10000, marks=pytest.mark.slow)])
def test_thousands_of_connections_are_bounded(scraped, count):
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files[1] < count + 500:
        pytest.skip(f"only {files[1]} descriptors are permitted here")
    with Served("-p", scraped.pid) as server:
        front = front_of(server)
        with contextlib.ExitStack() as stack:
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(files[0], count + 500), files[1]))
            stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, files)
            for _ in range(count):
                s = stack.enter_context(socket.socket())
                s.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    s.connect(("127.0.0.1", server.port))
            process.wait_until(lambda: len(os.listdir(f"/proc/{front}/fd")) > 250, what="256 connections")
            assert len(os.listdir(f"/proc/{front}/fd")) < 256 + 20
        assert server.ok("/debug/pprof/cmdline")


@pytest.mark.slow
def test_slow_connections_end(scraped):
    """They send a byte a second, as slow loris does: each has ten seconds for its request."""
    with Served("-p", scraped.pid) as server:
        front = front_of(server)
        with contextlib.ExitStack() as stack:
            began = time.monotonic()
            sockets = [stack.enter_context(socket.socket()) for _ in range(2000)]
            for s in sockets:
                s.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    s.connect(("127.0.0.1", server.port))
            most, is_open = 0, True
            while is_open and time.monotonic() - began < 60:
                for s in sockets[:256]:
                    with contextlib.suppress(OSError):
                        s.send(b"A")
                most = max(most, len(os.listdir(f"/proc/{front}/fd")))
                time.sleep(1)
                with contextlib.suppress(BlockingIOError):
                    is_open = bool(sockets[0].recv(100))
            assert not is_open and time.monotonic() - began >= 10
            assert 200 < most < 300
        assert server.ok("/debug/pprof/cmdline")


def workers_of(server):
    children = pathlib.Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    return [int(p) for p in children if is_worker(p)]


def is_worker(pid):
    """Not one that has ended and waits to be reaped: it does no work and takes nobody's place."""
    try:
        return process.comm(pid) == "gospect-worker" and not process.status(pid)["State"].startswith("Z")
    except OSError:  # it has ended
        return False


def test_a_worker_ends_with_its_client(server):
    with server.socket() as s:
        s.sendall(f"GET /debug/pprof/profile?seconds=600 HTTP/1.1\r\nHost: {server.host}\r\n\r\n".encode())
        process.wait_until(lambda: workers_of(server), what="a worker")
    process.wait_until(lambda: not workers_of(server), seconds=15, what="the end of the worker")


def test_work_at_once_is_limited(server):
    with contextlib.ExitStack() as stack:
        for _ in range(16):
            s = stack.enter_context(server.socket())
            s.sendall(f"GET /wall?seconds=600 HTTP/1.1\r\nHost: {server.host}\r\n\r\n".encode())
        process.wait_until(lambda: len(workers_of(server)) >= 12, seconds=30, what="12 workers")
        response = server.get("/debug/pprof/cmdline")
        assert response.status == 503 and response.getheader("Retry-After") == "1"
        assert len(workers_of(server)) == 12
    process.wait_until(lambda: not workers_of(server), seconds=30, what="the end of the workers")
    assert server.ok("/debug/pprof/cmdline")


def test_the_end_of_gospect_ends_its_work_and_removes_its_agent(targets):
    program = targets.start("kept")
    server = Served("-p", program.pid)
    with server.socket() as s:
        s.sendall(f"GET /debug/pprof/trace?seconds=600 HTTP/1.1\r\nHost: {server.host}\r\n\r\n".encode())
        maps = pathlib.Path(f"/proc/{program.pid}/maps")
        process.wait_until(lambda: "gospect" in maps.read_text(), what="the agent")
        assert server.stop() == 0
    assert "gospect" not in maps.read_text() or "rw" not in maps.read_text().split("gospect")[0].splitlines()[-1]


def test_without_trace_nothing_is_written_to_the_program(scraped):
    with Served("-p", scraped.pid, "--no-trace") as server:
        assert server.get("/debug/pprof/trace").status == 404
        assert b"trace" not in server.ok("/debug/pprof/").split(b"<h2>More")[0]


# --- tokens and TLS ---

def test_a_token_is_needed_where_there_is_one(scraped, tmp_path):
    file = tmp_path / "token"
    file.write_text("0123456789abcdef-token\n")
    with Served("-p", scraped.pid, "--token-file", file) as server:
        path = "/debug/pprof/cmdline"
        assert server.get(path).status == 401
        for wrong in "Bearer 0123456789abcdef-toke", "Bearer ", "Bearer 0123456789abcdef-tokenx", "Basic eDp5", "Basic !", "x":
            assert server.get(path, headers={"Authorization": wrong}).status == 401
        assert server.get(path, headers={"Authorization": "Bearer 0123456789abcdef-token"}).status == 200
        assert " main.parked " in pprof_raw(f"http://x:0123456789abcdef-token@127.0.0.1:{server.port}/debug/pprof/goroutine")


def certificate(folder, name, *more):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem", "-subj", f"/CN={name}", "-days", "2",
                    *more], check=True, capture_output=True)
    return folder / f"{name}.pem", folder / f"{name}.key"


def curl(*args):
    return subprocess.run(["curl", "-s", "-o", "-", "-w", "%{http_code}", "--max-time", "20", *map(str, args)],
                          capture_output=True, text=True).stdout


def test_clients_need_a_certificate_where_there_is_a_ca(scraped, tmp_path):
    cert, key = certificate(tmp_path, "server", "-addext", "subjectAltName=IP:127.0.0.1")
    good, bad = certificate(tmp_path, "good"), certificate(tmp_path, "bad")
    with Served("-p", scraped.pid, "--tls-cert", cert, "--tls-key", key, "--client-ca", good[0]) as server:
        url = f"https://{server.host}/debug/pprof/cmdline"
        assert curl("--cacert", cert, "--cert", good[0], "--key", good[1], url).endswith("scraped200")
        assert not curl("--cacert", cert, url).endswith("200")
        assert not curl("--cacert", cert, "--cert", bad[0], "--key", bad[1], url).endswith("200")


@pytest.mark.parametrize("args, text", [
    (("--listen", "0.0.0.0:0"), "can be reached from other machines"),
    (("--listen", ":0", "--token-file", "token"), "can be reached from other machines"),
    (("--listen", "127.0.0.1"), "invalid address"),
    (("--listen", "example.org:80"), "invalid address"),
    (("--tls-cert", "x"), "need each other"),
    (("--client-ca", "x"), "needs --tls-cert"),
    (("--", "true"), "-- COMMAND is not supported"),
    (("--core", "x"), "not a running process"),
])
def test_wrong_options_are_refused(args, text):
    assert text in gospect.run("serve", *args).fails(2)


def test_files_that_cannot_be_used_are_named(scraped, tmp_path):
    short = tmp_path / "short"
    short.write_text("secret\n")
    assert "has no token" in gospect.run("serve", "-p", scraped.pid, "--token-file", short).fails(1)
    assert "cannot open" in gospect.run("serve", "-p", scraped.pid, "--token-file", tmp_path / "none").fails(1)
    failed = gospect.run("serve", "-p", scraped.pid, "--listen", "127.0.0.1:0", "--tls-cert", short, "--tls-key", short)
    assert "the certificate, the key or the CA is invalid" in failed.fails(1)
    with socket.create_server(("127.0.0.1", 0)) as s:
        assert "cannot listen on" in gospect.run("serve", "-p", scraped.pid, "--listen", f"127.0.0.1:{s.getsockname()[1]}").fails(1)
