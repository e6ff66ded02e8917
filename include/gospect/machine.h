/* What the scheduler, the garbage collector and the Ps did in an execution trace. */
#ifndef GOSPECT_MACHINE_H
#define GOSPECT_MACHINE_H

#include <gospect/requests.h>
#include <gospect/snapshot.h>

GOSPECT_BEGIN

struct gospect_machine_options {
	size_t size; /* of this structure */
	/* How messages name the trace; NULL: "the trace". */
	const char *name;
	/* Called with one line for each thing that the trace does not show, and why. NULL: no
	 * callback. */
	void (*remark)(void *arg, const char *line);
	void *arg; /* of remark() */
	/* Must outlive the call. NULL: it cannot be cancelled. */
	const struct gospect_cancel *cancel;
};

struct gospect_machine;

/* Reads a trace in Go's format, gospect's or Go's own. The bytes may be freed after the call.
 * GOSPECT_ERROR_CORRUPT: they are not a trace. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_machine_read(const void *bytes, size_t size, const struct gospect_machine_options *options,
		     struct gospect_machine **ret);

/* Takes NULL as well. */
GOSPECT_API void gospect_machine_destroy(struct gospect_machine *machine);

/* A goroutine and its stack then. The stack has no addresses; it is empty when not known. */
struct gospect_machine_goroutine {
	uint64_t id;
	const char *function; /* its start function; "" when it is not known */
	const struct gospect_stack *stack;
};

/* A stop of the world. Times are ns since the trace began. */
struct gospect_machine_stop {
	uint64_t begin_ns;
	uint64_t duration_ns; /* until the world started again */
	uint64_t stopping_ns; /* the part until all other Ps had stopped */
	const char *reason;   /* "GC mark termination"; "" when it is not known */
	const struct gospect_machine_goroutine *by;
	/* On the P that stopped last. NULL: no P had to stop, or that P had no goroutine. */
	const struct gospect_machine_goroutine *last;
	uint32_t last_p;   /* that P; UINT32_MAX: none */
	uint32_t given_up; /* Ps that had to stop */
	/* 1: the trace ended before all Ps had stopped; stopping_ns counts those that had. */
	uint32_t is_incomplete;
	uint32_t reserved;
};

/* A goroutine was runnable and waited for a P. */
struct gospect_machine_wait {
	uint64_t begin_ns;
	uint64_t duration_ns;
	uint64_t stopped_ns; /* the part in which the world was stopped */
	const char *why;     /* it was runnable: "created", "unblocked", "preempted" ... */
	const struct gospect_machine_goroutine *goroutine; /* with its last stack before the wait */
	/* The goroutine that ran longest on that P meanwhile, with its stack when it left the P.
	 * NULL: none ran. */
	const struct gospect_machine_goroutine *holder;
	uint64_t holder_ns; /* how long it ran */
	uint32_t p;         /* on which the goroutine ran then */
	uint32_t reserved;
};

/* The number of waits that are shorter than below_ns, and at least half as long. */
struct gospect_machine_bucket {
	uint64_t below_ns;
	uint64_t count;
};

/* Calls of one kind at one stack. */
struct gospect_machine_calls {
	const struct gospect_stack *stack;
	const char *
		name; /* the function of the system call, "syscall.read"; "" when it is not known */
	uint64_t count;
	uint64_t total_ns;
	uint64_t longest_ns;
	uint64_t lost; /* system calls during which the P was taken by another thread */
};

/* A cycle of the collector. */
struct gospect_machine_cycle {
	uint64_t begin_ns;
	uint64_t duration_ns;
	uint32_t is_cut; /* 1: it was in progress when the trace began or ended */
	uint32_t reserved;
	/* Its phases: sweep termination, by the goroutine that began the cycle; marking, while the
	 * program runs; mark termination. NULL, and 0: not known. */
	const struct gospect_machine_stop *sweep_termination;
	uint64_t mark_ns;
	const struct gospect_machine_stop *mark_termination;
};

struct gospect_machine_processor {
	uint32_t id;
	uint32_t reserved;
	uint64_t running_ns;    /* a goroutine ran on it */
	uint64_t syscall_ns;    /* its goroutine was in a system call and kept it */
	uint64_t scheduling_ns; /* its thread looked for a goroutine */
	uint64_t idle_ns;       /* no thread ran with it */
};

struct gospect_machine_info {
	uint64_t duration_ns;
	uint64_t gomaxprocs; /* 0: the trace does not say */
	size_t processor_count;
	const struct gospect_machine_processor *const *processors;

	size_t stop_count;
	const struct gospect_machine_stop *const *stops; /* the longest first */
	uint64_t stops_ns;                               /* of all */

	/* Waits of goroutines for a P. */
	uint64_t wait_count;
	uint64_t waits_ns;
	uint64_t wait_p50_ns; /* percentiles */
	uint64_t wait_p90_ns;
	uint64_t wait_p99_ns;
	uint64_t wait_max_ns;
	size_t bucket_count;
	const struct gospect_machine_bucket *const *buckets; /* without empty ones */
	size_t longest_count;
	const struct gospect_machine_wait *const *longest; /* the 100 longest */

	/* The collector. */
	size_t cycle_count;
	const struct gospect_machine_cycle *const *cycles; /* in order of time */
	uint64_t cycles_ns;
	uint64_t dedicated_ns; /* background workers ran, in each of their modes */
	uint64_t fractional_ns;
	uint64_t idle_worker_ns;
	uint64_t sweep_ns;
	uint64_t swept_bytes;
	uint64_t reclaimed_bytes;
	uint64_t heap_max_bytes; /* 0: the trace does not say */
	uint64_t heap_goal_bytes;
	uint64_t assist_count;
	uint64_t assists_ns;
	size_t assist_stack_count;
	const struct gospect_machine_calls *const *assists; /* the longest time first */

	uint64_t syscall_count; /* that began and ended in the trace */
	uint64_t syscalls_ns;
	size_t syscall_stack_count;
	const struct gospect_machine_calls *const *syscalls; /* the longest time first */

	/*
	 * What the kernel counted in the `kernel_ns` between the first and the last reading of its
	 * counters. Only traces by gospect have these; 0: not known.
	 */
	uint64_t kernel_ns;
	uint64_t cpu_ns;     /* CPU time of all threads */
	uint64_t machine_ns; /* time of all CPUs of the machine */
	uint64_t steal_ns;   /* the part in which the hypervisor withheld a CPU that had work */
	/* The CPU quota of its control group: the periods in which the group ran, those in which it
	 * was throttled, and how long its threads were throttled in sum. 0 periods: no quota. */
	uint64_t periods;
	uint64_t throttled_periods;
	uint64_t throttled_ns;
	/* Who used cpu_ns, by CPU samples, the most first: "goroutines of the program",
	 * "goroutines of the runtime", "system calls and C code", "[scheduler]", "[idle]" ... */
	uint64_t sample_count;
	size_t cpu_user_count;
	const struct gospect_running_function *cpu_users;
};

/* Valid until the machine is destroyed. */
GOSPECT_API const struct gospect_machine_info *
gospect_machine_info(const struct gospect_machine *machine);

GOSPECT_END

#endif
