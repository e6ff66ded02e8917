/* Looks at a program at intervals, and reports when a condition becomes true. */
#ifndef GOSPECT_WATCH_H
#define GOSPECT_WATCH_H

#include <gospect/target.h>

GOSPECT_BEGIN

struct gospect_watch_options {
	size_t size; /* of this structure */
	/* As in gospect-watch(1): "goroutines > 10000", "growth > 1000", "lock > 5s",
	 * "runnable > 1s", "wait /REGEX/ > 5s", "heap > 1GB", "rss > 80%". The list ends with NULL.
	 */
	const char *const *conditions;
	double interval; /* seconds between two looks; 0: 1 */
	double rest; /* seconds for which a condition is ignored after an incident; 0: 60. If it is
			true again then, the time doubles, up to an hour */
	double budget; /* percent of one CPU that the looks may take; looks become rarer to keep to
			  it. 0: 1 */
	/* Called for each incident, with a word for file names and a sentence. Both are valid
	 * during the call. */
	void (*incident)(void *arg, const char *word, const char *sentence);
	void *arg;
};

struct gospect_watch_info {
	uint64_t looks;
	uint64_t incidents;
	uint64_t rested;    /* incidents that were not reported, because their condition was ignored
			       then */
	double cpu_percent; /* of one CPU that the looks took */
	uint32_t ended;     /* 1: the process ended */
	uint32_t reserved;
};

/* Checks conditions. GOSPECT_ERROR_INVALID: one is not valid; the message says why. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_watch_check(const char *const *conditions);

/*
 * Watches until the process ends or the call is cancelled. Memory is bounded. Each look reads the
 * headers of all goroutines, and the stacks of those that have moved: 0.5 ms for 1,000 goroutines.
 * `ret_info` may be NULL.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_watch(struct gospect_target *target, const struct gospect_watch_options *options,
	      struct gospect_watch_info *ret_info);

GOSPECT_END

#endif
