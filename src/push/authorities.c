#include "push/authorities.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/regular_file.h"

enum { MOST_BYTES = 4 << 20 };

/* Where distributions have them, as Go's crypto/x509 looks for them (root_linux.go). */
static const char *const usual[] = {
	"/etc/ssl/certs/ca-certificates.crt",                /* Debian, Ubuntu, Alpine, Arch */
	"/etc/pki/tls/certs/ca-bundle.crt",                  /* Fedora, RHEL */
	"/etc/ssl/ca-bundle.pem",                            /* SUSE */
	"/etc/pki/tls/cacert.pem",                           /* OpenELEC */
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* RHEL 7 */
	"/etc/ssl/cert.pem",                                 /* Alpine */
};

static const char *path_of_system(void)
{
	const char *given = getenv("SSL_CERT_FILE");

	if (given && *given)
		return given;
	for (size_t i = 0; i < ARRAY_SIZE(usual); i++)
		if (!access(usual[i], R_OK))
			return usual[i];
	return NULL;
}

/* All of it, or -1 and errno. */
static ssize_t read_whole(int fd, char *bytes, size_t most)
{
	size_t at = 0;

	while (at < most) {
		ssize_t n = read(fd, bytes + at, most - at);

		if (!n)
			return at;
		if (n < 0)
			return -1;
		at += n;
	}
	errno = EFBIG;
	return -1;
}

struct error *authorities_read(const char *path, char **ret, size_t *ret_size)
{
	_cleanup_free_ char *bytes = NULL;
	_cleanup_close_ int fd = -1;
	ssize_t n;

	*ret = NULL;
	*ret_size = 0;
	path = path ? path : path_of_system();
	if (!path)
		return NULL;
	bytes = malloc(MOST_BYTES);
	if (!bytes)
		return &error_no_memory;
	fd = regular_file_open(path);
	n = fd < 0 ? -1 : read_whole(fd, bytes, MOST_BYTES);
	if (n < 0)
		return error_errno(ERROR_FAILED, errno, "cannot read the certificates in %s", path);
	if (!memmem(bytes, n, "-----BEGIN CERTIFICATE-----", 27))
		return error_format(ERROR_FAILED, "%s has no certificate (PEM)", path);
	*ret = take_ptr(bytes);
	*ret_size = n;
	return NULL;
}
