/*
 * What a goroutine does at a place, by its state, its wait reason and the functions on its stack.
 * Tables of functions in stack_kind.c know how Go programs wait for locks, pools of connections,
 * other machines and disks. Names are those of pclntab; they come from the target.
 */
#ifndef WHY_STACK_KIND_H
#define WHY_STACK_KIND_H

#include <stdbool.h>
#include <stddef.h>

#include "profile/profile.h"

enum stack_kind {
	STACK_RUNS,
	STACK_READY, /* runnable: it waits for a CPU */
	STACK_LOCK,  /* a mutex or RWMutex */
	STACK_POOL,  /* a free connection of a pool, or a place in a semaphore of the program */
	STACK_PEER,  /* the other end of a connection, within its work */
	STACK_DISK,  /* in a system call that is for files alone, as fsync */
	STACK_FILE,  /* in a read or write of something: a file, a terminal, a pipe */
	STACK_SEND,  /* a channel that is full, or that nobody receives from */
	STACK_CALL,  /* in another system call, or in C */
	STACK_WORK,  /* waits for work to do */
	STACK_BLOCKED,
	/* Works with a connection of a pool: counted beside what it waits for. */
	STACK_POOL_USE,
	STACK_KINDS
};

struct stack_view {
	enum profile_state state;
	const char *wait;             /* "" when it does not wait */
	const char *const *functions; /* innermost first */
	size_t count;
};

/* *ret_place is the index of the function that shows what the goroutine does: the innermost one of
 * the program, outside of those through which it waits. 0 for an empty stack. */
enum stack_kind stack_kind_of(const struct stack_view *stack, size_t *ret_place);

/* Whether the goroutine works with a connection of a pool, and does not wait for one. *ret_place is
 * the innermost function of the program. */
bool stack_uses_pool(const struct stack_view *stack, size_t *ret_place);

/* Whether CPU time with this stack sets, sorts or fires timers. */
bool stack_is_of_timers(const struct stack_view *stack);
/* Whether it collects garbage, or helps to. */
bool stack_is_of_collector(const struct stack_view *stack);
/* Whether the goroutine reads for a client of the program: a connection that others read from. */
bool stack_is_of_client(const struct stack_view *stack);

#endif
