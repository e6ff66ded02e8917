#include <gospect/heap.h>
#include <gospect/snapshot.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "cli/duration.h"
#include "cli/format_names.h"
#include "cli/heap_retained.h"
#include "cli/look.h"
#include "cli/report.h"
#include "cli/stop.h"

enum { KEY_KIND = 0x7200, KEY_LIVE, KEY_RETAINED };

#define MOST_SECONDS 86400

struct heap_verb {
	struct common_options request;
	struct exact_options exact;
	struct gospect_heap_options how;
	struct report_table table;
	enum gospect_format format; /* GOSPECT_TEXT, GOSPECT_JSON: tables */
	bool is_retained;           /* --retained */
	bool has_kind;
	unsigned int debug; /* the text that runtime/pprof writes with debug=1 or 2; 0: not */
};

static const struct argp_option options[] = {
	{NULL, 0, NULL, 0, "Profile:", 4},
	{"kind", KEY_KIND, "KIND", 0,
	 "Show this profile: heap (memory in use, the default), allocs (all since the start), block, "
	 "mutex, goroutine, goroutineleak or threadcreate",
	 4},
	{"live", KEY_LIVE, "DURATION", 0, "Show only what is allocated in the next DURATION", 4},
	{"retained", KEY_RETAINED, NULL, 0,
	 "Show objects by type, and which variables hold how much memory", 4},
	{"rows", 'n', "N", 0, "Print at most this many rows (30); 0 prints all", 4},
	{0}};

static error_t parse_kind(const char *arg, struct argp_state *state)
{
	static const char *const names[] = {
		[GOSPECT_HEAP] = "heap",
		[GOSPECT_ALLOCS] = "allocs",
		[GOSPECT_BLOCK] = "block",
		[GOSPECT_MUTEX] = "mutex",
		[GOSPECT_GOROUTINE] = "goroutine",
		[GOSPECT_THREADCREATE] = "threadcreate",
		[GOSPECT_GOROUTINELEAK] = "goroutineleak",
	};
	struct heap_verb *v = state->input;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (!strcmp(arg, names[i])) {
			v->how.kind = i;
			return 0;
		}
	}
	return wrong_option(
		state,
		"--kind: unknown profile '%s'; use heap, allocs, block, mutex, goroutine, goroutineleak or threadcreate",
		arg);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct heap_verb *v = state->input;
	double rows;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &v->request;
		state->child_inputs[1] = &v->request.target;
		state->child_inputs[2] = &v->exact;
		return 0;
	case KEY_KIND:
		v->has_kind = true;
		return parse_kind(arg, state);
	case KEY_LIVE:
		return parse_duration_option(arg, 0.1, MOST_SECONDS, &v->how.live, state);
	case KEY_RETAINED:
		v->is_retained = true;
		return 0;
	case 'n':
		if (!parse_number(arg, 0, 1e6, &rows))
			return wrong_option(state, "invalid number of rows '%s'", arg);
		v->table.rows = rows;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_child children[] = {{&common_options_without_filter_argp, 0, NULL, 0},
					     {&target_options_core_argp, 0, NULL, 0},
					     {&exact_options_argp, 0, NULL, 0},
					     {0}};

static const struct argp argp = {
	options,
	parse,
	"PID|NAME\n-- COMMAND ARGS...\n--core FILE",
	"Shows who allocated the memory in use, or, with --retained, which variables hold it. --kind "
	"shows other profiles that the Go runtime keeps by itself. Their values are those of "
	"/debug/pprof, which the program does not need to have. Only --exact stops the program.\v"
	"Formats: text and json (a table), debug1 and debug2 (the text of /debug/pprof/NAME?debug=1 and 2), pprof "
	"(.pb.gz, .pprof), folded (.folded), speedscope (.json), html (.html). --retained has text, "
	"json, html (a treemap), hprof (.hprof), pprof, folded and speedscope.\n"
	"\n"
	"Examples:\n"
	"  gospect heap server -o heap.pb.gz\n"
	"  gospect heap server --retained",
	children,
	NULL,
	NULL};

static struct error *choose_format(struct heap_verb *v)
{
	const struct output_options *o = &v->request.output;
	enum gospect_format format = GOSPECT_TEXT;

	if (o->format && !strncmp(o->format, "debug", 5))
		v->debug = !strcmp(o->format, "debug1") ? 1 : !strcmp(o->format, "debug2") ? 2 : 0;
	if (o->format && !v->debug)
		format = format_named(o->format);
	else if (!v->debug && o->path && format_for_profile(o->path))
		format = format_for_profile(o->path);
	if (!format || format == GOSPECT_FOLDED_STATE || format == GOSPECT_FIREFOX)
		return error_format(
			ERROR_USAGE,
			"heap: unknown format '%s'; use text, json, debug1, debug2, pprof, folded, speedscope or html",
			o->format ?: "firefox");
	v->format = format;
	return output_check(o, "heap", format);
}

