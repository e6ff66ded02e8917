/*
 * Requests without labels: spans in which a goroutine was inside one of the given functions.
 *
 * If the trace has the calls of such a function (gotrace/calls.h), a span reaches exactly from the
 * call to the return; of nested calls the outermost counts. Without a recorded return, it ends with
 * the goroutine's next call at its place or further out, or with the goroutine. Without a recorded
 * call, it began before the trace.
 *
 * For other functions a trace has a goroutine's stack where it blocked, entered a system call or
 * was stopped, and not while it ran. So an inferred span reaches from the first stack inside the
 * function to the last, without another stack in between. The running time before the first and
 * after the last, up to the next stack elsewhere, counts in the span and in request.edge_ns: the
 * call and the return lie somewhere within it. A call that neither blocks nor enters a system call
 * is not seen at all. A goroutine that began in such a function is one inferred span, and its
 * bounds are exact.
 */
#ifndef REQUESTS_INFERRED_SPANS_H
#define REQUESTS_INFERRED_SPANS_H

#include <regex.h>

#include "requests/requests.h"

struct inferred_spans {
	const regex_t *root;       /* of the functions' names */
	const regex_t *part;       /* of those whose calls are parts of a request; or NULL */
	const regex_t *client;     /* likewise; of calls within one another the outermost counts */
	struct requests *requests; /* the result */
	struct map lives;          /* goid -> struct inferred_span * */
	struct map functions; /* a name, in the spans' texts -> the properties of the function */
	struct map roots; /* stack -> its outermost matching function in the spans' texts + 3, or
			   * less: see requests/inferred_spans.c */
};

/* Takes the next span or moment; those of one goroutine come in the order of time. */
struct error *inferred_spans_add(struct inferred_spans *s, const struct span_tables *tables,
				 const struct span *span) must_check;
/* Call it before requests_complete(). */
struct error *inferred_spans_complete(struct inferred_spans *s) must_check;
void inferred_spans_release(struct inferred_spans *s);

#endif
