#include "retained/retained.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "retained/object_types.h"

static struct error *must_check find_root_holders(struct retained *r)
{
	uint32_t first = object_graph_first_node(&r->graph);

	r->root_holders = calloc(first, sizeof(*r->root_holders));
	if (!r->root_holders)
		return &error_no_memory;
	for (uint32_t i = 0; i < r->dominators.count; i++) {
		uint32_t node = number_array_pass(&r->dominators.nodes, i);

		if (node < first)
			r->root_holders[node] = r->holders.of.items[i];
	}
	number_array_forget(&r->dominators.nodes);
	return NULL;
}

static struct error *must_check read_heap(struct retained *r, struct target *t,
					  const struct image *img, const struct golayout *lay,
					  const struct retained_options *options)
{
	uint32_t *types = NULL;
	const struct object_graph_options how = {.stop = options->stop};
	struct error *err = runtime_types_open(t, img, lay, &r->types);

	if (!err)
		err = object_graph_read(t, img, lay, &r->types, &r->table, &how, &r->graph);
	if (!err)
		equal_strings_init(&r->strings, t, r->graph.spans.bytes);
	if (!err)
		err = object_types_find(&r->graph, &r->types, &r->strings, &types);
	r->object_types = number_array_of(types, r->graph.count);
	if (!err)
		err = allocation_sites_find(&r->graph, r->object_types.items, &r->sites);
	number_array_forget(&r->object_types);
	if (!err)
		err = equal_strings_finish(&r->strings, options->strings);
	if (!err && !options->is_exact)
		err = flow_graph_map(&r->graph.flow);
	if (!err && !options->is_exact)
		err = object_graph_compare(&r->graph, &r->words, &r->changed);
	return err ? err : target_check(t);
}

static struct error *must_check find_holders(struct retained *r)
{
	const struct holder_input in = {.graph = &r->graph,
					.dominators = &r->dominators,
					.types = &r->object_types,
					.runtime_types = &r->types};
	struct flow_graph *flow = &r->graph.flow;
	struct error *err = flow_graph_load(flow);

	if (!err)
		err = flow_graph_shortest(flow, &r->shortest);
	if (!err)
		err = flow_graph_load(flow);
	if (!err)
		err = dominators_find(flow, &r->dominators);
	if (!err)
		err = holder_tree_make(&in, &r->holders);
	if (!err)
		err = find_root_holders(r);
	number_array_release(&r->dominators.immediate);
	return err ? err : flow_graph_map(flow);
}

struct error *retained_find(struct target *t, const struct image *img, const struct golayout *lay,
			    const struct retained_options *options, struct retained **ret)
{
	_cleanup_retained_ struct retained *r = calloc(1, sizeof(*r));
	struct error *err;

	if (!r)
		return &error_no_memory;
	r->is_exact = options->is_exact;
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
	allocation_sites_release(&r->sites);
	number_array_release(&r->object_types);
	free(r->root_holders);
	number_array_release(&r->shortest);
	free(r);
}

double retained_error_percent(const struct retained *r)
{
	return r->words ? 100 * (double)r->changed / (double)r->words : 0;
}

const struct allocation_site *retained_sites(const struct retained *r, const struct type_sum *type,
					     size_t *ret_count)
{
	size_t first = 0, end;

	while (first < r->sites.count &&
	       r->holders.type_names[r->sites.items[first].type] != type->name)
		first++;
	for (end = first;
	     end < r->sites.count && r->sites.items[end].type == r->sites.items[first].type;)
		end++;
	*ret_count = end - first;
	return r->sites.items + first;
}
