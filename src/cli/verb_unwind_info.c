#include <gospect/unwind_info.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "cli/output_options.h"

enum { KEY_COPY = 0x7300 };

struct unwind_info_verb {
	struct output_options output;
	const char *path;
	bool copy;
};

static const struct argp_option options[] = {
	{"output", 'o', "FILE", 0, "Write to this file, with mode 0600; - is standard output", 2},
	{"copy", KEY_COPY, NULL, 0,
	 "Write a copy of the program that has the tables, for unwinders that read the program alone",
	 2},
	{0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct unwind_info_verb *v = state->input;

	switch (key) {
	case 'o':
		if (!*arg)
			return wrong_option(state, "-o needs a file name");
		v->output.path = arg;
		return 0;
	case KEY_COPY:
		v->copy = true;
		return 0;
	case ARGP_KEY_ARG:
		if (v->path)
			return wrong_option(state, "unexpected argument '%s'; give one file", arg);
		v->path = arg;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
	options,
	parse,
	"PROGRAM",
	"Writes unwind tables for a Go program, stripped or not, as a separate debug file. With it "
	"gdb and perf record --call-graph dwarf find each caller, and name the functions.\v"
	"The file has .debug_frame, .eh_frame, .eh_frame_hdr and .sframe, made of the program's own "
	"function table. It has the program's build id, by which debuggers find it in "
	"/usr/lib/debug/.build-id.\n"
	"\n"
	"Examples:\n"
	"  gospect unwind-info ./service -o service.debug\n"
	"  gdb -p PID -ex 'symbol-file service.debug' -ex bt",
	NULL,
	NULL,
	NULL};

static struct error *check(const struct unwind_info_verb *v)
{
	struct stat x, y;

	if (!v->path)
		return error_format(ERROR_USAGE,
				    "unwind-info: no program; use gospect unwind-info PROGRAM");
	if (v->output.path && !stat(v->output.path, &x) && !stat(v->path, &y) &&
	    x.st_dev == y.st_dev && x.st_ino == y.st_ino)
		return error_format(ERROR_USAGE,
				    "unwind-info: -o %s would replace the program itself; use "
				    "another name, such as %s.debug",
				    v->output.path, v->path);
	if (output_is_terminal(&v->output))
		return error_format(ERROR_USAGE,
				    "unwind-info: standard output is a terminal, which cannot show "
				    "an ELF file; use -o FILE");
	return NULL;
}

static void say_where(const struct unwind_info_verb *v, const struct gospect_unwind_info *made)
{
	const char *id = made->build_id, *name = v->output.path;

	if (made->left_out)
		say("%s: %lu functions have no code in the file; they are left out", v->path,
		    made->left_out);
	if (!name || !strcmp(name, "-"))
		return;
	if (v->copy) {
		say("%s: a copy of the program with tables for %lu functions; chmod +x it", name,
		    made->functions);
		return;
	}
	if (*id)
		say("%s: %lu functions; gdb and perf find it as "
		    "/usr/lib/debug/.build-id/%.2s/%s.debug",
		    name, made->functions, id, id + 2);
	else
		say("%s: %lu functions; the program has no GNU build id, so name the file: gdb's "
		    "symbol-file",
		    name, made->functions);
}

static struct error *must_check write_info(const struct unwind_info_verb *v, struct outfile *out,
					   struct gospect_unwind_info *ret)
{
	struct gospect_sink sink = output_sink(out);

	return library_error(v->copy ? gospect_unwind_info_copy(v->path, sink, ret)
				     : gospect_unwind_info_write(v->path, sink, ret));
}

static struct error *run_unwind_info(struct unwind_info_verb *v)
{
	struct gospect_unwind_info made = {.size = sizeof(made)};
	_cleanup_outfile_ struct outfile out = {0};
	const char *files[] = {v->path, NULL};
	struct error *err = check(v);

	if (!err)
		err = outfile_open(v->output.path ?: "-", &out);
	if (!err)
		say_work_on("reading", v->path);
	if (!err)
		err = output_confine(files, NULL, &out);
	if (!err)
		err = error_wrap(write_info(v, &out, &made), "cannot make unwind tables for %s",
				 v->path);
	say_work(NULL);
	if (!err)
		err = outfile_commit(&out);
	if (!err)
		say_where(v, &made);
	return err;
}

static struct error *run(int argc, char **argv, int *ret)
{
	struct unwind_info_verb v = {0};
	bool help;
	struct error *err = parse_options(&argp, "unwind-info", argc, argv, &v, &help);

	return err || help ? err : run_unwind_info(&v);
}

const struct verb verb_unwind_info = {"unwind-info",
				      "write unwind tables of a Go program, for gdb and perf", run};
