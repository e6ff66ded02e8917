/*
 * Which goroutines wait for work to do: for a connection, the next request on one, a job, a signal,
 * the next tick. A view of a server hides them at first; no request waits for them.
 *
 * The stack alone decides: functions of the standard library and of gRPC that are known to wait for
 * work, and, for all others, a goroutine that waits for a channel, a timer or the network in the
 * function that it began with, or in one that this calls. A goroutine that serves a request never
 * waits for work, whatever it waits for.
 */
#ifndef PROFILE_AWAITING_H
#define PROFILE_AWAITING_H

#include "profile/profile.h"

/* `functions`: names as in pclntab, innermost first, ended at the goroutine's start function.
 * `wait` is the runtime's wait reason, "" for a goroutine that does not wait. */
bool awaits_work(enum profile_state state, const char *wait, const char *const *functions,
		 size_t count);

/* The same for a sample with this stack. */
struct symbol_stack;
bool sample_awaits_work(const struct profile *p, const struct profile_symbols *symbols,
			const struct profile_sample *sample, const struct symbol_stack *stack);

/* Whether goroutines wait through this function: it shows how they wait, not what they do. */
bool is_plumbing(const char *function);

/* A function that begins a request: an HTTP or gRPC handler's caller. */
bool is_request_entry(const char *function);

#endif
