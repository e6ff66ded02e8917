"""The rpm, by rpmbuild."""

from dist import changelog
from dist.release import DESCRIPTION, SUMMARY, run

SPEC = """\
Name: gospect
Version: {version}
Release: 1
Summary: {summary}
License: Apache-2.0
AutoReqProv: no

%description
{description}

%install
mkdir -p %{{buildroot}}
cp -a {tree}/usr %{{buildroot}}/

%files
%attr(0755, root, root) /usr/bin/gospect
%attr(0644, root, root) /usr/lib/systemd/system/gospect-*.service
%attr(0644, root, root) /usr/share/man/man1/*
%attr(0644, root, root) /usr/share/bash-completion/completions/gospect
%attr(0644, root, root) /usr/share/zsh/site-functions/_gospect
%attr(0644, root, root) /usr/share/fish/vendor_completions.d/gospect.fish
%dir %attr(0755, root, root) /usr/share/doc/gospect
%doc %attr(0644, root, root) /usr/share/doc/gospect/*

%changelog
{changelog}
"""

# Nothing is looked for, changed or generated in the files. The packages of all machines come from one
# machine: what is in them does not say which.
DEFINES = {
    "__os_install_post": "%{nil}",
    "__find_debuginfo_files": "%{nil}",
    "debug_package": "%{nil}",
    "_build_id_links": "none",
    "_buildhost": "gospect",
    "_binary_payload": "w9.xzdio",
    "use_source_date_epoch_as_buildtime": "1",
    "clamp_mtime_to_source_date_epoch": "1",
    "source_date_epoch_from_changelog": "0",
    "_rpmfilename": "%{NAME}-%{VERSION}.%{ARCH}.rpm",
    "_binary_filedigest_algorithm": "8",
}


def make(release, tree, machine):
    top = release.work / f"rpm-{machine.name}"
    top.mkdir(exist_ok=True)
    spec = top / "gospect.spec"
    spec.write_text(SPEC.format(version=release.version, summary=SUMMARY, description=DESCRIPTION, tree=tree,
                                changelog=changelog.rpm(release.date)))
    defines = {**DEFINES, "_topdir": top, "_rpmdir": release.out, "_dbpath": top / "db"}
    words = [word for key, value in defines.items() for word in ("--define", f"{key} {value}")]
    run("rpmbuild", "-bb", "--quiet", "--target", f"{machine.rpm}-linux", *words, spec)
