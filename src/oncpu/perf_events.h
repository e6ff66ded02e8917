/*
 * perf_event_open on all threads of a process: samples of running threads, with user registers and
 * a piece of the stack. Later threads inherit the events. Source: perf_event_open(2),
 * include/uapi/linux/perf_event.h.
 *
 * The kernel interrupts a running thread, hz times a second of its CPU time, as for any perf. The
 * event is the software event cpu-clock, which every machine has.
 */
#ifndef ONCPU_PERF_EVENTS_H
#define ONCPU_PERF_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "image/registers.h"

/* The event of a thread. */
enum perf_what {
	PERF_RAN,     /* for another period of CPU time */
	PERF_LEAVES,  /* its CPU; LEFT or STOPPED follows */
	PERF_LEFT,    /* and now sleeps */
	PERF_STOPPED, /* but could have continued */
	PERF_CAME,    /* to a CPU */
};

/* A sample; its pointers are valid during the call that hands it over. LEFT, STOPPED and CAME only
 * have the thread and the time. */
struct perf_sample {
	enum perf_what what;
	pid_t pid;
	pid_t tid;
	uint64_t time;  /* CLOCK_MONOTONIC */
	bool in_kernel; /* a system call, a fault, an interrupt; `regs` are the user's even then */
	struct registers regs; /* the user's, all of them */
	const uint8_t *stack;  /* from sp on */
	size_t stack_size;
	/* Return addresses that the kernel found by frame pointers, innermost first. */
	const uint64_t *chain;
	size_t chain_count;
	/* The same for the kernel, from the interrupted place; with options.kernel. */
	const uint64_t *kernel;
	size_t kernel_count;
	/* The output of options.program for it, aligned to 8; NULL: none. */
	const void *note;
	size_t note_size;
};

/* A program of the kernel (BPF_PROG_TYPE_PERF_EVENT) that runs at each sample of a running thread,
 * and the map of events (BPF_MAP_TYPE_PERF_EVENT_ARRAY) that it writes to. */
struct perf_program {
	int fd;
	int outputs;
};

/* A record of the kernel, with all that it has beside the stack, has less than 64 KB. */
#define PERF_MOST_STACK (48u << 10)

struct perf_options {
	double hz;
	enum machine machine; /* must be this machine's */
	size_t stack_size; /* bytes of stack in a sample, a multiple of 8; PERF_MOST_STACK at most
			    */
	bool kernel;       /* record the kernel's frames; ERROR_DENIED if that is not permitted */
	/* Report also when threads leave their CPUs and return, where permitted. */
	bool switches;
	const struct perf_program *program; /* NULL: none */
};

/* The most events, and descriptors, of one recording. Each takes 1.5 KB in the kernel and three
 * system calls before the first sample. */
#define PERF_MOST_EVENTS (1u << 16)

struct perf_events;

/* ERROR_DENIED says which sysctl or capability would allow it. */
struct error *perf_events_open(pid_t pid, const pid_t *tids, size_t count,
			       const struct perf_options *options,
			       struct perf_events **ret) must_check;
void perf_events_close(struct perf_events *p);

/* NULL when options.program runs, or there is none; else why it does not run. */
const struct error *perf_events_no_program(const struct perf_events *p);

/* Hands over the records since the last call, in the order of time. Stops at the first error of
 * `take` and returns it. */
struct error *perf_events_drain(struct perf_events *p,
				struct error *(*take)(void *arg, const struct perf_sample *sample),
				void *arg) must_check;

/* Whether all context switches were reported. That needs permission for kernel samples and twice
 * the descriptors. Reporting stops after a second with 10,000 switches. */
bool perf_events_see_switches(const struct perf_events *p);

/* How many samples the kernel has dropped for lack of room. */
uint64_t perf_events_lost(const struct perf_events *p);

/* How many threads have no event because the limit of open files is too low. At least one thread
 * has one. */
size_t perf_events_unseen(const struct perf_events *p);

/* The nanoseconds of CPU time that a sample stands for. */
uint64_t perf_events_period(const struct perf_events *p);

/* Whether samples include time in the kernel; that needs permission. */
bool perf_events_see_kernel(const struct perf_events *p);

static inline void cleanup_perf_events(struct perf_events **p)
{
	perf_events_close(*p);
}
#define _cleanup_perf_events_ __attribute__((cleanup(cleanup_perf_events)))

#endif
