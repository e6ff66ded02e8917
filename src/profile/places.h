/*
 * Where a profile's time went, for sentences. A place is the innermost function that is not
 * plumbing, and the wait reason. A profile without time, such as that of a dump, counts goroutines
 * instead.
 */
#ifndef PROFILE_PLACES_H
#define PROFILE_PLACES_H

#include "profile/profile_symbols.h"
#include "profile/stack_tree.h"

struct place {
	uint32_t function; /* in the symbols' strings */
	uint32_t wait;     /* in the profile's */
	uint64_t time;
	uint64_t idle; /* the part of it that views hide at first */
};

struct places {
	struct place *items; /* most time first */
	size_t count;
	size_t capacity;
	struct map index; /* function and wait reason -> index in items + 1 */
};

struct tally {
	bool timed;             /* time is nanoseconds, else goroutines */
	struct places requests; /* where requests are blocked */
	struct places locks;    /* where others wait for a lock */
	struct places blocked;  /* where goroutines are blocked */
	struct places syscalls; /* without idle goroutines */
	struct stack_tree cpu;  /* keys are functions, self is CPU time; without GC */
	uint64_t total;
	uint64_t busy; /* the part of it that is not idle */
	uint64_t request;
	uint64_t running;
	uint64_t runnable;
	uint64_t waiting;
	uint64_t syscall; /* not idle */
	uint64_t cpu_ns;
	uint64_t gc_ns;       /* of cpu_ns */
	struct places loops;  /* by innermost function; idle: the part that waits for work */
	struct places waits;  /* by wait reason alone; function is 0 */
	struct places selves; /* CPU time by the innermost function, without the GC's */
	/* For each blocked sample that is not idle: its place, as place_key() of function and wait
	 * reason; else 0. */
	uint64_t *blocked_at;
};

/* As in tally.blocked_at. */
static inline uint64_t place_key(const struct place *p)
{
	return (uint64_t)p->function << 32 | p->wait;
}

/* A regular expression: CPU time inside these functions belongs to the GC. */
extern const char gc_functions[];

struct error *tally_make(const struct profile *p, const struct profile_symbols *symbols,
			 struct tally *ret) must_check;
void tally_release(struct tally *t);

#define _cleanup_tally_ __attribute__((cleanup(tally_release)))

#endif
