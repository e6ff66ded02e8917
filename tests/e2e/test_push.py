"""gospect push: what a server receives, and what becomes of it when the server fails."""

import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import time
import zlib

import pytest

from lib import golang, gospect, rawprofile, receivers, traceback
from lib.process import Program, status, wait_until

STAGES = ("main.stageSleep", "main.stageChannel", "main.stageMutex")


@pytest.fixture
def server():
    server = receivers.Pyroscope()
    yield server
    server.stop()


def args(url, spool, *targets, interval="1s"):
    targets = [arg for pid in targets for arg in ("-p", pid)]
    return ("push", "--to", "pyroscope", url, *targets, "--interval", interval, "--spool", spool, *gospect.BUDGET)


def summary(words):
    """The numbers of the last line."""
    line = next(line for line in reversed(words) if " requests: " in line)
    return {what: int(number) for number, what in re.findall(r"(\d+) (processes|requests|sent|lost|refused|wait)", line)}


def by_process(received):
    found = {}
    for r in received:
        found.setdefault(r.labels["pid"], []).append(r)
    return found


def assert_no_time_is_missing(wall):
    """Each segment begins where the one before ends."""
    profiles = [r.profile for r in wall]
    assert profiles == sorted(profiles, key=lambda p: p.time_ns)
    for before, after in zip(profiles, profiles[1:]):
        assert after.time_ns == before.time_ns + before.duration_ns


def split_of(times):
    return {stage: times[stage] / sum(times.values()) for stage in STAGES}


def test_the_server_has_what_the_programs_did(targets, server, tmp_path):
    env = {"OTEL_SERVICE_NAME": "shop", "OTEL_RESOURCE_ATTRIBUTES": "service.version=1.2,k8s.namespace.name=prod"}
    split = targets.start("split", env={**os.environ, **env})
    states = targets.start("states", args=("-only", "chan", "-extra", "40"))
    kept = targets.keep("kept", golang.NEWEST, env={"GOGC": "off"})
    assert kept.ask("gc") == "ok"
    running = gospect.start(*args(server.url, tmp_path, split.pid, states.pid, kept.pid), "--label", "team=a b",
                            "--budget", "15")
    wait_until(lambda: str(split.pid) in by_process(server.named("wall")), 30, "the first segment")
    begins, before = time.time_ns(), json.loads(split.ask("times"))
    time.sleep(5)
    after = json.loads(split.ask("times"))
    running.send_signal(signal.SIGTERM)
    words = running.communicate(timeout=30)[1].decode().splitlines()
    assert running.returncode == 0, words
    numbers = summary(words)
    assert numbers["processes"] == 3 and numbers["sent"] == numbers["requests"] == len(server.requests) >= 6
    assert numbers["lost"] == numbers["refused"] == numbers["wait"] == 0
    assert {path for path, _, _ in server.requests} == {server.PATH}
    assert {headers["Content-Type"] for _, headers, _ in server.requests} == {"application/proto"}
    assert not list((tmp_path / "pyroscope").iterdir())
    walls = by_process(server.named("wall"))
    assert set(walls) == {str(program.pid) for program in (split, states, kept)}
    for wall in walls.values():
        assert_no_time_is_missing(wall)
    labels = walls[str(split.pid)][0].labels
    expected = {"service_name": "shop", "service_version": "1.2", "namespace": "prod", "team": "a b",
                "hostname": socket.gethostname(), "go_version": f"go{golang.NEWEST}"}
    assert {key: labels.get(key) for key in expected} == expected
    assert walls[str(states.pid)][0].labels["service_name"] == "states"
    # What the program says itself of its time and of its goroutines.
    profiles = [p for p in (r.profile for r in walls[str(split.pid)]) if p.time_ns + p.duration_ns / 2 > begins]
    times = {stage: sum(p.time_in(stage) for p in profiles) for stage in STAGES}
    truth = {stage: after[stage] - before.get(stage, 0) for stage in STAGES}
    assert split_of(times) == pytest.approx(split_of(truth), abs=0.06)
    assert all(p.sample_types == [("wall", "nanoseconds")] for p in profiles)
    own = traceback.parse(states.stack())
    counted = by_process(server.named("goroutine"))[str(states.pid)][-1].profile
    # The one that answers was waiting for the question.
    assert counted.sample_types == [("goroutine", "count")] and counted.total("goroutine") == len(own)
    assert counted.time_in("main.waitForChannel", "goroutine") == len(traceback.having(own, "main.waitForChannel")) == 40
    # The program writes its heap profile itself.
    assert kept.ask(f"write heap {tmp_path / 'own.pb.gz'}") == "ok"
    pushed = by_process(server.named("memory"))[str(kept.pid)][-1]
    (tmp_path / "pushed.pb.gz").write_bytes(pushed.file)
    own, ours = rawprofile.read(tmp_path / "own.pb.gz"), rawprofile.read(tmp_path / "pushed.pb.gz")
    assert ours.header == own.header
    assert len(own.nonzero()) >= 4 and ours.nonzero() == own.nonzero(), rawprofile.differences(own.nonzero(), ours.nonzero())


