/*
 * What the scheduler, the collector and the Ps did in a trace: stops of the world, times in which
 * goroutines could run and did not, system calls by stack, the collector's work.
 *
 * Times are ns since the trace began. Texts and stacks are of the tables.
 */
#ifndef REQUESTS_MACHINE_H
#define REQUESTS_MACHINE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "requests/histogram.h"
#include "requests/machine_sums.h"
#include "requests/processors.h"
#include "requests/span_tables.h"

/* The world stops: from the call until it starts again. */
struct machine_stop {
	uint64_t begin;
	uint64_t end;
	uint64_t stopping_ns; /* until no other P was held; valid with is_stopped */
	uint64_t g;           /* that stopped it */
	uint64_t last_g;      /* that had the P which was given up last; 0: none had it */
	uint32_t reason;
	uint32_t start; /* of g */
	uint32_t stack; /* of g; 0: not known */
	uint32_t last_start;
	uint32_t last_stack; /* where it stood when it gave up the P */
	uint32_t last_p;
	uint32_t given_up; /* Ps that had to be given up */
	bool is_stopped;
	bool is_cut; /* the trace ended first */
};

/* A goroutine that could run did not. */
struct machine_wait {
	uint64_t begin;
	uint64_t end;
	uint64_t g;
	uint64_t holder;     /* the goroutine that had that P longest meanwhile; 0: none had it */
	uint64_t holder_ns;  /* for so long of the wait */
	uint64_t stopped_ns; /* of the wait, in which the world was stopped */
	uint32_t start;      /* of g */
	uint32_t stack;      /* where g stood; 0: not known */
	uint32_t why;        /* it could run: "created", "unblocked", "preempted" ... */
	uint32_t p;          /* where it ran at last */
	uint32_t holder_start;
	uint32_t holder_stack; /* where it was when it left the P */
};

/* A cycle of the collector, from sweep termination to mark termination. */
struct machine_cycle {
	uint64_t begin;
	uint64_t end;
	bool is_cut; /* by the beginning or the end of the trace */
};

enum machine_worker { WORKER_NONE, WORKER_DEDICATED, WORKER_FRACTIONAL, WORKER_IDLE, WORKERS };

struct machine_gc {
	struct machine_cycle *cycles;
	size_t count;
	size_t capacity;
	uint64_t worker_ns[WORKERS]; /* that background workers ran */
	uint64_t sweep_ns;
	uint64_t swept_bytes;
	uint64_t reclaimed_bytes;
	uint64_t heap_max;  /* bytes; 0: not known */
	uint64_t heap_goal; /* the last */
	struct machine_sums assists;
};

/* Of the longest waits so many are kept. */
enum { MACHINE_LONGEST = 100 };

struct machine_report {
	struct span_tables tables;
	uint64_t duration;
	uint64_t gomaxprocs; /* the last; 0: the trace does not say */
	struct processors processors;
	struct machine_stop *stops; /* in the order of time */
	size_t stop_count;
	size_t stop_capacity;
	struct histogram latency;                     /* of waits whose begin is in the trace */
	struct machine_wait longest[MACHINE_LONGEST]; /* longest first */
	size_t longest_count;
	struct machine_gc gc;
	struct machine_sums syscalls;
};

/* Reads the trace to its end; `cancel` as in spans_options. */
struct error *machine_read(struct trace_reader *reader, const atomic_int *cancel,
			   struct machine_report *ret) must_check;
void machine_release(struct machine_report *m);

#endif
