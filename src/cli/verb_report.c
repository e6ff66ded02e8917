#include <string.h>

#include "base/cleanup.h"
#include "base/outfile.h"
#include "cli/output.h"
#include "cli/report.h"

enum { KEY_BY = 0x7000, KEY_DIFF, KEY_EXE, KEY_ONLY };

struct report_verb {
	struct output_options output;
	const char *path;
	const char *before; /* of --diff */
	const char *only;   /* of --only: the label's value */
	const char *exe;
	struct report_table table;
	const struct profile_format *format; /* NULL: a table, or JSON */
	bool json;
};

static const struct argp_option options[] =
	{{"by", KEY_BY, "WHAT", 0,
	  "What a row is: root (the function that goroutines began in), func, state, wait or "
	  "label:KEY",
	  4},
	 {"only", KEY_ONLY, "VALUE", 0,
	  "With --by label:KEY: only what has this value, by function or in the format asked for",
	  4},
	 {"rows", 'n', "N", 0, "Rows at most (30); 0: all", 4},
	 {"diff", KEY_DIFF, "BEFORE", 0, "Compare the file with this one", 4},
	 {"exe", KEY_EXE, "FILE", 0,
	  "Of perf.data: the program, where it is not at the path that it was recorded at", 4},
	 {0}};

static error_t parse_by(struct report_verb *v, const char *arg, struct argp_state *state)
{
	static const struct {
		const char *name;
		enum group_key key;
	} keys[] = {{"root", GROUP_ROOT},
		    {"func", GROUP_FUNC},
		    {"state", GROUP_STATE},
		    {"wait", GROUP_WAIT}};

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		if (!strcmp(arg, keys[i].name)) {
			v->table.key = keys[i].key;
			return 0;
		}
	}
	if (strncmp(arg, "label:", 6) || !arg[6])
		return wrong_option(state,
				    "--by knows root, func, state, wait and label:KEY, not '%s'",
				    arg);
	v->table.key = GROUP_LABEL;
	v->table.label = arg + 6;
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct report_verb *v = state->input;
	double rows;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &v->output;
		return 0;
	case ARGP_KEY_ARG:
		if (v->path)
			return wrong_option(state, "one file at a time: %s and %s", v->path, arg);
		v->path = arg;
		return 0;
	case KEY_BY:
		return parse_by(v, arg, state);
	case 'n':
		if (!parse_number(arg, 0, 1e6, &rows))
			return wrong_option(state, "'%s' is no number of rows", arg);
		v->table.rows = rows;
		return 0;
	case KEY_EXE:
		v->exe = arg;
		return 0;
	case KEY_ONLY:
		v->only = arg;
		return 0;
	case KEY_DIFF:
		v->before = arg;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_child children[] = {{&output_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {
	options,
	parse,
	"FILE",
	"Prints tables of a recorded profile (pprof), an execution trace, gospect's or Go's own, or "
	"what Linux perf recorded (perf.data): the stacks of Go programs are made anew from a "
	"recording by --call-graph dwarf,1024.\v"
	"Formats: text, json (the table); pprof, folded, speedscope, html (a profile: of a trace, "
	"wall-clock time exact to the nanosecond).\n"
	"\n"
	"Examples: gospect report out.trace\n"
	"          gospect report profile.pb.gz --by label:user\n"
	"          gospect report profile.pb.gz --by label:user --only alice -o alice.html\n"
	"          gospect report perf.data -o profile.html\n"
	"          gospect report --diff before.pb.gz after.pb.gz",
	children,
	NULL,
	NULL};

static struct error *choose_format(struct report_verb *v)
{
	const struct output_options *o = &v->output;
	bool to_file = o->path && strcmp(o->path, "-");

	if (o->format && (!strcmp(o->format, "text") || !strcmp(o->format, "json"))) {
		v->json = !strcmp(o->format, "json");
		return NULL;
	}
	if (o->format)
		v->format = profile_format_named(o->format);
	else if (to_file)
		v->format = profile_format_for_file(o->path);
	if (o->format && !v->format)
		return error_format(ERROR_USAGE,
				    "report: there is no format '%s'; there are text, json, pprof, "
				    "folded, speedscope and html",
				    o->format);
	if (v->format && v->format->binary && output_is_terminal(o))
		return error_format(ERROR_USAGE, "report: %s is not for a terminal; give -o FILE",
				    v->format->name);
	return NULL;
}

static struct error *check(struct report_verb *v)
{
	struct error *err;

	if (!v->path)
		return error_format(ERROR_USAGE, "report: which file? gospect report FILE");
	if (v->only && v->table.key != GROUP_LABEL)
		return error_format(ERROR_USAGE, "report: --only wants --by label:KEY");
	err = choose_format(v);
	if (!err && v->before && (v->format || v->json))
		return error_format(ERROR_USAGE, "report: --diff prints text only");
	return err;
}

static struct error *keep_only(struct report_verb *v, const struct report_file *file)
{
	profile_keep_label(file->profile.profile, v->table.label, v->only);
	v->table.key = GROUP_FUNC;
	if (file->profile.profile->count)
		return NULL;
	return error_format(ERROR_FAILED, "nothing in %s has the label %s=%s", v->path,
			    v->table.label, v->only);
}

static struct error *write_report(struct report_verb *v, const struct report_file *file, FILE *out)
{
	_cleanup_report_file_ struct report_file before = {.exe = v->exe};
	struct error *err;

	if (v->format)
		return v->format->write(file->profile.profile, file->profile.symbols, out);
	if (v->json)
		return report_write_json(file, &v->table, out);
	if (!v->before)
		return report_write_table(file, &v->table, out);
	err = report_file_open(v->before, &before);
	return err ? err : report_write_diff(&before, file, &v->table, out);
}

static struct error *run_report(struct report_verb *v)
{
	_cleanup_outfile_ struct outfile out = {0};
	_cleanup_report_file_ struct report_file file = {.exe = v->exe};
	struct error *err = check(v);

	if (!err)
		err = report_file_open(v->path, &file);
	if (!err && v->only)
		err = keep_only(v, &file);
	if (!err)
		err = outfile_open(v->output.path ?: "-", &out);
	if (!err)
		err = write_report(v, &file, out.stream);
	return err ? err : outfile_commit(&out);
}

static struct error *run(int argc, char **argv, int *ret)
{
	struct report_verb v = {.table.rows = 30};
	bool help;
	struct error *err = parse_options(&argp, "report", argc, argv, &v, &help);

	return err || help ? err : run_report(&v);
}

const struct verb verb_report = {"report", "tables of a recorded profile or trace", run};
