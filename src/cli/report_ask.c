#include "cli/report_ask.h"

#include <string.h>

#include "base/array.h"
#include "requests/handlers.h"

enum { KEY_BY = 0x7100, KEY_ONLY, KEY_PER, KEY_ROOT };

static const struct argp_option options[] =
	{{NULL, 0, NULL, 0, "Table:", 5},
	 {"by", KEY_BY, "WHAT", 0,
	  "Make a row for each root (start function), func, state, wait or label:KEY; of a trace "
	  "also request (an HTTP or gRPC request)",
	  5},
	 {"only", KEY_ONLY, "VALUE", 0,
	  "With --by label:KEY: show this value only, by function or in the format of -f", 5},
	 {"root", KEY_ROOT, "REGEX", 0,
	  "Of a trace: make a row for each time that a goroutine is inside a matching function", 5},
	 {"per", KEY_PER, "WHAT", 0,
	  "Of a trace, with --by label:KEY or --root: print percentiles of request times for each "
	  "value of label:KEY, or of all",
	  5},
	 {"rows", 'n', "N", 0, "Print at most this many rows (30); 0 prints all", 5},
	 {0}};

static error_t parse_by(struct report_ask *ask, const char *arg, struct argp_state *state)
{
	static const struct {
		const char *name;
		enum group_key key;
	} keys[] = {{"root", GROUP_ROOT},
		    {"func", GROUP_FUNC},
		    {"state", GROUP_STATE},
		    {"wait", GROUP_WAIT}};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (!strcmp(arg, keys[i].name)) {
			ask->table.key = keys[i].key;
			return 0;
		}
	}
	if (!strcmp(arg, "request")) {
		ask->root = ask->root ?: HANDLERS_REGEX;
		return 0;
	}
	if (strncmp(arg, "label:", 6) || !arg[6])
		return wrong_option(
			state,
			"--by: invalid value '%s'; use root, func, state, wait, label:KEY or "
			"request",
			arg);
	ask->table.key = GROUP_LABEL;
	ask->table.label = arg + 6;
	return 0;
}

