#include "lib/running_stacks.h"

static struct error *drain(void *arg)
{
	return oncpu_sampler_drain(arg);
}

static size_t buckets(void *arg, const struct cpu_bucket **ret)
{
	return oncpu_sampler_buckets(arg, ret);
}

void running_stacks_open(struct running_stacks *r, struct target *t, const struct image *img,
			 const struct golayout *lay, const struct oncpu_options *options,
			 struct wall_sampler *wall)
{
	r->denied = oncpu_sampler_open(t, img, lay, wall_sampler_set(wall), options, &r->sampler);
	if (r->denied)
		return;
	wall_sampler_use(wall, &(struct cpu_source){
				       .arg = r->sampler,
				       .drain = drain,
				       .buckets = buckets,
				       .period_ns = oncpu_sampler_stats(r->sampler).period_ns,
				       .fills_fast = options->waits,
			       });
}

void running_stacks_close(struct running_stacks *r)
{
	oncpu_sampler_close(r->sampler);
	error_destroy(r->denied);
	*r = (struct running_stacks){0};
}

struct oncpu_stats running_stacks_stats(const struct running_stacks *r)
{
	return r->sampler ? oncpu_sampler_stats(r->sampler) : (struct oncpu_stats){0};
}

struct modules *running_stacks_modules(const struct running_stacks *r)
{
	return r->sampler ? oncpu_sampler_modules(r->sampler) : NULL;
}

const struct error *running_stacks_labels_late(const struct running_stacks *r)
{
	return r->sampler ? oncpu_sampler_no_sample_program(r->sampler) : NULL;
}
