#include "retained/allocation_sites.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "memory/bucket_stacks.h"
#include "memory/runtime_buckets.h"

/* The runtime's own functions are the innermost few. */
#define MOST_DEPTH 32
#define MOST_INLINED 64

static struct error *must_check site_of(struct object_graph *g, uint64_t bucket, const char **ret)
{
	uint64_t pcs[MOST_DEPTH], words[MOST_DEPTH];
	struct go_frame frames[MOST_INLINED];
	size_t depth, count;
	struct error *err = runtime_bucket_stack(g->t, g->lay, bucket, pcs, MOST_DEPTH, &depth);

	*ret = NULL;
	if (err || !depth)
		return err;
	count = bucket_stack_words(&g->img->functions, pcs, depth, true, g->lay->minor, words);
	if (count && pclntab_frames(&g->img->functions, words[0], frames, MOST_INLINED))
		*ret = frames[0].function;
	return NULL;
}

static int compare_functions(const void *a, const void *b)
{
	const struct allocation_site *x = a, *y = b;

	if (x->type != y->type)
		return x->type < y->type ? -1 : 1;
	return strcmp(x->function, y->function);
}

static int compare_counts(const void *a, const void *b)
{
	const struct allocation_site *x = a, *y = b;

	if (x->type != y->type)
		return x->type < y->type ? -1 : 1;
	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return strcmp(x->function, y->function);
}

/* Those of one type and function become one. */
static void merge(struct allocation_sites *s)
{
	size_t kept = 0;

	if (!s->count)
		return;
	qsort(s->items, s->count, sizeof(*s->items), compare_functions);
	for (size_t i = 0; i < s->count; i++) {
		if (kept && !compare_functions(&s->items[kept - 1], &s->items[i]))
			s->items[kept - 1].count++;
		else
			s->items[kept++] = s->items[i];
	}
	s->count = kept;
	qsort(s->items, s->count, sizeof(*s->items), compare_counts);
}

struct error *allocation_sites_find(struct object_graph *g, const uint32_t *types,
				    struct allocation_sites *ret)
{
	_cleanup_(allocation_sites_release) struct allocation_sites s = {
		.items = calloc(g->sampled_count + 1, sizeof(*s.items)),
	};
	struct error *err = s.items ? NULL : &error_no_memory;

	for (size_t i = 0; i < g->sampled_count && !err; i++) {
		const struct sampled_object *o = &g->sampled[i];
		const char *function;
		uint32_t type;

		if (!object_graph_reached(g, o->object))
			continue;
		type = types[object_graph_rank(g, o->object)];
		if (g->table->items[type].form != FORM_UNKNOWN)
			continue;
		err = site_of(g, o->bucket, &function);
		if (!err && function)
			s.items[s.count++] = (struct allocation_site){type, function, 1};
	}
	if (err)
		return err;
	merge(&s);
	*ret = s;
	s = (struct allocation_sites){0};
	return NULL;
}

void allocation_sites_release(struct allocation_sites *s)
{
	free(s->items);
	*s = (struct allocation_sites){0};
}
