/*
 * A profile of several programs. Their addresses overlap, so its words are numbers
 * (profile->words), and its mappings are in the order of the programs.
 */
#ifndef PROFILE_MERGE_H
#define PROFILE_MERGE_H

#include "profile/profile.h"

struct merge_label {
	const char *key;
	const char *value;
};

/* A program in the profile. */
struct merge_program {
	/* The outermost frame in formats without labels; also put before its comments. NULL: there
	 * is no such frame, and comments stay as they are. */
	const char *name;
	const struct merge_label *labels; /* of all its samples */
	size_t label_count;
};

/* The symbols of an empty profile, to which programs are added. */
struct error *merge_begin(const struct profile *p, struct profile_symbols **ret) must_check;

/*
 * Adds the samples, mappings and comments of `from`, with functions. If a sample's own label has
 * the key of one of the program's labels, it becomes "label.KEY". Recordings that overlap
 * have one timeline, from the earliest begin on; of others, or if one has none, there is none.
 * Source lines are added, too. After an error, both objects may have a part of the
 * data.
 */
struct error *merge_add(struct profile *p, struct profile_symbols *symbols,
			const struct merge_program *program, const struct profile *from,
			const struct profile_symbols *from_symbols) must_check;

#endif
