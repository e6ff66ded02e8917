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
		8, /* the kernel's functions too; _DENIED where that is not permitted */
	GOSPECT_RECORD_RUN_QUEUE = 16, /* divide running time also by where threads waited for a
					  CPU; costs the target up to 1 us a context switch */
	GOSPECT_RECORD_ADDRESSES =
		32, /* no functions and lines: gospect_profile_symbolize() elsewhere */
	/* Single goroutines, which GOSPECT_HTML lists; takes up to 64 MB more. Ignored by
	 * gospect_record_stream(). */
	GOSPECT_RECORD_GOROUTINES = 64,
	/* A goroutine that serves a request of net/http or gRPC has the labels `method` and `route`
	 * while it does not run, as far as they are known. */
	GOSPECT_RECORD_NAMES = 128,
	GOSPECT_RECORD_PATHS = 256, /* with GOSPECT_RECORD_NAMES: and `path`, without the query */
};

struct gospect_record_options {
	size_t size;     /* of this structure */
	double rate;     /* ticks a second, 0.1 to 10,000; 0: 100 */
	double duration; /* seconds; 0: until it is cancelled or the target ends */
	/* Percent of one CPU that the recording may use; 100: no limit; 0: 1. Where not all
	 * goroutines fit into it, a random part of them is looked at in each tick. */
	double budget;
	const struct gospect_filter *filter; /* NULL: all goroutines */
	/* Called when all is ready and the recording begins, and then about once a second, with the
	 * seconds that have passed and how often a goroutine was looked at; NULL: not called. */
	void (*progress)(void *arg, double seconds, uint64_t looks);
	void *arg;       /* of progress() */
	uint32_t flags;  /* a sum of enum gospect_record_flags */
	uint32_t unwind; /* an enum gospect_unwind */
};

struct gospect_profile;

/*
 * Records until the duration is over, the recording is cancelled, or the target ends, which is no
 * error. Remarks say what the profile lacks. A sample's time is the time that really passed.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_record(struct gospect_target *target, const struct gospect_record_options *options,
	       struct gospect_profile **ret);

/* The total of goroutines with one stack, state, wait reason and set of labels. */
struct gospect_sample {
	uint64_t count;   /* looks */
	uint64_t wall_ns; /* time that they stand for */
	uint64_t cpu_ns;  /* the part of it on a CPU */
	uint64_t idle_ns; /* the part by goroutines that stood there from the first look to the last
			   */
	enum gospect_state state;
	uint32_t label_count;
	const struct gospect_label *labels; /* by key */
	const char *wait_reason;            /* "" when they did not wait */
	const struct gospect_stack *stack;
};

/*
 * Records as gospect_record(), and hands over the samples of each `interval` seconds (0: 1): one
 * call for each, valid during the call; `idle_ns` is 0. It ends as a recording does, or when
 * sample() returns anything but 0, which is no error. Memory stays bounded.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_record_stream(struct gospect_target *target, const struct gospect_record_options *options,
		      double interval,
		      int (*sample)(void *arg, const struct gospect_sample *sample), void *arg);

/* A pprof file, gzipped or plain: one of gospect's, or of Go's CPU, goroutine, mutex and block
 * profiles. GOSPECT_ERROR_CORRUPT says what is wrong with it. The bytes may be freed. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_profile_read(const void *bytes, size_t size, struct gospect_profile **ret);

/* An empty profile, for gospect_profile_add(); `command` is its title. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_profile_create(const char *command, struct gospect_profile **ret);

/*
 * Adds the samples, mappings and comments of another program's profile `from`, which may be
 * destroyed afterwards. `profile` is of gospect_profile_create(). All samples of `from` get these
 * labels; one of their own that has the same key becomes "label.KEY". `name` is the outermost frame
 * in formats without labels, and stands before the comments. Recordings that
 * overlap in time have one time axis. After an error the profile has a part of `from`.
 * GOSPECT_ERROR_INVALID: `from` has addresses only.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_profile_add(struct gospect_profile *profile, const char *name,
		    const struct gospect_label *labels, size_t label_count,
		    const struct gospect_profile *from);

/* Takes NULL as well. A profile may outlive its target. */
GOSPECT_API void gospect_profile_destroy(struct gospect_profile *profile);

/* What wall_ns of a sample and total_ns of a group count. */
enum gospect_unit {
	GOSPECT_NANOSECONDS = 0,
	GOSPECT_BYTES = 1, /* a profile of memory; counts are of objects, states have no meaning */
};

