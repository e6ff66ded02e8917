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

/* Selects the goroutines that match all members. */
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
	/* The arguments of calls in hexadecimal, as the runtime prints them. Stripped programs have
	 * them too. Also the descriptors and addresses of connections that goroutines wait for. */
	GOSPECT_VALUES_ARGUMENTS = 1,
	GOSPECT_VALUES_LOCALS = 2, /* also local variables with their values; needs DWARF */
};

struct gospect_snapshot_options {
	size_t size;                         /* of this structure */
	const struct gospect_filter *filter; /* NULL: all goroutines */
	uint32_t system;   /* 0: what runtime.Stack shows; 1: also the runtime's own goroutines and
			      frames, as SIGQUIT with GOTRACEBACK=system */
	uint32_t unwind;   /* an enum gospect_unwind */
	uint32_t values;   /* an enum gospect_values */
	uint32_t reserved; /* 0 */
};

struct gospect_snapshot;

/*
 * Reads all goroutines: 0.5 ms for 1,000 of them, 70 ms for 100,000. The target runs on. The state
 * and stack of one goroutine are of the same moment. The stack of a running goroutine comes from a
 * sample of its thread, taken soon after. That needs permission for perf events; without it, a
 * remark gives the reason.
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
		4, /* its stack is not known: it ran, or changed at each attempt */
	GOSPECT_GOROUTINE_TRUNCATED = 8, /* frames are missing where its stack says "[truncated]" */
};

struct gospect_goroutine {
	uint64_t id;
	uint64_t parent; /* the id of the goroutine that created it; 0: not known, as in Go 1.20 and
			    older */
	uint64_t waited_ns; /* how long it has waited, or has been in its system call; 0: not known.
			       The runtime notes the begin at a garbage collection, so short waits
			       have none */
	enum gospect_state state;
	uint32_t flags; /* a sum of enum gospect_goroutine_flags */
	int32_t thread; /* the thread that runs it, or is in its system call; 0: none */
	uint32_t label_count;
	const struct gospect_label *labels; /* of runtime/pprof, by key */
	const char *status; /* as the runtime prints it in brackets: "chan receive", "running" */
	const char *wait_reason;                /* "" when it does not wait */
	const struct gospect_stack *stack;      /* goroutines with equal stacks share one */
	const struct gospect_frame *created_by; /* the go statement; NULL: not known */
	uint64_t start_pc;                      /* where its first function begins */
	uint64_t bubble; /* the number of its testing/synctest bubble; 0: none */
};

/* All goroutines that match the filter, by id. Symbolizes their stacks at the first call; *ret is
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

/* `flags`: a sum of the flags above, or 0. GOSPECT_ERROR_INVALID: the format does not support the
 * flags. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_snapshot_write(struct gospect_snapshot *snapshot, enum gospect_format format,
		       uint32_t flags, struct gospect_sink sink);

GOSPECT_END

#endif
