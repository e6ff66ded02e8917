/* Several recordings of one program as one profile. */
#ifndef LIB_PROFILE_JOIN_H
#define LIB_PROFILE_JOIN_H

#include <gospect/profile.h>

#include "base/error.h"

/* Adds the next recording of the same program to a profile of gospect_profile_create(). See
 * profile/concat.h. */
struct error *profile_join(struct gospect_profile *p,
			   const struct gospect_profile *from) must_check;

#endif
