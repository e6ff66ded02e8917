/*
 * Requests without labels: the inferred spans in which a goroutine was inside one of some
 * functions.
 *
 * Where the trace has the calls of such a function (gotrace/calls.h), an inferred span is one from
 * its call to its return, exactly, whatever it does; of calls within others the outermost counts.
 * One whose return is not recorded ends with what the goroutine calls next at its place or further
 * out, or with the goroutine. One whose call is not recorded began before the trace did.
 *
 * For other functions a trace has a goroutine's stack where it blocked, entered a system call or
 * was stopped, and not while it ran. So an inferred span reaches from the first such stack inside
 * the function to the last, with no other in between. The running time before the first and after
 * the last, up to the next stack elsewhere, counts to the span and is reported as request.edge_ns:
 * the call and the return lie somewhere within it. A call that neither blocks nor enters a system
 * call is not seen at all. A goroutine that began in such a function is one inferred span, and its
 * bounds are exact.
 */
#ifndef REQUESTS_INFERRED_SPANS_H
#define REQUESTS_INFERRED_SPANS_H

#include <regex.h>

#include "requests/requests.h"

struct inferred_spans {
	const regex_t *root;       /* functions' names */
	struct requests *requests; /* where they go */
	struct map lives;          /* goid -> struct inferred_span * */
	struct map functions; /* a name, in the spans' texts -> the properties of the function */
	struct map roots; /* stack -> what it is under: a function in the spans' texts + 3, or less:
			     requests/inferred_spans.c */
};

/* Takes the next span of a goroutine, or moment: in the order of time for each. */
struct error *inferred_spans_add(struct inferred_spans *s, const struct span_tables *tables,
				 const struct span *span) must_check;
/* Before requests_complete(). */
struct error *inferred_spans_complete(struct inferred_spans *s) must_check;
void inferred_spans_release(struct inferred_spans *s);

#endif
