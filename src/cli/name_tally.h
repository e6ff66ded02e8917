/* Which names there are, most frequent first: for messages that say what there is. */
#ifndef CLI_NAME_TALLY_H
#define CLI_NAME_TALLY_H

#include <gospect/profile.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "cli/cli.h"

/* Different names and how often each was seen; the names are somebody else's. */
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

/* Few names are different: wait reasons, labels. Values without memory for them are not
 * listed. */
void tally_add(struct tally *t, const char *name);
/* "; WHAT are: a, b and 7 more", most frequent first; "; there are no WHAT". */
void tally_describe(struct tally *t, const char *what, struct strbuf *to);

/* Likewise the values of the wanted key, if `filter` is "key=value" and somebody has the key; else
 * the keys. */
void describe_labels(const struct gospect_label *const *labels, size_t count, const char *filter,
		     struct strbuf *to);

/* ERROR_FAILED: no sample of the profile, which `path` names, has this label; with this value, or
 * NULL: with any. Says which there are. */
struct error *no_label(struct gospect_profile *profile, const char *path, const char *label,
		       const char *value) must_check;

#endif
