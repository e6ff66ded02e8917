/* The profile of a live view: the last minute of its model, or less. */
#ifndef LIB_TOP_PROFILE_H
#define LIB_TOP_PROFILE_H

#include "image/code.h"
#include "lib/profile_handle.h"
#include "lib/running_stacks.h"
#include "top/top_model.h"

struct top_source {
	struct top_model *model; /* its window stays unchanged */
	struct wall_sampler *sampler;
	const struct running_stacks *running;
	/* Has only what fill_process() says, because the target may have ended. */
	const struct profile *about;
	struct code code;
	uint64_t end;         /* CLOCK_REALTIME of the last interval */
	double rate;          /* looks a second, at most */
	unsigned int seconds; /* length of the profile, if so much was seen */
};

struct error *top_profile_make(const struct top_source *s, struct gospect_profile **ret) must_check;

#endif
