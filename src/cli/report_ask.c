#include "cli/report_ask.h"

#include <errno.h>
#include <regex.h>
#include <string.h>

#include "base/array.h"
#include "cli/duration.h"
#include "cli/format_names.h"
#include "cli/name_tally.h"
#include "cli/report_machine.h"
#include "cli/source_option.h"

enum {
	KEY_BY = 0x7100,
	KEY_ONLY,
	KEY_PER,
	KEY_ROOT,
	KEY_WAKERS,
	KEY_PATHS,
	KEY_ROUTE,
	KEY_SLOWER,
	KEY_AGAINST,
	KEY_SPAN,
	KEY_ALLOC
};

static const struct argp_option options[] = {
	{NULL, 0, NULL, 0, "Table:", 5},
	{"by", KEY_BY, "WHAT", 0,
	 "Make a row for each root (start function), func, state, wait or label:KEY. Traces "
	 "also have request (an HTTP or gRPC request), trace (all requests of one trace id) and "
	 "machine (what the scheduler and the collector did)",
	 5},
	{"only", KEY_ONLY, "VALUE", 0,
	 "With --by label:KEY: show only this value, by function or in the format of -f", 5},
	{"root", KEY_ROOT, "REGEX", 0,
	 "Traces only: make a row for each call of a matching function", 5},
	{"per", KEY_PER, "WHAT", 0,
	 "Print percentiles of request times, for each route, for each value of label:KEY or for "
	 "all. Traces only, with --by request, --by label:KEY or --root",
	 5},
	{"route", KEY_ROUTE, "REGEX", 0,
	 "Traces only: show only requests whose route (or path, where no route is known) matches",
	 5},
	{"slower", KEY_SLOWER, "DURATION", 0,
	 "Traces only: show only requests that took longer than this", 5},
	{"span", KEY_SPAN, "REGEX", 0,
	 "Traces only: show how long each request was in calls of matching functions, beside "
	 "those of database/sql and of the clients of net/http and gRPC",
	 5},
	{"against-fast", KEY_AGAINST, NULL, 0,
	 "With --slower: make a differential flame graph of the slow requests against the others",
	 5},
	{"wakers", KEY_WAKERS, NULL, 0,
	 "Traces only: make a profile of the waits. Each stack continues with that of the goroutine that "
	 "ended the wait",
	 5},
	{"critical-path", KEY_PATHS, NULL, 0,
	 "Traces only: show the critical path of each request: what the goroutines that it waited for "
	 "did meanwhile",
	 5},
	{"alloc", KEY_ALLOC, NULL, 0,
	 "Traces only: show what was allocated for each request, route or label, and where; profiles are of bytes. "
	 "Needs a trace that was recorded with --alloc",
	 5},
	{"rows", 'n', "N", 0, "Print at most this many rows (30); 0 prints all", 5},
	{0}};

static error_t parse_by(struct report_ask *ask, const char *arg, struct argp_state *state)
{
	static const struct {
		const char *name;
		enum gospect_group_key key;
	} keys[] = {{"root", GOSPECT_GROUP_ROOT},
		    {"func", GOSPECT_GROUP_FUNCTION},
		    {"state", GOSPECT_GROUP_STATE},
		    {"wait", GOSPECT_GROUP_WAIT}};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (!strcmp(arg, keys[i].name)) {
			ask->table.key = keys[i].key;
			return 0;
		}
	}
	ask->by_trace = !strcmp(arg, "trace");
	ask->by_function |= !strcmp(arg, "request") || ask->by_trace;
	ask->machine |= !strcmp(arg, "machine");
	if (!strcmp(arg, "request") || !strcmp(arg, "machine") || ask->by_trace)
		return 0;
	if (strncmp(arg, "label:", 6) || !arg[6])
		return wrong_option(
			state,
			"--by: invalid value '%s'; use root, func, state, wait, label:KEY, request, trace or machine",
			arg);
	ask->table.key = GOSPECT_GROUP_LABEL;
	ask->table.label = arg + 6;
	return 0;
}

