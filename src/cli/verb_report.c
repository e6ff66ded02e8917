#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/outfile.h"
#include "cli/output_options.h"
#include "cli/report_ask.h"
#include "cli/report_perf.h"
#include "cli/source_option.h"

enum { KEY_DIFF = 0x7000, KEY_EXE };

struct report_verb {
	struct output_options output;
	struct report_ask ask;
	const char *path;
	const char *before; /* of --diff */
	const char *exe;
};

static const struct argp_option options[] =
	{{NULL, 0, NULL, 0, "Input:", 1},
	 {"diff", KEY_DIFF, "BEFORE", 0, "Compare FILE with this earlier profile or trace", 1},
	 {"exe", KEY_EXE, "FILE", 0,
	  "Of perf.data: take the program from here, not from its recorded path", 1},
	 {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct report_verb *v = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &v->output;
		state->child_inputs[1] = &v->ask;
		return 0;
	case ARGP_KEY_ARG:
		if (v->path)
			return wrong_option(state, "unexpected argument '%s'; give one file", arg);
		v->path = arg;
		return 0;
	case KEY_EXE:
		v->exe = arg;
		return 0;
	case KEY_DIFF:
		v->before = arg;
		v->ask.compares = true;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_child children[] = {{&output_argp, 0, NULL, 0},
					     {&report_ask_argp, 0, NULL, 0},
					     {0}};
static const struct argp argp = {
	options,
	parse,
	"FILE",
	"Prints a table of a pprof profile, an execution trace (by gospect or by Go) or a "
	"perf.data file. It reads all other files that gospect writes, too. It unwinds the Go "
	"stacks of perf record --call-graph dwarf itself.\v"
	"Formats: text and json (a table); pprof, folded, folded-state, speedscope, firefox and html (a profile); perf (perf.data again, with right callers, for perf and other programs).\n"
	"\n"
	"Examples:\n"
	"  gospect report out.trace --by label:trace_id --per label:route\n"
	"  gospect report perf.data -o right.data",
	children,
	NULL,
	NULL};

static struct error *check(struct report_verb *v)
{
	struct error *err;

	if (!v->path)
		return error_format(ERROR_USAGE, "report: no file; use gospect report FILE");
	if (report_perf_wanted(&v->output))
		return report_perf_check(&v->ask, &v->output, v->path);
	err = report_ask_check(&v->ask, &v->output, "report");
	if (!err && v->before && v->ask.format && v->ask.format != GOSPECT_HTML)
		return error_format(ERROR_USAGE,
				    "report: --diff supports the formats text, json and html only");
	return err;
}

static int put(void *arg, const void *bytes, size_t size)
{
	say_work(NULL);
	return fwrite(bytes, 1, size, arg) == size ? 0 : errno;
}

static struct error *write_diff(struct report_verb *v, struct report_file *file, FILE *out)
{
	_cleanup_report_file_ struct report_file before = {0};
	struct error *err = report_ask_read(&v->ask, file);

	if (!err)
		err = report_file_open(v->before, v->exe, &before);
	if (!err)
		err = report_ask_read(&v->ask, &before);
	if (!err && report_has_bytes(&before) != report_has_bytes(file))
		err = error_format(
			ERROR_USAGE,
			"cannot compare %s with %s: one is a profile of memory, the other of time",
			v->before, v->path);
	report_ask_settle(&v->ask, file);
	if (!err)
		err = source_add(v->ask.source, file->profile);
	if (!err && v->ask.format)
		err = library_error(gospect_profile_write_diff(before.profile, file->profile,
							       gospect_sink_function(put, out)));
	else if (!err)
		err = report_write_diff(&before, file, &v->ask.table, v->ask.json, out);
	return err;
}

static struct error *write_report(struct report_verb *v, struct report_file *file,
				  struct outfile *out)
{
	if (report_perf_wanted(&v->output))
		return report_perf_write(file, out);
	return v->before ? write_diff(v, file, out->stream)
			 : report_ask_write(&v->ask, file, out->stream);
}

static struct error *run_report(struct report_verb *v)
{
	_cleanup_outfile_ struct outfile out = {0};
	_cleanup_report_file_ struct report_file file = {0};
	const char *files[] = {v->path, v->exe ?: v->before, v->exe ? v->before : NULL, NULL};
	struct error *err = check(v);

	if (!err)
		err = outfile_open(v->output.path ?: "-", &out);
	if (!err)
		say_work_on("reading", v->path);
	if (!err)
		err = output_confine(files, v->ask.source, &out);
	if (!err)
		err = report_file_open(v->path, v->exe, &file);
	if (!err)
		err = write_report(v, &file, &out);
	say_work(NULL);
	return err ? err : outfile_commit(&out);
}

static struct error *run(int argc, char **argv, int *ret)
{
	struct report_verb v = {.ask = REPORT_ASK_INIT};
	bool help;
	struct error *err = parse_options(&argp, "report", argc, argv, &v, &help);

	return err || help ? err : run_report(&v);
}

const struct verb verb_report = {"report", "print tables of a profile, a trace or a perf.data file",
				 run};
