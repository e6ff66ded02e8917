/*
 * The writer of Go execution traces: "go 1.22 trace", which `go tool trace` reads from Go 1.22 on.
 *
 * A trace is a header and generations, each complete in itself: it begins with the state of
 * everything and has its own tables of stacks and strings. So a trace that ends early is readable
 * up to its last complete generation, and one that begins late likewise (-> trace/flight.h).
 * Source: internal/trace/raw and internal/trace/tracev2 of Go 1.22 to 1.27.
 */
#ifndef TRACE_GO_TRACE_H
#define TRACE_GO_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "base/intern.h"
#include "image/pclntab.h"
#include "trace/step.h"
#include "unwind/stacks.h"

#define GO_TRACE_HEADER "go 1.22 trace\0\0\0"
#define GO_TRACE_HEADER_SIZE 16

struct go_trace_options {
	const struct pclntab *functions;
	const struct stacks *stacks; /* numbers of stacks in steps are of this set */
	const struct intern *texts;  /* numbers of texts in steps are of this set */
	unsigned int depth;          /* frames of a stack that are written at most; 0: no stacks */
	/* Gets each generation when it is complete, and the time of its first event. */
	struct error *(*generation)(void *arg, const void *bytes, size_t size, uint64_t ns);
	void *arg;
};

struct go_trace;

struct error *go_trace_create(const struct go_trace_options *options,
			      struct go_trace **ret) must_check;
void go_trace_destroy(struct go_trace *trace);

/* Where the model's steps go. */
struct trace_sink go_trace_sink(struct go_trace *trace);

/* How large the generation is so far, in bytes. */
size_t go_trace_size(const struct go_trace *trace);

/* Completes the last generation. */
struct error *go_trace_finish(struct go_trace *trace) must_check;

static inline void cleanup_go_trace(struct go_trace **trace)
{
	go_trace_destroy(*trace);
}
#define _cleanup_go_trace_ __attribute__((cleanup(cleanup_go_trace)))

#endif
