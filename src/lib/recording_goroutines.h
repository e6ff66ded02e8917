/*
 * Single goroutines of a recording: the sampler delivers each time that one spent at a place, and
 * at the end the profile gets rows of some (profile/goroutine_rows.h).
 *
 * Memory is bounded: beyond 2 million times (64 MB), those of goroutines are kept that used most
 * CPU time and waited longest so far.
 */
#ifndef LIB_RECORDING_GOROUTINES_H
#define LIB_RECORDING_GOROUTINES_H

#include "profile/profile.h"
#include "sample/wall.h"

struct recording_goroutines {
	struct wall_stay *stays;
	size_t count;
	size_t capacity;
	bool failed; /* there is no memory, or too many goroutines are alike: there are no rows */
};

/* The sampler's wall_options.stayed; `arg` is a struct recording_goroutines. */
void recording_goroutines_take(void *arg, const struct wall_stay *stay);
/* Gives the profile its rows. places[i] is where in the profile's samples bucket i of the result
 * is, or TIMELINE_NO_ROW. The profile's duration is known. */
struct error *recording_goroutines_give(struct recording_goroutines *g,
					const struct wall_sampler *sampler, const uint32_t *places,
					struct profile *p,
					const struct profile_symbols *symbols) must_check;
void recording_goroutines_release(struct recording_goroutines *g);

#endif
