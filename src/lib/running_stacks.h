/* The source of running goroutines' stacks for the wall-clock sampler: the on-CPU sampler. */
#ifndef LIB_RUNNING_STACKS_H
#define LIB_RUNNING_STACKS_H

#include "oncpu/sampler.h"
#include "sample/wall.h"

/* All zero: not requested. */
struct running_stacks {
	struct oncpu_sampler *sampler; /* NULL: not requested, or not permitted */
	struct error *denied;          /* why there are none, or NULL */
};

/* From now on, the wall-clock sampler uses it. Close `r` first, then the wall-clock sampler. */
void running_stacks_open(struct running_stacks *r, struct target *t, const struct image *img,
			 const struct golayout *lay, const struct oncpu_options *options,
			 struct wall_sampler *wall);
void running_stacks_close(struct running_stacks *r);

/* Why labels are read after the samples; NULL: they are not. Owned by the sampler. */
const struct error *running_stacks_labels_late(const struct running_stacks *r);
struct oncpu_stats running_stacks_stats(const struct running_stacks *r);
/* The files with the C code of these stacks, or NULL. */
struct modules *running_stacks_modules(const struct running_stacks *r);

#endif
