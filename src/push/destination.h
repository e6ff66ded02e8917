/*
 * The servers that profiles are pushed to. A segment of a process is one request, whose body is
 * made where the process is read, kept in the spool, and sent as it is.
 */
#ifndef PUSH_DESTINATION_H
#define PUSH_DESTINATION_H

#include "base/error.h"
#include "base/strbuf.h"

struct push_segment;

struct destination {
	const char *name; /* of --to */
	const char *path; /* below the URL; NULL: it takes gRPC alone */
	const char *grpc_path;
	const char *content_type;
	bool is_gzipped; /* the body */
	bool has_links;  /* a sample may belong to a span */
	struct error *(*encode)(const struct push_segment *s, struct strbuf *ret);
};

/* NULL: there is no such kind. */
const struct destination *destination_named(const char *name);

#endif