static error_t parse_per(struct report_ask *ask, const char *arg, struct argp_state *state)
{
	bool label = !strncmp(arg, "label:", 6) && arg[6];

	ask->per_route = !strcmp(arg, "route");
	if (!label && !ask->per_route && strcmp(arg, "all"))
		return wrong_option(state, "--per: invalid value '%s'; use route, label:KEY or all",
				    arg);
	ask->groups = true;
	ask->per = label ? arg + 6 : NULL;
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct report_ask *ask = state->input;
	double rows;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &ask->source;
		return 0;
	case KEY_BY:
		ask->is_chosen = true;
		return parse_by(ask, arg, state);
	case KEY_ONLY:
		ask->only = arg;
		return 0;
	case KEY_PER:
		return parse_per(ask, arg, state);
	case KEY_ROOT:
		ask->root = arg;
		ask->is_chosen = true;
		ask->by_function = true;
		return 0;
	case KEY_WAKERS:
		ask->wakers = true;
		return 0;
	case KEY_PATHS:
		ask->paths = true;
		return 0;
	case KEY_ROUTE:
		ask->route = arg;
		return 0;
	case KEY_SPAN:
		ask->span = arg;
		return 0;
	case KEY_AGAINST:
		ask->against = true;
		return 0;
	case KEY_ALLOC:
		ask->allocations = true;
		return 0;
	case KEY_SLOWER:
		return parse_duration_option(arg, 1e-6, 1e6, &ask->slower, state);
	case 'n':
		if (!parse_number(arg, 0, 1e6, &rows))
			return wrong_option(state, "invalid number of rows '%s'", arg);
		ask->table.rows = rows;
		ask->rows_given = true;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_child children[] = {{&source_argp, 0, NULL, 0}, {0}};
const struct argp report_ask_argp = {options, parse, NULL, NULL, children, NULL, NULL};

static struct error *choose_format(struct report_ask *ask, const struct output_options *o,
				   const char *verb)
{
	bool to_file = o->path && strcmp(o->path, "-");

	if (o->format && (!strcmp(o->format, "text") || !strcmp(o->format, "json"))) {
		ask->json = !strcmp(o->format, "json");
		return NULL;
	}
	if (o->format)
		ask->format = format_named(o->format);
	else if (to_file)
		ask->format = format_for_profile(o->path);
	if (o->format && !ask->format)
		return error_format(
			ERROR_USAGE,
			"%s: unknown format '%s'; use text, json, pprof, folded, folded-state, speedscope, firefox or html",
			verb, o->format);
	return output_check(o, verb, ask->format);
}

static struct error *check_regex(const char *text, const char *verb)
{
	regex_t regex;

	if (!text)
		return NULL;
	if (regcomp(&regex, text, REG_EXTENDED | REG_NOSUB))
		return error_format(ERROR_USAGE, "%s: invalid regular expression '%s'", verb, text);
	regfree(&regex);
	return NULL;
}

bool report_ask_selects(const struct report_ask *ask)
{
	return ask->route || ask->slower > 0;
}

/* --route and --slower select requests. */
static struct error *check_selection(const struct report_ask *ask, const char *verb)
{
	bool labels = ask->table.key == GOSPECT_GROUP_LABEL;
	struct error *err;

	if (ask->against && (ask->slower <= 0 || ask->format != GOSPECT_HTML || ask->wakers))
		return error_format(
			ERROR_USAGE,
			"%s: --against-fast needs --slower and -o FILE.html, without --wakers",
			verb);
	if (ask->span && (!ask->by_function || ask->format || ask->groups || ask->compares))
		return error_format(
			ERROR_USAGE,
			"%s: --span supports the formats text and json only, and needs --by request, --by trace or --root, without --per",
			verb);
	err = check_regex(ask->span, verb);
	if (err || !report_ask_selects(ask))
		return err;
	if (ask->only || ask->compares || ask->machine || (!ask->by_function && !labels))
		return error_format(
			ERROR_USAGE,
			"%s: --route and --slower need --by request, --by label:KEY or --root, without --only or --diff",
			verb);
	return check_regex(ask->route, verb);
}

/* Without --by, rows are requests. */
static struct error *check_allocations(struct report_ask *ask, const char *verb)
{
	bool labels = ask->table.key == GOSPECT_GROUP_LABEL;

	if (!ask->allocations)
		return NULL;
	if (!ask->is_chosen)
		ask->by_function = true;
	if (ask->only || ask->compares || ask->machine || ask->wakers || ask->against ||
	    (!ask->by_function && !labels))
		return error_format(
			ERROR_USAGE,
			"%s: --alloc needs --by request, --by trace, --by label:KEY or --root, without --only, --diff, --wakers or --against-fast",
			verb);
	return NULL;
}

struct error *report_ask_check(struct report_ask *ask, const struct output_options *output,
			       const char *verb)
{
	bool labels = ask->table.key == GOSPECT_GROUP_LABEL;
	struct error *err = check_allocations(ask, verb);

	if (err)
		return err;
	if (ask->only && ask->compares)
		return error_format(ERROR_USAGE, "%s: --only and --diff are mutually exclusive",
				    verb);
	if (ask->only && !labels)
		return error_format(ERROR_USAGE, "%s: --only needs --by label:KEY", verb);
	if (ask->by_function && (labels || ask->compares))
		return error_format(ERROR_USAGE,
				    "%s: --root cannot be combined with --by label:KEY or --diff",
				    verb);
	if (ask->groups && !ask->by_function && !labels)
		return error_format(ERROR_USAGE,
				    "%s: --per needs --by label:KEY, --by request or --root", verb);
	if (ask->groups && (ask->only || ask->compares))
		return error_format(ERROR_USAGE,
				    "%s: --per cannot be combined with --only or --diff", verb);
	err = choose_format(ask, output, verb);
	if (!err && ask->format && ask->groups)
		return error_format(ERROR_USAGE,
				    "%s: --per supports the formats text and json only", verb);
	if (!err && ask->wakers && (!ask->format || ask->compares))
		return error_format(
			ERROR_USAGE,
			"%s: --wakers makes a profile; give -o FILE.html or a format of profiles%s",
			verb, ask->compares ? ", without --diff" : "");
	if (!err && ask->paths && (ask->format || ask->groups || (!ask->by_function && !labels)))
		return error_format(
			ERROR_USAGE,
			"%s: --critical-path supports the formats text and json only, and needs --by label:KEY, --by request or --root, without --per",
			verb);
	if (!err && ask->machine &&
	    (ask->format || ask->root || ask->per || ask->groups || ask->only || ask->compares))
		return error_format(
			ERROR_USAGE,
			"%s: --by machine supports the formats text and json only, and no other question",
			verb);
	if (!err)
		err = check_regex(ask->root, verb);
	if (!err)
		err = check_selection(ask, verb);
	return err ? err : source_check(ask->source, ask->format, verb);
}

/* Whether rows are requests, which are exact in a trace. */
static bool by_request(const struct report_ask *ask)
{
	return (ask->by_function || ask->table.key == GOSPECT_GROUP_LABEL) &&
	       (!ask->format || ask->allocations || report_ask_selects(ask)) && !ask->only &&
	       !ask->compares;
}

static struct error *check_kind(const struct report_ask *ask, const struct report_file *file)
{
	enum gospect_recorded_kind kind;

	if (!file->bytes)
		return NULL;
	kind = gospect_recorded_kind(file->bytes, file->size);
	if (file->exe && kind != GOSPECT_RECORDED_PERF_DATA)
		return error_format(ERROR_USAGE,
				    "--exe needs a perf.data file; this file is not one");
	if (kind != GOSPECT_RECORDED_TRACE && (ask->wakers || ask->machine))
		return error_format(
			ERROR_USAGE,
			"--wakers and --by machine need an execution trace; this file is not one");
	if (kind != GOSPECT_RECORDED_TRACE && ask->paths)
		return error_format(
			ERROR_USAGE,
			"--critical-path needs an execution trace; this file is not one");
	if (kind != GOSPECT_RECORDED_TRACE && ask->allocations)
		return error_format(ERROR_USAGE,
				    "--alloc needs an execution trace; this file is not one");
	if (kind != GOSPECT_RECORDED_TRACE && report_ask_selects(ask))
		return error_format(
			ERROR_USAGE,
			"--route and --slower need an execution trace; this file is not one");
	if (kind == GOSPECT_RECORDED_PROFILE && (ask->by_function || (by_request(ask) && ask->per)))
		return error_format(
			ERROR_USAGE,
			"--root and --per need an execution trace; this file is not one");
	return NULL;
}

/* Lists the labels of the file. It is read again, because the first read may have kept only the
 * requested one. */
static struct error *label_missing(const struct report_ask *ask, const struct report_file *file)
{
	const struct gospect_recorded_options how = {.flags = GOSPECT_RECORDED_LABELS};
	struct report_file all = {.path = file->path,
				  .exe = file->exe,
				  .bytes = file->bytes,
				  .size = file->size};
	struct error *err = report_file_read(&all, &how);

	if (!err)
		err = no_label(all.profile, file->path, ask->table.label, ask->only);
	gospect_profile_destroy(all.profile);
	return err;
}

/* `fast`: those that --slower leaves out. */
/* A page shows the paths of the slowest requests. */
static bool wants_paths(const struct report_ask *ask)
{
	return ask->paths || (ask->format == GOSPECT_HTML && !ask->wakers && !ask->allocations);
}

static struct error *read_requests(const struct report_ask *ask, const struct report_file *file,
				   bool fast, struct gospect_requests **ret)
{
	const struct gospect_requests_options how = {
		.size = sizeof(how),
		.label = ask->by_function ? NULL : ask->table.label,
		.root = ask->root,
		.per = ask->per,
		.name = file->path,
		.remark = fast ? NULL : say_remark,
		.flags = (wants_paths(ask) ? GOSPECT_REQUESTS_PATHS : 0) |
			 (ask->per_route ? GOSPECT_REQUESTS_PER_ROUTE : 0) |
			 (ask->by_trace ? GOSPECT_REQUESTS_BY_TRACE : 0) |
			 (ask->allocations ? GOSPECT_REQUESTS_ALLOC : 0),
		.route = ask->route,
		.part = ask->span,
		.slower_ns = fast ? 0 : ask->slower * 1e9,
		.faster_ns = fast ? ask->slower * 1e9 : 0,
	};
	struct error *err =
		library_error(gospect_requests_read(file->bytes, file->size, &how, ret));

	if (err && err->code == ERROR_FAILED && !ask->by_function && !report_ask_selects(ask)) {
		error_destroy(err);
		return label_missing(ask, file);
	}
	/* A file without requests is valid. */
	return err && err->code == ERROR_FAILED ? err : report_file_error(file, err);
}

static int put(void *arg, const void *bytes, size_t size)
{
	say_work(NULL);
	return fwrite(bytes, 1, size, arg) == size ? 0 : errno;
}

static struct error *write_request_profile(const struct report_ask *ask,
					   const struct gospect_requests *requests, FILE *out)
{
	struct gospect_profile *profile = NULL;
	struct error *err =
		library_error(ask->allocations ? gospect_requests_allocations(requests, &profile)
			      : ask->wakers    ? gospect_requests_wakers(requests, &profile)
					       : gospect_requests_profile(requests, &profile));

	if (!err)
		err = source_add(ask->source, profile);
	if (!err)
		err = library_error(gospect_profile_write(profile, ask->format,
							  gospect_sink_function(put, out)));
	gospect_profile_destroy(profile);
	return err;
}

/* The slow requests against those that --slower leaves out. */
static struct error *write_comparison(const struct report_ask *ask, const struct report_file *file,
				      const struct gospect_requests *slow, FILE *out)
{
	struct gospect_requests *others = NULL;
	struct gospect_profile *before = NULL, *after = NULL;
	struct error *err = read_requests(ask, file, true, &others);

	if (!err)
		err = library_error(gospect_requests_profile(others, &before));
	if (!err)
		err = library_error(gospect_requests_profile(slow, &after));
	if (!err)
		err = library_error(
			gospect_profile_write_diff(before, after, gospect_sink_function(put, out)));
	gospect_profile_destroy(before);
	gospect_profile_destroy(after);
	gospect_requests_destroy(others);
	return err;
}

static const char *heading_of(const struct report_ask *ask)
{
	if (!ask->by_function)
		return ask->table.label;
	if (ask->by_trace)
		return "TRACE";
	return ask->root ? "FUNCTION" : "REQUEST";
}

static struct error *write_requests(const struct report_ask *ask, const struct report_file *file,
				    FILE *out)
{
	struct report_requests how = {.heading = heading_of(ask),
				      .per = ask->per_route ? "ROUTE" : ask->per,
				      .by_function = ask->by_function,
				      .by_trace = ask->by_trace,
				      .groups = ask->groups,
				      .paths = ask->paths,
				      .allocations = ask->allocations,
				      .rows = ask->table.rows};
	struct gospect_requests *requests = NULL;
	struct error *err = read_requests(ask, file, false, &requests);

	if (!err && ask->against)
		err = write_comparison(ask, file, requests, out);
	else if (!err && ask->format)
		err = write_request_profile(ask, requests, out);
	else if (!err)
		err = ask->json ? report_write_requests_json(requests, &how, out)
				: report_write_requests(requests, &how, out);
	gospect_requests_destroy(requests);
	return err;
}

struct wanted_value {
	const char *name; /* NULL: any */
	bool found;
};

static int find_value(void *arg, const struct gospect_group *g)
{
	struct wanted_value *w = arg;

	w->found |= w->name ? !strcmp(g->name, w->name) : *g->name != 0;
	return w->found;
}

/* Checks that a sample of the profile has the label, with the value of --only if that was given. */
static struct error *check_label(const struct report_ask *ask, const struct report_file *file)
{
	struct wanted_value w = {.name = ask->only};
	struct error *err = library_error(gospect_profile_groups(file->profile, GOSPECT_GROUP_LABEL,
								 ask->table.label, find_value, &w));

	if (err || w.found)
		return err;
	return file->bytes ? label_missing(ask, file)
			   : no_label(file->profile, file->path, ask->table.label, ask->only);
}

static void keep_only(struct report_ask *ask, const struct report_file *file)
{
	gospect_profile_keep_label(file->profile, ask->table.label, ask->only);
	ask->table.key = GOSPECT_GROUP_FUNCTION;
}

void report_ask_settle(struct report_ask *ask, const struct report_file *file)
{
	if (!ask->is_chosen && report_has_values(file))
		ask->table.key = GOSPECT_GROUP_FUNCTION;
}

struct error *report_ask_read(const struct report_ask *ask, struct report_file *file)
{
	bool labels = ask->format || ask->table.key == GOSPECT_GROUP_LABEL;
	const struct gospect_recorded_options how = {
		.label = ask->only ? ask->table.label : NULL,
		.value = ask->only,
		.flags = (labels ? GOSPECT_RECORDED_LABELS : 0) |
			 (ask->wakers ? GOSPECT_RECORDED_WAKERS : 0) |
			 (ask->format == GOSPECT_HTML ? GOSPECT_RECORDED_GOROUTINES : 0),
	};
	struct error *err = report_file_error(file, check_kind(ask, file));

	return err ? err : report_file_read(file, &how);
}

static struct error *write_profile(struct report_ask *ask, struct report_file *file, FILE *out)
{
	struct error *err = report_ask_read(ask, file);

	if (!err && ask->table.key == GOSPECT_GROUP_LABEL)
		err = check_label(ask, file);
	if (!err && ask->only)
		keep_only(ask, file);
	report_ask_settle(ask, file);
	if (!err)
		err = source_add(ask->source, file->profile);
	if (err)
		return err;
	if (ask->format)
		return library_error(gospect_profile_write(file->profile, ask->format,
							   gospect_sink_function(put, out)));
	return ask->json ? report_write_json(file, &ask->table, out)
			 : report_write_table(file, &ask->table, out);
}

/* Sections of it have fewer rows than a table, unless the user wants more. */
static struct error *write_machine(const struct report_ask *ask, const struct report_file *file,
				   FILE *out)
{
	enum { ROWS = 10 };

	return report_write_machine(file, ask->json ? REPORT_MACHINE_JSON : REPORT_MACHINE_TEXT,
				    ask->rows_given ? ask->table.rows : ROWS, out);
}

static struct error *write_starts(const struct report_ask *ask, const struct report_file *file,
				  FILE *out)
{
	struct error *err;

	if (ask->json)
		return report_write_json(file, &ask->table, out);
	err = report_write_table(file, &ask->table, out);
	if (err)
		return err;
	err = report_write_machine(file, REPORT_MACHINE_SHORT, 0, out);
	if (!err || err->code != ERROR_FAILED)
		return err;
	/* A Perfetto trace is read without that part. */
	error_destroy(err);
	return NULL;
}

static struct error *write_trace(struct report_ask *ask, struct report_file *file, FILE *out)
{
	struct error *err;

	if (ask->machine)
		return write_machine(ask, file, out);
	if (by_request(ask) || ask->by_function) {
		err = write_requests(ask, file, out);
		if (!err || err->code != ERROR_FAILED || !ask->defaulted || ask->allocations ||
		    report_ask_selects(ask))
			return err;
		say("%s; here is each start function", err->message);
		error_destroy(err);
		ask->by_function = false;
	}
	if (ask->format || ask->only || ask->table.key != GOSPECT_GROUP_ROOT)
		return write_profile(ask, file, out);
	return write_starts(ask, file, out);
}

struct error *report_ask_write(struct report_ask *ask, struct report_file *file, FILE *out)
{
	struct error *err = report_file_error(file, check_kind(ask, file));

	if (err)
		return err;
	return report_file_is_trace(file) ? write_trace(ask, file, out)
					  : write_profile(ask, file, out);
}
