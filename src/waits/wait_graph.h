/*
 * Who waits for whom: goroutines by the object that they wait for, and who holds that object.
 *
 * Nothing is written to the target and it is not stopped. A goroutine that waits does not change,
 * so its stack and its sudog are read one after the other; then its header is read again. What was
 * read counts if the goroutine did not run meanwhile.
 *
 * A wait is never guessed. A sudog or pollDesc counts only if it points back to the goroutine. The
 * functions on the stack show to which kind of object a semaphore belongs.
 */
#ifndef WAITS_WAIT_GRAPH_H
#define WAITS_WAIT_GRAPH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/map.h"
#include "goroutine/goroutines.h"

enum wait_kind {
	WAIT_MUTEX,
	WAIT_RWMUTEX,
	WAIT_WAITGROUP,
	WAIT_COND,
	WAIT_CHANNEL, /* address 0: the nil channel */
	WAIT_SELECT,  /* without cases; the others wait for their channels */
	WAIT_SEMAPHORE,
	WAIT_NETWORK,
	WAIT_TIMER,
	WAIT_PROCESS,
	WAIT_OTHER, /* named by the wait reason */
	WAIT_KINDS
};

/* The names in JSON: "mutex", "channel" ... */
const char *wait_kind_name(enum wait_kind kind);

/* What a waiter wants of its object. */
enum wait_side { WAIT_ANY, WAIT_RECEIVE, WAIT_SEND, WAIT_READ, WAIT_WRITE };

/* A line of the source; the strings belong to the function table. */
struct wait_place {
	const char *function; /* "" when it is not known */
	const char *file;
	int line;
};

struct wait_goroutine {
	uint64_t id;
	uint64_t g;
	uint64_t waiting; /* g.waiting: the first sudog, or 0 */
	uint64_t timer;   /* g.timer */
	uint64_t stack_hi;
	uint64_t sp;
	uint64_t pc;
	uint64_t lr;
	uint64_t fp;
	uint64_t since; /* CLOCK_MONOTONIC; 0: not known */
	uint64_t stack_lo;
	uint64_t bubble;   /* synctest */
	uint64_t go_pc;    /* the go statement that created it: a return address */
	uint64_t start_pc; /* the function that it began with */
	uint32_t key;      /* goroutine_record.key */
	uint32_t stack;    /* in the set's stacks */
	uint32_t look;     /* the one at which it was first seen as it is now */
	enum goroutine_status status;
	uint8_t reason;
	bool alive;
	bool has_stack;
	bool system;  /* the runtime's own */
	bool changed; /* since its wait was read */
	bool partial; /* there are cases of its select that could not be read */
	struct wait_place place;
	uint32_t first_edge; /* in waits.edges, adjacent */
	uint32_t edge_count; /* more than 1: the cases of a select */
};

/* A goroutine waits for an object. */
struct wait_edge {
	uint32_t goroutine;
	uint32_t object;
	enum wait_kind kind;
	uint64_t address;
	uint64_t sudog; /* 0: none */
	uint64_t next;  /* sudog.next */
	enum wait_side side;
	bool is_case;    /* of a select */
	bool is_pending; /* the next writer of an RWMutex, which waits for its readers */
};

/* A goroutine that holds, or may hold, an object. */
struct wait_holder {
	uint32_t object;
	uint32_t goroutine;
	bool proved;
	bool reads; /* an RWMutex */
	const char *why;
	struct wait_place place;
};

