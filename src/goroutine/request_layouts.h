/*
 * Where the servers of net/http, golang.org/x/net and gRPC keep what request_names.c reads, as far
 * as the program's own types say so. For the files of this room alone.
 */
#ifndef GOROUTINE_REQUEST_LAYOUTS_H
#define GOROUTINE_REQUEST_LAYOUTS_H

#include "golayout/golayout.h"
#include "image/image.h"
#include "labels/go_header_map.h"

enum serving { SERVES_HTTP1, SERVES_HTTP2, SERVES_GRPC, SERVINGS };

/* Offsets of fields; of those that a version does not have, NO_FIELD. */
#define NO_FIELD UINT32_MAX

struct http1_layout {
	uint32_t current;       /* in conn: the pointer to the response */
	uint32_t conn, request; /* in response */
};

struct http2_layout {
	uint32_t stream, conn, request; /* in responseWriterState */
	uint32_t of_stream;             /* in stream: the connection */
	bool is_embedded;               /* the request is in the state (Go 1.27) */
};

struct grpc_layout {
	uint32_t stream; /* in what is on the stack: a pointer to what has the method; or NO_FIELD
			  */
	uint32_t transport, method, context;
	uint64_t transports[2]; /* types; 0: the program does not have it */
};

/* Up to the end of these, at most REQUEST_BYTES. */
struct request_layout {
	uint32_t method, url, header, major;
	uint32_t pattern;
	uint32_t pat;  /* Go 1.22: a pointer to a string */
	uint32_t path; /* in url.URL */
	uint32_t bytes;
};

struct server_code {
	enum serving serving;
	uint64_t start, end;
	uint32_t layout; /* of HTTP/2: in http2 */
};

enum { MOST_CODES = 8, MOST_HTTP2 = 3, REQUEST_BYTES = 512 };

struct request_layouts {
	enum go_map_kind map_kind;
	struct server_code codes[MOST_CODES];
	size_t code_count; /* 0: the program has no such server */
	struct http1_layout http1;
	struct http2_layout http2[MOST_HTTP2];
	struct grpc_layout grpc;
	struct request_layout request, embedded;
};

struct error *request_layouts_find(struct target *t, const struct image *img,
				   const struct golayout *lay,
				   struct request_layouts *ret) must_check;

#endif
