/* Looks at a program again and again, and tells when a condition is true. */
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
	double rest;   /* seconds that a condition rests after an incident; 0: 60. The rest is twice
			  as long each time while the condition is true again and again */
	double budget; /* percent of a CPU that looking may take: then looks are rarer; 0: 1 */
	/* Called with each incident: a word for file names, and a sentence. Valid during the call.
	 */
	void (*incident)(void *arg, const char *word, const char *sentence);
	void *arg;
};

struct gospect_watch_info {
	uint64_t looks;
	uint64_t incidents;
	uint64_t rested;    /* incidents that were not told, because their condition rested */
	double cpu_percent; /* of a CPU that looking took */
	uint32_t ended;     /* 1: the process ended */
	uint32_t reserved;
};

/* Whether these are conditions. GOSPECT_ERROR_INVALID says what is wrong. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_watch_check(const char *const *conditions);

/*
 * Watches until the process ends or the target is cancelled, in flat memory. It reads all headers
 * of goroutines at each look, and the stacks of those that moved: 0.5 ms for 1,000 goroutines.
 * ret_info may be NULL.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_watch(struct gospect_target *target, const struct gospect_watch_options *options,
	      struct gospect_watch_info *ret_info);

GOSPECT_END

#endif
