/*
 * The states of each request, and their times: spans added up by the value of a label, or by the
 * inferred span in which a goroutine was under a function (requests/inferred_spans.h).
 */
#ifndef REQUESTS_REQUESTS_H
#define REQUESTS_REQUESTS_H

#include <stdbool.h>

#include "base/intern.h"
#include "base/map.h"
#include "requests/spans.h"

/* Where it stood while it was in one state, for one reason. */
struct request_place {
	enum trace_status state;
	uint32_t reason; /* in the spans' texts */
	uint32_t stack;  /* of the spans' stacks */
	uint64_t ns;
	uint64_t count;
	uint64_t waited_ns; /* the longest of its spans' */
};

struct request_interval {
	uint64_t begin;
	uint64_t end;
};

struct traced_request {
	uint32_t name; /* the label's value, or the function; in requests.names */
	uint32_t per;  /* the value of the second key, or the function; likewise */
	uint64_t g;    /* the goroutine that it was seen in first */
	uint64_t goroutines;
	uint64_t ns[TRACE_WAITING + 1]; /* by enum trace_status */
	uint64_t total_ns;              /* of all goroutines together */
	uint64_t elapsed_ns;            /* in which one at least was at work on it */
	uint64_t edge_ns; /* running time of which a part may lie before or behind it */
	uint64_t begin;   /* of the first span, and the end of the last */
	uint64_t end;
	bool before;                  /* it had begun when the trace began */
	bool cut;                     /* by the trace's beginning or end */
	struct request_place *places; /* longest first, once it is complete */
	size_t place_count;
	size_t place_capacity;
	struct map place_index; /* stack, reason and state -> place in places + 1 */
	/* In order, and none touches another, once it is complete. */
	struct request_interval *intervals;
	size_t interval_count;
	size_t interval_capacity;
};

struct requests {
	const char *key;              /* of the label that distinguishes requests */
	const char *per;              /* of the one by which they are grouped, or NULL */
	struct traced_request *items; /* slowest first, once it is complete */
	size_t count;
	size_t capacity;
	struct intern names;
	bool by_stacks;        /* some are of functions whose calls are not recorded
				  (requests/inferred_spans.h) */
	struct map by_labels;  /* a span's labels -> place in items + 1, or UINT64_MAX - 1 */
	struct map by_name;    /* name and group -> place in items + 1 */
	struct map goroutines; /* hash of place and goroutine: those counted */
};

/* Adds the span to the request that its labels name; one without the label is passed over. */
struct error *requests_add(struct requests *r, const struct span_tables *tables,
			   const struct span *span) must_check;

/* A request of its own; NULL when there is no memory. Valid until the next one is made. */
struct traced_request *requests_new(struct requests *r, const char *name, uint64_t g);
/* A part of it. */
struct error *request_credit(struct traced_request *request, const struct span *span) must_check;

/* It has no part yet. */
void request_reset(struct traced_request *request);

/* Sorts; `duration` is the trace's. */
void requests_complete(struct requests *r, uint64_t duration);
void requests_release(struct requests *r);
#define _cleanup_requests_ __attribute__((cleanup(requests_release)))

/* The requests of one group, of all when there is no second key: those that were seen whole. */
struct request_group {
	uint32_t name; /* in requests.names */
	uint64_t count;
	uint64_t cut;                /* not counted; the following parts are not, either */
	uint64_t p50, p90, p99, max; /* of elapsed_ns: so many percent took no longer */
	uint64_t ns[TRACE_WAITING + 1];
	uint64_t total_ns;
};

/* The caller frees *ret; the slowest (p99) first. */
struct error *requests_group(const struct requests *r, struct request_group **ret,
			     size_t *ret_count) must_check;

#endif
