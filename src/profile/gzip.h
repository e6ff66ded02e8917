/* A gzip stream into a file, for writers that produce bytes piece by piece. */
#ifndef PROFILE_GZIP_H
#define PROFILE_GZIP_H

#include <stddef.h>
#include <stdio.h>
#include <zlib.h>

#include "base/error.h"

struct gzip {
	z_stream stream;
	FILE *out;
};

/* After success, call gzip_close(). Failed writes show in the FILE. */
struct error *gzip_open(struct gzip *gz, FILE *out) must_check;
void gzip_write(struct gzip *gz, const void *bytes, size_t size);
/* Writes the rest and frees the memory. */
void gzip_close(struct gzip *gz);

#endif
