#include <gospect/symbolize.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/outfile.h"
#include "cli/format_names.h"
#include "cli/output_options.h"
#include "cli/report.h"

enum { KEY_EXE = 0x8000, KEY_DEBUG_DIR };

struct symbolize_verb {
	struct output_options output;
	const char *path;
	const char **programs; /* of --exe */
	size_t program_count, program_capacity;
	const char **folders; /* of --debug-dir */
	size_t folder_count, folder_capacity;
	enum gospect_format format; /* 0: not said */
};

static const struct argp_option options[] =
	{{NULL, 0, NULL, 0, "Programs:", 4},
	 {"exe", KEY_EXE, "FILE", 0,
	  "Take functions from this program or library if its build id is in the profile; "
	  "repeatable",
	  4},
	 {"debug-dir", KEY_DEBUG_DIR, "DIR", 0,
	  "Look for such files in DIR and in DIR/.build-id/ab/cdef[.debug]; repeatable", 4},
	 {0}};

static error_t append(const char ***items, size_t *count, size_t *capacity, const char *arg)
{
	if (!array_reserve(items, capacity, *count + 1))
		return ENOMEM;
	(*items)[(*count)++] = arg;
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct symbolize_verb *v = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &v->output;
		return 0;
	case ARGP_KEY_ARG:
		if (v->path)
			return wrong_option(state, "unexpected argument '%s'; give one file", arg);
		v->path = arg;
		return 0;
	case KEY_EXE:
		return append(&v->programs, &v->program_count, &v->program_capacity, arg);
	case KEY_DEBUG_DIR:
		return append(&v->folders, &v->folder_count, &v->folder_capacity, arg);
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_child children[] = {{&output_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {
	options,
	parse,
	"FILE",
	"Adds functions, files and lines to the output of record --raw and dump --raw. It needs no "
	"process: it runs on any machine that has the program.\v"
	"gospect looks for the program and its libraries at the recorded paths and uses them if "
	"their "
	"build ids match. A separate debug file names C functions; Go functions need the program "
	"itself, which may be stripped.\n"
	"Formats: pprof (.pb.gz, .pprof), folded (.folded), folded-state, speedscope (.json), firefox (.firefox.json), html (.html); "
	"text for "
	"the text of a dump.\n"
	"\n"
	"Examples:\n"
	"  gospect symbolize raw.pb.gz -o profile.pb.gz\n"
	"  gospect symbolize raw.pb.gz --exe ./service -o profile.html",
	children,
	NULL,
	NULL};

static struct error *check(struct symbolize_verb *v)
{
	const char *name = v->output.format;

	if (!v->path)
		return error_format(ERROR_USAGE, "symbolize: no file; use gospect symbolize FILE");
	v->format = name ? format_named(name) : (enum gospect_format)0;
	if (name && (!v->format || v->format == GOSPECT_JSON))
		return error_format(
			ERROR_USAGE,
			"symbolize: unknown format '%s'; use pprof, folded, folded-state, speedscope, firefox or html, "
			"or text for a dump",
			name);
	return NULL;
}

static struct error *choose_format(struct symbolize_verb *v)
{
	const struct output_options *o = &v->output;

	if (!o->format)
		v->format = o->path && strcmp(o->path, "-") ? format_for_profile(o->path)
							    : GOSPECT_FOLDED;
	if (v->format == GOSPECT_TEXT)
		return error_format(
			ERROR_USAGE,
			"symbolize: %s is a profile, which has no text format; use -f folded",
			v->path);
	if (!v->format)
		return error_format(
			ERROR_USAGE,
			"symbolize: unknown file extension of %s; use .pb.gz, .pprof, .folded, "
			".firefox.json, .json or .html, or -f FORMAT",
			o->path);
	return output_check(o, "symbolize", v->format);
}

static struct gospect_symbolize_options files_of(const struct symbolize_verb *v)
{
	return (struct gospect_symbolize_options){
		.size = sizeof(struct gospect_symbolize_options),
		.files = v->programs,
		.file_count = v->program_count,
		.folders = v->folders,
		.folder_count = v->folder_count,
		.remark = say_remark,
	};
}

/* Names what failed: the file itself, or the program that it needs. */
static struct error *must_check explain(const struct symbolize_verb *v, struct gospect_error *err)
{
	bool corrupt = err && gospect_error_code(err) == GOSPECT_ERROR_CORRUPT;

	return error_wrap(library_error(err), corrupt ? "cannot read %s" : "cannot symbolize %s",
			  v->path);
}

static void drop_profile(struct gospect_profile **p)
{
	gospect_profile_destroy(*p);
}

static struct error *check_kind(const struct symbolize_verb *v, const uint8_t *bytes, size_t size)
{
	static const char trace[] = "go 1.";

	if (size < strlen(trace) || memcmp(bytes, trace, strlen(trace)))
		return NULL;
	return error_format(
		ERROR_FAILED,
		"%s is an execution trace and has function names already; use `gospect report`",
		v->path);
}

static struct error *symbolize_profile(struct symbolize_verb *v, const uint8_t *bytes, size_t size,
				       struct outfile *out)
{
	const struct gospect_symbolize_options files = files_of(v);
	_cleanup_(drop_profile) struct gospect_profile *p = NULL;
	struct error *err = check_kind(v, bytes, size);

	if (!err)
		err = explain(v, gospect_profile_read(bytes, size, &p));
	if (!err && gospect_profile_info(p)->has_functions)
		err = error_format(ERROR_FAILED,
				   "%s has function names already; use `gospect report`", v->path);
	if (!err)
		err = choose_format(v);
	if (!err)
		err = explain(v, gospect_profile_symbolize(p, &files));
	if (!err)
		err = library_error(gospect_profile_write(p, v->format, output_sink(out)));
	return err ? err : outfile_commit(out);
}

static struct error *symbolize_dump(struct symbolize_verb *v, const uint8_t *bytes, size_t size,
				    struct outfile *out)
{
	const struct gospect_symbolize_options files = files_of(v);
	struct error *err;

	if (v->format && v->format != GOSPECT_TEXT)
		return error_format(
			ERROR_USAGE,
			"symbolize: %s is the text of a dump; for the format %s use dump --raw -f "
			"pprof",
			v->path, format_name(v->format));
	err = explain(v, gospect_text_symbolize(bytes, size, &files, output_sink(out)));
	return err ? err : outfile_commit(out);
}

/* gospect reads the files that the profile names without privilege. */
static struct error *must_check give_up_privilege(const struct symbolize_verb *v,
						  struct outfile *out)
{
	const char **files = calloc(v->program_count + 2, sizeof(files[0]));

	if (!files)
		return &error_no_memory;
	files[0] = v->path;
	for (size_t i = 0; i < v->program_count; i++)
		files[i + 1] = v->programs[i];
	return output_confine(files, NULL, out);
}

static struct error *run_symbolize(struct symbolize_verb *v)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	_cleanup_outfile_ struct outfile out = {0};
	size_t size = 0;
	struct error *err = check(v);

	if (!err)
		err = outfile_open(v->output.path ?: "-", &out);
	if (!err)
		say_work_on("reading", v->path);
	if (!err)
		err = give_up_privilege(v, &out);
	if (!err)
		err = report_read_bytes(v->path, &bytes, &size);
	if (!err)
		err = gospect_text_has_addresses(bytes, size)
			      ? symbolize_dump(v, bytes, size, &out)
			      : symbolize_profile(v, bytes, size, &out);
	say_work(NULL);
	return err;
}

static struct error *run(int argc, char **argv, int *ret)
{
	struct symbolize_verb v = {0};
	bool help;
	struct error *err = parse_options(&argp, "symbolize", argc, argv, &v, &help);

	if (!err && !help)
		err = run_symbolize(&v);
	free(v.programs);
	free(v.folders);
	return err;
}

const struct verb verb_symbolize = {"symbolize",
				    "add functions and lines to a raw profile, on any machine",
				    run};
