"""The OCI image of all machines, by umoci: gospect, its licences, the certificates that push needs, and nothing else."""

import hashlib
import json
import shutil
import time

from dist import authorities, files
from dist.release import SUMMARY, run

INDEX = "application/vnd.oci.image.index.v1+json"


def fill(release, tree, machine):
    root = release.work / f"image-{machine.name}"
    shutil.rmtree(root, ignore_errors=True)
    (root / "usr" / "bin").mkdir(parents=True)
    shutil.copy(tree / "usr" / "bin" / "gospect", root / "usr" / "bin")
    shutil.copytree(tree / "usr" / "share" / "doc", root / "usr" / "share" / "doc")
    authorities.place(root)
    (root / "tmp").mkdir()
    files.settle(root, release.date)
    (root / "tmp").chmod(0o1777)
    return root


def add(release, layout, tree, machine):
    """The image of one kind of machine, with its name as the tag."""
    root = fill(release, tree, machine)
    image = f"{layout}:{machine.name}"
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(release.date))
    run("umoci", "new", "--image", image)
    for name in "usr", "etc", "tmp":
        run("umoci", "insert", "--rootless", "--image", image, "--history.created", moment,
            "--history.created_by", f"gospect {release.version}: /{name}", root / name, f"/{name}")
    run("umoci", "config", "--image", image, "--no-history", "--created", moment, "--os", "linux",
        "--architecture", machine.name, "--config.entrypoint", "/usr/bin/gospect", "--config.env", "PATH=/usr/bin",
        "--config.label", "org.opencontainers.image.title=gospect",
        "--config.label", f"org.opencontainers.image.version={release.version}",
        "--config.label", f"org.opencontainers.image.description={SUMMARY}",
        "--config.label", "org.opencontainers.image.licenses=Apache-2.0")


def join(release, layout):
    """Makes one image of those of the kinds of machine: an index of which the layout's names it."""
    path = layout / "index.json"
    top = json.loads(path.read_text())
    parts = []
    for part in sorted(top["manifests"], key=lambda p: p["annotations"]["org.opencontainers.image.ref.name"]):
        machine = part.pop("annotations")["org.opencontainers.image.ref.name"]
        parts.append({**part, "platform": {"os": "linux", "architecture": machine}})
    data = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": parts}, sort_keys=True).encode()
    digest = hashlib.sha256(data).hexdigest()
    (layout / "blobs" / "sha256" / digest).write_bytes(data)
    path.write_text(json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [
        {"mediaType": INDEX, "digest": f"sha256:{digest}", "size": len(data),
         "annotations": {"org.opencontainers.image.ref.name": release.version,
                         "io.containerd.image.name": f"docker.io/library/gospect:{release.version}"}}]}, sort_keys=True))


def make(release, trees):
    layout = release.work / "image"
    shutil.rmtree(layout, ignore_errors=True)
    run("umoci", "init", "--layout", layout)
    for machine, tree in trees:
        add(release, layout, tree, machine)
    run("umoci", "gc", "--layout", layout)
    join(release, layout)
    files.settle(layout, release.date)
    files.write_tar(release.out / f"gospect-{release.version}-oci.tar", layout, ".", release.date)
