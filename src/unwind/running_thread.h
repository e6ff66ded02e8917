/*
 * The stack of a thread that was sampled while it ran: from its registers and the innermost bytes
 * of its stack, as they were at that moment.
 *
 * The walk goes through Go frames by pcsp and through C frames by call frame information, and from
 * stack to stack as the thread did: from the thread's own (g0) or the signal's to the goroutine's,
 * and, where C has called Go, back again. What the captured bytes do not hold comes from
 *
 * - what was copied at the same instant of the goroutine and its stack, where there is such a copy;
 * - the kernel's frame-pointer chain of the same instant, where the walk stands at a frame record
 *   that the chain went through: then it is exact;
 * - else memory, read after the sample. It is believed when the runtime says that the goroutine
 *   still waits at the same place of its stack (and what was copied of it is as it was), or the
 *   captured bytes are still there, and when the chain, where there is one, agrees.
 *
 * Where neither holds, the stack says that frames are missing.
 *
 * When the stacks are of another method (stacks_unwind_by()), the stack is then found by that: the
 * walk still determines the goroutine, and whose time it is.
 */
#ifndef UNWIND_RUNNING_THREAD_H
#define UNWIND_RUNNING_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/image.h"
#include "image/modules.h"
#include "unwind/stacks.h"

/* Where a goroutine is, as its g says now. */
struct goroutine_place {
	uint64_t stack_lo;
	uint64_t stack_hi;
	uint64_t pc; /* g.sched: where it left its stack; sp is 0 while it runs on it */
	uint64_t sp;
	uint64_t lr;
	uint64_t start_pc;
	uint64_t ran; /* changes when it runs and leaves its CPU */
};

struct sampled_goroutine {
	uint64_t g;
	struct goroutine_place place;
	const uint8_t *bytes;
	size_t size;
	/* The goroutine's frame pointer, as saved by the function that it called on the thread's
	 * own stack; 0: unknown. */
	uint64_t left_fp;
};

/* The source of data that is not in the sample. All of it may have changed since. */
struct running_source {
	bool (*read)(void *arg, uint64_t address, void *buffer, size_t size);
	/* False when g is no goroutine. */
	bool (*goroutine)(void *arg, uint64_t g, struct goroutine_place *ret);
	/* Where the thread's own stack was left (g0.sched.sp). */
	bool (*thread_sp)(void *arg, uint64_t *ret);
	void *arg;
};

struct running_sample {
	struct registers regs;
	const uint8_t *bytes; /* from SP on */
	size_t size;
	const uint64_t *chain; /* return addresses by frame pointers, the first is the pc */
	size_t chain_count;
	uint64_t g; /* the goroutine that the thread works for: certain, or at a guess */
	bool g_is_certain;
	/* the goroutine's place at the sample, and its stack from place->sp on; NULL: only the
	 * source has it, later. */
	const struct sampled_goroutine *sampled;
};

struct running_stack {
	uint32_t stack;    /* STACK_NONE: the sample leads nowhere */
	uint32_t exact;    /* by pcsp, whatever the method of `stack`: used for decisions */
	uint64_t g;        /* the owner of the stack; 0: none, or unknown */
	uint64_t start_pc; /* of that goroutine, also where it is not known; 0: likewise */
	bool is_scheduler; /* the thread works for no goroutine */
	bool truncated;    /* frames are missing */
	bool used_chain;   /* frames come from the kernel's chain */
	bool used_memory;  /* from memory read later */
};

struct running_unwinder;

/* NULL when there is no memory. Keeps all three; without modules C frames are not unwound. */
struct running_unwinder *running_unwinder_create(struct stacks *stacks,
						 const struct pclntab *functions,
						 enum machine machine, struct modules *modules);
/* Gives it the program's code, for facts that no table has; keeps it. */
void running_unwinder_read_code(struct running_unwinder *u, const struct image *program);
/* Makes it expect that stacks are moved while their goroutine is under systemstack: up to Go 1.25.
 */
void running_unwinder_expect_moves(struct running_unwinder *u);
void running_unwinder_destroy(struct running_unwinder *u);

/* The only error is ERROR_NO_MEMORY. */
struct error *running_unwind(struct running_unwinder *u, const struct running_sample *sample,
			     const struct running_source *source,
			     struct running_stack *ret) must_check;

#endif
