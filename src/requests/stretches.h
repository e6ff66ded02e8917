/*
 * Requests without labels: the stretches in which a goroutine was under one of some functions.
 *
 * Where the trace tells of the calls of such a function (gotrace/calls.h), a stretch is one from
 * its call to its return, exactly, whatever it does; of calls within others the outermost counts.
 * One whose return is not told ends with what the goroutine calls next at its place or further out,
 * or with the goroutine. One whose call is not told began before the trace did.
 *
 * Of other functions a trace has a goroutine's stack where it blocked, entered a system call or was
 * stopped, and not while it ran. So a stretch reaches from the first such moment under the function
 * to the last, without one that is not. What the goroutine ran before the first and behind the
 * last, since it was seen elsewhere, is counted to it and told as request.edge_ns: the function was
 * called, and returned, somewhere within that. A call that neither blocks nor enters a system call
 * is not seen at all. A goroutine that began in such a function is one stretch, and its bounds are
 * exact.
 */
#ifndef REQUESTS_STRETCHES_H
#define REQUESTS_STRETCHES_H

#include <regex.h>

#include "requests/requests.h"

struct stretches {
	const regex_t *root;       /* functions' names */
	struct requests *requests; /* where they go */
	struct map lives;          /* goid -> struct stretch * */
	struct map functions;      /* a name, in the spans' texts -> what is known of it */
	struct map roots; /* stack -> what it is under: a function in the spans' texts + 3, or less:
			     requests/stretches.c */
};

/* Takes the next span of a goroutine, or moment: in the order of time for each. */
struct error *stretches_add(struct stretches *s, const struct span_tables *tables,
			    const struct span *span) must_check;
/* Before requests_complete(). */
struct error *stretches_complete(struct stretches *s) must_check;
void stretches_release(struct stretches *s);

#endif
