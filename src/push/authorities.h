/* Certificates of the authorities that sign those of servers: the user's file, or the system's. */
#ifndef PUSH_AUTHORITIES_H
#define PUSH_AUTHORITIES_H

#include <stddef.h>

#include "base/error.h"

/*
 * `path`: PEM; NULL: SSL_CERT_FILE, else the first file that is there of those in which Linux
 * distributions keep them. NULL is returned where there is none: libcurl may have its own place.
 * Call it before privilege is given up. The caller frees it.
 */
struct error *authorities_read(const char *path, char **ret, size_t *ret_size) must_check;

#endif
