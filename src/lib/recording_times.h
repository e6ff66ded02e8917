/* When the samples of a recording were: the sampler adds to it, and then the profile gets it. */
#ifndef LIB_RECORDING_TIMES_H
#define LIB_RECORDING_TIMES_H

#include "profile/profile.h"
#include "sample/wall.h"

struct recording_times {
	struct timeline looks;   /* rows are buckets of the result */
	struct timeline samples; /* a row is a bucket of CPU samples */
};

/* The sampler's wall_options.part; `arg` is a struct recording_times. */
struct error *recording_times_take(void *arg, uint64_t begin, uint64_t end,
				   const struct wall_part *parts, size_t count) must_check;
/* places[i] is the place of the result's bucket i in the profile's samples, or TIMELINE_NO_ROW. */
struct error *recording_times_give(struct recording_times *times,
				   const struct wall_sampler *sampler, const uint32_t *places,
				   struct profile *p) must_check;
void recording_times_release(struct recording_times *times);

#endif
