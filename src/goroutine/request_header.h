/*
 * The traceparent of a request, read from outside: in its header, which is a map[string][]string,
 * or in the metadata of a gRPC call's context. Nothing else of them is copied, but keys of its
 * length. For the files of this room alone.
 */
#ifndef GOROUTINE_REQUEST_HEADER_H
#define GOROUTINE_REQUEST_HEADER_H

#include "labels/go_header_map.h"
#include "labels/traceparent.h"
#include "target/target.h"

struct trace_ids {
	char trace[TRACE_ID_LENGTH];
	char span[SPAN_ID_LENGTH];
};

/* False: it has none, or none that is right. */
bool request_header_ids(struct target *t, enum go_map_kind kind, uint64_t header,
			struct trace_ids *ret);

/* `context`: the data of an interface of that type. */
bool request_context_ids(struct target *t, enum go_map_kind kind, uint64_t context,
			 struct trace_ids *ret);

#endif
