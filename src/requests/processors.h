/* The Ps of a trace: how long each was in which state, and which goroutines ran on it last. */
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
	PROCESSOR_IN_SYSCALL, /* its goroutine is in a system call and has kept it */
	PROCESSOR_STATES
};

/* A goroutine ran on a P. */
struct processor_run {
	uint64_t g;
	uint64_t begin;
	uint64_t end;
	uint32_t stack; /* at the end, a number of the spans' stacks; 0: not known */
	uint32_t start; /* its start function, in the texts; 0: not known */
};

/* The number of runs that each P keeps. */
enum { PROCESSOR_RUNS = 32 };

struct processor {
	uint32_t id;
	bool is_new; /* it has had its state since the trace began */
	enum processor_state state;
	uint64_t since;
	uint64_t ns[PROCESSOR_STATES];
	struct processor_run run;                  /* the current one; g 0: none */
	struct processor_run runs[PROCESSOR_RUNS]; /* the last ones, in a ring */
	size_t run_count;
	uint64_t sweeps_since; /* + 1; 0: it does not sweep */
};

struct processors {
	struct processor **items; /* ordered by id, once complete */
	size_t count;
	size_t capacity;
	struct map index; /* id -> place in items + 1 */
	size_t busy;      /* that run a goroutine, or look for one */
};

/* Finds or makes the P. NULL: no memory, or the id is too large for any program. */
struct processor *processors_of(struct processors *all, uint64_t id);
/* Its state is this one from now on. */
void processor_change(struct processors *all, struct processor *p, enum processor_state state,
		      uint64_t now);
/* It has had this state since the trace began. */
void processor_begin(struct processors *all, struct processor *p, enum processor_state state);

void processor_run(struct processor *p, uint64_t g, uint32_t start, uint64_t now);
/* Its goroutine leaves it. */
void processor_leave(struct processor *p, uint32_t stack, uint32_t start, uint64_t now);
/* The goroutine that ran on it longest within this time, and how long. False: none. */
bool processor_holder(const struct processor *p, uint64_t begin, uint64_t end,
		      struct processor_run *ret, uint64_t *ret_ns);
/* The goroutine on it, or the last one that left it since then. */
bool processor_last(const struct processor *p, uint64_t since, struct processor_run *ret);

/* The trace ends. */
void processors_complete(struct processors *all, uint64_t now);
void processors_release(struct processors *all);

#endif
