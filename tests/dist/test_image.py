"""The image, under runc: with the namespaces, capabilities and seccomp profile of the guide's manifests."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from lib import container, golang, gotrace, pprof, release, traceback, tracing
from lib.golang import ROOT

GUIDE = [ROOT / "docs" / "guide" / name for name in ("kubernetes.md", "daemonset.md")]
# Podman's of Debian 12: the closest to RuntimeDefault of what Debian has. It is of before Docker's, containerd's
# and its own newer ones permit these by these capabilities.
NEWER = {"CAP_PERFMON": "perf_event_open", "CAP_BPF": "bpf"}
SECCOMP = pathlib.Path("/usr/share/containers/seccomp.json")


def manifests():
    """The manifests of the page, as YAML."""
    return [yaml for page in GUIDE for yaml in re.findall(r"<!-- manifest -->\n```yaml\n(.*?)```", page.read_text(), re.S)]


def capabilities():
    """What the manifests add, which has to be the same in each."""
    found = {match for text in manifests() for match in re.findall(r"add: \[(.*?)\]", text)}
    assert len(found) == 1
    return [f"CAP_{name.strip()}" for name in found.pop().split(",")]


def applies(rule, caps):
    includes, excludes = rule.get("includes", {}), rule.get("excludes", {})
    return (set(includes.get("caps", ())) <= set(caps)
            and not set(excludes.get("caps", ())) & set(caps)
            and (not includes.get("arches") or "amd64" in includes["arches"])
            and "amd64" not in excludes.get("arches", ()))


def seccomp(caps, newer=True):
    """The profile for these capabilities, as runc takes it."""
    profile = json.loads(SECCOMP.read_text())
    permitted = [name for cap, name in NEWER.items() if newer and cap in caps]
    rules = [{key: rule[key] for key in ("names", "action", "args", "errnoRet") if rule.get(key) is not None}
             for rule in profile["syscalls"] if applies(rule, caps)]
    for rule in rules:
        rule["names"] = [name for name in rule["names"] if name not in permitted]
    rules += [{"names": permitted, "action": "SCMP_ACT_ALLOW"}] if permitted else []
    return {"defaultAction": profile["defaultAction"], "defaultErrnoRet": profile.get("defaultErrnoRet", 1),
            "architectures": ["SCMP_ARCH_X86_64"], "syscalls": rules}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("image")
    copied = release.run("skopeo", "copy", "--insecure-policy", f"oci-archive:{release.image()}:{release.VERSION}",
                         f"oci:{folder}/layout:gospect")
    assert copied.status == 0, copied.err
    release.run("umoci", "unpack", "--rootless", "--image", f"{folder}/layout:gospect", folder / "bundle").ok()
    return folder / "bundle"


class Container:
    """Runs gospect of the image beside a process, as the sidecar of the guide."""

    def __init__(self, bundle, pid, caps, newer=True):
        self.bundle, self.pid, self.caps, self.newer = bundle, pid, caps, newer
        self.count = 0

    def config(self, args):
        text = json.loads((self.bundle / "config.json").read_text())
        text["process"].update(terminal=False, args=[str(arg) for arg in args], user={"uid": 0, "gid": 0},
                               capabilities={kind: self.caps for kind in ("bounding", "effective", "permitted")},
                               noNewPrivileges=True)
        text["process"].pop("rlimits", None)
        linux = text["linux"]
        linux.pop("uidMappings", None), linux.pop("gidMappings", None), linux.pop("resources", None)
        linux["namespaces"] = [{"type": "pid", "path": f"/proc/{self.pid}/ns/pid"}, {"type": "mount"}, {"type": "ipc"},
                               {"type": "uts"}, {"type": "network"}]
        linux["seccomp"] = seccomp(self.caps, self.newer)
        return text

    def run(self, *args, seconds=60):
        before = (self.bundle / "config.json").read_text()
        self.count += 1
        try:
            (self.bundle / "config.json").write_text(json.dumps(self.config(args)))
            return release.run("runc", "--root", self.bundle.parent / "state", "run",
                               "--bundle", self.bundle, f"gospect-{os.getpid()}-{self.count}", seconds=seconds)
        finally:
            (self.bundle / "config.json").write_text(before)


@pytest.fixture
def contained(targets):
    program = container.Contained(golang.build("states", golang.NEWEST, golang.STRIPPED), "-only=chan", "-spin=1",
                                  user_namespace=False)
    targets.own.append(program)
    return program


def test_the_image_is_one_of_both_machines():
    raw = release.run("skopeo", "inspect", "--raw", f"oci-archive:{release.image()}:{release.VERSION}").ok()
    parts = json.loads(raw.text)["manifests"]
    assert [(p["platform"]["os"], p["platform"]["architecture"]) for p in parts] == [("linux", "amd64"), ("linux", "arm64")]
    for machine in "amd64", "arm64":
        config = json.loads(release.run("skopeo", "--override-arch", machine, "inspect", "--config",
                                        f"oci-archive:{release.image()}:{release.VERSION}").ok().text)
        assert config["architecture"] == machine and config["config"]["Entrypoint"] == ["/usr/bin/gospect"]
        assert config["config"]["Env"] == ["PATH=/usr/bin"]


def test_the_image_has_no_more_than_gospect(bundle):
    files = {str(path.relative_to(bundle / "rootfs")) for path in (bundle / "rootfs").rglob("*") if path.is_file()}
    bundle_of_certificates = "etc/ssl/certs/ca-certificates.crt"
    assert {"usr/bin/gospect", bundle_of_certificates} <= files
    assert all(name.startswith(("usr/share/doc/gospect/", "usr/share/doc/ca-certificates/"))
               for name in files - {"usr/bin/gospect", bundle_of_certificates})


def test_the_image_has_the_certificates_of_debian_alone(bundle):
    """Not one that was added to this machine: push trusts them."""
    names = [name for line in pathlib.Path("/var/lib/dpkg/info/ca-certificates.md5sums").read_text().splitlines()
             for name in line.split()[1:] if name.startswith("usr/share/ca-certificates/")]
    expected = {(pathlib.Path("/") / name).read_text().strip() for name in names}
    text = (bundle / "rootfs/etc/ssl/certs/ca-certificates.crt").read_text()
    found = re.findall(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", text, re.S)
    assert set(found) == expected and len(found) == len(expected) > 50


def test_a_sidecar_of_the_guide_looks_at_its_neighbour(contained, bundle, tmp_path):
    beside = Container(bundle, contained.pid, capabilities())
    assert re.search(rf"^ *{contained.inner} ", beside.run("gospect", "ps").ok().text, re.M)
    found = traceback.parse(beside.run("gospect", "dump", "states").ok().text)
    expected = traceback.parse(contained.stack())
    waiting = {g.id for g in expected.values() if g.state.startswith("chan ")}
    assert waiting and waiting <= set(found)
    file = tmp_path / "out.pb.gz"
    file.write_bytes(beside.run("gospect", "record", "states", "-d", "2s", "-f", "pprof", "-o", "-").ok().out)
    assert pprof.read(file).time_in("main.spin", "cpu") > 5e8


def test_a_capability_of_the_guide_that_is_missing_is_named(contained, bundle):
    few = [name for name in capabilities() if name != "CAP_SYS_PTRACE"]
    result = Container(bundle, contained.pid, few).run("gospect", "dump", "states")
    assert result.status == 1 and "SYS_PTRACE" in result.err


def test_an_old_seccomp_profile_leaves_the_rest_and_is_named(contained, bundle):
    beside = Container(bundle, contained.pid, capabilities(), newer=False)
    result = beside.run("gospect", "record", "states", "-d", "1s", "-f", "folded", "-o", "-").ok()
    assert "a seccomp filter forbids perf_event_open" in result.err and "[running]" in result.text


def test_the_image_traces_with_one_more_capability(contained, bundle, tmp_path):
    beside = Container(bundle, contained.pid, [*capabilities(), "CAP_SYS_NICE"])
    file = tmp_path / "out.trace"
    file.write_bytes(beside.run("gospect", "trace", "states", "-d", "1s", "-f", "go", "-o", "-").ok().out)
    assert gotrace.read_valid(file)["goroutines"]
    tracing.assert_untouched(contained)


# --- What others check ---

@pytest.fixture(scope="session")
def tools():
    """Validators, in a Python environment of their own."""
    folder = ROOT / "build-dist" / "tools"
    with golang.building(folder):
        if not (folder / "ready").exists():
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            subprocess.run([folder / "bin" / "pip", "install", "--quiet", "kubernetes-validate==1.37.0",
                            "spdx-tools==0.8.5"], check=True)
            (folder / "ready").touch()
    return folder / "bin"


def test_the_manifests_of_the_guide_are_those_of_kubernetes(tools, tmp_path):
    texts = manifests()
    assert len(texts) >= 2
    for i, text in enumerate(texts):
        (tmp_path / f"{i}.yaml").write_text(text)
        (tmp_path / f"wrong{i}.yaml").write_text(text.replace("hostPID", "hostPid").replace("shareProcess", "shareproc"))
        command = [tools / "kubernetes-validate", "--strict"]
        done = subprocess.run([*command, tmp_path / f"{i}.yaml"], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert subprocess.run([*command, tmp_path / f"wrong{i}.yaml"], capture_output=True).returncode != 0


def test_the_sbom_is_spdx(tools, tmp_path):
    done = subprocess.run([tools / "pyspdxtools", "-i", release.DIST / "sbom.spdx.json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = tmp_path / "wrong.spdx.json"
    wrong.write_text((release.DIST / "sbom.spdx.json").read_text().replace("STATIC_LINK", "STATICALLY"))
    assert subprocess.run([tools / "pyspdxtools", "-i", wrong], capture_output=True).returncode != 0
