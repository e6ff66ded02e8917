/* What is looked at while all threads of the target stand still, before the jumps are written. */
#ifndef INJECT_STANDSTILL_H
#define INJECT_STANDSTILL_H

#include <stdbool.h>

#include "agent/abi.h"
#include "base/error.h"
#include "inject/code.h"
#include "inject/runtime_words.h"
#include "inject/switched.h"
#include "inject/threads.h"
#include "target/target.h"

#define STANDSTILL_FUNCTIONS (HOOK_P_HANDOFF + 4)

/*
 * Functions that nobody may be in when a place is patched. Those that change states have a hook:
 * who is in one when its hook is put in changes a state without telling.
 */
struct standstill_functions {
	struct agent_range items[STANDSTILL_FUNCTIONS];
	uint64_t count;
	uint64_t
		changing; /* so many of them change states; behind them are those that call these */
	struct agent_range systemstack_switch; /* from where a goroutine seems to have left */
};

struct seen;

struct standstill {
	struct standstill_functions functions;
	struct switched switched;
	struct seen *seen; /* room for what is read while the threads stand */
};

/* What can be done before the threads are stopped; may be called again. The functions are set by
 * then. Needs standstill_release(), also after an error. */
struct error *standstill_prepare(struct target *t, const struct runtime_words *words,
				 struct standstill *s) must_check;

/*
 * What of standstill_look() can be done while only those threads have stopped that sleep, and the
 * others run: what these are in. It need not be looked at again.
 */
struct error *standstill_look_asleep(struct target *t, const struct code_head *head,
				     struct threads *threads, struct standstill *s,
				     bool *ret_inside) must_check;

/*
 * No thread is inside an instruction that will be replaced, else ERROR_FAILED. *ret_inside: one is
 * in one of the functions, or in what one of them calls, or in a signal handler there; or one of
 * those that change states has called the system stack, and waits for what is done there.
 */
struct error *standstill_look(struct target *t, const struct code_head *head,
			      const struct runtime_words *words, struct threads *threads,
			      struct standstill *s, bool *ret_inside) must_check;

void standstill_release(struct standstill *s);

#endif
