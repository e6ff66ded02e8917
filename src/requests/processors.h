/* The Ps of a trace: for how long each was in which state, and which goroutines had it last. */
#ifndef REQUESTS_PROCESSORS_H
#define REQUESTS_PROCESSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"

enum processor_state {
	PROCESSOR_IDLE,       /* no thread has it */
	PROCESSOR_SCHEDULING, /* its thread has no goroutine: it looks for one */
	PROCESSOR_RUNNING,
	PROCESSOR_IN_SYSCALL, /* its goroutine is in a system call, and nobody has taken it */
	PROCESSOR_STATES
};

/* A goroutine had a P. */
struct processor_run {
	uint64_t g;
	uint64_t begin;
	uint64_t end;
	uint32_t stack; /* where it stood at the end, of the spans' stacks; 0: not known */
	uint32_t start; /* its start function, in the texts; 0: not known */
};

/* The runs that are remembered of each. */
enum { PROCESSOR_RUNS = 32 };

struct processor {
	uint32_t id;
	bool is_new; /* its state is the one that the trace began with */
	enum processor_state state;
	uint64_t since;
	uint64_t ns[PROCESSOR_STATES];
	struct processor_run run;                  /* the current one; g 0: none */
	struct processor_run runs[PROCESSOR_RUNS]; /* the last ones, in a ring */
	size_t run_count;
	uint64_t sweeps_since; /* + 1; 0: it does not sweep */
};

struct processors {
	struct processor **items; /* by their ids, once they are complete */
	size_t count;
	size_t capacity;
	struct map index; /* id -> place in items + 1 */
	size_t held;      /* that are not idle */
};

/* Finds or makes it. NULL: no memory, or no program has such an id. */
struct processor *processors_of(struct processors *all, uint64_t id);
/* From now on it is in this state. */
void processor_change(struct processors *all, struct processor *p, enum processor_state state,
		      uint64_t now);
/* It has had this state since the trace began. */
void processor_begin(struct processors *all, struct processor *p, enum processor_state state);

void processor_run(struct processor *p, uint64_t g, uint32_t start, uint64_t now);
/* Its goroutine leaves it. */
void processor_leave(struct processor *p, uint32_t stack, uint32_t start, uint64_t now);
/* The goroutine that had it longest within this time, and for how long. False: none. */
bool processor_holder(const struct processor *p, uint64_t begin, uint64_t end,
		      struct processor_run *ret, uint64_t *ret_ns);
/* The last goroutine that left it since then, or has it. */
bool processor_last(const struct processor *p, uint64_t since, struct processor_run *ret);

/* The trace ends. */
void processors_complete(struct processors *all, uint64_t now);
void processors_release(struct processors *all);

#endif
