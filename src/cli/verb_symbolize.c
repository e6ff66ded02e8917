#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/outfile.h"
#include "cli/binaries.h"
#include "cli/confine.h"
#include "cli/output.h"
#include "cli/report.h"
#include "dump/raw.h"

enum { KEY_EXE = 0x8000, KEY_DEBUG_DIR };

struct symbolize_verb {
	struct output_options output;
	const char *path;
	const char **programs; /* of --exe */
	size_t program_count, program_capacity;
	const char **folders; /* of --debug-dir */
	size_t folder_count, folder_capacity;
	const struct profile_format *format;
};

static const struct argp_option options[] =
	{{"exe", KEY_EXE, "FILE", 0,
	  "A program or library, or an unstripped twin of it, with the build id that the file "
	  "names; may be repeated",
	  4},
	 {"debug-dir", KEY_DEBUG_DIR, "DIR", 0,
	  "A folder of such files: those in it, and DIR/.build-id/ab/cdef[.debug]; may be repeated",
	  4},
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
			return wrong_option(state, "one file at a time: %s and %s", v->path, arg);
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
	"Puts functions, files and lines into what record --raw and dump --raw wrote, without the "
	"process, on any machine that has its program.\vThe program and its libraries are looked for where the "
	"recorded process had them, and believed if their build ids are the same. A separate debug "
	"file names C functions; Go's need the program itself, which may be stripped.\n"
	"Formats: pprof, folded, speedscope, html; by the file's name: .pb.gz .pprof .folded .json "
	".html. The text of a dump becomes text.\n"
	"\n"
	"Examples: gospect symbolize raw.pb.gz -o profile.pb.gz\n"
	"          gospect symbolize raw.pb.gz --exe ./service --debug-dir /usr/lib/debug -o "
	"profile.html",
	children,
	NULL,
	NULL};

static struct error *check(struct symbolize_verb *v)
{
	const char *name = v->output.format;

	if (!v->path)
		return error_format(ERROR_USAGE, "symbolize: which file? gospect symbolize FILE");
	v->format = name ? profile_format_named(name) : NULL;
	if (name && !v->format && strcmp(name, "text"))
		return error_format(ERROR_USAGE,
				    "symbolize: there is no format '%s'; there are pprof, folded, "
				    "speedscope and html, and text for a dump",
				    name);
	return NULL;
}

static struct error *choose_format(struct symbolize_verb *v)
{
	const struct output_options *o = &v->output;

	if (!o->format)
		v->format = o->path && strcmp(o->path, "-") ? profile_format_for_file(o->path)
							    : &profile_format_folded;
	if (!v->format && o->format)
		return error_format(ERROR_USAGE,
				    "symbolize: %s is a profile, which has no text; "
				    "give -f folded",
				    v->path);
	if (!v->format)
		return error_format(ERROR_USAGE,
				    "symbolize: cannot tell the format from the name %s; end it in "
				    ".pb.gz, .pprof, .folded, .json or .html, or give -f",
				    o->path);
	if (v->format->binary && output_is_terminal(o))
		return error_format(ERROR_USAGE,
				    "symbolize: %s is not for a terminal; give -o "
				    "FILE",
				    v->format->name);
	return NULL;
}

static struct error *take_given(const struct symbolize_verb *v, struct binaries *b)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < v->program_count; i++)
		err = debug_files_add(&b->given, v->programs[i]);
	b->named = b->given.count;
	for (size_t i = 0; !err && i < v->folder_count; i++)
		err = debug_files_add_folder(&b->given, v->folders[i]);
	return err;
}

static struct error *open_raw(const struct symbolize_verb *v, struct report_file *ret)
{
	struct error *err = report_file_open(v->path, ret);

	if (err)
		return err;
	if (ret->is_trace)
		return error_format(ERROR_FAILED,
				    "%s is an execution trace, which has its functions in it; "
				    "`gospect report` reads it",
				    v->path);
	if (!ret->profile.raw)
		return error_format(ERROR_FAILED,
				    "%s has its functions in it already; `gospect report` reads it",
				    v->path);
	return NULL;
}