struct gospect_profile_info {
	const char *command;    /* "service (pid 4711)"; "" when it is not known */
	const char *go_version; /* "" when it is not known */
	uint64_t start_ns;      /* since 1970 */
	uint64_t duration_ns;
	uint64_t period_ns;     /* of one tick */
	uint64_t samples;       /* looks that are in the profile */
	uint32_t has_functions; /* 0: addresses only */
	uint32_t is_recording;  /* 1: made by gospect_record(); the members below are known */
	uint64_t ticks;
	uint64_t missed;    /* ticks that came too late and were left out */
	uint64_t torn;      /* stacks that were dropped because the goroutine moved meanwhile */
	double rate;        /* ticks a second, achieved */
	double goroutines;  /* mean over the time */
	double looks;       /* at each goroutine a second */
	double error;       /* of each stack's share of all time, 95 % confidence: 0.005 is
			       half a percentage point */
	double cpu_percent; /* of one CPU that the recording used */
	uint32_t unit;      /* an enum gospect_unit: what the times of samples and groups are */
	uint32_t reserved;
	/* Of a profile that the runtime keeps, of its values: "inuse_space"; "" of any other. */
	const char *value_name;
};

GOSPECT_API const struct gospect_profile_info *
gospect_profile_info(const struct gospect_profile *profile);

/* Lines that say how exact it is: the comments of the pprof format. NULL behind the last. */
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

/* Who ended waits: what made the waiting goroutine runnable. */
struct gospect_waker {
	uint64_t goroutine; /* 0: none, see `cause`; GOSPECT_SEVERAL_GOROUTINES */
	uint64_t ns;        /* of the waits */
	uint64_t count;     /* of the waits */
	/* Where no goroutine did it: "timer", "network poller" or "runtime"; else "". */
	const char *cause;
	/* Where the goroutine stood, without addresses; empty when it is not known. */
	const struct gospect_stack *stack;
};

struct gospect_wait {
	const char *reason; /* "" when it is not known */
	uint64_t ns;
	/* Of a trace: the longest that a goroutine had waited when it began, at least; 0: not
	 * known. */
	uint64_t waited_ns;
	/* Of gospect_recorded_starts() alone: who ended these waits, longest first. */
	size_t waker_count;
	const struct gospect_waker *const *wakers;
};

struct gospect_group {
	const char *name; /* "" where samples have none */
	uint64_t count;   /* looks */
	uint64_t total_ns;
	uint64_t cpu_ns;
	uint64_t self_ns;     /* of GOSPECT_GROUP_FUNCTION: where it is the innermost */
	uint64_t state_ns[4]; /* by enum gospect_state */
	uint64_t all_ns;      /* of the whole profile; 0: it has counts alone */
	uint64_t all_count;
	size_t wait_count;
	const struct gospect_wait *const *waits; /* longest first */
};

/* Hands over each group, longest first, until group() returns anything but 0, which is no error.
 * Its argument is valid during the call. `label` is for GOSPECT_GROUP_LABEL alone. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_profile_groups(const struct gospect_profile *profile, enum gospect_group_key key,
		       const char *label,
		       int (*group)(void *arg, const struct gospect_group *group), void *arg);

/* Drops all samples but those with this label and value; how many are left. */
GOSPECT_API size_t gospect_profile_keep_label(struct gospect_profile *profile, const char *label,
					      const char *value);

/* GOSPECT_ERROR_INVALID: a format that profiles do not have, or, of addresses only, another one
 * than GOSPECT_PPROF. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_profile_write(const struct gospect_profile *profile, enum gospect_format format,
		      struct gospect_sink sink);

/* What stands out in a profile, in words. */
struct gospect_sentence {
	const char *text;     /* without a full stop */
	const char *function; /* a regular expression: it is about stacks with a function that
				 matches; "" for all */
	const char *wait;     /* it is about this wait reason alone; "" for all */
	uint32_t is_grave;    /* 1: above a threshold; 0: a fact about any profile */
	uint32_t is_idle;     /* 1: about goroutines that wait for work */
};

/* Hands over each sentence, the gravest first, five at most, until sentence() returns anything but
 * 0, which is no error. What it is given is valid during the call. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_profile_stands_out(const struct gospect_profile *profile,
			   int (*sentence)(void *arg, const struct gospect_sentence *sentence),
			   void *arg);

/*
 * Makes `profile` what is new in it since `before`, as net/http/pprof does with seconds=. Both are
 * of gospect_heap_profile(), of one kind and one target. A stack of `before` alone is left out.
 * GOSPECT_ERROR_INVALID: they are of different kinds, or of none.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_profile_subtract(struct gospect_profile *profile, const struct gospect_profile *before);

/* GOSPECT_HTML of `after`, which shows what changed since `before`: by share, by time and by count.
 * GOSPECT_ERROR_INVALID: one of them has addresses only. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_profile_write_diff(const struct gospect_profile *before,
			   const struct gospect_profile *after, struct gospect_sink sink);

/*
 * Reads the source lines of functions that have time, 20 around each, from Go files below this
 * directory: GOSPECT_HTML shows them from then on. A file is the longest end of the profile's name
 * that is a regular file there; no symbolic link below the directory is followed. Lines of a file
 * that does not declare the function are left out. At most 2 MB; *ret_files is the number of files.
 * A confined process can read what gospect_confine_options.source names, and nothing else.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_profile_add_sources(struct gospect_profile *profile, const char *directory,
			    size_t *ret_files);

GOSPECT_END

#endif