def test_cpu_time_is_pushed_as_its_own_profile(targets, server, tmp_path):
    program = targets.start("states", args=("-only", "none", "-spin", "1"))
    used = program.cpu_seconds()
    gospect.run(*args(server.url, tmp_path, program.pid), "-d", "3s", seconds=60).ok()
    used = program.cpu_seconds() - used
    cpu = [r.profile for r in server.named("process_cpu")]
    assert cpu and all(p.sample_types == [("cpu", "nanoseconds")] for p in cpu)
    spun = sum(p.time_in("main.spin", "cpu") for p in cpu) / 1e9
    # The recording began later than the clock of the test, and ended earlier.
    assert 0.5 * used < spun < 1.1 * used


def test_what_a_failing_server_does_not_take_arrives_later(targets, server, tmp_path):
    program = targets.start("states", args=("-only", "chan"))
    server.mode = 503
    running = gospect.start(*args(server.url, tmp_path, program.pid))
    for mode in 503, "half", 429:
        server.mode = mode
        before = len(server.tries)
        wait_until(lambda: mode in server.tries[before:], what=f"a try with {mode}")
    asked = time.monotonic()
    server.mode = 200
    wait_until(lambda: server.requests, what="the first request that is taken")
    assert time.monotonic() - asked > 1  # Retry-After: 2
    for mode in 400, 413:
        server.mode = mode
        wait_until(lambda: server.tries[-1] == mode, what="one that is refused")
    server.mode = 200
    taken = len(server.requests)
    wait_until(lambda: len(server.requests) > taken + 1, what="those after it")
    running.send_signal(signal.SIGTERM)
    words = running.communicate(timeout=60)[1].decode().splitlines()
    assert running.returncode == 0, words
    numbers = summary(words)
    assert numbers["refused"] == server.tries.count(400) + server.tries.count(413) >= 2 and numbers["lost"] == numbers["wait"] == 0
    assert numbers["requests"] == numbers["sent"] + numbers["refused"] and numbers["sent"] == len(server.requests)
    walls = server.named("wall")
    missing = sum(after.profile.time_ns != before.profile.time_ns + before.profile.duration_ns
                  for before, after in zip(walls, walls[1:]))
    assert missing <= numbers["refused"]
    said = [line for line in words if "cannot push to" in line]
    assert said and "it answers HTTP 503: the \\x1b[31mserver" in said[0] and "wait in the spool" in said[0]
    assert any("accepts profiles again" in line for line in words)
    assert any("refuses a request, which is dropped: it answers HTTP 400" in line for line in words)


def test_what_a_full_disk_has_no_room_for_is_lost_and_counted(targets, server, tmp_path):
    """Until there is room again."""
    if os.geteuid():
        pytest.skip("mounting needs root")
    program = targets.start("states", args=("-only", "chan"))
    full, free = tmp_path / "full", tmp_path / "free"
    # The file system is that of gospect alone, and so is what fills it.
    script = ("mount -t tmpfs -o size=64k,mode=700 tmpfs $0 && { (while kill -0 $$ && [ ! -e $1 ]; do sleep 0.1; done; "
              "cat /dev/zero >$0/fill; rm $1; while kill -0 $$ && [ ! -e $2 ]; do sleep 0.1; done; rm $0/fill) "
              '</dev/null >/dev/null 2>&1 & shift 2; exec "$@"; }')
    spool = tmp_path / "spool"
    spool.mkdir(mode=0o700)
    running = subprocess.Popen(["unshare", "-m", "sh", "-c", script, spool, full, free, gospect.BINARY,
                                *map(str, args(server.url, spool, program.pid))], stderr=subprocess.PIPE)
    try:
        wait_until(lambda: server.requests, what="the first request")
        full.touch()
        wait_until(lambda: not full.exists(), what="a full disk")
        time.sleep(3)
        taken = len(server.requests)
        free.touch()
        wait_until(lambda: len(server.requests) >= taken + 2, what="requests after there is room")
        running.send_signal(signal.SIGTERM)
        words = running.communicate(timeout=60)[1].decode().splitlines()
    finally:
        running.kill()
    assert running.returncode == 0, words
    numbers = summary(words)
    assert numbers["lost"] >= 1 and numbers["sent"] == len(server.requests) and numbers["wait"] == 0, words
    assert numbers["requests"] == numbers["sent"] + numbers["lost"]
    assert any("requests are lost: cannot write to the spool" in line and "No space left" in line for line in words), words