static error_t parse_per(struct report_ask *ask, const char *arg, struct argp_state *state)
{
	if (strcmp(arg, "all") && (strncmp(arg, "label:", 6) || !arg[6]))
		return wrong_option(state, "--per: invalid value '%s'; use label:KEY or all", arg);
	ask->groups = true;
	ask->per = strcmp(arg, "all") ? arg + 6 : NULL;
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct report_ask *ask = state->input;
	double rows;

	switch (key) {
	case KEY_BY:
		return parse_by(ask, arg, state);
	case KEY_ONLY:
		ask->only = arg;
		return 0;
	case KEY_PER:
		return parse_per(ask, arg, state);
	case KEY_ROOT:
		ask->root = arg;
		ask->asks_root = true;
		return 0;
	case 'n':
		if (!parse_number(arg, 0, 1e6, &rows))
			return wrong_option(state, "invalid number of rows '%s'", arg);
		ask->table.rows = rows;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

const struct argp report_ask_argp = {options, parse, NULL, NULL, NULL, NULL, NULL};

static struct error *choose_format(struct report_ask *ask, const struct output_options *o,
				   const char *verb)
{
	bool to_file = o->path && strcmp(o->path, "-");

	if (o->format && (!strcmp(o->format, "text") || !strcmp(o->format, "json"))) {
		ask->json = !strcmp(o->format, "json");
		return NULL;
	}
	if (o->format)
		ask->format = profile_format_named(o->format);
	else if (to_file)
		ask->format = profile_format_for_file(o->path);
	if (o->format && !ask->format)
		return error_format(
			ERROR_USAGE,
			"%s: unknown format '%s'; use text, json, pprof, folded, speedscope or "
			"html",
			verb, o->format);
	if (ask->format && ask->format->binary && output_is_terminal(o))
		return error_format(
			ERROR_USAGE,
			"%s: %s is binary, and standard output is a terminal; use -o FILE", verb,
			ask->format->name);
	return NULL;
}

static struct error *compile(struct report_ask *ask, const char *verb)
{
	if (!ask->root)
		return NULL;
	if (regcomp(&ask->regex, ask->root, REG_EXTENDED | REG_NOSUB))
		return error_format(ERROR_USAGE, "%s: invalid regular expression '%s'", verb,
				    ask->root);
	ask->has_regex = true;
	return NULL;
}

struct error *report_ask_check(struct report_ask *ask, const struct output_options *output,
			       const char *verb)
{
	bool labels = ask->table.key == GROUP_LABEL;
	struct error *err;

	if (ask->only && ask->compares)
		return error_format(ERROR_USAGE, "%s: --only and --diff are mutually exclusive",
				    verb);
	if (ask->only && !labels)
		return error_format(ERROR_USAGE, "%s: --only needs --by label:KEY", verb);
	if (ask->root && (labels || ask->compares))
		return error_format(ERROR_USAGE,
				    "%s: --root cannot be combined with --by label:KEY or --diff",
				    verb);
	if (ask->groups && !ask->root && !labels)
		return error_format(ERROR_USAGE,
				    "%s: --per needs --by label:KEY, --by request or --root", verb);
	if (ask->groups && (ask->only || ask->compares))
		return error_format(ERROR_USAGE,
				    "%s: --per cannot be combined with --only or --diff", verb);
	err = choose_format(ask, output, verb);
	if (!err && ask->format && (ask->root || ask->groups))
		return error_format(ERROR_USAGE,
				    "%s: --root and --per support the formats text and json only",
				    verb);
	return err ? err : compile(ask, verb);
}

/* Of a trace, rows of requests are exact. */
static bool by_request(const struct report_ask *ask)
{
	return (ask->root || ask->table.key == GROUP_LABEL) && !ask->format && !ask->only &&
	       !ask->compares;
}

struct report_wish report_ask_wish(const struct report_ask *ask)
{
	struct report_wish wish = {.per = ask->per};

	if (by_request(ask)) {
		wish.key = ask->root ? NULL : ask->table.label;
		wish.root = ask->root ? &ask->regex : NULL;
		wish.no_profile = true;
	} else {
		wish.labels = ask->format || ask->table.key == GROUP_LABEL;
		wish.label = ask->only ? ask->table.label : NULL;
		wish.value = ask->only;
	}
	return wish;
}

static struct error *write_requests(const struct report_ask *ask, const struct report_file *file,
				    FILE *out)
{
	struct report_requests how = {.heading = ask->root ? "FUNCTION" : ask->table.label,
				      .groups = ask->groups,
				      .rows = ask->table.rows};

	return ask->json ? report_write_requests_json(file, &how, out)
			 : report_write_requests(file, &how, out);
}

static struct error *keep_only(struct report_ask *ask, const struct report_file *file)
{
	profile_keep_label(file->profile.profile, ask->table.label, ask->only);
	ask->table.key = GROUP_FUNC;
	if (file->profile.profile->count)
		return NULL;
	return error_format(ERROR_FAILED, "no sample in %s has the label %s=%s", file->path,
			    ask->table.label, ask->only);
}

struct error *report_ask_write(struct report_ask *ask, const struct report_file *file, FILE *out)
{
	struct error *err = NULL;

	if (file->is_trace && by_request(ask))
		return write_requests(ask, file, out);
	if (ask->only)
		err = keep_only(ask, file);
	if (err)
		return err;
	if (ask->format)
		return ask->format->write(file->profile.profile, file->profile.symbols, out);
	return ask->json ? report_write_json(file, &ask->table, out)
			 : report_write_table(file, &ask->table, out);
}

void report_ask_release(struct report_ask *ask)
{
	if (ask->has_regex)
		regfree(&ask->regex);
	ask->has_regex = false;
}
