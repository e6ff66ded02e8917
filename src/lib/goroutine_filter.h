/* Which goroutines are shown: those that match all parts of a struct gospect_filter. */
#ifndef LIB_GOROUTINE_FILTER_H
#define LIB_GOROUTINE_FILTER_H

#include <gospect/snapshot.h>
#include <regex.h>

#include "base/map.h"
#include "base/strbuf.h"
#include "goroutine/goroutines.h"

struct filter {
	struct gospect_filter want;
	regex_t regex; /* of want.function */
	bool regex_made;
	struct map stacks; /* stack -> 1: no function matches, 2: one does */
	struct map pcs;    /* likewise for a word of a stack */
};

/* `given` may be NULL; its strings stay in use. ERROR_USAGE: it is invalid. */
struct error *filter_init(struct filter *f, const struct gospect_filter *given) must_check;

/* The properties of a goroutine that a filter reads. */
struct filter_subject {
	enum goroutine_status status;
	uint8_t wait_reason;
	uint32_t stack;
	uint32_t labels;
	uint64_t goid; /* 0: matches any */
};

bool filter_matches(struct filter *f, const struct filter_subject *subject,
		    struct goroutine_set *set, const struct image *img);
/* Adds the filter as command line options, each with a space before: " --wait 'sleep'". */
void filter_words(const struct filter *f, struct strbuf *sb);
void filter_release(struct filter *f);
#define _cleanup_filter_ __attribute__((cleanup(filter_release)))

/* The four states of a profile. */
enum gospect_state state_of(enum goroutine_status status);

#endif