static struct error *check(struct heap_verb *v)
{
	struct error *err = target_options_check(&v->request.target, "heap");

	if (!err && (v->exact.exact || v->exact.max_pause > 0))
		return error_format(
			ERROR_USAGE,
			"heap: --exact needs --retained: other profiles are exact without it");
	if (!err && v->how.live && v->how.kind > GOSPECT_ALLOCS)
		return error_format(ERROR_USAGE,
				    "heap: --live needs the kind heap or allocs; leave out --kind");
	if (!err && v->how.live && v->request.target.core)
		return error_format(ERROR_USAGE, "heap: --live and --core are mutually exclusive");
	if (!err)
		err = choose_format(v);
	if (!err && v->how.live && v->debug)
		return error_format(ERROR_USAGE,
				    "heap: --live and -f debug%u are mutually exclusive", v->debug);
	return err;
}

static void cleanup_profile_of_heap(struct gospect_profile **p)
{
	gospect_profile_destroy(*p);
}

static struct error *write_profile(const struct heap_verb *v, struct gospect_profile *profile,
				   struct outfile *out)
{
	struct report_file file = {.path = "the profile", .profile = profile};
	struct report_table table = v->table;

	table.key = report_has_values(&file) ? GOSPECT_GROUP_FUNCTION : GOSPECT_GROUP_ROOT;
	if (v->format == GOSPECT_TEXT)
		return report_write_table(&file, &table, out->stream);
	if (v->format == GOSPECT_JSON)
		return report_write_json(&file, &table, out->stream);
	return library_error(gospect_profile_write(profile, v->format, output_sink(out)));
}

/* With debug=2 goroutines are written as a panic does; the others as with debug=1. */
static struct error *write_debug(const struct heap_verb *v, const struct cli_target *s,
				 struct outfile *out)
{
	const struct gospect_snapshot_options how = {.size = sizeof(how)};
	struct gospect_snapshot *snapshot = NULL;
	struct error *err;

	if (v->debug == 1 || v->how.kind != GOSPECT_GOROUTINE)
		return library_error(
			gospect_heap_write_text(s->handle, v->how.kind, output_sink(out)));
	err = library_error(gospect_snapshot_take(s->handle, &how, &snapshot));
	if (!err)
		err = library_error(
			gospect_snapshot_write(snapshot, GOSPECT_TEXT, 0, output_sink(out)));
	gospect_snapshot_destroy(snapshot);
	return err;
}

static struct error *take_and_write(void *verb, const struct cli_target *s, struct outfile *out)
{
	struct heap_verb *v = verb;
	_cleanup_(cleanup_profile_of_heap) struct gospect_profile *profile = NULL;
	struct error *err;

	if (v->debug)
		return write_debug(v, s, out);
	if (v->how.live)
		stop_on_signals();
	v->how.size = sizeof(v->how);
	err = library_error(gospect_heap_profile(s->handle, &v->how, &profile));
	return err ? err : write_profile(v, profile, out);
}

static struct error *run_retained(struct heap_verb *v, int *ret)
{
	struct error *err = target_options_check(&v->request.target, "heap");

	if (!err && (v->has_kind || v->how.live))
		return error_format(ERROR_USAGE, "heap: --retained and %s are mutually exclusive",
				    v->has_kind ? "--kind" : "--live");
	return err ? err : heap_retained(&v->request, &v->exact, (uint32_t)v->table.rows, ret);
}

static struct error *run_heap(struct heap_verb *v, int *ret)
{
	struct error *err;

	if (v->is_retained)
		return run_retained(v, ret);
	err = check(v);
	if (err)
		return err;
	/* Running goroutines have their stacks from samples of the kernel. */
	v->request.target.reads_alone = v->how.kind != GOSPECT_GOROUTINE;
	v->request.target.completes = !v->how.live;
	return look_once(&v->request, take_and_write, v, ret);
}

static struct error *run(int argc, char **argv, int *ret)
{
	struct heap_verb v = {.request.target = {.reads_cores = true, .confines = true},
			      .table.rows = 30};
	bool help;
	struct error *err;

	v.exact.target = &v.request.target;
	err = parse_options(&argp, "heap", argc, argv, &v, &help);
	return err || help ? err : run_heap(&v, ret);
}

const struct verb verb_heap = {"heap", "show who allocated the heap, or which variables hold it",
			       run};
