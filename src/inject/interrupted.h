/*
 * Where a thread continues after the signal handlers that it is in.
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

/* The question: whether a pc is in one of those ranges. */
struct interrupted_place {
	bool (*has)(const void *arg, uint64_t pc);
	const void *arg;
};

/*
 * For a stopped thread with this stack pointer and the thread pointer `tls`. A handler blocks at
 * least its own signal: `mask` is the set of blocked signals, and if it is empty, nothing is read.
 * *left bounds the bytes to read, and is reduced by those read.
 */
enum interrupted interrupted_look(struct target *t, uint64_t sp, uint64_t tls, uint64_t mask,
				  size_t *left, struct interrupted_place place);

#endif
