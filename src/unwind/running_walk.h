/*
 * The walk of running_thread.h under way: for the files of this room alone. Each needs those before
 * it:
 *
 * - running_state.c, running_memory.c: where it stands, and the words that it reads
 * - running_stale_stack.c, running_systemstack.c: stacks that were moved; a caller without a frame
 * - running_chain.c: the kernel's chain
 * - running_guard.c: whether memory may be believed
 * - running_switch.c: from stack to stack
 * - running_frames.c: from frame to frame
 * - running_method.c: by another method, to compare
 * - running_thread.c: a sample's stack
 */
#ifndef UNWIND_RUNNING_WALK_H
#define UNWIND_RUNNING_WALK_H

#include "base/map.h"
#include "unwind/running_thread.h"
#include "unwind/steps.h"

struct running_unwinder {
	struct stacks *stacks;
	struct steps steps;
	struct steps by_dwarf; /* for UNWIND_DWARF */
	enum machine machine;
	struct modules *modules;
	const struct image *program;  /* NULL: its code is not known */
	bool stacks_move;             /* under systemstack */
	struct map systemstack_calls; /* closure and return address -> the call's; 1: not known */
	uint64_t *words;              /* of the walk under way */
	size_t capacity;
};

/* Why memory that was read after the sample may be believed. */
enum guard {
	GUARD_UNSET,      /* memory was not needed yet */
	GUARD_NOTHING,    /* for no reason but the chain, should it agree */
	GUARD_SAME_BYTES, /* the captured bytes are still there */
	GUARD_PARKED,     /* g.sched.sp is still guard_sp, and all is as at the sample */
	GUARD_THREAD,     /* g0.sched.sp is still guard_sp */
};

#define WINDOW_SIZE 4096

struct running_walk {
	struct running_unwinder *u;
	const struct running_sample *in;
	const struct running_source *source;
	const struct register_roles *roles;
	struct registers regs;
	bool by_dwarf; /* by .debug_frame alone: no stack switches, no chain */
	uint64_t sp0;  /* where the captured bytes begin */
	bool exact;
	size_t n;  /* words so far */
	bool in_c; /* some of them are C's */
	/* `n` at the frame in which the thread dropped its goroutine under morestack; 0: none. */
	size_t dropped_g_n;
	struct running_stack result;
	struct goroutine_place place; /* of result.g */

	size_t chain_count; /* behind these the chain has gone astray */
	/* Where the chain left the captured bytes: at the record chain_fp, which holds
	 * chain[chain_next]. chain_next is 0 when that is not known. */
	uint64_t chain_fp;
	size_t chain_next;

	enum guard guard;
	uint64_t guard_sp;
	size_t guard_n;     /* words before memory was needed */
	size_t guard_chain; /* where the chain stood then; 0: elsewhere */
	bool guard_record;  /* at the record of the frame itself, not of one of its callers */
	/* The guard of the memory of the walk's current stack. */
	enum guard next_guard;
	uint64_t next_guard_sp;
	/* The guard of the next stack, when memory was needed already and only the captured bytes
	 * vouch for it. */
	enum guard beyond;
	uint64_t beyond_sp;
	bool from_c; /* the frame before is C's */

	uint8_t window[WINDOW_SIZE]; /* of memory */
	uint64_t window_at;
	size_t window_size;
};

enum walk_end { GO_ON, AT_END, CUT_OFF, NOT_A_STACK, OUT_OF_MEMORY };

static inline uint64_t running_pc(const struct running_walk *w)
{
	return w->regs.value[w->roles->pc];
}

static inline uint64_t running_sp(const struct running_walk *w)
{
	return w->regs.value[w->roles->sp];
}

static inline uint64_t running_fp(const struct running_walk *w)
{
	return w->regs.value[w->roles->fp];
}

static inline bool running_is_on(const struct goroutine_place *place, uint64_t sp)
{
	return sp > place->stack_lo && sp <= place->stack_hi;
}

static inline bool running_in_go(const struct running_walk *w, uint64_t pc)
{
	const struct pclntab *functions = w->u->steps.functions;
	const struct step *step;

	if (pc >= functions->text && pc < functions->etext)
		return true;
	/* Perhaps of a plugin: the steps remember the answer, which may have cost a read. */
	step = steps_at(&w->u->steps, pc);
	return step && step->flags & STEP_GO;
}

/* The thread has dropped its g (dropg()): it has no goroutine, and the stack under morestack
 * belongs to one that it no longer runs. */
static inline bool running_dropped_g(const struct running_walk *w)
{
	return w->dropped_g_n && w->dropped_g_n <= w->n;
}

