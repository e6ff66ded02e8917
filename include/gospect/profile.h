/* Where all goroutines spend their time: recordings, and the profiles that they make. */
#ifndef GOSPECT_PROFILE_H
#define GOSPECT_PROFILE_H

#include <gospect/snapshot.h>

GOSPECT_BEGIN

enum gospect_record_flags {
	GOSPECT_RECORD_ON_CPU = 1,  /* running goroutines only */
	GOSPECT_RECORD_OFF_CPU = 2, /* goroutines that are not running only */
	GOSPECT_RECORD_SYSTEM = 4,  /* the runtime's own goroutines too */
	GOSPECT_RECORD_KERNEL =
		8, /* the kernel's functions too; GOSPECT_ERROR_DENIED if that is not permitted */
	GOSPECT_RECORD_RUN_QUEUE =
		16, /* also record where threads wait for a CPU, so that running time is divided
		       correctly on a busy machine; costs the target up to 1 us a context switch */
	GOSPECT_RECORD_ADDRESSES =
		32, /* no functions and lines: gospect_profile_symbolize() elsewhere */
	/* Also record single goroutines, which GOSPECT_HTML lists; takes up to 64 MB more.
	 * gospect_record_stream() ignores it. */
	GOSPECT_RECORD_GOROUTINES = 64,
	/* A goroutine that serves a request of net/http or gRPC has the labels `method` and
	 * `route`, as far as they are known. While it runs, that needs the
	 * permission for eBPF. */
	GOSPECT_RECORD_NAMES = 128,
	GOSPECT_RECORD_PATHS =
		256, /* with GOSPECT_RECORD_NAMES: also the label `path`, without the query */
	/* With GOSPECT_RECORD_NAMES: also the labels `trace_id` and `span_id`, if the request has a
	 * W3C traceparent. */
	GOSPECT_RECORD_TRACE_IDS = 512,
};

struct gospect_record_options {
	size_t size;     /* of this structure */
	double rate;     /* ticks a second, 0.1 to 10,000; 0: 100 */
	double duration; /* seconds; 0: until it is cancelled or the target ends */
	/* Percent of one CPU that the recording may use; 100: no limit; 0: 1. If that is too little
	 * for all goroutines, each tick samples a random part of them. */
	double budget;
	const struct gospect_filter *filter; /* NULL: all goroutines */
	/* Called when the recording begins, and then about once a second, with the seconds that
	 * have passed and the number of samples so far; NULL: not called. */
	void (*progress)(void *arg, double seconds, uint64_t looks);
	void *arg;       /* of progress() */
	uint32_t flags;  /* a sum of enum gospect_record_flags */
	uint32_t unwind; /* an enum gospect_unwind */
};

struct gospect_profile;

/*
 * Records until the duration is over, the recording is cancelled, or the target ends. None of these
 * is an error. Remarks say what the profile lacks. The time of a sample is the time that really
 * passed, not the nominal period.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_record(struct gospect_target *target, const struct gospect_record_options *options,
	       struct gospect_profile **ret);

/* The total of goroutines with one stack, state, wait reason and set of labels. */
struct gospect_sample {
	uint64_t count;   /* looks */
	uint64_t wall_ns; /* time that they stand for */
	uint64_t cpu_ns;  /* the part of it on a CPU */
	uint64_t idle_ns; /* the part of goroutines that stayed there from the first look to the
			     last */
	enum gospect_state state;
	uint32_t label_count;
	const struct gospect_label *labels; /* by key */
	const char *wait_reason;            /* "" when they did not wait */
	const struct gospect_stack *stack;
};