def members(session):
    return subprocess.run(["pgrep", "-s", str(session)], capture_output=True, check=False).stdout.split()


def test_a_killed_gospect_loses_nothing_that_was_recorded(targets, tmp_path):
    program = targets.start("states", args=("-only", "chan"))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    url, spool = f"http://127.0.0.1:{port}", tmp_path / "pyroscope"
    running = gospect.start(*args(url, tmp_path, program.pid), start_new_session=True)
    wait_until(lambda: spool.exists() and len(list(spool.glob("*.push"))) >= 2, what="two requests in the spool")
    assert len(members(running.pid)) >= 4
    second = gospect.run(*args(url, tmp_path, program.pid)).fails(1)
    assert "another gospect push uses the spool" in second
    running.kill()
    running.communicate()
    wait_until(lambda: not members(running.pid), what="the end of its processes")
    left = list(spool.glob("*.push"))
    assert {path.stat().st_mode & 0o777 for path in left} == {0o600} and spool.stat().st_mode & 0o777 == 0o700
    server = receivers.Pyroscope(port)
    try:
        gospect.run(*args(url, tmp_path, program.pid), "-d", "2s").ok()
        assert len(server.requests) > len(left)
        assert_no_time_is_missing(server.named("wall")[:len(left)])
        assert not list(spool.iterdir())
    finally:
        server.stop()


def test_a_full_spool_loses_the_oldest_and_counts_them(targets, tmp_path):
    """The first request needs the room of two of three files that an earlier gospect left. States has so many stacks
    that a request is larger than 5 KB."""
    program = targets.keep("states", golang.NEWEST)
    url = "http://127.0.0.1:9"
    spool = tmp_path / "pyroscope"
    spool.mkdir()
    spool.chmod(0o700)
    # From the oldest to the newest, they take all of the room.
    old = [spool / (f"{i:016x}" + "-" + "0" * 32 + ".push") for i in range(3)]
    for path, size in zip(old, (1000, 600_000, (1 << 20) - 601_000 - 100)):
        body = b"x" * (size - 16)
        path.write_bytes(struct.pack("=8sII", b"gospush1", len(body), zlib.crc32(body)) + body)
    words = gospect.run(*args(url, tmp_path, program.pid), "--spool-size", 1, "-d", "2s").ok().words
    numbers = summary(words)
    assert numbers["lost"] == 2 and numbers["requests"] >= 1 and numbers["sent"] == 0
    assert numbers["wait"] == numbers["requests"] + 1 == len(list(spool.glob("*.push")))
    assert any("2 requests are lost: the spool" in line and "--spool-size" in line for line in words)
    assert [path.exists() for path in old] == [False, False, True]


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is missing")
def test_tls_is_checked_and_the_token_is_sent(targets, tmp_path):
    program = targets.start("states", args=("-only", "chan"))
    right, wrong = (receivers.certificate(tmp_path, name) for name in ("right", "wrong"))
    token = tmp_path / "token"
    token.write_text("secret\n")
    token.chmod(0o600)
    server = receivers.Pyroscope(tls=right)
    try:
        for authority in (), ("--ca-file", wrong[0]):
            words = gospect.run(*args(server.url, tmp_path / "spool", program.pid), "-d", "1s", *authority,
                                "--token-file", token).ok().words
            assert any("cannot push to" in line and "certificate" in line for line in words), words
        assert not server.tries
        running = gospect.start(*args(server.url, tmp_path / "spool", program.pid), "--token-file", token,
                                "--header", "X-Scope-OrgID: team", env={**os.environ, "SSL_CERT_FILE": right[0]})
        wait_until(lambda: len(server.requests) >= 3, what="requests")
        senders = [pid for pid in children(running.pid) if status(pid)["Name"] == "gospect-sender"]
        assert len(senders) == 1
        assert_it_has_no_privilege(senders[0])
        token.write_text("renewed")
        wait_until(lambda: server.requests[-1][1]["Authorization"] == "Bearer renewed", what="the new token")
        running.send_signal(signal.SIGINT)
        words = running.communicate(timeout=60)[1].decode()
        assert running.returncode == 0 and "secret" not in words and "renewed" not in words
    finally:
        server.stop()
    assert server.requests[0][1]["Authorization"] == "Bearer secret"
    assert server.requests[0][1]["X-Scope-OrgID"] == "team"
    assert server.requests[0][1]["User-Agent"].startswith("gospect/")


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return file.read().split()


