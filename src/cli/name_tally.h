/* Counts names and lists the most frequent ones, for messages about a filter without a match. */
#ifndef CLI_NAME_TALLY_H
#define CLI_NAME_TALLY_H

#include <gospect/profile.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "cli/cli.h"

/* Counts of distinct names. The names are not copied. */
struct tally {
	struct counted {
		const char *name;
		size_t count;
	} * items;
	size_t count;
	size_t capacity;
};

void cleanup_tally(struct tally *t);
#define _cleanup_tally_ _cleanup_(cleanup_tally)

/* Counts a name. Distinct names are few (wait reasons, labels), so a linear search suffices.
 * Without memory a new name is left out. */
void tally_add(struct tally *t, const char *name);
/* Adds "; WHAT are: a, b and 7 more", most frequent first, or "; there are no WHAT". */
void tally_describe(struct tally *t, const char *what, struct strbuf *to);

/* Adds such a list: the values of the filter's key if the filter is "KEY=VALUE" and some label has
 * the key, otherwise the keys. */
void describe_labels(const struct gospect_label *const *labels, size_t count, const char *filter,
		     struct strbuf *to);

/* ERROR_FAILED: no sample of the profile in `path` has this label with this value (NULL: any).
 * Lists the labels or values that exist. */
struct error *no_label(struct gospect_profile *profile, const char *path, const char *label,
		       const char *value) must_check;

#endif
