#include "cli/common_options.h"

static error_t parse_without_filter(int key, char *arg, struct argp_state *state)
{
	struct common_options *r = state->input;

	if (key != ARGP_KEY_INIT)
		return ARGP_ERR_UNKNOWN;
	state->child_inputs[0] = &r->target;
	state->child_inputs[1] = &r->target;
	state->child_inputs[2] = &r->output;
	return 0;
}

static error_t parse_all(int key, char *arg, struct argp_state *state)
{
	struct common_options *r = state->input;

	if (key != ARGP_KEY_INIT)
		return ARGP_ERR_UNKNOWN;
	parse_without_filter(key, arg, state);
	state->child_inputs[3] = &r->filter;
	return 0;
}

static const struct argp_child all[] = {{&target_options_argp, 0, NULL, 0},
					{&target_options_exe_argp, 0, NULL, 0},
					{&output_argp, 0, NULL, 0},
					{&filter_argp, 0, NULL, 0},
					{0}};
static const struct argp_child without_filter[] = {{&target_options_argp, 0, NULL, 0},
						   {&target_options_exe_argp, 0, NULL, 0},
						   {&output_argp, 0, NULL, 0},
						   {0}};

const struct argp common_options_argp = {.parser = parse_all, .children = all};
const struct argp common_options_without_filter_argp = {.parser = parse_without_filter,
							.children = without_filter};
const struct argp_child common_options_children[] = {{&common_options_argp, 0, NULL, 0}, {0}};
