/*
 * What the scheduler, the collector and the Ps did in a trace: stops of the world, waits for a
 * P, system calls by stack, the collector's work.
 *
 * Times are ns since the trace began. Texts and stacks are numbers of the tables.
 */
#ifndef REQUESTS_MACHINE_H
#define REQUESTS_MACHINE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "gotrace/event.h"
#include "requests/histogram.h"
#include "requests/machine_sums.h"
#include "requests/processors.h"
#include "requests/running_split.h"
#include "requests/span_tables.h"

/* A stop of the world: from the call until the world starts again. */
struct machine_stop {
	uint64_t begin;
	uint64_t end;
	uint64_t stopping_ns; /* until all other Ps had stopped; valid with is_stopped */
	uint64_t g;           /* that stopped it */
	uint64_t last_g;      /* on the P that stopped last; 0: none was on it */
	uint32_t reason;
	uint32_t start; /* of g */
	uint32_t stack; /* of g; 0: not known */
	uint32_t last_start;
	uint32_t last_stack; /* its stack when it left the P */
	uint32_t last_p;
	uint32_t given_up; /* Ps that had to stop */
	bool is_stopped;
	bool is_cut; /* the trace ended first */
};

/* A goroutine was runnable and waited for a P. */
struct machine_wait {
	uint64_t begin;
	uint64_t end;
	uint64_t g;
	uint64_t holder;     /* the goroutine that ran longest on that P meanwhile; 0: none ran */
	uint64_t holder_ns;  /* how long it ran within the wait */
	uint64_t stopped_ns; /* of the wait, while the world was stopped */
	uint32_t start;      /* of g */
	uint32_t stack;      /* of g; 0: not known */
	uint32_t why;        /* it was runnable: "created", "unblocked", "preempted" ... */
	uint32_t p;          /* on which g ran then */
	uint32_t holder_start;
	uint32_t holder_stack; /* its stack when it left the P */
};

/* A cycle of the collector, from sweep termination to mark termination. */
struct machine_cycle {
	uint64_t begin;
	uint64_t end;
	bool is_cut; /* by the beginning or the end of the trace */
	/* The stops of the world with which it begins and ends: an index in stops + 1; 0: not
	 * known. */
	size_t first_stop;
	size_t last_stop;
};

enum machine_worker { WORKER_NONE, WORKER_DEDICATED, WORKER_FRACTIONAL, WORKER_IDLE, WORKERS };

struct machine_gc {
	struct machine_cycle *cycles;
	size_t count;
	size_t capacity;
	uint64_t worker_ns[WORKERS]; /* CPU time of background workers, by mode */
	uint64_t sweep_ns;
	uint64_t swept_bytes;
	uint64_t reclaimed_bytes;
	uint64_t heap_max;  /* bytes; 0: not known */
	uint64_t heap_goal; /* the last */
	struct machine_sums assists;
};

/* A counter of the kernel, from its first reading in the trace to the last. */
struct machine_counter {
	bool is_known;
	uint64_t begin; /* times of both */
	uint64_t end;
	uint64_t first;
	uint64_t last;
};

/* The number of longest waits that are kept. */
enum { MACHINE_LONGEST = 100 };

struct machine_report {
	struct span_tables tables;
	uint64_t duration;
	uint64_t gomaxprocs; /* the last; 0: the trace does not say */
	struct processors processors;
	struct machine_stop *stops; /* in order of time */
	size_t stop_count;
	size_t stop_capacity;
	struct histogram latency;                     /* of waits that began in the trace */
	struct machine_wait longest[MACHINE_LONGEST]; /* longest first */
	size_t longest_count;
	struct machine_gc gc;
	struct machine_sums syscalls;
	struct machine_counter counters[TRACE_COUNTERS];
	/* CPU samples by who ran; functions are names of these: "goroutines" ... */
	struct running_split cpu;
};

/* Reads the trace to its end; `cancel` as in spans_options. */
struct error *machine_read(struct trace_reader *reader, const atomic_int *cancel,
			   struct machine_report *ret) must_check;
void machine_release(struct machine_report *m);

#endif
