"""sbom.spdx.json: what gospect consists of, as SPDX 2.3."""

import hashlib
import json
import re
import time

from dist import authorities, files


def identity(*words):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", "-".join(words))


def package(name, version, licence, **more):
    return {"SPDXID": identity("Package", name, version), "name": name, "versionInfo": version,
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": licence,
            "licenseDeclared": licence, "copyrightText": "NOASSERTION", **more}


def of_source(source):
    locator = f"pkg:deb/debian/{source.name}@{source.version.replace('+', '%2B').replace(':', '%3A')}?arch=source"
    return package(source.name, source.version, source.licence, supplier="Organization: Debian", externalRefs=[
        {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": locator}])


def of_binary(release, machine, tree):
    sum_of = files.sha256(tree / "usr" / "bin" / "gospect")
    made = package("gospect", release.version, "Apache-2.0", supplier="Organization: gospect",
                   primaryPackagePurpose="APPLICATION", packageFileName=f"usr/bin/gospect ({machine.name})",
                   checksums=[{"algorithm": "SHA256", "checksumValue": sum_of}])
    return {**made, "SPDXID": identity("Package-gospect", release.version, machine.name)}


def of_authorities():
    """Of the image alone."""
    name, version = authorities.PACKAGE, authorities.version()
    return package(name, version, authorities.LICENCE, supplier="Organization: Debian", externalRefs=[
        {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
         "referenceLocator": f"pkg:deb/debian/{name}@{version.replace('+', '%2B')}?arch=all"}])


def relation(one, kind, other):
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def document(release, made):
    """`made`: (machine, tree, packages) of each kind of machine."""
    sources = sorted({p.source for _, _, packages in made for p in packages})
    parts = [of_source(source) for source in sources]
    relations = []
    for machine, tree, packages in made:
        binary = of_binary(release, machine, tree)
        parts.append(binary)
        relations.append(relation("SPDXRef-DOCUMENT", "DESCRIBES", binary["SPDXID"]))
        relations += [relation(binary["SPDXID"], "STATIC_LINK", identity("Package", s.name, s.version))
                      for s in sorted({p.source for p in packages})]
    parts.append(of_authorities())
    relations.append(relation("SPDXRef-DOCUMENT", "DESCRIBES", parts[-1]["SPDXID"]))
    digest = hashlib.sha256(json.dumps([parts, relations]).encode()).hexdigest()
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"gospect-{release.version}", "documentNamespace": f"https://spdx.org/spdxdocs/gospect-{digest}",
        "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(release.date)),
                         "creators": ["Tool: gospect-make-dist"]},
        "hasExtractedLicensingInfos": [{"licenseId": "LicenseRef-public-domain", "name": "public domain",
                                        "extractedText": "The author has put this into the public domain."}],
        "packages": parts, "relationships": relations,
    }


def make(release, made):
    (release.out / "sbom.spdx.json").write_text(json.dumps(document(release, made), indent=2, sort_keys=True) + "\n")
