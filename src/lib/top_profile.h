/* The profile of a live view: the last minute of its model, or less. */
#ifndef LIB_TOP_PROFILE_H
#define LIB_TOP_PROFILE_H

#include "image/code.h"
#include "lib/profile_handle.h"
#include "lib/running_stacks.h"
#include "top/top_model.h"

struct top_source {
	struct top_model *model; /* its window is as before */
	struct wall_sampler *sampler;
	const struct running_stacks *running;
	/* With nothing but what fill_process() says: the target may be gone by now. */
	const struct profile *about;
	struct code code;
	uint64_t end;         /* CLOCK_REALTIME of the last interval */
	unsigned int seconds; /* that it is of, as far as there are so many */
};

struct error *top_profile_make(const struct top_source *s, struct gospect_profile **ret) must_check;

#endif