/* running_state.c: sets pc, sp and fp; nothing else is known then. */
void running_move(struct running_walk *w, uint64_t pc, uint64_t sp, uint64_t fp);
bool running_push(struct running_walk *w, uint64_t word);
/* Whether the frame at which the walk stands has its frame record set up, at its fp. */
bool running_has_record(const struct running_walk *w, const struct step *step);

/* running_memory.c: a word of a stack, captured, or, once a guard is set, from memory. */
bool running_word(void *walk, uint64_t address, uint64_t *ret);
bool running_is_captured(const struct running_walk *w, uint64_t address);
/* Where the goroutine was at the sample, or is now; false when g is none. */
bool running_place_of(const struct running_walk *w, uint64_t g, struct goroutine_place *ret);

/* running_guard.c: allows memory from here on, guarded by next_guard. */
void running_guard(struct running_walk *w, bool has_record);
/* Whether the memory read so far can be trusted; also true if none was needed. */
bool running_guard_holds(struct running_walk *w);

/* running_chain.c */
void chain_follow_captured(struct running_walk *w);
/*
 * Up to Go 1.25 a call of duffzero or duffcopy has a record of its own below SP (cmd/compile,
 * amd64/ssa.go), which nothing but BP and the chain's first step knows. The record of the frame at
 * which the walk stands is the chain's second.
 */
void chain_find_record(struct running_walk *w, const struct step *step);
/* Where it is at the record `from`, that leads to the one at `to`. */
void chain_move(struct running_walk *w, uint64_t from, uint64_t to);
/* The place of the return address of the record at fp; 0: not known. */
size_t chain_place(const struct running_walk *w, uint64_t fp);
/* Pushes the chain's words from that place on; AT_END when they lead to where stacks end. */
enum walk_end chain_take(struct running_walk *w, size_t place);
bool chain_is_whole(struct running_walk *w, size_t place);
/* Whether the words since the guard was set contain the whole chain from there on; if that is
 * unknown, all words contain all of it. */
bool chain_agrees(struct running_walk *w);
/* Likewise, and the chain's place is known, and it leads nowhere but through Go: evidence by
 * itself. */
bool chain_proves(struct running_walk *w);
/* Pushes a gap, then the rest of the chain. */
enum walk_end chain_take_behind_gap(struct running_walk *w, size_t place);

/*
 * running_switch.c: moves to the stack from which this function, at whose frame the walk is, has
 * switched. GO_ON: the walk is at the same function on its other stack, or need not move;
 * *ret_moved: it is at another frame already, whose word is not pushed yet.
 */
enum walk_end switch_follow(struct running_walk *w, const struct step *step, bool *ret_moved);
/* The goroutine that the thread works for now, when this address (0: where it has left it) is on
 * its stack: then it was the same when the sample was taken. False: that is not known. */
bool switch_find_goroutine(struct running_walk *w, uint64_t address);
/* Whether it has switched, or, of the innermost frame, may have. */
bool switch_is_done(const struct running_walk *w, const struct step *step);

/* running_stale_stack.c: whether the chain under systemstack goes on at a stale stack: memory that
 * the goroutine has left for another stack. */
enum stale { STALE_NOT, STALE, STALE_PERHAPS };
enum stale stale_under_chain(const struct running_walk *w, bool borrowed);
/* Whether something so far lets the GC move that stack. */
bool is_on_borrowed_stack(struct running_walk *w);
/* Without a snapshot: the goroutine whose stack is borrowed, if fp is still on it. It keeps the g
 * in its frame, outermost on the thread's own stack. */
bool borrowed_find_lender(struct running_walk *w, uint64_t fp);
/* Behind the first call of systemstack or morestack the chain has gone astray. */
void stale_truncate_chain(struct running_walk *w);
/* For a frame pointer outside the goroutine's stack: the stack was moved, or may have been, and the
 * chain does not count any more. True: the snapshot shows the goroutine and its place, which are in
 * result.g and place now. */
bool stale_find_goroutine(struct running_walk *w);

/* running_systemstack.c: the return address that systemstack has left on the goroutine's stack
 * under a function that returns to `next`; 0: not known. `pc` is systemstack's, the last word so
 * far. */
uint64_t systemstack_return_address(struct running_walk *w, uint64_t pc, uint64_t next);

/* running_frames.c: walks to the end. If memory turns out untrustworthy, walks again without it. */
enum walk_end running_walk_all(struct running_walk *w);
/* Pushes that frames are missing, and the function in which the goroutine began. */
enum walk_end running_mark_cut(struct running_walk *w);

/* running_method.c: replaces the walk's stack by that of the chosen method; the owner and its time
 * stay. */
struct error *running_show_by_method(const struct running_walk *w,
				     struct running_stack *ret) must_check;

#endif