def assert_it_has_no_privilege(pid):
    facts = status(pid)
    assert all(int(facts[name], 16) == 0 for name in ("CapPrm", "CapEff", "CapInh", "CapAmb"))
    assert facts["NoNewPrivs"] == "1" and facts["Seccomp"] == "2"
    if os.geteuid() == 0:
        assert facts["Uid"].split() == ["65534"] * 4 and facts["Gid"].split() == ["65534"] * 4
        assert facts["Groups"] == ""
    # It has the socket to gospect and those to the server, and no file of the spool.
    names = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    assert not [name for name in names if "/" in name and name != "/dev/null" and ".push" in name]


@pytest.mark.slow
def test_a_name_is_followed_from_process_to_process(server, tmp_path):
    binary = shutil.copy(golang.build("states", golang.NEWEST), tmp_path / "followed")
    running = gospect.start(*args(server.url, tmp_path / "spool", "followed"))
    pids = []
    for _ in range(2):
        program = Program(binary, "-only", "chan")
        pids.append(str(program.pid))
        wait_until(lambda: pids[-1] in by_process(server.named("wall")), what="its profile")
        program.assert_well()
        program.stop()
    running.send_signal(signal.SIGTERM)
    words = running.communicate(timeout=60)[1].decode().splitlines()
    assert running.returncode == 0 and summary(words)["processes"] == 2
    assert set(by_process(server.named("wall"))) == set(pids)


def test_it_ends_with_the_process_that_it_was_given(targets, server, tmp_path):
    program = targets.start("states", args=("-only", "chan"))
    running = gospect.start(*args(server.url, tmp_path, program.pid))
    wait_until(lambda: server.requests, what="the first request")
    targets.forget(program).stop()
    words = running.communicate(timeout=60)[1].decode().splitlines()
    assert running.returncode == 0 and summary(words)["wait"] == 0
    other = subprocess.Popen(["sleep", "60"])
    try:
        result = gospect.run(*args(server.url, tmp_path, other.pid))
        assert result.status == 1 and "is not a Go program" in result.err and "no Go process was recorded" in result.err
    finally:
        other.kill()
        other.wait()