/*
 * Records as gospect_record() does. Every `interval` seconds (0: 1) it calls sample() for each
 * sample of that interval. The sample is valid during the call; its `idle_ns` is 0. It ends as a
 * recording does, or when sample() returns anything but 0, which is not an error. Memory is
 * bounded.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_record_stream(struct gospect_target *target, const struct gospect_record_options *options,
		      double interval,
		      int (*sample)(void *arg, const struct gospect_sample *sample), void *arg);

/* Reads a pprof file, gzipped or plain, by gospect or by Go. The bytes may be freed after the call.
 * GOSPECT_ERROR_CORRUPT: it is not a pprof file, or is damaged. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_profile_read(const void *bytes, size_t size, struct gospect_profile **ret);

/* An empty profile, for gospect_profile_add(); `command` is its title. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_profile_create(const char *command, struct gospect_profile **ret);

/*
 * Adds the samples, mappings and comments of `from`, the profile of one program, to `profile`,
 * which gospect_profile_create() made. `from` may be destroyed after the call. All its samples get
 * these labels; a label of their own with the same key becomes "label.KEY". `name` is the outermost
 * frame in formats without labels, and begins each comment. Recordings that overlap in time share
 * one time axis. After an error, `profile` has a part of `from`. GOSPECT_ERROR_INVALID: `from` has
 * addresses only.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_profile_add(struct gospect_profile *profile, const char *name,
		    const struct gospect_label *labels, size_t label_count,
		    const struct gospect_profile *from);

/* Takes NULL as well. A profile may outlive its target. */
GOSPECT_API void gospect_profile_destroy(struct gospect_profile *profile);

/* The unit of wall_ns of a sample and total_ns of a group. */
enum gospect_unit {
	GOSPECT_NANOSECONDS = 0,
	GOSPECT_BYTES = 1, /* of a memory profile: counts are objects, and states have no meaning */
};

struct gospect_profile_info {
	const char *command;    /* "service (pid 4711)"; "" when it is not known */
	const char *go_version; /* "" when it is not known */
	uint64_t start_ns;      /* since 1970 */
	uint64_t duration_ns;
	uint64_t period_ns;     /* of one tick */
	uint64_t samples;       /* looks that are in the profile */
	uint32_t has_functions; /* 0: addresses only */
	uint32_t is_recording;  /* 1: gospect_record() made it, and the members below are known */
	uint64_t ticks;
	uint64_t missed;   /* ticks that were left out, because they would have come too late */
	uint64_t torn;     /* stacks that were dropped because the goroutine moved meanwhile */
	double rate;       /* ticks a second, achieved */
	double goroutines; /* mean over the time */
	double looks;      /* at each goroutine a second */
	double error;      /* of each stack's share of the time, at 95 % confidence; 0.005 is half a
			      percentage point */
	double cpu_percent; /* of one CPU that the recording used */
	uint32_t unit;      /* an enum gospect_unit */
	uint32_t reserved;
	/* The value type of a profile that the runtime keeps, as "inuse_space"; "" for any other
	 * profile. */
	const char *value_name;
};

GOSPECT_API const struct gospect_profile_info *
gospect_profile_info(const struct gospect_profile *profile);

/* The comments of the pprof format, which say how exact the profile is. NULL after the last one. */
GOSPECT_API const char *gospect_profile_comment(const struct gospect_profile *profile, size_t i);

/* All samples, in no order; valid until the profile is symbolized or destroyed. The only error is
 * GOSPECT_ERROR_NO_MEMORY. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_profile_samples(struct gospect_profile *profile, const struct gospect_sample *const **ret,
			size_t *ret_count);

/* The property by which samples are grouped. */
enum gospect_group_key {
	GOSPECT_GROUP_ROOT = 0,     /* the function that the goroutine began in */
	GOSPECT_GROUP_FUNCTION = 1, /* every function of the stack: its own time is in self_ns */
	GOSPECT_GROUP_STATE = 2,
	GOSPECT_GROUP_WAIT = 3,  /* the wait reason */
	GOSPECT_GROUP_LABEL = 4, /* the value of a label */
};

#define GOSPECT_SEVERAL_GOROUTINES UINT64_MAX

