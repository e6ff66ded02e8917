/*
 * HTTP(S) by libcurl, which is loaded when it is needed: other verbs start without it. A static
 * gospect contains it.
 */
#ifndef PUSH_HTTP_CLIENT_H
#define PUSH_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct http_options {
	const char *url; /* with the path */
	const char *content_type;
	bool is_gzipped;
	bool is_grpc;
	const char *const *headers; /* of the user, "NAME: VALUE"; NULL-terminated, or NULL */
	const char *authorities;    /* PEM; NULL: those of the system */
	size_t authorities_size;
	double timeout; /* seconds for one request */
};

struct http_answer {
	int status;         /* 0: there was none, and `text` says why */
	int grpc_status;    /* of gRPC; -1: none */
	double retry_after; /* seconds; 0: not said */
	char text[256];     /* of the server or of libcurl; any bytes, NUL-terminated */
};

struct http_client;

/* ERROR_FAILED: libcurl is missing or lacks something, or there are no certificates. Keeps the
 * options. */
struct error *http_client_open(const struct http_options *o, struct http_client **ret) must_check;
/* POST. `token`: "" for none. */
void http_client_send(struct http_client *c, const void *body, size_t size, const char *token,
		      struct http_answer *ret);

#endif
