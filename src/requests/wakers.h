/*
 * Who ended waits: which goroutine made a waiting one runnable, and where it stood then. Waits at
 * one place that one goroutine ended at one stack are added up.
 */
#ifndef REQUESTS_WAKERS_H
#define REQUESTS_WAKERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Several goroutines, added up. */
#define WAKERS_SEVERAL UINT64_MAX

struct waker {
	uint32_t place; /* where the waits were: a number of the owner's */
	uint32_t stack; /* where the waker stood, of the spans' stacks; 0: not known */
	uint64_t g;     /* 0: no goroutine: a timer or the network poller */
	uint64_t ns;    /* of the waits */
	uint64_t count; /* of the waits */
};

struct wakers {
	bool by_stack;       /* goroutines at one stack are added up */
	struct waker *items; /* by place, then the longest first, once they are complete */
	size_t count;
	size_t capacity;
};

/* False: no memory. */
bool wakers_add(struct wakers *w, const struct waker *waker);
/* Sorts them. */
void wakers_complete(struct wakers *w);
/* Those of a place. */
const struct waker *wakers_of(const struct wakers *w, uint32_t place, size_t *ret_count);
void wakers_release(struct wakers *w);

#endif
