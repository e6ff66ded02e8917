/*
 * Every goroutine at one moment, and the two formats that show them one by one: the runtime's own
 * traceback text, and JSON.
 *
 * "One moment" lasts as long as reading takes (0.5 ms for 1,000 goroutines, 70 ms for 100,000): the
 * target continues to run. Each goroutine's state and stack belong together. A running goroutine of
 * a live process gets its stack from a sample of its thread (oncpu/sampler.h) in the 20 ms after
 * its header was read, or later if the thread gets no CPU. Without a sample it has none.
 */
#ifndef DUMP_DUMP_H
#define DUMP_DUMP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "dump/values.h"
#include "goroutine/goroutines.h"
#include "oncpu/sampler.h"
#include "waits/wait_graph.h"

struct dump_goroutine {
	uint64_t id;
	uint64_t g;      /* address of its g */
	uint64_t parent; /* the goroutine that created it; 0: not known (Go 1.20 and older) */
	uint64_t go_pc;  /* where it was created */
	uint64_t start_pc;
	uint64_t wait_since; /* CLOCK_MONOTONIC; 0: not known */
	uint64_t m;          /* address of its m, or 0 */
	uint64_t bubble;     /* id of its synctest bubble; 0: none */
	uint64_t sp, pc;     /* where its stack begins */
	uint32_t key;        /* goroutine_record.key */
	uint32_t stack;
	uint32_t labels;
	enum goroutine_status status;
	uint8_t wait_reason;
	bool locked;    /* to its thread */
	bool system;    /* the runtime's own */
	bool unknown;   /* its stack changed at every attempt to read it, or is not in the core */
	bool on_cpu;    /* it runs, and its stack is known: from its thread's registers in the core,
			 * or from a sample soon after its header was read */
	int32_t thread; /* the thread that runs it or is in its system call; 0: none */
	const struct wait_object *connection;  /* that it waits for; NULL: none is known */
	const struct goroutine_values *values; /* NULL: not known, or not requested */
};

struct dump {
	struct goroutine_set *set;
	const struct image *img;
	int minor; /* of the target's Go */
	int32_t pid;
	const char *exe;                /* the program's name; the target's string */
	uint64_t taken;                 /* CLOCK_MONOTONIC; 0: not known */
	const struct target_core *core; /* NULL: a live process */
	struct oncpu_sampler *sampler; /* for the C code in stacks of running goroutines; or NULL */
	struct error *no_on_cpu;       /* why running goroutines have no stacks; NULL: they have, or
					* none ran */
	struct values *values;         /* NULL: not requested */
	struct wait_graph *waits;      /* with the connections; NULL: not requested */
	char *panic; /* the message of the panic that ended the process; NULL: none is known */
	struct dump_goroutine *items; /* by id */
	size_t count;
	size_t capacity;
};

/* Whether the dump has its stack. */
static inline bool dump_has_stack(const struct dump_goroutine *g)
{
	return !g->unknown && (g->status != G_RUNNING || g->on_cpu);
}

static inline enum unwind_method dump_method(const struct dump *dump)
{
	return stacks_unwinding(goroutine_set_stacks(dump->set))->method;
}

struct dump_options {
	size_t stack_limit;          /* the most bytes of a stack that are read */
	bool system;                 /* include the runtime's own goroutines */
	bool parked_only;            /* running goroutines of a live process need no stacks */
	bool values;                 /* also the arguments of the frames, and connections */
	struct variables *variables; /* and these local variables; NULL: none */
	struct unwinding unwind;     /* how frames are found */
	const atomic_int *stop;      /* ERROR_STOPPED once it is not 0; NULL: never */
};

struct error *dump_collect(struct target *t, const struct image *img, const struct golayout *lay,
			   const struct dump_options *options, struct dump **ret) must_check;
void dump_destroy(struct dump *dump);

/* "running", "chan receive" ...: the text that the runtime prints in brackets. */
const char *dump_state(const struct dump *dump, const struct dump_goroutine *g);
/* "running", "runnable", "syscall", "waiting", "preempted" ... */
const char *dump_status(const struct dump_goroutine *g);
/* The wait reason; "" for a goroutine that does not wait. */
const char *dump_wait_reason(const struct dump *dump, const struct dump_goroutine *g);

/* `all`: shows hidden frames, too. */
struct error *dump_write_text(const struct dump *dump, bool all, FILE *out) must_check;
/* Merges equal stacks; largest groups first. */
struct error *dump_write_groups(const struct dump *dump, bool all, FILE *out) must_check;
struct error *dump_write_json(const struct dump *dump, bool all, FILE *out) must_check;

static inline void cleanup_dump(struct dump **d)
{
	dump_destroy(*d);
}
#define _cleanup_dump_ __attribute__((cleanup(cleanup_dump)))

#endif
