/* Which goroutines are wanted: --state, --wait, --func, --label, -g. All that are given must match.
 */
#ifndef CLI_FILTER_H
#define CLI_FILTER_H

#include <regex.h>

#include "base/map.h"
#include "cli/cli.h"
#include "goroutine/goroutines.h"

struct filter {
	const char *state;
	const char *wait;
	const char *function;
	const char *label; /* KEY or KEY=VALUE */
	unsigned long goid;

	regex_t regex;
	bool regex_made;
	struct map stacks; /* stack -> 1: no function matches, 2: one does */
	struct map pcs;    /* likewise for a word of a stack */
};

/* A child parser whose input is struct filter. */
extern const struct argp filter_argp;

/* What of a goroutine is looked at. */
struct filter_subject {
	enum goroutine_status status;
	uint8_t wait_reason;
	uint32_t stack;
	uint32_t labels;
	uint64_t goid; /* 0: matches any */
};

bool filter_matches(struct filter *f, const struct filter_subject *subject,
		    struct goroutine_set *set, const struct image *img);
void filter_release(struct filter *f);
#define _cleanup_filter_ __attribute__((cleanup(filter_release)))

/* The four states of a profile: "running", "runnable", "syscall", "waiting". */
const char *filter_state_name(enum goroutine_status status);

#endif
