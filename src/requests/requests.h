/*
 * The states of each request, and their times. Spans are added up by the value of a label, or by
 * calls of a function (requests/inferred_spans.h).
 */
#ifndef REQUESTS_REQUESTS_H
#define REQUESTS_REQUESTS_H

#include <stdbool.h>

#include "base/intern.h"
#include "base/map.h"
#include "requests/allocations.h"
#include "requests/running_split.h"
#include "requests/spans.h"
#include "requests/wakers.h"

/* Where a request was in one state, for one reason. Where it ran, CPU samples say, which share its
 * running time. */
struct request_place {
	enum trace_status state;
	uint32_t reason; /* in the spans' texts */
	uint32_t stack;  /* of the spans' stacks */
	uint64_t ns;
	uint64_t count;             /* times; of a running one, samples */
	uint64_t error_ns;          /* of a running one: as in struct running_function */
	uint32_t function;          /* of a running one: the innermost, in the spans' texts */
	uint64_t waited_ns;         /* the longest waited_ns of its spans */
	const struct waker *wakers; /* who ended it, longest first, after requests_complete() */
	size_t waker_count;
};

/* Calls of a function during a request, by its goroutine. */
struct request_part {
	uint32_t function; /* in the spans' texts */
	uint64_t ns;       /* of calls within one another the outermost counts */
	uint64_t count;
};

struct request_interval {
	uint64_t begin;
	uint64_t end;
};

struct traced_request {
	uint32_t name; /* the label's value, or the function; in requests.names */
	uint32_t per;  /* the value of the second key, or the function; likewise */
	uint64_t g;    /* the goroutine in which it was first seen */
	uint64_t last; /* the goroutine in which it was last seen */
	uint64_t goroutines;
	uint64_t ns[TRACE_WAITING + 1]; /* by enum trace_status */
	uint64_t total_ns;              /* of all goroutines together */
	uint64_t elapsed_ns;            /* time in which at least one goroutine worked on it */
	uint64_t edge_ns; /* running time, part of which may lie outside the request */
	uint64_t begin;   /* of the first span; below, the end of the last */
	uint64_t end;
	struct span_facts facts;      /* of the request that it is, or a part of */
	struct running_split running; /* after requests_complete() */
	struct request_part *parts;   /* longest first, after requests_complete() */
	size_t part_count;
	size_t part_capacity;
	struct allocations allocations;
	bool of_several;              /* it has parts of several requests: it has no facts */
	bool before;                  /* it had begun when the trace began */
	bool cut;                     /* the trace lacks its beginning or end */
	struct request_place *places; /* longest first, after requests_complete() */
	size_t place_count;
	size_t place_capacity;
	struct map place_index; /* stack, reason and state -> index in places + 1 */
	struct wakers wakers;   /* of a place by its index before requests_complete() sorts */
	/* In order and without contact, after requests_complete(). */
	struct request_interval *intervals;
	size_t interval_count;
	size_t interval_capacity;
};

struct requests {
	const char *key;              /* key of the label that distinguishes requests */
	const char *per;              /* key of the label by which they are grouped, or NULL */
	struct traced_request *items; /* slowest first, after requests_complete() */
	size_t count;
	size_t capacity;
	struct intern names;
	bool by_stacks;        /* some belong to functions whose calls are not recorded
				* (requests/inferred_spans.h) */
	struct map by_labels;  /* a span's labels -> index in items + 1, or UINT64_MAX - 1 */
	struct map by_name;    /* name and group -> index in items + 1 */
	struct map goroutines; /* hash of index and goroutine: those counted */
};

/* Adds the span to the request that its labels name. A span without the label is skipped. */
struct error *requests_add(struct requests *r, const struct span_tables *tables,
			   const struct span *span) must_check;

/* A new request; NULL when there is no memory. Valid until the next one is created. */
struct traced_request *requests_new(struct requests *r, const char *name, uint64_t g);
/* Those facts that are known replace the request's. */
void request_take_facts(struct traced_request *request, const struct span_facts *facts);
/* Adds a span to the request, with its facts. */
struct error *request_credit(struct traced_request *request, const struct span *span) must_check;

/* Adds a CPU sample (SPAN_SAMPLE). */
struct error *request_add_sample(struct traced_request *request,
				 const struct span *sample) must_check;

/* Adds calls of a function. */
struct error *request_add_part(struct traced_request *request,
			       const struct request_part *part) must_check;

/* Adds an allocation (SPAN_ALLOC). */
struct error *request_add_allocation(struct traced_request *request,
				     const struct span *span) must_check;

/* Makes one request of all that came with one trace id, named by it, with the facts of the first;
 * requests without an id are removed. Before requests_complete(). */
struct error *requests_join_traces(struct requests *r, const struct span_tables *tables) must_check;

/* Removes all parts of the request. */
void request_reset(struct traced_request *request);

/* Removes requests for which keep() returns false, after requests_complete(). */
void requests_keep(struct requests *r, bool (*keep)(const void *arg, const struct traced_request *),
		   const void *arg);

/* Sorts; `duration` is that of the trace. */
struct error *requests_complete(struct requests *r, uint64_t duration) must_check;
void requests_release(struct requests *r);
#define _cleanup_requests_ __attribute__((cleanup(requests_release)))

/* A group of requests, or all when there is no second key. Only complete requests count. */
struct request_group {
	uint32_t name; /* in requests.names */
	uint64_t count;
	uint64_t cut;                /* incomplete requests, which the other members leave out */
	uint64_t p50, p90, p99, max; /* percentiles of elapsed_ns */
	uint64_t ns[TRACE_WAITING + 1];
	uint64_t total_ns;
	struct running_split running;
	struct allocation_sum allocated;
};

/* Groups the requests, the slowest (p99) first. The caller releases them. */
struct error *requests_group(const struct requests *r, struct request_group **ret,
			     size_t *ret_count) must_check;
void requests_groups_release(struct request_group *groups, size_t count);

#endif
