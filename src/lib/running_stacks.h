/* Where the wall-clock sampler gets the stacks of running goroutines: the on-CPU sampler. */
#ifndef LIB_RUNNING_STACKS_H
#define LIB_RUNNING_STACKS_H

#include "oncpu/sampler.h"
#include "sample/wall.h"

/* All zero: not wanted. */
struct running_stacks {
	struct oncpu_sampler *sampler; /* NULL: not wanted, or not permitted */
	struct error *denied;          /* why there are none, or NULL */
};

/* The wall-clock sampler uses it from now on, until it is closed: first this, then that. */
void running_stacks_open(struct running_stacks *r, struct target *t, const struct image *img,
			 const struct golayout *lay, const struct oncpu_options *options,
			 struct wall_sampler *wall);
void running_stacks_close(struct running_stacks *r);

/* Why labels are read after the samples; NULL: they are not. The sampler's. */
const struct error *running_stacks_labels_late(const struct running_stacks *r);
struct oncpu_stats running_stacks_stats(const struct running_stacks *r);
/* The files that hold the C code in them, or NULL. */
struct modules *running_stacks_modules(const struct running_stacks *r);

#endif