struct wait_object {
	enum wait_kind kind;
	uint64_t address;       /* 0: none */
	const char *name;       /* "" when it has none */
	struct wait_place site; /* of its first waiter */
	bool is_global;         /* a variable of the program: any goroutine may reach it */
	bool is_timed;          /* a channel that a timer sends to (Go 1.23 on) */
	bool known;             /* its memory was read: the following holds */
	uint64_t length;        /* of a channel */
	uint64_t capacity;
	bool closed;
	bool locked; /* a mutex or RWMutex: by a writer or by readers */
	bool starving;
	bool writer;       /* an RWMutex: a writer holds it, or is next */
	int64_t readers;   /* that hold it */
	int64_t counter;   /* of a WaitGroup */
	uint64_t lock;     /* of a Cond: the address of its L; 0: not known */
	uint64_t due;      /* of a timer: CLOCK_MONOTONIC; 0: not known */
	int64_t fd;        /* of a pollDesc; -1: not known */
	const char *local; /* "10.0.0.7:52110"; "" when it is not known */
	const char *remote;
	uint64_t queue[2]; /* of a channel: the first sudog that receives, and that sends */
	uint32_t *waiters; /* numbers of edges */
	size_t waiter_count;
	struct wait_holder *holders; /* proved ones first */
	size_t holder_count;
};

/* In a cycle each goroutine waits for an object that the next one holds; the last one waits for the
 * first one. */
struct wait_step {
	uint32_t goroutine;
	uint32_t object;
};

struct wait_cycle {
	struct wait_step *steps;
	size_t count;
	uint64_t oldest; /* the id of its first goroutine, which is the least */
	bool proved;
};

struct wait_graph_options {
	bool system;            /* the runtime's own goroutines too */
	bool connections_only;  /* of the objects, read those of the network alone; no holders */
	const atomic_int *stop; /* ERROR_STOPPED once it is not 0; NULL: never */
};

struct wait_graph {
	struct target *t;
	const struct image *img;
	const struct golayout *lay;
	struct goroutine_set *set;
	struct wait_graph_options options;
	struct arena strings;
	uint64_t taken; /* CLOCK_MONOTONIC; 0: not known */
	struct wait_goroutine *goroutines;
	size_t count;
	size_t capacity;
	struct map by_g;
	struct wait_edge *edges;
	size_t edge_count;
	size_t edge_capacity;
	struct wait_object *objects; /* most waiters first within a kind */
	size_t object_count;
	size_t object_capacity;
	struct wait_holder *holders;
	size_t holder_count;
	size_t holder_capacity;
	uint32_t *waiters;
	struct wait_cycle *cycles; /* proved ones first, then the shortest */
	size_t cycle_count;
	size_t cycle_capacity;
	size_t alive;
	size_t running;  /* their stacks cannot be read */
	size_t moved;    /* left out: they ran each time that they were read */
	size_t unknown;  /* waits whose object was not found */
	uint32_t looks;  /* how often all goroutines were read */
	bool confirming; /* the goroutines of cycles are read once more */
	bool truncated;  /* more cases, waiters or objects than are read */
};

struct error *wait_graph_take(struct target *t, const struct image *img, const struct golayout *lay,
			      const struct wait_graph_options *options,
			      struct wait_graph **ret) must_check;
void wait_graph_destroy(struct wait_graph *w);

/* wait_graph_take() in steps: what each goroutine waits for. wait_graph_look() may be called again:
 * goroutines that did not run keep their `look`, all others are read anew. */
struct error *wait_graph_open(struct target *t, const struct image *img, const struct golayout *lay,
			      const struct wait_graph_options *options,
			      struct wait_graph **ret) must_check;
struct error *wait_graph_look(struct wait_graph *w) must_check;
/* Then the objects, their holders and names. After it no look may follow. */
struct error *wait_graph_explain(struct wait_graph *w) must_check;

void wait_graph_write_text(const struct wait_graph *w, FILE *out);
void wait_graph_write_json(const struct wait_graph *w, FILE *out);
void wait_graph_write_dot(const struct wait_graph *w, FILE *out);

/* The wait reason of a goroutine, or its state. */
const char *wait_state(const struct wait_graph *w, const struct wait_goroutine *g);

static inline void cleanup_wait_graph(struct wait_graph **w)
{
	wait_graph_destroy(*w);
}
#define _cleanup_wait_graph_ __attribute__((cleanup(cleanup_wait_graph)))

#endif
