/*
 * The state of a trace's threads, Ps and goroutines, and the elementary transitions between states,
 * each of which is always legal. For the files of the model alone.
 *
 * Invariants: m->p == p if and only if p->m == m. If a P is in a system call, so is the goroutine
 * of its thread. A running goroutine has a thread with a P. A runnable or waiting goroutine has no
 * thread.
 *
 * A failure (of the sink, or no memory) is kept in state.error, and every later transition does
 * nothing.
 */
#ifndef GOTRACE_STATE_H
#define GOTRACE_STATE_H

#include "base/map.h"
#include "gotrace/model.h"

/* An open region of the program, or an open call (gotrace/calls.h). */
struct region {
	uint64_t task;
	uint32_t type;
	uint64_t frame; /* of a call; else 0 */
};

/* Limits at one time: events beyond them are dropped and counted. A program has less; a hostile one
 * may report any number. */
#define STATE_MAX_GOROUTINES (1u << 22)
#define STATE_MAX_THREADS (1u << 16)
#define STATE_MAX_REGIONS (1u << 20)        /* open, of all goroutines */
#define STATE_MAX_REGIONS_OF_ONE (1u << 10) /* open, of one goroutine */

/* Where a goroutine has been since before the trace, while it has not moved; stack 0: not known. */
struct parked {
	uint64_t waited_ns;
	uint32_t stack;
	uint32_t reason; /* a text; 0: not known */
};

struct state_g {
	uint64_t id;
	uint64_t start_pc; /* 0: not known */
	uint64_t known_ns; /* the time since which it is known */
	uint32_t labels;   /* a text; 0: none */
	enum trace_status status;
	uint64_t seq;
	struct state_m *m; /* its thread, if it runs or is in a system call */
	bool in_assist;
	bool stops_world;
	struct parked parked;
	bool pending;        /* it is in state.pending_labels for its labels */
	bool parked_pending; /* likewise for `parked` */
	struct region *regions;
	size_t region_count;
	size_t region_capacity;
};

struct state_p {
	uint32_t id;
	bool known;
	enum proc_status status;
	uint64_t seq;
	struct state_m *m;
	bool sweeps;
};

struct state_m {
	uint64_t id;
	struct state_g *g;
	struct state_p *p;
	bool wants_p; /* its goroutine has left a system call, and runs once the thread has a P */
};

/* Sizes of caches by the low bits of ids: most events concern few threads and goroutines. Powers of
 * two. */
#define RECENT_THREADS 64
#define RECENT_GOROUTINES 1024

struct state_counter {
	uint64_t value;
	bool known;
	bool pending;
	bool is_new; /* of the kernel's: the trace does not have this value yet */
};

struct state {
	struct trace_sink sink;
	struct error *error;
	struct trace_model_stats stats;
	struct map threads;    /* id -> struct state_m * */
	struct map goroutines; /* goid -> struct state_g * */
	struct map processors; /* id -> struct state_p * */
	struct map ended;      /* goids that ended in the first generation */
	struct map tasks;      /* ids of open tasks */
	/* By the low bits of the id, the last one looked up; or NULL. */
	struct state_m *recent_threads[RECENT_THREADS];
	struct state_g *recent_goroutines[RECENT_GOROUTINES];
	bool first_generation;
	uint64_t now;            /* the time of the current event */
	struct trace_step step;  /* the last step emitted */
	uint64_t forgot_threads; /* the number of the event at which threads were last forgotten */
	size_t regions;          /* that are open */
	uint64_t put_off;        /* events while a new generation was due */
	uint64_t gc_seq;
	bool gc_runs;
	uint64_t *pending_labels; /* goroutines whose labels are pending */
	size_t pending_labels_count;
	size_t pending_labels_capacity;
	bool gc_pending; /* this generation does not say yet that the GC runs */
	/* Read from outside, possibly when no thread can emit them. */
	struct state_counter gomaxprocs, heap_alloc, heap_goal;
	struct state_counter counters[TRACE_COUNTERS];
	bool counters_pending; /* at least one of these is pending */
	uint64_t kernel_ns;    /* when the pending ones in counters[] were read */
	bool has_begun;        /* there was an event other than the states at the beginning */
	uint64_t helpers;      /* made-up goroutines so far */
};

/* Finds or creates the item with this id. NULL: too many, or no memory, which is in state.error. */
struct state_m *state_find_thread(struct state *s, uint64_t id);
struct state_p *state_processor(struct state *s, uint32_t id);
/* NULL when it is not known. */
struct state_g *state_find_goroutine(const struct state *s, uint64_t id);

/* The same, without a search where it is a recent one. */
static inline struct state_m *state_thread(struct state *s, uint64_t id)
{
	struct state_m **recent = &s->recent_threads[id % RECENT_THREADS];

	if (!*recent || (*recent)->id != id)
		*recent = state_find_thread(s, id);
	return *recent;
}

