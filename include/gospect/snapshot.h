/* Every goroutine at one moment. */
#ifndef GOSPECT_SNAPSHOT_H
#define GOSPECT_SNAPSHOT_H

#include <gospect/target.h>
#include <gospect/write.h>

GOSPECT_BEGIN

enum gospect_state {
	GOSPECT_RUNNING = 0,  /* on a thread */
	GOSPECT_RUNNABLE = 1, /* waits for a thread */
	GOSPECT_SYSCALL = 2,  /* in a system call or in C code */
	GOSPECT_WAITING = 3,
};

/* "running", "runnable", "syscall", "waiting"; "unknown" for any other value. */
GOSPECT_API const char *gospect_state_name(enum gospect_state state);

/* How callers are found on a stack. */
enum gospect_unwind {
	GOSPECT_UNWIND_PCSP = 0,  /* by the tables that the runtime itself uses: exact */
	GOSPECT_UNWIND_FP = 1,    /* by frame pointers alone, to compare */
	GOSPECT_UNWIND_DWARF = 2, /* by .debug_frame, to compare */
};

/* Which goroutines are wanted: those that match all members. */
struct gospect_filter {
	size_t size;          /* of this structure */
	uint64_t goroutine;   /* only the one with this id; 0: all */
	const char *wait;     /* a wait reason ("chan receive"), or a part of one; NULL: any */
	const char *function; /* a POSIX extended regular expression that a function on the stack
				 matches; NULL: any */
	const char *label;    /* "key", or "key=value"; NULL: any */
	uint32_t states;      /* a sum of 1 << enum gospect_state; 0: all */
	uint32_t reserved;    /* 0 */
};

/* What the text and the JSON of a snapshot show beside functions and lines. */
enum gospect_values {
	GOSPECT_VALUES_NONE = 0,
	/* The arguments of calls as the runtime prints them, in hexadecimal, of stripped programs
	 * too; the descriptors and addresses of connections that goroutines wait for. */
	GOSPECT_VALUES_ARGUMENTS = 1,
	GOSPECT_VALUES_LOCALS = 2, /* and local variables with their values, by DWARF */
};

struct gospect_snapshot_options {
	size_t size;                         /* of this structure */
	const struct gospect_filter *filter; /* NULL: all goroutines */
	uint32_t system;   /* 1: the runtime's own goroutines and frames too, as SIGQUIT with
			      GOTRACEBACK=system shows them; 0: what runtime.Stack shows */
	uint32_t unwind;   /* an enum gospect_unwind */
	uint32_t values;   /* an enum gospect_values */
	uint32_t reserved; /* 0 */
};

struct gospect_snapshot;

/*
 * Reads all goroutines: 0.5 ms for 1,000 of them, 70 ms for 100,000; the target runs on. Each one's
 * state and stack belong together. A running goroutine of a live process has its stack from a
 * sample of its thread soon after, where perf events are permitted; else a remark says why not.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_snapshot_take(struct gospect_target *target, const struct gospect_snapshot_options *options,
		      struct gospect_snapshot **ret);

/* Before the target is closed. Takes NULL as well. */
GOSPECT_API void gospect_snapshot_destroy(struct gospect_snapshot *snapshot);

/* Properties of a goroutine. */
enum gospect_goroutine_flags {
	GOSPECT_GOROUTINE_LOCKED = 1, /* to its thread */
	GOSPECT_GOROUTINE_SYSTEM = 2, /* the runtime's own */
	GOSPECT_GOROUTINE_NO_STACK =
		4, /* it ran, or changed at every try: its stack is not known */
	GOSPECT_GOROUTINE_TRUNCATED = 8, /* frames are missing where its stack says "[truncated]" */
};

struct gospect_goroutine {
	uint64_t id;
	uint64_t parent; /* the id of the goroutine that created it; 0: not known, as up to Go 1.20
			  */
	uint64_t waited_ns; /* since it waits, or is in its system call; 0: not known. The runtime
			       notes that at a garbage collection, so short waits have none */
	enum gospect_state state;
	uint32_t flags; /* a sum of enum gospect_goroutine_flags */
	int32_t thread; /* that runs it, or is in its system call; 0: none */
	uint32_t label_count;
	const struct gospect_label *labels; /* of runtime/pprof, by key */
	const char *status; /* as the runtime prints it in brackets: "chan receive", "running" */
	const char *wait_reason;                /* "" when it does not wait */
	const struct gospect_stack *stack;      /* goroutines with equal stacks share one */
	const struct gospect_frame *created_by; /* the go statement; NULL: not known */
	uint64_t start_pc;                      /* where its first function begins */
	uint64_t bubble; /* the number of its testing/synctest bubble; 0: none */
};

/* All goroutines that the filter left, by id. Symbolizes their stacks at the first call; *ret is
 * valid until the snapshot is destroyed. The only error is GOSPECT_ERROR_NO_MEMORY. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_snapshot_goroutines(struct gospect_snapshot *snapshot,
			    const struct gospect_goroutine *const **ret, size_t *ret_count);

/* How many there are. */
GOSPECT_API size_t gospect_snapshot_count(const struct gospect_snapshot *snapshot);

enum gospect_snapshot_write_flags {
	GOSPECT_WRITE_GROUPS = 1, /* GOSPECT_TEXT: equal stacks together, most goroutines first */
	GOSPECT_WRITE_ADDRESSES = 2, /* GOSPECT_TEXT, GOSPECT_PPROF: addresses instead of functions
					and lines, for gospect_text_symbolize() and
					gospect_profile_symbolize() elsewhere */
};

/* `flags`: a sum of those, or 0. GOSPECT_ERROR_INVALID: a format or flags that do not go together.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_snapshot_write(struct gospect_snapshot *snapshot, enum gospect_format format,
		       uint32_t flags, struct gospect_sink sink);

GOSPECT_END

#endif
