#include "cli/request.h"

static error_t parse_without_filter(int key, char *arg, struct argp_state *state)
{
	struct request *r = state->input;

	if (key != ARGP_KEY_INIT)
		return ARGP_ERR_UNKNOWN;
	state->child_inputs[0] = &r->subject;
	state->child_inputs[1] = &r->output;
	return 0;
}

static error_t parse_all(int key, char *arg, struct argp_state *state)
{
	struct request *r = state->input;

	if (key != ARGP_KEY_INIT)
		return ARGP_ERR_UNKNOWN;
	parse_without_filter(key, arg, state);
	state->child_inputs[2] = &r->filter;
	return 0;
}

static const struct argp_child all[] = {{&subject_argp, 0, NULL, 0},
					{&output_argp, 0, NULL, 0},
					{&filter_argp, 0, NULL, 0},
					{0}};
static const struct argp_child without_filter[] = {{&subject_argp, 0, NULL, 0},
						   {&output_argp, 0, NULL, 0},
						   {0}};

const struct argp request_argp = {.parser = parse_all, .children = all};
const struct argp request_without_filter_argp = {.parser = parse_without_filter,
						 .children = without_filter};
const struct argp_child request_children[] = {{&request_argp, 0, NULL, 0}, {0}};
const struct argp_child request_without_filter_children[] = {{&request_without_filter_argp, 0, NULL,
							      0},
							     {0}};
