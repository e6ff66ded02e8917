/*
 * Tracing a live process: puts the agent into it, and gives what happens there as events in the
 * order of their times.
 *
 * The target is stopped twice, briefly: when tracing begins and when it ends. In between it runs by
 * itself, even if gospect is killed. docs/reference/written-to-target.md lists what is written to
 * it. A thread of gospect (collect/collector.h) fetches the records. One other thread calls the
 * functions here. It has the lowest priority from tracer_next() on, and decodes only where a CPU is
 * free, as long as nothing is urgent. tracer_stop() and tracer_close() restore its priority.
 */
#ifndef COLLECT_TRACER_H
#define COLLECT_TRACER_H

#include <regex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/intern.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "collect/collector.h"
#include "golayout/golayout.h"
#include "gotrace/event.h"
#include "gotrace/texts.h"
#include "image/image.h"
#include "target/target.h"
#include "unwind/stacks.h"

#define TRACER_MAX_DEPTH 127

struct surgeon_line;

struct tracer_options {
	uint32_t stack_depth; /* frames of a stack that are kept, at most; 0: no stacks */
	const regex_t *root;  /* whose calls are recorded, besides handlers' (hooks/entry_points.h);
				 or NULL */
	bool no_names;        /* inject_options.no_names */
	bool allocations;     /* inject_options.allocations */
	const struct surgeon_line *surgeon; /* inject_options.surgeon */
	const volatile sig_atomic_t *stop;  /* tracer_open() ends early when it is not 0; or NULL */
	/* When tracer_stop() will be called, since the beginning; the caller then has its own
	 * priority. 0: at a signal. */
	uint64_t duration_ns;
	/* A file without a name for undecoded records, which the caller closes after the tracer,
	 * and the number of bytes that it may take; 0: no file. */
	int spill;
	uint64_t spill_bytes;
	/* When they are reached, records are decoded at once, even if no CPU is idle. */
	struct collector_limits limits;
	const atomic_int *cancel; /* likewise when it is not 0; never NULL */
	double cpu_hz; /* CPU samples of each thread in a second of its CPU time; 0: none */
};

struct tracer_stats {
	uint64_t events;       /* that tracer_next() gave out */
	uint64_t lost;         /* records that found their ring full, or no ring at all */
	bool had_to_wait;      /* for a CPU, behind others: no real-time priority */
	uint64_t stacks;       /* different ones */
	uint64_t stacks_lost;  /* events without their stack, because the table was full */
	uint64_t texts_lost;   /* texts and labels that there was no room for (gotrace/texts.h) */
	uint64_t labels_cut;   /* labels that were cut or left out of their sets */
	uint64_t labels_lost;  /* sets that are not known: too many, or in use no more */
	uint64_t absences;     /* times that gospect did not run for seconds, and lost events */
	int spill_failed;      /* why nothing went to the file any more: an errno, or 0 */
	uint64_t without_ring; /* Ps that had to share rings */
	uint64_t bytes;        /* of records */
	uint64_t cpu_samples_lost;
	uint64_t threads_unsampled; /* for lack of descriptors */
	uint64_t attach_pause_ns;   /* all threads stopped, to put the agent in */
	uint64_t detach_pause_ns;   /* the longest, to take it out */
};

struct trace_batch {
	const struct trace_event *events; /* valid until the next call */
	size_t count;
	/* Behind the events, sometimes, when records were lost: the live goroutines; all others
	 * that were made before `living_ns` have ended. Else NULL. */
	const struct map *living;
	uint64_t living_ns;
	/* All events before this time, in ns as the events', were returned, except records that a
	 * thread was still writing. */
	uint64_t until_ns;
	/* No more events will come: the target has ended, or tracer_stop() was called and all
	 * events were returned. */
	bool last;
};

struct tracer;

/*
 * Tracing has begun when this returns. On an error, nothing is left in the target:
 * ERROR_UNSUPPORTED (unknown code, another architecture), ERROR_DENIED (a debugger or another
 * gospect, with its pid; seccomp, SELinux, no permission), ERROR_GONE. It first removes the agent
 * of a killed gospect. Keeps its arguments.
 */
struct error *tracer_open(struct target *t, const struct image *img, const struct golayout *lay,
			  const struct tracer_options *options, struct tracer **ret) must_check;

/*
 * Waits for events, 40 ms, or less when a signal arrives; gives what is certain to be in order by
 * now, which may be none; it takes some 10 ms, whatever the target does. The first events of all
 * are the states of goroutines when tracing began, with ns 1. That the target ends is no error.
 *
 * Undelivered records wait in 64 MB of memory, and then in the file; without one, in 128 MB of
 * memory. While all CPUs are busy nothing is delivered, until half of that is in use, or a limit of
 * the options is reached. Records beyond that are lost, and counted.
 */
struct error *tracer_next(struct tracer *tr, struct trace_batch *ret) must_check;

/* Events up to now are delivered at once, before anything else. */
void tracer_flush_now(struct tracer *tr);

/* Takes the agent out: then tracer_next() gives the rest, as fast as it can. Does nothing the
 * second time, or when the target has ended. */
struct error *tracer_stop(struct tracer *tr) must_check;

/* Takes the agent out when that was not done. */
void tracer_close(struct tracer *tr);

/* Bytes of records that wait to be decoded. */
uint64_t tracer_waiting(const struct tracer *tr);

void tracer_stats(const struct tracer *tr, struct tracer_stats *ret);
/* Functions that the user named but that cannot be hooked, and why: a line each. */
const struct strbuf *tracer_left_out(const struct tracer *tr);
/* Why there are no CPU samples although they were asked for; NULL: there are. The tracer's. */
const struct error *tracer_no_cpu_samples(const struct tracer *tr);
/* CLOCK_MONOTONIC at ns 0 of the events. */
uint64_t tracer_start(const struct tracer *tr);
/*
 * The texts and stacks that numbers in events refer to. The words of a stack are those of
 * pclntab_frames(), innermost first, up to the goroutine's start function. A text exists until a
 * sweep in which it was not marked: the caller sweeps, between two calls of tracer_next(), after
 * all holders of numbers have marked them; tracer_mark_texts() does that for those that events to
 * come may have.
 */
struct texts *tracer_texts(const struct tracer *tr);
void tracer_mark_texts(struct tracer *tr);
const struct stacks *tracer_stacks(const struct tracer *tr);
/* The stacks of CPU samples, each as its words. There is no end of them: between two calls of
 * tracer_next(), when no one holds a number, they can be forgotten. */
const struct intern *tracer_cpu_stacks(const struct tracer *tr);
const struct c_functions *tracer_c_functions(const struct tracer *tr);
bool tracer_has_many_cpu_stacks(const struct tracer *tr);
void tracer_forget_cpu_stacks(struct tracer *tr);

static inline void cleanup_tracer(struct tracer **tr)
{
	tracer_close(*tr);
}
#define _cleanup_tracer_ __attribute__((cleanup(cleanup_tracer)))

#endif
