#include "retained/retained.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "retained/object_types.h"

struct sizing {
	const struct object_graph *graph;
	const struct dominators *dominators;
	uint64_t *sizes;
};

static void take_size(void *arg, uint32_t rank, const struct object_span *span, uint32_t index)
{
	struct sizing *s = arg;
	uint32_t number = s->dominators->numbers[object_graph_first_node(s->graph) + rank];

	if (number != FLOW_NONE)
		s->sizes[number] = span->object_size;
}

static struct error *must_check sum_sizes(struct retained *r)
{
	struct sizing s = {&r->graph, &r->dominators, NULL};

	r->sizes = calloc((size_t)r->dominators.count + 1, sizeof(*r->sizes));
	if (!r->sizes)
		return &error_no_memory;
	s.sizes = r->sizes;
	object_graph_each(&r->graph, take_size, &s);
	dominators_sum(&r->dominators, r->sizes);
	return NULL;
}

struct holder_input retained_input(struct retained *r)
{
	return (struct holder_input){.graph = &r->graph,
				     .dominators = &r->dominators,
				     .types = r->object_types,
				     .retained = r->sizes,
				     .runtime_types = &r->types};
}

static struct error *must_check read_heap(struct retained *r, struct target *t,
					  const struct image *img, const struct golayout *lay,
					  const struct retained_options *options)
{
	const struct object_graph_options how = {.stop = options->stop};
	struct error *err = runtime_types_open(t, img, lay, &r->types);

	if (!err)
		err = object_graph_read(t, img, lay, &r->types, &r->table, &how, &r->graph);
	if (!err)
		err = object_types_find(&r->graph, &r->types, &r->strings, &r->object_types);
	if (!err)
		err = equal_strings_finish(&r->strings, options->strings);
	if (!err && !options->is_exact)
		err = object_graph_compare(&r->graph, &r->words, &r->changed);
	return err ? err : target_check(t);
}

static struct error *must_check find_holders(struct retained *r)
{
	struct holder_input in;
	struct error *err = flow_graph_shortest(&r->graph.flow, &r->shortest);

	if (!err)
		err = dominators_find(&r->graph.flow, &r->dominators);
	if (!err)
		err = sum_sizes(r);
	in = retained_input(r);
	return err ? err : holder_tree_make(&in, &r->holders);
}

struct error *retained_find(struct target *t, const struct image *img, const struct golayout *lay,
			    const struct retained_options *options, struct retained **ret)
{
	_cleanup_retained_ struct retained *r = calloc(1, sizeof(*r));
	struct error *err;

	if (!r)
		return &error_no_memory;
	r->is_exact = options->is_exact;
	r->strings.t = t;
	err = read_heap(r, t, img, lay, options);
	if (!err)
		err = find_holders(r);
	if (!err)
		*ret = take_ptr(r);
	return err;
}

void retained_destroy(struct retained *r)
{
	if (!r)
		return;
	object_graph_release(&r->graph);
	runtime_types_release(&r->types);
	type_table_release(&r->table);
	dominators_release(&r->dominators);
	holder_tree_release(&r->holders);
	equal_strings_release(&r->strings);
	free(r->object_types);
	free(r->sizes);
	free(r->shortest);
	free(r);
}

double retained_error_percent(const struct retained *r)
{
	return r->words ? 100 * (double)r->changed / (double)r->words : 0;
}
