/*
 * Where a thread goes on when the signal handlers that it is in have returned.
 *
 * The kernel puts a frame on the handler's stack before it calls it: the registers of what was
 * interrupted, its signal mask, and which signal stack the thread has. A handler may be interrupted
 * in turn, and its own frames may be of any size. So the stack is searched from the stack pointer
 * up for such frames: through the signal stack, then on the stack that was interrupted, up to a
 * frame under which no handler can be, or to the stack's end.
 */
#ifndef INJECT_INTERRUPTED_H
#define INJECT_INTERRUPTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/target.h"

enum interrupted {
	INTERRUPTED_ELSEWHERE, /* or nothing was */
	INTERRUPTED_THERE,
	INTERRUPTED_UNKNOWN, /* the end was not found in so many bytes */
};

/* What one looks for: whether a pc is one of those. */
struct interrupted_place {
	bool (*has)(const void *arg, uint64_t pc);
	const void *arg;
};

/*
 * Of a thread that is stopped, with this stack pointer and, as its thread pointer, `tls`. In a
 * handler at least the signal itself is blocked: `mask` is what the thread blocks, and where that
 * is nothing, nothing is read. *left bounds the bytes that are, and becomes what is left of it.
 */
enum interrupted interrupted_look(struct target *t, uint64_t sp, uint64_t tls, uint64_t mask,
				  size_t *left, struct interrupted_place place);

#endif
