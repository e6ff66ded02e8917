#include "cli/filter_options.h"

#include <regex.h>
#include <string.h>

enum { KEY_STATE = 0x3000, KEY_WAIT, KEY_FUNC, KEY_LABEL };

static const struct argp_option options[] =
	{{NULL, 0, NULL, 0, "Filters (only goroutines that match):", 3},
	 {"state", KEY_STATE, "STATE", 0, "Match the state: running, runnable, syscall or waiting",
	  3},
	 {"wait", KEY_WAIT, "REASON", 0,
	  "Match the wait reason as dump prints it ('chan receive'), or a part of it ('mutex')", 3},
	 {"func", KEY_FUNC, "REGEX", 0,
	  "Match a function on the stack (POSIX extended regular expression)", 3},
	 {"label", KEY_LABEL, "KEY[=VALUE]", 0, "Match a pprof label", 3},
	 {"goid", 'g', "GOID", 0, "Match one goroutine id", 3},
	 {0}};

/* The bit of the state; 0: there is no such state. */
static uint32_t state_named(const char *name)
{
	for (uint32_t i = GOSPECT_RUNNING; i <= GOSPECT_WAITING; i++)
		if (!strcmp(name, gospect_state_name(i)))
			return 1u << i;
	return 0;
}

/* Compiles it here only to check it. */
static error_t set_function(struct gospect_filter *f, const char *text, struct argp_state *state)
{
	regex_t regex;
	char why[128];
	int failed = regcomp(&regex, text, REG_EXTENDED | REG_NOSUB);

	if (failed) {
		regerror(failed, &regex, why, sizeof(why));
		return wrong_option(state, "--func: invalid regular expression '%s': %s", text,
				    why);
	}
	regfree(&regex);
	f->function = text;
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct gospect_filter *f = state->input;
	unsigned long id;

	switch (key) {
	case ARGP_KEY_INIT:
		f->size = sizeof(*f);
		return 0;
	case KEY_STATE:
		if (!state_named(arg))
			return wrong_option(
				state,
				"--state: invalid state '%s'; use running, runnable, syscall or "
				"waiting",
				arg);
		f->states = state_named(arg);
		return 0;
	case KEY_WAIT:
		f->wait = arg;
		return 0;
	case KEY_FUNC:
		return f->function ? wrong_option(state, "--func can be given only once")
				   : set_function(f, arg, state);
	case KEY_LABEL:
		if (!*arg || *arg == '=')
			return wrong_option(state, "--label: '%s' has no key; use KEY or KEY=VALUE",
					    arg);
		f->label = arg;
		return 0;
	case 'g':
		if (!parse_id(arg, &id))
			return wrong_option(state, "invalid goroutine id '%s'", arg);
		f->goroutine = id;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

const struct argp filter_argp = {options, parse, NULL, NULL, NULL, NULL, NULL};