static inline struct state_g *state_goroutine(struct state *s, uint64_t id)
{
	struct state_g **recent = &s->recent_goroutines[id % RECENT_GOROUTINES];

	if (!*recent || (*recent)->id != id)
		*recent = state_find_goroutine(s, id);
	return *recent;
}

/* Emits a step to the sink. `m` NULL: on no thread. */
void state_emit(struct state *s, const struct state_m *m, enum trace_op op, uint64_t a, uint64_t b,
		uint64_t c, uint64_t d);

/* OP_GO_STATUS of a goroutine, with its stack where that is known. */
void state_emit_status(struct state *s, const struct state_g *g);

/* Makes an unknown goroutine known, without a thread: by GoStatus in the first generation, by
 * GoCreate later.
 */
struct state_g *state_introduce(struct state *s, struct state_m *m, uint64_t id,
				enum trace_status status);
/* Whether the limit of goroutines is reached. */
static inline bool state_is_full(struct state *s)
{
	bool full = s->goroutines.count >= STATE_MAX_GOROUTINES;

	s->stats.refused += full;
	return full;
}
/* Makes the goroutine known in this state, on `m`, without a step. */
struct state_g *state_add_goroutine(struct state *s, uint64_t id, enum trace_status status,
				    struct state_m *m);
/* Forgets the goroutine. */
void state_remove_goroutine(struct state *s, struct state_g *g);

/* A thread with a P whose goroutine runs; or, with `or_none`, one that has no goroutine. NULL:
 * none. */
struct state_m *state_host(struct state *s, struct state_m *m, bool or_none);
/* Likewise, but never NULL: borrows a P for a thread that does not exist. */
struct state_m *state_host_any(struct state *s, struct state_m *m);

/* Returns a P that state_host_any() has borrowed. */
void state_return_host(struct state *s, struct state_m *m);

/* Makes up a goroutine that runs, for logs while no other does (TRACE_HELPER_GOID), and ends it.
 * NULL: another runs, or there are too many. */
struct state_m *state_begin_helper(struct state *s);
void state_end_helper(struct state *s, struct state_m *host);

/* Transitions that reconcile missing events. */
void state_drop_g(struct state *s, struct state_m *m); /* afterwards the thread has no goroutine */
void state_drop_p(struct state *s, struct state_m *m); /* afterwards the thread has no P */
void state_take_p(struct state *s, struct state_m *m, uint32_t p);
/* Takes the P from a thread in a system call. */
void state_steal_p(struct state *s, struct state_m *m, struct state_p *p);
/* Makes the goroutine known and takes it from its thread; `want` is the state afterwards. A
 * runnable one stays runnable when waiting is wanted. NULL: it failed. */
struct state_g *state_loosen(struct state *s, struct state_m *m, uint64_t goid,
			     enum trace_status want);
/* Whether the goroutine runs on m with P `p`; with TRACE_NO_P, with any P. */
static inline bool state_runs(const struct state_m *m, uint32_t p, uint64_t goid)
{
	const struct state_g *g = m->g;

	return g && g->id == goid && g->status == TRACE_RUNNING &&
	       (p == TRACE_NO_P || m->p->id == p);
}
/* Makes that true; false: impossible. */
bool state_make_run(struct state *s, struct state_m *m, uint32_t p, uint64_t goid);
static inline bool state_run(struct state *s, struct state_m *m, uint32_t p, uint64_t goid)
{
	return state_runs(m, p, goid) || state_make_run(s, m, p, goid);
}
/* Starts a runnable goroutine on a thread that has a P and no goroutine. */
void state_start(struct state *s, struct state_m *m, struct state_g *g);
/* Ends a goroutine, whatever state it is in. */
void state_kill(struct state *s, struct state_m *m, struct state_g *g);
/* Ends the ranges that must not outlive their goroutine. */
void state_end_ranges(struct state *s, struct state_g *g);
/* Ends a running goroutine's regions from the i-th on, the innermost first. */
void state_end_regions(struct state *s, struct state_g *g, size_t i);
/* Opens a region; false: there are too many, or no memory. */
bool state_open_region(struct state *s, struct state_g *g, const struct region *region);
static inline void state_close_ranges(struct state *s, struct state_g *g)
{
	if (g->in_assist || g->stops_world)
		state_end_ranges(s, g);
}

/* The keys of one of its maps in ascending order: emission is in the order of ids, not of the map.
 * The caller frees them; NULL when empty, or with s->error. */
uint64_t *state_ids(struct state *s, const struct map *map);
/* Forgets threads that have neither a goroutine nor a P. */
void state_forget_threads(struct state *s);
/* Emits the state of everything, as a generation begins. */
void emit_all_status(struct state *s);

void state_release(struct state *s);

#endif
