/* Which functions of goroutines have called the system stack: any number of calls may lie between
 * such a one and where its thread is. */
#ifndef INJECT_SWITCHED_H
#define INJECT_SWITCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/abi.h"
#include "base/error.h"
#include "inject/hands.h"
#include "inject/runtime_words.h"
#include "target/target.h"

struct switched_m {
	uint64_t address;
	uint64_t curg;
	uint64_t caller; /* a pc in who called systemstack(); 0: nobody has */
};

struct switched {
	struct agent_range systemstack_switch;
	struct switched_m *items;
	struct target_range *ranges;
	bool *ok;
	uint8_t *g_bytes; /* of each curg, g_size of them */
	size_t g_size;
	size_t count;
	size_t capacity;
	struct switched_m **callers; /* those that have one */
	size_t caller_count;
};

/* Lists the M's, and makes room, before the threads are stopped; may be called again. An M that
 * begins between this and that is not looked at. Needs switched_release(), also after an error. */
struct error *switched_prepare(struct target *t, const struct runtime_words *words,
			       const struct agent_range *systemstack_switch,
			       struct switched *s) must_check;

/* Fills in the callers; mostly in two system calls. What cannot be read is as who did not call.
 * `second` may be NULL. */
struct error *switched_read(struct target *t, const struct runtime_words *words,
			    struct second_hand *second, struct switched *s) must_check;

/*
 * A thread has this stack pointer. Is that its goroutine's own stack, then what the goroutine has
 * left is of before: after a call of C it stays.
 */
void switched_is_back(const struct runtime_words *words, struct switched *s, uint64_t sp);

void switched_release(struct switched *s);

#endif
