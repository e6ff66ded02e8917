/* What is wrong with a program: hung, leaking, slow, short of CPU or of memory; and the cause. */
#ifndef GOSPECT_WHY_H
#define GOSPECT_WHY_H

#include <gospect/target.h>
#include <gospect/write.h>

GOSPECT_BEGIN

struct gospect_why_options {
	size_t size;     /* of this structure */
	double duration; /* seconds, at most a day; 0: 10. A core file takes none */
	/* Called when it begins, and then about once a second, with the seconds that have passed;
	 * NULL: not called. */
	void (*progress)(void *arg, double seconds);
	void *arg; /* of progress() */
};

struct gospect_why;

/*
 * Measures a process for some seconds, or reads a core file, and applies rules to the result. The
 * target runs on and is not changed. The call ends early when it is cancelled or the target ends;
 * then the findings are about the time before.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_why_take(struct gospect_target *target, const struct gospect_why_options *options,
		 struct gospect_why **ret);

/* Takes NULL as well. It may outlive its target. */
GOSPECT_API void gospect_why_destroy(struct gospect_why *why);

/* Facts about the measurement. */
struct gospect_why_info {
	double seconds;       /* 0: a core file */
	double goroutines;    /* on average */
	double cores;         /* CPUs that the process used; -1: not known */
	size_t finding_count; /* the gravest first */
	size_t unknown_count; /* what could not be measured */
};

/* Valid until it is destroyed, as all that follows. */
GOSPECT_API const struct gospect_why_info *gospect_why_info(const struct gospect_why *why);

struct gospect_cause {
	const char *kind;     /* "deadlock", "lock_convoy" ...: gospect-why(1) has all */
	const char *severity; /* "critical", "serious", "minor" */
	const char *sentence; /* without a full stop */
	const char *evidence; /* the numbers that show it */
	const char *next;     /* the command that shows more */
};

/* NULL after the last one. */
GOSPECT_API const struct gospect_cause *gospect_why_finding(const struct gospect_why *why,
							    size_t i);
/* What could not be measured, and why; NULL after the last one. */
GOSPECT_API const char *gospect_why_unknown(const struct gospect_why *why, size_t i);

/* GOSPECT_JSON alone. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_why_write(const struct gospect_why *why, enum gospect_format format,
		  struct gospect_sink sink);

GOSPECT_END

#endif
