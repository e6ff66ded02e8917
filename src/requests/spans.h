/*
 * The states of each goroutine of a trace: a span is a period in one state.
 */
#ifndef REQUESTS_SPANS_H
#define REQUESTS_SPANS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "gotrace/event.h"
#include "gotrace/trace_reader.h"
#include "requests/span_tables.h"

/* Who ended a wait, or created a goroutine. */
struct span_by {
	bool is_known;      /* an event of the trace says so */
	uint32_t stack;     /* where the goroutine that did it stood; 0: not known */
	uint64_t goroutine; /* that one; 0: none did: a timer or the network poller */
};

enum span_moment { SPAN_TIME, SPAN_CALL, SPAN_RETURN, SPAN_FACTS, SPAN_SAMPLE, SPAN_ALLOC };

/* What is known of the request that a goroutine serves (REQUEST_CATEGORY); in texts, 0: nothing. */
struct span_facts {
	uint32_t request; /* a line of gotrace/label_text.h: "method", "path" ... */
	uint32_t route;
	uint32_t status;
};

struct span {
	uint64_t g;
	uint64_t begin; /* ns since the trace began */
	uint64_t end;
	enum trace_status state;
	uint32_t reason; /* why it waits or was stopped, in texts; 0: not known */
	uint32_t stack;  /* where; of a running goroutine, where it started to run; 0: not known */
	uint32_t start;  /* the goroutine's start function, in texts; 0: not known */
	uint32_t labels; /* a line of gotrace/label_text.h, in texts; 0: none */
	/* Of the goroutine's last request, from its call to the next one's. */
	struct span_facts facts;
	/* For a moment, whose begin and end are equal: the function, in texts, that it calls or
	 * returns from; of SPAN_FACTS, where `facts` are new, 0. SPAN_SAMPLE is a CPU sample of the
	 * running goroutine: `stack` is where it is, and `function` the innermost one. It comes
	 * before the span that it lies in. */
	enum span_moment moment;
	uint32_t function;
	/* Of SPAN_ALLOC: a sampled allocation at `stack` (requests/allocations.h); else 0. */
	uint64_t alloc_size;
	uint64_t alloc_rate;
	/* Of a wait that began before the trace: how long it had lasted, at least; 0: not known. */
	uint64_t waited_ns;
	struct span_by ended;   /* of a wait */
	struct span_by created; /* the goroutine */
};

struct spans_options {
	/* Receives each span when it has ended and the goroutine's start function is known, or will
	 * never be. Those of one goroutine come in the order of time. */
	struct error *(*span)(void *arg, const struct span *span);
	void *arg;
	bool calls;       /* also report moments (TRACE_CALL_PREFIX), each of which splits a span */
	bool samples;     /* also report CPU samples, which split none */
	bool allocations; /* also report SPAN_ALLOC, before the span in which it is */
	const atomic_int *cancel; /* ERROR_STOPPED when it is not 0; or NULL */
};

/* Reads the trace to its end. Spans begin and end within the trace at most. Fills `tables`, which
 * are the caller's. */
struct error *spans_read(struct trace_reader *reader, const struct spans_options *options,
			 struct span_tables *tables, uint64_t *ret_duration) must_check;

/* Whether it belongs to a goroutine of the runtime, by the definition of Go's tools. Up to Go 1.19
 * such goroutines have their creator's labels. */
bool span_is_system(const struct span_tables *tables, const struct span *span);

#endif
