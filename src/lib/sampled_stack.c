#include "lib/sampled_stack.h"

#include <unistd.h>

#include "base/clock.h"
#include "oncpu/sampler.h"

/* Samples for each second of CPU time. */
#define SAMPLE_HZ 1000
#define STEP_US 1000
#define PATIENCE_NS 1000000000ull

struct catch
{
	struct goroutine_set *set;
	struct goroutine_snapshot *s;
	uint64_t low;     /* of its stack */
	uint64_t time;    /* of the sample; 0: there is none */
	size_t elsewhere; /* samples on which its thread was on another stack */
	struct error *failed;
};

static void take(void *arg, const struct oncpu_sighting *seen)
{
	struct catch *c = arg;
	uint64_t sp = seen->memory.memory.sp;

	if (c->time || c->failed || seen->goid != c->s->goid)
		return;
	if (sp <= c->low || sp >= c->s->stack_end || sp & 7) {
		c->elsewhere++;
		return;
	}
	c->failed = goroutine_snapshot_fill(c->set, &seen->memory, c->s);
	c->time = seen->time;
}

/* The stack may have moved between the sample and the look at its bounds: then the next one counts.
 */
static void check(struct catch *c)
{
	const struct goroutine_snapshot again = {.g = c->s->g, .goid = c->s->goid};
	uint64_t low, end;

	if (c->failed || !c->time ||
	    (goroutine_snapshot_bounds(c->set, c->s, &low, &end) && low == c->low &&
	     end == c->s->stack_end))
		return;
	goroutine_snapshot_release(c->s);
	*c->s = again;
	c->time = 0;
}

static struct error *must_check explain(const struct catch *c)
{
	if (c->elsewhere)
		return error_format(
			ERROR_FAILED,
			"goroutine %lu was in the runtime or in C at each of %zu samples; "
			"try again",
			c->s->goid, c->elsewhere);
	return error_format(
		ERROR_FAILED,
		"goroutine %lu is running, but its thread got no CPU time for a second; "
		"try again",
		c->s->goid);
}

static struct error *must_check wait_for(struct gospect_target *t, struct oncpu_sampler *sampler,
					 struct catch *c)
{
	uint64_t begin = clock_now();
	struct error *err = NULL;

	while (!err && !c->time && clock_now() - begin < PATIENCE_NS) {
		err = target_check_cancel(t);
		if (!err && !goroutine_snapshot_bounds(c->set, c->s, &c->low, &c->s->stack_end))
			return error_format(ERROR_FAILED,
					    "goroutine %lu ended before its stack could be read",
					    c->s->goid);
		usleep(STEP_US);
		if (!err)
			err = oncpu_sampler_drain(sampler);
		if (!err)
			err = c->failed;
		check(c);
	}
	if (!err && !c->time)
		return explain(c);
	return err;
}

static void remark_sample(const struct gospect_target *t, const struct catch *c)
{
	uint64_t size = c->s->stack_end - c->s->memory.sp;

	remark(&t->remark,
	       "goroutine %lu is running: this is its stack at a sample of its thread, %.1f ms ago",
	       c->s->goid, (clock_now() - c->time) / 1e6);
	if (!c->s->memory.whole)
		remark(&t->remark,
		       "the stack has %lu bytes, but a sample at most %u: the outer frames are not shown",
		       size, (unsigned int)c->s->memory.size);
}

struct error *sampled_stack_take(struct gospect_target *t, struct goroutine_set *set,
				 struct goroutine_snapshot *s)
{
	struct catch c = {.set = set, .s = s};
	_cleanup_oncpu_sampler_ struct oncpu_sampler *sampler = NULL;
	struct oncpu_options options = {.hz = SAMPLE_HZ,
					.seen = take,
					.arg = &c,
					.goid = s->goid,
					.stack_bytes = SIZE_MAX};
	struct error *err;

	if (goroutine_snapshot_bounds(set, s, &c.low, &s->stack_end))
		options.stack_bytes = s->stack_end - c.low;
	err = oncpu_sampler_open(t->target, t->image, t->layout, set, &options, &sampler);
	if (err && err != &error_no_memory)
		return error_wrap(err,
				  "cannot sample goroutine %lu, which is running; take "
				  "a core file (gcore %d) and use --core",
				  s->goid, target_pid(t->target));
	if (!err)
		err = wait_for(t, sampler, &c);
	if (!err)
		remark_sample(t, &c);
	return err;
}