/* The goroutine, or other cause, that ended waits: it made the waiting goroutine runnable. */
struct gospect_waker {
	uint64_t goroutine; /* 0: no goroutine, see `cause`; or GOSPECT_SEVERAL_GOROUTINES */
	uint64_t ns;        /* of the waits */
	uint64_t count;     /* of the waits */
	/* "timer", "network poller" or "runtime" if no goroutine ended them; else "". */
	const char *cause;
	/* Where the goroutine stood, without addresses; empty when it is not known. */
	const struct gospect_stack *stack;
};

struct gospect_wait {
	const char *reason; /* "" when it is not known */
	uint64_t ns;
	/* Of a trace: how long a goroutine had waited, at least, when the trace began; the longest
	 * of them. 0: not known. */
	uint64_t waited_ns;
	/* Who ended these waits, longest first. Only gospect_recorded_starts() has it. */
	size_t waker_count;
	const struct gospect_waker *const *wakers;
};

struct gospect_group {
	const char *name; /* "" where samples have none */
	uint64_t count;   /* looks */
	uint64_t total_ns;
	uint64_t cpu_ns;
	uint64_t self_ns;     /* of GOSPECT_GROUP_FUNCTION: the time in which it is innermost */
	uint64_t state_ns[4]; /* by enum gospect_state */
	uint64_t all_ns;      /* of the whole profile; 0: it has counts alone */
	uint64_t all_count;
	size_t wait_count;
	const struct gospect_wait *const *waits; /* longest first */
};

/* Calls group() for each group, longest first. It ends early, without an error, when group()
 * returns anything but 0. The group is valid during the call. Only GOSPECT_GROUP_LABEL uses
 * `label`. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_profile_groups(const struct gospect_profile *profile, enum gospect_group_key key,
		       const char *label,
		       int (*group)(void *arg, const struct gospect_group *group), void *arg);

/* Drops all samples without this label and value, and returns how many are left. */
GOSPECT_API size_t gospect_profile_keep_label(struct gospect_profile *profile, const char *label,
					      const char *value);

/* Writes the profile. GOSPECT_ERROR_INVALID: profiles do not have this format. A profile of
 * addresses has GOSPECT_PPROF only. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_profile_write(const struct gospect_profile *profile, enum gospect_format format,
		      struct gospect_sink sink);

/* What stands out in a profile, in words. */
struct gospect_sentence {
	const char *text;     /* without a full stop */
	const char *function; /* a regular expression: the sentence is about stacks with a matching
				 function; "": all */
	const char *wait;     /* the sentence is about this wait reason; "": all */
	uint32_t is_grave;    /* 1: above a threshold; 0: a fact about any profile */
	uint32_t is_idle;     /* 1: about goroutines that wait for work */
};

/* Calls sentence() for each sentence, the gravest first, five at most. It ends early, without an
 * error, when sentence() returns anything but 0. The argument is valid during the call. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_profile_stands_out(const struct gospect_profile *profile,
			   int (*sentence)(void *arg, const struct gospect_sentence *sentence),
			   void *arg);

/*
 * Subtracts `before` from `profile`, as net/http/pprof does with seconds=. gospect_heap_profile()
 * has made both, of the same kind and the same target. Stacks that only `before` has are left out.
 * GOSPECT_ERROR_INVALID: the two are of different kinds.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_profile_subtract(struct gospect_profile *profile, const struct gospect_profile *before);

/* Writes the GOSPECT_HTML page of `after`. It shows the changes since `before`, by share, by time
 * and by count. GOSPECT_ERROR_INVALID: one of the two has addresses only. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_profile_write_diff(const struct gospect_profile *before,
			   const struct gospect_profile *after, struct gospect_sink sink);

/*
 * Reads source lines of functions that have time, and 20 lines around them, from Go files below
 * this directory. GOSPECT_HTML then shows them. The file is found by the longest end of its
 * recorded name that exists there; symbolic links below the directory are not followed. A file that
 * does not declare the function is left out. The limit is 2 MB. *ret_files is the number of files.
 * A confined process can read only what gospect_confine_options.source names.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_profile_add_sources(struct gospect_profile *profile, const char *directory,
			    size_t *ret_files);

GOSPECT_END

#endif
