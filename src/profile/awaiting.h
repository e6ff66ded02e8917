/*
 * Which goroutines wait for work to do: for a connection, the next request on one, a job, a signal,
 * the next tick. Views of a server hide them at first, because no request waits for them.
 *
 * The stack alone decides. Some functions of the standard library and of gRPC are known to wait for
 * work. Any other goroutine waits for work if it waits for a channel, a timer or the network in its
 * start function, or in a function that this calls. A goroutine that serves a request never waits
 * for work.
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

/* Whether the function begins a request: it calls an HTTP or gRPC handler. */
bool is_request_entry(const char *function);

#endif
