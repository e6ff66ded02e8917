/*
 * An event in the target. The agent's records are decoded to events, and the model makes a legal
 * trace of them.
 *
 * Events are in the order of their times, as far as clocks and losses permit: the model reconciles
 * what does not fit. The sources of each are the hooks in docs/internals/trace.md.
 */
#ifndef GOTRACE_EVENT_H
#define GOTRACE_EVENT_H

#include <stdint.h>

#define TRACE_NO_P UINT32_MAX
#define TRACE_NO_M UINT64_MAX

/* In trace files calls are regions of the goroutine, whose type begins with this. */
#define TRACE_CALL_PREFIX "gospect.call "

enum trace_kind {
	/* Goroutine `g` was in a state when tracing began; arg: enum trace_status; arg2: pc of its
	 * start function, or 0; stack: where it was, 0: not known. */
	TRACE_G_STATUS,
	/* Where g, which has had its TRACE_G_STATUS, has waited since before tracing began; text:
	 * the wait reason, 0: not known; arg: for at least this many ns, 0: not known. */
	TRACE_PARKED,
	/* Thread `m` held `p` when tracing began; arg: PROC_RUNNING or PROC_IN_SYSCALL
	 * (gotrace/step.h). Before the status of the goroutine on that thread. */
	TRACE_P_STATUS,

	/* The scheduler, on thread `m`, which holds `p`. */
	TRACE_CREATE,      /* of g, by the goroutine on m; arg: pc of its start function */
	TRACE_START,       /* g runs from now on */
	TRACE_BLOCK,       /* g, which ran, waits; text: the wait reason */
	TRACE_YIELD,       /* g, which ran, is runnable; text: "preempted" or "runtime.Gosched" */
	TRACE_END,         /* g, which ran, has ended */
	TRACE_UNBLOCK,     /* g is runnable; stack: of its waker */
	TRACE_CORO_SWITCH, /* g waits, and goroutine arg runs at once in its place (iter.Pull) */

	/* System calls of g on m. */
	TRACE_SYSCALL,           /* begins; p: held so far */
	TRACE_SYSCALL_EXIT,      /* ends and g runs on p; TRACE_NO_P: it does not run yet */
	TRACE_SYSCALL_EXIT_NO_P, /* ends and g is runnable: there was no P for it */
	TRACE_THREAD_ENTER, /* a thread of C calls Go for the first time: g is in a system call */
	TRACE_THREAD_LEAVE, /* that g is given back */

	/* Ps. */
	TRACE_P_START, /* m has p from now on */
	TRACE_P_STOP,  /* m gives up its p */
	TRACE_P_STEAL, /* m takes p away from a thread in a system call */

	/* The GC and the heap. */
	TRACE_GC_BEGIN,
	TRACE_GC_END,
	TRACE_STW_BEGIN, /* text: the reason */
	TRACE_STW_END,
	TRACE_ASSIST_BEGIN, /* of g */
	TRACE_ASSIST_END,
	TRACE_SWEEP_BEGIN,
	TRACE_SWEEP_END,  /* arg, arg2: bytes swept and reclaimed */
	TRACE_HEAP_ALLOC, /* arg: bytes */
	TRACE_HEAP_GOAL,  /* arg: bytes */
	TRACE_GOMAXPROCS, /* arg: how many */
	TRACE_COUNTER,    /* arg: enum trace_counter; arg2: its value since tracing began */
	TRACE_LABEL,      /* for the goroutine on m; text: "GC (dedicated)" ... */

	/* The program's own events: runtime/trace. */
	TRACE_TASK_BEGIN,   /* arg: its id; arg2: its parent's; text: its type */
	TRACE_TASK_END,     /* arg: its id */
	TRACE_REGION_BEGIN, /* arg: the task's id; text: its type */
	TRACE_REGION_END,
	TRACE_LOG, /* arg: the task's id; text: category; text2: message */

	/* g has these labels from now on; or, by arg, has had them as long as it is known. text:
	 * the set (gotrace/label_text.h), 0: none. On m if g set them itself. */
	TRACE_LABELS,

	/* g has called an entry point of requests, or is about to return from it; arg: its frame,
	 * by the distance from the stack's end, not 0; text: TRACE_CALL_PREFIX and its name. Frames
	 * that a panic unwinds, or whose return was lost, have no end. */
	TRACE_CALL,
	TRACE_RETURN,

	/* Thread m was running; stack: of CPU samples' stacks; arg: start function of the goroutine
	 * that the stack belongs to, 0: not known; arg2: 1 if it belongs to none. */
	TRACE_CPU_SAMPLE,

	/* arg records of m's P did not fit its buffer. */
	TRACE_LOST,

	TRACE_KINDS
};

/* For TRACE_G_STATUS: as in the file. */
enum trace_status {
	TRACE_RUNNABLE = 1,
	TRACE_RUNNING = 2,
	TRACE_IN_SYSCALL = 3,
	TRACE_WAITING = 4,
};

/* For TRACE_COUNTER: what the kernel gave the process; all but periods are in ns. */
enum trace_counter {
	TRACE_COUNTER_CPU,               /* CPU time of all threads */
	TRACE_COUNTER_MACHINE,           /* time of all CPUs of the machine */
	TRACE_COUNTER_STEAL,             /* of it, the hypervisor had a CPU that was wanted */
	TRACE_COUNTER_THROTTLED,         /* threads of its control group were throttled, added up */
	TRACE_COUNTER_THROTTLED_PERIODS, /* periods of the CPU quota in which that was so */
	TRACE_COUNTER_PERIODS,           /* of all periods in which the group ran */
	TRACE_COUNTERS
};

/* For TRACE_LABELS: who set them. */
enum trace_labels_by {
	TRACE_LABELS_BY_ITSELF,
	TRACE_LABELS_BY_ANOTHER, /* its creator, or, when tracing began, gospect */
};

struct trace_event {
	uint64_t ns; /* since the trace's beginning; at least 1 */
	uint64_t m;  /* the thread's id, as the operating system has it; TRACE_NO_M */
	uint64_t g;  /* goid; 0: none */
	uint64_t arg;
	uint64_t arg2;
	uint32_t p;     /* the P of the thread; TRACE_NO_P */
	uint32_t stack; /* number of the acting goroutine's stack; 0: none */
	uint32_t text;  /* number of a string (trace/strings); 0: none */
	uint32_t text2;
	enum trace_kind kind;
};

#endif
