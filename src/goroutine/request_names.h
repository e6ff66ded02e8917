/*
 * What is known of the request that a goroutine serves, read from outside: as labels `method`,
 * `route`, `path`, `trace_id` and `span_id`.
 *
 * The goroutine of a server has a pointer to the server's own record of the request on the outer
 * end of its stack. Nothing says where, so each word there is tried. It counts only if the memory
 * proves it:
 * - net/http, HTTP/1: a *conn, whose curReq is a response whose conn is that *conn;
 * - HTTP/2: a *responseWriter, whose state has a stream and a connection, and the stream has the
 *   same connection;
 * - gRPC: a stream, whose transport is an interface of the type *http2Server or the like.
 * If that request has no route, a copy of it may have one, which a middleware or Go 1.27's HTTP/2
 * has made: another request with the same URL and the same header, by their addresses.
 * Where the fields are, and which types there are, the program says (request_layouts.h), stripped
 * programs too. What cannot be proved is not shown.
 *
 * For the files of this room alone.
 */
#ifndef GOROUTINE_REQUEST_NAMES_H
#define GOROUTINE_REQUEST_NAMES_H

#include "goroutine/goroutines.h"
#include "labels/label_sets.h"
#include "unwind/stacks.h"

struct request_names;

/* *ret is NULL when the program has no such server. */
struct error *request_names_open(struct target *t, const struct image *img,
				 const struct golayout *lay, const struct goroutine_options *wanted,
				 struct request_names **ret) must_check;
void request_names_close(struct request_names *names);

/* A goroutine with a stack. */
struct request_server {
	uint64_t goid;
	uint64_t stack_end;
	uint32_t stack; /* its number */
};

/*
 * Finds what is known, but for the ids, and keeps it until the next call. It counts only if the
 * goroutine has not run between the reading of its stack and the end of this: the caller checks
 * that afterwards. False: nothing is known.
 */
bool request_names_find(struct request_names *names, const struct stacks *stacks,
			const struct request_server *server);
/* Likewise, the ids of that request. They take longer, and may be forgotten again. */
bool request_names_find_ids(struct request_names *names);
void request_names_forget_ids(struct request_names *names);
/* Adds what was found to the set `*labels`; labels of the goroutine's own stay as they are. */
struct error *request_names_add(const struct request_names *names, struct label_sets *sets,
				uint32_t *labels) must_check;

/* See goroutine_set_served_places(). */
void request_names_places(const struct request_names *names,
			  struct served_place ret[SERVED_PLACES]);

/* To be called before each reading of samples of running goroutines. A sample gets a name only if
 * the collector has freed nothing since the call before that: then its words lead to what they led
 * to when it was taken. */
void request_names_begin_samples(struct request_names *names);

/* Likewise, of a goroutine that ran when these words were copied, and runs on. */
struct error *request_names_add_served(struct request_names *names, const struct stacks *stacks,
				       const struct request_server *server,
				       const struct served_words served[SERVED_PLACES],
				       struct label_sets *sets, uint32_t *labels) must_check;

#endif