/* What the raw file does not say. */
static struct error *fill_titles(struct profile *p, const struct binaries *b)
{
	const char *path = b->mappings[b->main].file, *slash = strrchr(path, '/');

	if (!p->command)
		p->command = strdup(slash ? slash + 1 : path);
	p->go_version = strdup(b->image->info.version);
	return p->command && p->go_version ? NULL : &error_no_memory;
}

static struct error *write_profile(const struct symbolize_verb *v, struct profile *p,
				   const struct binaries *b, FILE *out)
{
	_cleanup_profile_symbols_ struct profile_symbols *symbols = NULL;
	const struct code code = {&b->image->functions, b->modules};
	struct error *err = fill_titles(p, b);

	if (!err)
		err = profile_symbolize_code(p, &code, &symbols);
	return err ? err : v->format->write(p, symbols, out);
}

static struct error *find_binaries(const struct symbolize_verb *v, const struct profile *p,
				   struct binaries *b)
{
	struct error *err = take_given(v, b);

	b->mappings = p->mappings;
	b->count = p->mapping_count;
	return err ? err : error_wrap(binaries_open(b), "cannot symbolize %s", v->path);
}

static struct error *symbolize_profile(struct symbolize_verb *v, struct outfile *out)
{
	_cleanup_report_file_ struct report_file file = {0};
	_cleanup_binaries_ struct binaries b = {0};
	struct error *err = open_raw(v, &file);

	if (!err)
		err = choose_format(v);
	if (!err)
		err = find_binaries(v, file.profile.profile, &b);
	if (!err)
		err = write_profile(v, file.profile.profile, &b, out->stream);
	return err ? err : outfile_commit(out);
}

/* The mappings, as a profile has them. */
static struct error *take_mappings(struct profile *p, const struct dump_raw *raw)
{
	struct error *err = p ? NULL : &error_no_memory;

	for (size_t i = 0; !err && i < raw->count; i++) {
		const struct module_range *m = &raw->mappings[i];
		struct profile_mapping mapping = {m->start, m->end, m->offset, (char *)m->path,
						  (char *)m->build_id};

		err = profile_add_mapping(p, &mapping);
	}
	return err;
}

static struct error *symbolize_dump(struct symbolize_verb *v, const uint8_t *bytes, size_t size,
				    struct outfile *out)
{
	_cleanup_profile_ struct profile *p = profile_create();
	_cleanup_dump_raw_ struct dump_raw raw = {0};
	_cleanup_binaries_ struct binaries b = {0};
	struct error *err;

	if (v->format)
		return error_format(ERROR_USAGE,
				    "symbolize: %s is the text of a dump; for %s take dump --raw "
				    "-f pprof",
				    v->path, v->format->name);
	err = error_wrap(dump_raw_read(bytes, size, &raw), "cannot make anything of %s", v->path);
	if (!err)
		err = take_mappings(p, &raw);
	if (!err)
		err = find_binaries(v, p, &b);
	if (!err)
		err = error_wrap(dump_raw_symbolize(&raw, b.image, out->stream),
				 "cannot make anything of %s", v->path);
	return err ? err : outfile_commit(out);
}

/* Whatever the profile names is read without privilege. */
static struct error *must_check give_up_privilege(const struct symbolize_verb *v,
						  struct outfile *out)
{
	const char **files = calloc(v->program_count + 2, sizeof(files[0]));

	if (!files)
		return &error_no_memory;
	files[0] = v->path;
	for (size_t i = 0; i < v->program_count; i++)
		files[i + 1] = v->programs[i];
	return confine(&(struct confinement){.files = files, .out = out});
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
		err = give_up_privilege(v, &out);
	if (!err)
		err = report_read_bytes(v->path, &bytes, &size);
	if (err)
		return err;
	return dump_raw_is(bytes, size) ? symbolize_dump(v, bytes, size, &out)
					: symbolize_profile(v, &out);
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
				    "functions and lines for a raw profile, on any machine", run};
