#include "cli/tracing_options.h"

#include <gospect/trace.h>

#include "cli/cli.h"
#include "cli/duration.h"

#define USUAL_CPU_HZ 100

enum { KEY_MAX_PAUSE = 0x6100, KEY_NO_NAMES, KEY_CPU };

static const struct argp_option options[] =
	{{"max-pause", KEY_MAX_PAUSE, "DURATION", 0,
	  "Refuse to trace when the expected pause of the target is longer; it grows by about 3 us "
	  "a thread",
	  4},
	 {"no-names", KEY_NO_NAMES, NULL, 0,
	  "Do not read methods, paths, routes, statuses, peers or trace ids of requests, and "
	  "do not record their calls of databases and other servers",
	  4},
	 {"cpu", KEY_CPU, "HZ", OPTION_ARG_OPTIONAL,
	  "Sample what threads run, HZ times (100) for each second of CPU time: reports then have "
	  "running time by function; takes about 1% of the target's CPU time",
	  4},
	 {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct tracing_options *o = state->input;

	switch (key) {
	case KEY_MAX_PAUSE:
		return parse_duration_option(arg, 1e-6, 3600, &o->max_pause, state);
	case KEY_NO_NAMES:
		o->no_names = true;
		return 0;
	case KEY_CPU:
		o->cpu_hz = USUAL_CPU_HZ;
		return arg ? parse_number_option(arg, 1, GOSPECT_TRACE_MOST_CPU_HZ, &o->cpu_hz,
						 state, "number of samples a second")
			   : 0;
	}
	return ARGP_ERR_UNKNOWN;
}

const struct argp tracing_options_argp = {options, parse, NULL, NULL, NULL, NULL, NULL};
