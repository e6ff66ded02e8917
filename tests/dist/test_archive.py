"""The archives: the program alone, in a root that has nothing but /proc."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile

import pytest

from lib import arm64, gotrace, golang, grpc, pprof, receivers, release, terminal, traceback
from lib.process import Program
from lib.golang import ROOT

FILES = {
    "bin/gospect", "share/bash-completion/completions/gospect", "share/zsh/site-functions/_gospect",
    "share/fish/vendor_completions.d/gospect.fish", "share/doc/gospect/LICENSE", "share/doc/gospect/CHANGELOG.md",
    "share/doc/gospect/SECURITY.md", "share/doc/gospect/THIRD-PARTY-NOTICES",
    "lib/systemd/system/gospect-push.service", "lib/systemd/system/gospect-serve.service",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """An empty one, with gospect in it."""
    folder = tmp_path_factory.mktemp("empty")
    program = release.unpack(tmp_path_factory.mktemp("archive"))
    shutil.copy(program, folder)
    folder.chmod(0o755)  # as a root is: what sends profiles runs as nobody
    return folder


@pytest.fixture
def alone(root):
    def run(*args, **options):
        return release.run(*release.in_root(root), "/gospect", *args, **options)
    return run


def test_sums_are_those_of_all_files():
    lines = (release.DIST / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    assert sums == {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
                    for path in release.DIST.iterdir() if path.name != "SHA256SUMS"}
    assert release.archive().name in sums and len(sums) == 10


@pytest.mark.parametrize("machine,kind", [("amd64", "x86-64"), ("arm64", "AArch64")])
def test_an_archive_has_each_file(machine, kind, tmp_path):
    with tarfile.open(release.archive(machine)) as tar:
        members = tar.getmembers()
    prefix = f"gospect-{release.VERSION}-linux-{machine}/"
    manuals = {f"share/man/man1/{path.name}.gz" for path in (ROOT / "docs" / "reference").glob("*.1")}
    assert {m.name.removeprefix(prefix) for m in members if m.isfile()} == FILES | manuals
    assert {(m.uid, m.gid, m.uname, m.mtime) for m in members} == {(0, 0, "root", members[0].mtime)}
    program = release.unpack(tmp_path, machine)
    header = subprocess.run(["readelf", "-hld", program], capture_output=True, text=True, check=True).stdout
    assert kind in header.replace("X86-64", "x86-64") and "INTERP" not in header and "NEEDED" not in header
    assert str(ROOT).encode() not in program.read_bytes()


def test_it_says_its_version_and_needs_nothing(root, alone):
    assert alone("--version").ok().text.split()[-1] == release.VERSION
    assert {path.name for path in root.iterdir()} == {"gospect", "proc"}


def test_ps_and_doctor(states, alone):
    assert re.search(rf"^ *{states.pid} ", alone("ps").ok().text, re.M)
    assert "kernel" in alone("doctor").text
    name = next(line for line in alone("doctor").text.splitlines() if "uid 0" in line)
    assert "uid 0" in name


def test_dump_has_the_goroutines_of_the_runtime(states, alone):
    found = traceback.parse(alone("dump", "-p", states.pid).ok().text)
    expected = traceback.parse(states.stack())
    waiting = {g.id for g in expected.values() if g.state.startswith("chan ")}
    assert waiting and {id: found[id].frames[0].func for id in waiting} == \
        {id: expected[id].frames[0].func for id in waiting}


def test_record_and_report(states, alone, tmp_path):
    file = tmp_path / "out.pb.gz"
    file.write_bytes(alone("record", "-p", states.pid, "-d", "2s", "-f", "pprof", "-o", "-").ok().out)
    profile = pprof.read(file)
    assert {"wall", "cpu", "samples"} <= {kind for kind, _ in profile.sample_types} and profile.samples


def test_a_trace_is_read_by_go(untouched, alone, tmp_path):
    program = untouched(golang.build("states", golang.NEWEST), "-only", "chan")
    file = tmp_path / "out.trace"
    file.write_bytes(alone("trace", "-p", program.pid, "-d", "1s", "-f", "go", "-o", "-").ok().out)
    assert gotrace.read_valid(file)["goroutines"]


@pytest.mark.parametrize("kind", ["xterm-256color", "tmux-256color", "vt100", "linux", "alacritty"])
def test_top_draws_without_descriptions_of_terminals(states, root, kind):
    with terminal.Terminal(*release.in_root(root), "/gospect", "top", "-p", states.pid, env={"TERM": kind}) as t:
        t.wait_for("goroutines", str(states.pid))
        t.press("q")
        assert t.status() == 0, t.err()


def push(run, kind, url, pid, *more):
    """Its last line."""
    result = run("push", "--to", kind, url, "-p", pid, "--interval", "1s", "-d", "3s", "--spool", "/spool", *more)
    return result.err.splitlines()[-1], result.err


@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
def test_push_to_a_server_whose_name_is_in_etc_hosts(states, root, alone, tmp_path, monkeypatch, tls):
    """Certificates are where Fedora has them."""
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    certificate = receivers.certificate(tmp_path, "server", "DNS:profiles.test") if tls else None
    server = receivers.Pyroscope(tls=certificate)
    url = server.url.replace("127.0.0.1", "profiles.test")
    etc = root / "etc"
    try:
        if tls:
            _, words = push(alone, "pyroscope", url, states.pid)
            assert "there are no certificates of authorities on this machine" in words, words
            (etc / "pki/tls/certs").mkdir(parents=True)
            (etc / "pki/tls/certs/ca-bundle.crt").write_bytes(certificate[0].read_bytes())
        etc.mkdir(exist_ok=True)
        (etc / "hosts").write_text("127.0.0.1 profiles.test\n")
        line, words = push(alone, "pyroscope", url, states.pid)
        assert re.search(r"[1-9]\d* requests: [1-9]\d* sent, 0 lost, 0 refused, 0 wait", line), words
        assert len(server.requests) >= 2 and server.named("wall")[0].labels["service_name"] == "states"
        if tls:
            other = receivers.certificate(tmp_path, "other", "DNS:profiles.test")
            (etc / "pki/tls/certs/ca-bundle.crt").write_bytes(other[0].read_bytes())
            taken = len(server.requests)
            _, words = push(alone, "pyroscope", url, states.pid)
            assert "cannot push to" in words and "certificate" in words and len(server.requests) == taken
    finally:
        server.stop()
        shutil.rmtree(etc, ignore_errors=True)
        shutil.rmtree(root / "spool", ignore_errors=True)


def test_push_over_grpc(root, alone, tmp_path):
    receiver = Program(grpc.program("receiver"), tmp_path)
    try:
        line, words = push(alone, "otlp", json.loads(receiver.ask("urls"))["otlp-grpc"], receiver.pid)
        assert re.search(r"[1-9]\d* requests: [1-9]\d* sent, 0 lost, 0 refused, 0 wait", line), words
        [first, *_] = sorted(tmp_path.glob("*-otlp.json"))
        assert json.loads(first.read_text())["resource"]["process.pid"] == receiver.pid
        receiver.assert_well()
    finally:
        receiver.stop()
        shutil.rmtree(root / "spool", ignore_errors=True)


@pytest.mark.time_limit(300)
def test_arm64_in_an_empty_root_of_an_emulated_machine(tmp_path, monkeypatch):
    program = release.unpack(tmp_path / "archive", "arm64")
    monkeypatch.setattr(arm64, "BUILD", program.parent)
    if arm64.why_not():
        pytest.skip(arm64.why_not())
    share = tmp_path / "share"
    share.mkdir()
    machine = arm64.Machine(share)
    try:
        target = arm64.Program(machine, golang.build("states", golang.NEWEST, golang.PLAIN, golang.ARM64))
        machine.run("mkdir -p /tmp/root/proc; cp /usr/bin/gospect /tmp/root; mount -t proc proc /tmp/root/proc").ok()
        found = traceback.parse(machine.run(f"chroot /tmp/root /gospect dump -p {target.pid}", 120).ok().text)
        expected = traceback.parse(target.stack())
        waiting = {g.id for g in expected.values() if g.state.startswith("chan ")}
        assert waiting and {id: found[id].frames[0].func for id in waiting} == \
            {id: expected[id].frames[0].func for id in waiting}
        (tmp_path / "out.pb.gz").write_bytes(
            machine.run(f"chroot /tmp/root /gospect record -p {target.pid} -d 3s -f pprof -o -", 120).ok().out)
        assert pprof.read(tmp_path / "out.pb.gz").samples
        # The machine has no network: what the server does not take waits.
        pushed = machine.run(f"chroot /tmp/root /gospect push --to pyroscope http://127.0.0.1:9 -p {target.pid} "
                             "--interval 1s -d 4s --spool /spool 2>&1", 120).ok().text
        assert "cannot push to" in pushed and re.search(r"[1-9]\d* wait in the spool", pushed), pushed
        target.assert_well()
    finally:
        machine.stop()


def test_gospect_can_be_linked_with_other_versions_of_the_libraries(states, tmp_path):
    with tarfile.open(release.DIST / f"gospect-{release.VERSION}-relink.tar.gz") as tar:
        tar.extractall(tmp_path)
    script = next(tmp_path.glob("*/amd64/relink"))
    # A libelf of one's own: it is Debian's, and says so.
    mine = tmp_path / "mine"
    mine.mkdir()
    library = shutil.copy("/usr/lib/x86_64-linux-gnu/libelf.a", mine)
    (tmp_path / "mark.c").write_text('const char my_libelf_mark[] = "this is my libelf";\n')
    subprocess.run(["gcc", "-c", tmp_path / "mark.c", "-o", tmp_path / "mark.o"], check=True)
    subprocess.run(f"cd {tmp_path} && ar x {library} elf_version.o && objcopy --add-section .mine=mark.c "
                   f"elf_version.o && ar r {library} elf_version.o", shell=True, check=True)
    made = tmp_path / "gospect"
    subprocess.run([script, "-L", mine, "-o", made], check=True, cwd=tmp_path)
    assert b"my_libelf_mark" in made.read_bytes()
    assert release.run(made, "dump", "-p", states.pid).ok().text.startswith("goroutine ")


def linked(machine):
    """The packages that the SBOM says are linked into the program of that machine."""
    sbom = release.sbom()
    ids = {r["relatedSpdxElement"] for r in sbom["relationships"] if r["relationshipType"] == "STATIC_LINK"
           and r["spdxElementId"].endswith("-" + machine)}
    return [p for p in sbom["packages"] if p["SPDXID"] in ids]


@pytest.mark.parametrize("machine", ["amd64", "arm64"])
def test_notices_have_each_library_of_the_sbom(tmp_path, machine):
    release.unpack(tmp_path, machine)
    text = next(tmp_path.glob("*/share/doc/gospect/THIRD-PARTY-NOTICES")).read_text()
    libraries = linked(machine)
    assert {"glibc", "elfutils", "libseccomp", "zlib", "ncurses", "curl", "c-ares", "nghttp2"} <= {p["name"] for p in libraries}
    for package in libraries:
        assert re.search(rf"^  {re.escape(package['name'])} +{re.escape(package['versionInfo'])} ", text, re.M)
    assert "GNU LESSER GENERAL PUBLIC LICENSE" in text and "WITHOUT WARRANTY" in text
    assert os.path.getsize(release.archive()) < 20e6
