/* From a sink to a stream, which the writers of formats write to. */
#ifndef LIB_SINK_H
#define LIB_SINK_H

#include <gospect/write.h>
#include <stdio.h>

#include "base/error.h"

struct sink_stream {
	struct gospect_sink sink;
	FILE *file;
	int failed; /* errno of the first write that failed; 0: none */
};

struct error *sink_open(const struct gospect_sink *sink, struct sink_stream *ret) must_check;
/* Closes the stream. Returns `err` if there is one, else why something was not written. Consumes
 * err. */
struct error *sink_close(struct sink_stream *s, struct error *err) must_check;

/* Writes to it at once, without a stream. */
struct error *sink_put(const struct gospect_sink *sink, const void *bytes, size_t size) must_check;

#endif
