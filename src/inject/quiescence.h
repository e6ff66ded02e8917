/* The checks made while all threads of the target are stopped, before the jumps are written. */
#ifndef INJECT_QUIESCENCE_H
#define INJECT_QUIESCENCE_H

#include <stdbool.h>

#include "agent/abi.h"
#include "base/error.h"
#include "inject/code_page.h"
#include "inject/on_systemstack.h"
#include "inject/runtime_words.h"
#include "inject/threads.h"
#include "target/target.h"

#define QUIESCENCE_FUNCTIONS (HOOK_P_HANDOFF + 4)

/*
 * Functions in which no thread may be when a probe site is patched. Those that change states have a
 * hook: a thread inside one when its hook is installed changes a state without a record.
 */
struct quiescence_functions {
	struct agent_range items[QUIESCENCE_FUNCTIONS];
	uint64_t count;
	uint64_t
		changing; /* so many of them change states; behind them are those that call these */
	struct agent_range systemstack_switch; /* from where a goroutine seems to have left */
};

struct seen;

struct quiescence {
	struct quiescence_functions functions;
	struct on_systemstack on_systemstack;
	struct seen *seen; /* buffers for memory that is read while the threads are stopped */
};

/* Prepares before the threads are stopped; may be called again. The functions must be set. Needs
 * quiescence_release(), also after an error. */
struct error *quiescence_prepare(struct target *t, const struct runtime_words *words,
				 struct quiescence *s) must_check;

/*
 * The part of quiescence_check() that is possible while only the sleeping threads are stopped, and
 * the others run: what these are in. It need not be looked at again.
 */
struct error *quiescence_check_asleep(struct target *t, const struct code_head *head,
				      struct threads *threads, struct quiescence *s,
				      bool *ret_inside) must_check;

/*
 * ERROR_FAILED: a thread is inside an instruction that will be replaced. *ret_inside: a thread is
 * in one of the functions, in a callee of one, or in a signal handler there; or one that changes
 * states has called systemstack() and waits for it.
 */
struct error *quiescence_check(struct target *t, const struct code_head *head,
			       const struct runtime_words *words, struct threads *threads,
			       struct quiescence *s, bool *ret_inside) must_check;

void quiescence_release(struct quiescence *s);

#endif
