/* Groups a profile's time by a common property of samples, for tables. */
#ifndef PROFILE_GROUPS_H
#define PROFILE_GROUPS_H

#include "base/map.h"
#include "profile/profile.h"

enum group_key {
	GROUP_ROOT,  /* the goroutine's start function */
	GROUP_FUNC,  /* every function of the stack: its own time is in self_ns */
	GROUP_STATE, /* running ... */
	GROUP_WAIT,  /* the wait reason */
	GROUP_LABEL, /* the value of a label */
};

struct group_wait {
	uint32_t wait; /* in the profile's strings */
	uint64_t ns;
};

struct group {
	const char *name; /* in the profile or its symbols; "" for samples without one */
	uint64_t count;   /* of samples: times seen */
	uint64_t total_ns;
	uint64_t cpu_ns;
	uint64_t self_ns; /* for GROUP_FUNC: the time in which the function is the innermost */
	uint64_t state_ns[PROFILE_STATES];
	struct group_wait *waits; /* longest first */
	size_t wait_count;
	size_t wait_capacity;
};

struct groups {
	struct group *items; /* longest first; those without time by count */
	size_t count;
	size_t capacity;
	uint64_t total_ns; /* total of the profile, and its count below */
	uint64_t total_count;
};

/* `label` is for GROUP_LABEL alone. */
struct error *groups_make(const struct profile *p, const struct profile_symbols *symbols,
			  enum group_key key, const char *label, struct groups *ret) must_check;
void groups_release(struct groups *groups);
#define _cleanup_groups_ __attribute__((cleanup(groups_release)))

#endif
