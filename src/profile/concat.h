/* Recordings of one program, one after the other, as one profile with a time axis. */
#ifndef PROFILE_CONCAT_H
#define PROFILE_CONCAT_H

#include "profile/profile.h"

/*
 * Adds the next recording, with functions, to a profile that merge_begin() has seen. It begins
 * later than those before it. The profile lasts from the first begin to the last end. Each
 * recording is one step of the time axis: when in it something was is not known any more.
 */
struct error *concat_add(struct profile *p, struct profile_symbols *symbols,
			 const struct profile *from,
			 const struct profile_symbols *from_symbols) must_check;

#endif
