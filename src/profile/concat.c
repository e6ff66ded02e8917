#include "profile/concat.h"

#include <stdlib.h>

#include "profile/merge.h"

/* The axis begins with the first recording. */
static uint64_t begin_of(const struct profile *p, const struct profile *from)
{
	return from->time_ns > p->time_ns ? from->time_ns - p->time_ns : 0;
}

static struct error *must_check add_steps(struct profile *p, size_t first, uint64_t begin,
					  uint64_t end)
{
	struct error *err = NULL;

	for (size_t i = first; !err && begin < end && i < p->count; i++)
		if (p->samples[i].wall_ns)
			err = timeline_add(&p->timeline, i, begin, end, p->samples[i].wall_ns);
	return err;
}

/* All have the same mappings and comments, but for the numbers in these: one's suffice. */
static void forget_notes(struct profile *p)
{
	for (size_t i = 0; i < p->comment_count; i++)
		free(p->comments[i]);
	p->comment_count = 0;
}

struct error *concat_add(struct profile *p, struct profile_symbols *symbols,
			 const struct profile *from, const struct profile_symbols *from_symbols)
{
	static const struct merge_program same = {0};
	struct timeline axis = p->timeline;
	uint64_t lasts = p->duration_ns, begin = p->count ? begin_of(p, from) : 0;
	size_t first = p->count;
	struct error *err;

	p->timeline = (struct timeline){0};
	forget_notes(p);
	err = merge_add(p, symbols, &same, from, from_symbols);
	timeline_release(&p->timeline);
	p->timeline = axis;
	p->duration_ns = begin + from->duration_ns > lasts ? begin + from->duration_ns : lasts;
	return err ? err : add_steps(p, first, begin, begin + from->duration_ns);
}
