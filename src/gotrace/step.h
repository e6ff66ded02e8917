/*
 * A step of a legal trace: the model makes it and a writer writes it. The operations are those of
 * Go's trace format, numbered as there (internal/trace/raw, "go 1.22 trace").
 */
#ifndef GOTRACE_STEP_H
#define GOTRACE_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum trace_op {
	OP_PROCS_CHANGE = 9, /* count, stack */
	OP_PROC_START = 10,  /* p, its sequence number */
	OP_PROC_STOP = 11,
	OP_PROC_STEAL = 12,        /* p, its sequence number, the thread that it is taken from */
	OP_PROC_STATUS = 13,       /* p, enum proc_status */
	OP_GO_CREATE = 14,         /* goid, pc where it starts, its creator's stack */
	OP_GO_CREATE_SYSCALL = 15, /* goid */
	OP_GO_START = 16,          /* goid, its sequence number */
	OP_GO_DESTROY = 17,
	OP_GO_DESTROY_SYSCALL = 18,
	OP_GO_STOP = 19,          /* reason, stack */
	OP_GO_BLOCK = 20,         /* reason, stack */
	OP_GO_UNBLOCK = 21,       /* goid, its sequence number, stack of the unblocking goroutine */
	OP_GO_SYSCALL_BEGIN = 22, /* the P's sequence number, stack */
	OP_GO_SYSCALL_END = 23,
	OP_GO_SYSCALL_END_BLOCKED = 24,
	OP_GO_STATUS =
		25, /* goid, its thread or TRACE_NO_M, enum trace_status; pc where it starts */
	OP_STW_BEGIN = 26, /* reason, stack */
	OP_STW_END = 27,
	OP_GC_ACTIVE = 28,     /* sequence number */
	OP_GC_BEGIN = 29,      /* sequence number, stack */
	OP_GC_END = 30,        /* sequence number */
	OP_SWEEP_ACTIVE = 31,  /* p */
	OP_SWEEP_BEGIN = 32,   /* stack */
	OP_SWEEP_END = 33,     /* bytes swept, bytes reclaimed */
	OP_ASSIST_ACTIVE = 34, /* goid */
	OP_ASSIST_BEGIN = 35,  /* stack */
	OP_ASSIST_END = 36,
	OP_HEAP_ALLOC = 37,   /* bytes */
	OP_HEAP_GOAL = 38,    /* bytes */
	OP_GO_LABEL = 39,     /* label */
	OP_TASK_BEGIN = 40,   /* id, id of its parent, type, stack */
	OP_TASK_END = 41,     /* id, stack */
	OP_REGION_BEGIN = 42, /* id of the task, type, stack */
	OP_REGION_END = 43,   /* id of the task, type, stack */
	OP_LOG = 44,          /* id of the task, category, message, stack */
	/* Go's own from 1.23 on; the model does not make them. */
	OP_GO_SWITCH = 45, /* goid, its sequence number */
	OP_GO_SWITCH_DESTROY = 46,
	OP_GO_CREATE_BLOCKED = 47, /* as OP_GO_CREATE */
	OP_GO_STATUS_STACK = 48,   /* as OP_GO_STATUS; stack */
	OP_COUNT,
	/* In no file as such: each format has its own form. Arguments: the goroutine's id, its
	 * labels (a text, 0: none), enum trace_labels_by (gotrace/event.h). */
	OP_LABELS = 64,
	/* Likewise. Arguments: the goroutine's id, its wait reason (a text, 0: not known), how many
	 * ns it had waited before the trace (0: not known), its stack. It has waited since the
	 * trace began. */
	OP_PARKED = 65,
	/* In a file in batches of their own. Arguments: the goroutine's id, 0: it ran none; its
	 * stack, of CPU samples' stacks. */
	OP_CPU_SAMPLE = 66,
	/* Each format has its own form. Arguments: enum trace_counter (gotrace/event.h), its value.
	 */
	OP_COUNTER = 67,
};

/* Goroutines from this id on are made up. One emits a step that needs a running goroutine when none
 * runs, and ends at once. */
#define TRACE_HELPER_GOID (1ull << 62)

/* A text: the events in between were not seen. */
#define TRACE_TEXT_LOST UINT32_MAX

enum proc_status { PROC_RUNNING = 1, PROC_IDLE = 2, PROC_IN_SYSCALL = 3 };

struct trace_step {
	uint64_t ns; /* later than that of all steps before */
	uint64_t m;  /* the thread on which it happens; TRACE_NO_M */
	enum trace_op op;
	uint64_t arg[4];
	/* The thread's state before the step: its goroutine, 0 for none; its P, TRACE_NO_P. */
	uint64_t g;
	uint32_t p;
	uint32_t stack; /* of OP_GO_STATUS: where it is; 0: not known */
};

/*
 * The kinds of an operation's arguments, one letter each: n is a number, t a text, k a stack, f the
 * function at a pc (in a file: a stack of one frame). NULL: there is no such operation.
 */
extern const char *const trace_arguments[OP_COUNT];
static inline const char *trace_op_arguments(unsigned int op)
{
	return op < OP_COUNT ? trace_arguments[op] : NULL;
}

/* By enum trace_counter (gotrace/event.h): "cpu_ns" ... */
extern const char *const trace_counter_names[];

/* The receiver of all steps in order. */
struct trace_sink {
	struct error *(*step)(void *arg, const struct trace_step *step);
	/* Begins a generation: the next steps emit the state of everything. */
	struct error *(*generation)(void *arg);
	void *arg;
	bool separate; /* a generation must be readable without those before it */
	bool logs_run; /* OP_LABELS and OP_PARKED need a thread whose goroutine runs */
};

#endif
