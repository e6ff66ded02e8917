/*
 * The functions of goroutines whose threads are on g0, because they have called systemstack(). Any
 * number of calls may lie between such a function and the pc of its thread.
 */
#ifndef INJECT_ON_SYSTEMSTACK_H
#define INJECT_ON_SYSTEMSTACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/abi.h"
#include "base/error.h"
#include "inject/runtime_words.h"
#include "inject/tracer_threads.h"
#include "target/target.h"

struct on_systemstack_m {
	uint64_t address;
	uint64_t curg;
	uint64_t caller; /* a pc in the caller of systemstack(); 0: none */
};

struct on_systemstack {
	struct agent_range systemstack_switch;
	struct on_systemstack_m *items;
	struct target_range *ranges;
	bool *ok;
	uint8_t *g_bytes; /* of each curg, g_size of them */
	size_t g_size;
	size_t count;
	size_t capacity;
	struct on_systemstack_m **callers; /* those that have one */
	size_t caller_count;
};

/* Lists the M's, and makes room, before the threads are stopped; may be called again. An M that
 * begins between this and that is not looked at. Needs on_systemstack_release(), also after an
 * error. */
struct error *on_systemstack_prepare(struct target *t, const struct runtime_words *words,
				     const struct agent_range *systemstack_switch,
				     struct on_systemstack *s) must_check;

/* Fills in the callers; mostly in two system calls. Where memory cannot be read there is no caller.
 * `helpers` may be NULL. */
struct error *on_systemstack_read(struct target *t, const struct runtime_words *words,
				  struct helpers *helpers, struct on_systemstack *s) must_check;

/*
 * For a thread with this stack pointer. If it is on its goroutine's own stack, the saved state of
 * the goroutine is an old one: it stays after a call of C.
 */
void on_systemstack_returned(const struct runtime_words *words, struct on_systemstack *s,
			     uint64_t sp);

void on_systemstack_release(struct on_systemstack *s);

#endif
