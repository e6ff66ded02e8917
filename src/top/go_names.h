/* The names of a Go program, for the stacks of its sampler. Each stack is symbolized once. */
#ifndef TOP_GO_NAMES_H
#define TOP_GO_NAMES_H

#include "base/map.h"
#include "image/code.h"
#include "top/names.h"

struct wall_sampler;

struct go_names {
	struct top_names names; /* first member: the argument of callbacks */
	struct wall_sampler *sampler;
	struct code code;
	bool no_cpu_samples; /* set by the caller: they are not permitted */
	/* The functions of each requested stack, in `functions`. */
	struct map stacks; /* stack -> its index in `known` + 1 */
	struct go_names_stack *known;
	size_t known_count, known_capacity;
	uint32_t *functions;
	size_t function_count, function_capacity;
	struct map creators; /* creator -> name + 1 */
	struct map labels;   /* labels -> index of their count and names in `label_names` + 1 */
	uint32_t *label_names;
	size_t label_count, label_capacity;
};

void go_names_init(struct go_names *n, struct wall_sampler *sampler, const struct code *code);
void go_names_release(struct go_names *n);

#endif
