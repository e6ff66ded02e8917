""".deb and .rpm: clean, and installed in fresh systems they record."""

import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from lib import pprof, release
from lib.golang import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
import debian  # noqa: E402

# A fresh Debian is made once.
SYSTEMS = ROOT / "build-dist" / "systems"


def mirror():
    lines = subprocess.run(["apt-get", "indextargets", "--format", "$(RELEASE) $(REPO_URI)", "Created-By: Packages"],
                           capture_output=True, text=True, check=True).stdout.splitlines()
    return next(line.split()[1] for line in lines if line.split()[0] == "bookworm")


def archive_of(system):
    """For Ubuntu it is that which debootstrap knows."""
    return [mirror()] if system == "bookworm" else []


@pytest.fixture(params=["bookworm", "jammy"])
def fresh(request, tmp_path):
    """A fresh Debian 12 or Ubuntu 22.04, without anything that is not essential."""
    system = request.param
    kept = SYSTEMS / f"{system}.tar"
    if not kept.exists():
        SYSTEMS.mkdir(parents=True, exist_ok=True)
        keys = [] if system == "bookworm" else [f"--keyring={debian.ubuntu_keyring()}"]
        made = release.run("debootstrap", "--variant=minbase", *keys, system, tmp_path / "made", *archive_of(system),
                           seconds=900)
        if "Failed getting release file" in made.text + made.err:
            pytest.skip(f"the archive of {system} cannot be reached")
        assert made.status == 0, made.text[-2000:] + made.err[-2000:]
        partial = kept.with_suffix(".partial")
        subprocess.run(["tar", "--numeric-owner", "-C", tmp_path / "made", "-cf", partial, "."], check=True)
        partial.rename(kept)
    root = tmp_path / system
    root.mkdir()
    subprocess.run(["tar", "--numeric-owner", "-C", root, "-xpf", kept], check=True)
    return root


def record_in(root, pid):
    inside = release.in_root(root)
    release.run(*inside, "/usr/bin/gospect", "record", "-p", pid, "-d", "2s", "-o", "/out.pb.gz").ok()
    assert pprof.read(root / "out.pb.gz").samples


@pytest.mark.time_limit(1800)
def test_debs_install_in_a_fresh_system_and_record(states, fresh):
    shutil.copy(release.deb(), fresh)
    inside = release.in_root(fresh)
    release.run(*inside, "/usr/bin/dpkg", "-i", f"/{release.deb().name}").ok()
    record_in(fresh, states.pid)
    listed = release.run(*inside, "/usr/bin/dpkg", "-L", "gospect").text.split()
    manuals = {f"/usr/share/man/man1/{path.name}.gz" for path in (ROOT / "docs" / "reference").glob("*.1")}
    assert manuals | {"/usr/bin/gospect", "/usr/share/doc/gospect/copyright"} <= set(listed)
    assert not list((fresh / "etc" / "systemd").rglob("gospect*"))  # not enabled
    release.run(*inside, "/usr/bin/dpkg", "--verify", "gospect").ok()
    release.run(*inside, "/usr/bin/dpkg", "-P", "gospect").ok()
    assert not (fresh / "usr/bin/gospect").exists() and not (fresh / "usr/share/doc/gospect").exists()


@pytest.mark.parametrize("machine", ["amd64", "arm64"])
def test_lintian_finds_nothing(machine):
    done = release.run("lintian", "--allow-root", "--fail-on", "error,warning", "--display-info", "--tag-display-limit", "0",
                       "--suppress-tags", "spelling-error-in-binary",  # names of instructions
                       release.deb(machine), env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", "LC_ALL": "C"})
    assert done.status == 0 and not re.findall(r"^[EWI]: .*", done.text, re.M), done.text + done.err


@pytest.mark.parametrize("machine", ["amd64", "arm64"])
def test_rpms_have_the_files_of_the_archive(machine, tmp_path):
    subprocess.run(f"rpm2cpio {release.rpm(machine)} | cpio -idm --quiet", shell=True, cwd=tmp_path, check=True)
    release.unpack(tmp_path / "archive", machine)
    unpacked = next((tmp_path / "archive").iterdir())
    ours = {str(path.relative_to(unpacked)): path.read_bytes() for path in unpacked.rglob("*") if path.is_file()}
    theirs = {str(path.relative_to(tmp_path / "usr")): path.read_bytes()
              for path in (tmp_path / "usr").rglob("*") if path.is_file()}
    assert ours == theirs
    query = subprocess.run(["rpm", "-qp", "--qf", "%{NAME} %{VERSION} %{ARCH} %{LICENSE}", release.rpm(machine)],
                           capture_output=True, text=True, check=True).stdout
    assert query == f"gospect {release.VERSION} {release.DEB_MACHINES[machine]} Apache-2.0"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is missing")
def test_systemd_takes_the_units(tmp_path):
    """And finds them confined: 10 is a service without any rule."""
    subprocess.run(["dpkg-deb", "-x", release.deb(), tmp_path], check=True)
    units = tmp_path / "usr" / "lib" / "systemd" / "system"
    names = sorted(path.name for path in units.iterdir())
    assert names == ["gospect-push.service", "gospect-serve.service"]
    for target in "sysinit", "basic", "network-online", "multi-user", "shutdown":
        (units / f"{target}.target").write_text("[Unit]\nDescription=of the test\n")
    done = release.run("systemd-analyze", "verify", "--man=no", f"--root={tmp_path}", *names)
    assert done.status == 0 and not done.err, done.err
    (units / names[0]).write_text((units / names[0]).read_text().replace("ExecStart=/usr/bin/gospect", "ExecStart=/usr/bin/gone"))
    assert release.run("systemd-analyze", "verify", "--man=no", f"--root={tmp_path}", names[0]).status != 0
    for name in names:
        said = release.run("systemd-analyze", "security", "--offline=yes", f"--root={tmp_path}", name).text
        assert float(re.search(r"Overall exposure level for \S+: ([\d.]+)", said)[1]) < 5, said


def test_rpms_install_in_an_empty_root_and_record(states, tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    release.run("rpm", "--root", root, "--dbpath", "/var/lib/rpm", "-i", "--nodeps", release.rpm()).ok()
    record_in(root, states.pid)
    assert (root / "usr/share/man/man1/gospect.1.gz").exists()


def test_the_versions_are_one():
    first = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)[1]
    assert first == release.VERSION
    field = subprocess.run(["dpkg-deb", "-f", release.deb(), "Version"], capture_output=True, text=True, check=True)
    assert field.stdout.strip() == release.VERSION
    assert pathlib.Path(release.image()).exists()
