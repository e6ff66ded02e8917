#include "cli/exact_options.h"

#include <gospect/memory_snapshot.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/duration.h"

enum { KEY_EXACT = 0x2600, KEY_MAX_PAUSE };

static const struct argp_option options[] = {
	{NULL, 0, NULL, 0, "Exact:", 3},
	{"exact", KEY_EXACT, "HOW", OPTION_ARG_OPTIONAL,
	 "Read the program at one point in time, from a copy of it (a fork). The program is stopped "
	 "while the kernel copies its page tables, about 24 ms for each GB. --exact=stop makes no "
	 "copy and stops the program while gospect reads it; so does --exact if no copy is possible",
	 3},
	{"max-pause", KEY_MAX_PAUSE, "DURATION", 0,
	 "With --exact: refuse when the expected pause of the program is longer", 3},
	{0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct exact_options *o = state->input;

	switch (key) {
	case KEY_EXACT:
		if (arg && strcmp(arg, "fork") && strcmp(arg, "stop"))
			return wrong_option(state, "invalid --exact '%s'; use fork or stop", arg);
		o->exact = o->target->traces = true;
		o->stop = arg && !strcmp(arg, "stop");
		return 0;
	case KEY_MAX_PAUSE:
		return parse_duration_option(arg, 1e-6, 3600, &o->max_pause, state);
	}
	return ARGP_ERR_UNKNOWN;
}

const struct argp exact_options_argp = {.options = options, .parser = parse};

struct error *exact_options_check(const struct exact_options *o, const char *verb)
{
	if (o->max_pause > 0 && !o->exact)
		return error_format(
			ERROR_USAGE,
			"%s: --max-pause needs --exact: without --exact the program is not stopped",
			verb);
	return NULL;
}

struct error *exact_begin(const struct exact_options *o, const struct cli_target *s)
{
	const struct gospect_memory_snapshot_options how = {
		.size = sizeof(how),
		.surgeon = s->surgeon,
		.max_pause = o->max_pause,
		.flags = o->stop ? GOSPECT_MEMORY_SNAPSHOT_STOP : 0,
	};

	return o->exact ? library_error(gospect_target_take_memory_snapshot(s->handle, &how))
			: NULL;
}

struct error *exact_end(const struct exact_options *o, const struct cli_target *s)
{
	return o->exact ? library_error(gospect_target_end_memory_snapshot(s->handle, NULL)) : NULL;
}
