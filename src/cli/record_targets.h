/*
 * Finds the processes of a recording of several, when it begins. With --children and --follow it
 * also looks later, again and again. It does so by names and parents alone, because gospect still
 * has its privilege then.
 */
#ifndef CLI_RECORD_TARGETS_H
#define CLI_RECORD_TARGETS_H

#include "cli/target_options.h"

struct record_target {
	pid_t pid;
	uint64_t start; /* tells it from a later process with its id; 0: not known */
	char name[64];  /* of its program, which exec changes */
	bool is_seen;   /* by the last scan */
	bool is_old;    /* its worker was started, or is not worth it */
};

struct record_targets {
	struct record_target *items;
	size_t count, capacity;
	bool is_full; /* some are left out */
};

/* Finds the process of a container, or that there are several. */
struct error *record_targets_settle(struct target_options *o) must_check;
/* Whether the options name several processes, or may do so. Call it after the above. */
bool record_targets_are_many(const struct target_options *o);
/* Whether more may come while they are recorded. */
bool record_targets_grow(const struct target_options *o);

/* ERROR_FAILED: there is none, and none can come. ERROR_USAGE: a name is not unique. `command`: the
 * process of -- COMMAND; 0: none. */
struct error *record_targets_find(const struct target_options *o, pid_t command,
				  struct record_targets *ret) must_check;
void record_targets_release(struct record_targets *t);

/* Adds those that came since, and removes those that have ended and are old. */
struct error *record_targets_scan(const struct target_options *o,
				  struct record_targets *t) must_check;
/* Whether the last scan saw none of them: all that could start others have ended. */
bool record_targets_are_gone(const struct record_targets *t);

#endif