def test_children_are_pushed_also_those_that_come_later(server, tmp_path):
    binary = golang.build("states", golang.NEWEST)
    script = f"sleep 60 | {binary} -only=chan & (sleep 3; sleep 60 | {binary} -only=chan) & wait"
    shell = subprocess.Popen(["sh", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        running = gospect.start(*args(server.url, tmp_path, shell.pid), "--children")
        wait_until(lambda: len(by_process(server.named("wall"))) == 2, 40, "both programs")
        assert str(shell.pid) not in by_process(server.named("wall"))
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
    # It ends with all of them.
    words = running.communicate(timeout=60)[1].decode().splitlines()
    assert running.returncode == 0 and summary(words)["processes"] == 2, words


@pytest.mark.parametrize("given,said", [
    (("-p", "1"), "no server; use --to pyroscope URL"),
    (("--to", "pyroscope", "-p", "1"), "no URL"),
    (("--to", "graphite", "http://h", "-p", "1"), "unknown kind 'graphite'"),
    (("--to", "pyroscope", "ftp://h", "-p", "1"), "invalid URL ftp://h"),
    (("--to", "pyroscope", "http://h"), "no target"),
    (("--to", "pyroscope", "http://h", "--host", "-p", "1"), "mutually exclusive"),
    (("--to", "pyroscope", "http://h", "--host", "--children"), "--children and --host are mutually exclusive"),
    (("--to", "pyroscope", "grpc://h", "-p", "1"), "does not support gRPC"),
    (("--to", "pyroscope", "http://me:secret@h", "-p", "1"), "--token-file"),
    (("--to", "pyroscope", "http://h", "--token-file", "t", "-p", "1"), "use https:// or grpcs://"),
    (("--to", "pyroscope", "http://h", "--label", "=b", "-p", "1"), "is not KEY=VALUE"),
    (("--to", "pyroscope", "http://h", "--interval", "10ms", "-p", "1"), "duration"),
])
def test_wrong_usage_is_said(given, said, tmp_path):
    assert said in gospect.run("push", *given, "--spool", tmp_path / "none").fails(2)
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_a_server_that_hangs_or_a_sender_that_dies_loses_nothing(targets, server, tmp_path):
    program = targets.start("states", args=("-only", "chan"))
    server.mode = "hang"
    running = gospect.start(*args(server.url, tmp_path, program.pid), "--timeout", "1s")
    wait_until(lambda: len(server.tries) >= 2, 30, "a second try after the time limit")
    server.mode = 200
    wait_until(lambda: server.requests, 30, "a request that is taken")
    for _ in range(2):
        [sender] = [pid for pid in children(running.pid) if status(pid)["Name"] == "gospect-sender"]
        os.kill(int(sender), signal.SIGKILL)
        taken = len(server.requests)
        wait_until(lambda: len(server.requests) > taken + 1, 30, "requests of a new sender")
    # A worker that is killed costs its segment; another one goes on.
    [worker] = [pid for pid in children(running.pid) if status(pid)["Name"] == "gospect-worker"]
    os.kill(int(worker), signal.SIGKILL)
    taken = len(server.requests)
    wait_until(lambda: len(server.requests) > taken + 1, 30, "requests of a new worker")
    running.send_signal(signal.SIGTERM)
    words = running.communicate(timeout=30)[1].decode().splitlines()
    assert running.returncode == 0, words
    numbers = summary(words)
    # The server may have taken one of which the killed sender did not say so: that one comes twice.
    bodies = {body for _, _, body in server.requests}
    assert len(bodies) == numbers["requests"] and numbers["lost"] == numbers["refused"] == numbers["wait"] == 0
    assert any("Timeout was reached" in line or "timed out" in line for line in words), words


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.time_limit(300)
def test_fifty_processes_with_100000_goroutines_fit_into_one_percent(server, tmp_path):
    binary = golang.build("states", golang.NEWEST)
    programs = [Program(binary, "-only", "chan", "-extra", "2000") for _ in range(50)]
    spool = tmp_path / "spool"
    try:
        running = gospect.start("push", "--to", "pyroscope", server.url, *(
            arg for p in programs for arg in ("-p", p.pid)), "--spool", spool)
        # Reading all programs for the first time, and finding out what a tick costs.
        wait_until(lambda: len(by_process(server.named("wall"))) == 50, 120, "all processes")
        time.sleep(60)
        before, began, requests = cpu_seconds(running.pid), time.monotonic(), len(server.requests)
        time.sleep(60)
        share = (cpu_seconds(running.pid) - before) / (time.monotonic() - began)
        assert len(server.requests) - requests > 100
        assert share < 0.01
        assert memory(running.pid) < 100 << 20
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0
        walls = by_process(server.named("wall"))
        for program in programs:
            last = walls[str(program.pid)][-1].profile
            assert last.time_in("main.waitForChannel") == pytest.approx(2000 * last.duration_ns, rel=0.01)
    finally:
        running.kill()
        running.communicate()
        for program in programs:
            program.stop()


def all_of(pid):
    found = [str(pid)]
    for one in found:
        found += children(one)
    return found


def cpu_seconds(pid):
    return sum(int(open(f"/proc/{one}/schedstat", encoding="ascii").read().split()[0]) for one in all_of(pid)) / 1e9


def memory(pid):
    """Bytes, each page that several have as a part."""
    return sum(int(re.search(r"^Pss: +(\d+)", open(f"/proc/{one}/smaps_rollup", encoding="ascii").read(), re.M)[1]) << 10
               for one in all_of(pid))


@pytest.mark.slow
@pytest.mark.time_limit(900)
def test_a_server_that_is_down_for_ten_minutes_gets_all_of_them(targets, tmp_path):
    program = targets.start("states", args=("-only", "chan"))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    running = gospect.start(*args(f"http://127.0.0.1:{port}", tmp_path, program.pid, interval="10s"))
    time.sleep(600)
    waiting = len(list((tmp_path / "pyroscope").glob("*.push")))
    server = receivers.Pyroscope(port)
    try:
        # It tries again after a minute and a quarter at most.
        wait_until(lambda: len(server.requests) > waiting, 120, "all that waited, and one more")
        running.send_signal(signal.SIGTERM)
        words = running.communicate(timeout=60)[1].decode().splitlines()
        numbers = summary(words)
        assert running.returncode == 0 and waiting >= 55, words
        assert numbers["sent"] == numbers["requests"] and numbers["lost"] == numbers["refused"] == numbers["wait"] == 0
        assert_no_time_is_missing(server.named("wall"))
    finally:
        server.stop()
