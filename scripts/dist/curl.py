"""A small static libcurl, which sends profiles: HTTP and HTTPS, HTTP/2 for gRPC.

Debian's libcurl.a has all protocols, and needs libraries that have no static form. This one is made of the same
source package: GnuTLS, which `serve` has too, nghttp2, and c-ares, as a static glibc cannot load what resolves names.
"""

import os
import shutil

from dist import debian_source, linked
from dist.release import cache, run

PROTOCOLS = ("dict", "file", "ftp", "gopher", "imap", "ldap", "ldaps", "mqtt", "pop3", "rtsp", "smb", "smtp", "telnet",
             "tftp")
FEATURES = ("alt-svc", "cookies", "doh", "hsts", "manual", "netrc", "ntlm", "progress-meter", "tls-srp",
            "unix-sockets", "websockets", "get-easy-options", "kerberos-auth", "negotiate-auth", "aws", "mime",
            "threaded-resolver", "libcurl-option", "dependency-tracking", "socketpair", "digest-auth", "bearer-auth")
LIBRARIES = ("brotli", "ca-bundle", "ca-path", "libgsasl", "libidn2", "libpsl", "librtmp", "libssh", "libssh2", "zstd",
             "zlib", "libuv", "msh3", "ngtcp2", "nghttp3", "quiche")


def version():
    """Of the source package of this machine's libcurl."""
    return run("dpkg-query", "-W", "-f", "${source:Version}", linked.CURL).strip()


def source():
    """Its folder, with Debian's patches. Fetched once."""
    folder = cache() / "sources" / f"curl-{version()}"
    if not folder.exists():
        partial = folder.with_name(f"{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        debian_source.download(partial, f"curl={version()}")
        debian_source.unpack(partial, partial / "source")
        partial.rename(folder)
    return folder / "source"


def configure(build, folder, prefix):
    """For this kind of machine. Nothing of this machine is found by itself, and no path of it is in the library."""
    compiler = build.machine.compiler
    root = f" --sysroot={build.root}" if build.cross else ""
    flags = f"-O2 -fPIE -fstack-protector-strong -D_FORTIFY_SOURCE=2 -ffile-prefix-map={folder}=."
    environment = {**os.environ, "PKG_CONFIG_LIBDIR": f"{build.root}/usr/lib/{build.machine.triplet}/pkgconfig",
                   "PKG_CONFIG_SYSROOT_DIR": str(build.root) if build.cross else ""}
    run("./configure", f"--host={build.machine.triplet}", f"--prefix={prefix}", "--disable-shared", "--enable-static",
        "--with-gnutls", "--with-nghttp2", "--enable-ares", *(f"--disable-{name}" for name in PROTOCOLS + FEATURES),
        *(f"--without-{name}" for name in LIBRARIES), f"CC={compiler}{root}", f"CFLAGS={flags}",
        f"AR={build.binary('ar')}", f"RANLIB={build.binary('ranlib')}", cwd=folder, env=environment)


def make(build):
    """Into build.curl: include/curl and lib/libcurl.a."""
    prefix = build.curl
    if (prefix / "lib" / "libcurl.a").exists():
        return
    folder = prefix.with_name(f"{prefix.name}-source")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source(), folder, symlinks=True)
    configure(build, folder, prefix)
    for part in "lib", "include":
        run("make", "-C", folder / part, "-j2", "install")
    shutil.rmtree(folder)

