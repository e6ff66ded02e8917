#include <gospect/footprint.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "cli/common_options.h"
#include "cli/format_names.h"
#include "cli/look.h"

#define DEFAULT_ROWS 5

struct memory_verb {
	struct common_options request;
	enum gospect_format format;
	uint32_t rows;
};

static const struct argp_option options[] =
	{{NULL, 0, NULL, 0, "Content:", 4},
	 {"rows", 'n', "N", 0,
	  "Of text: list at most this many parts of each part (5); 0 lists all", 4},
	 {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct memory_verb *v = state->input;
	double rows;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &v->request;
		state->child_inputs[1] = &v->request.target;
		return 0;
	case 'n':
		if (!parse_number(arg, 0, 1e6, &rows))
			return wrong_option(state, "invalid number of rows '%s'", arg);
		v->rows = rows;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_child children[] = {{&common_options_without_filter_argp, 0, NULL, 0},
					     {&target_options_core_argp, 0, NULL, 0},
					     {0}};

static const struct argp argp = {
	options,
	parse,
	"PID|NAME\n-- COMMAND ARGS...\n--core FILE",
	"Shows what the resident memory of a Go program is made of, as one tree that sums to its RSS: "
	"the heap by sizes of objects, stacks by function, the runtime's own structures, libraries "
	"and files. It also prints the goal of the garbage collector. It does not stop the program.\v"
	"Formats: text, json (.json), html (.html, a treemap), pprof (.pb.gz, .pprof), folded "
	"(.folded), speedscope.\n"
	"\n"
	"Examples:\n"
	"  gospect memory server\n"
	"  gospect memory server -o memory.html",
	children,
	NULL,
	NULL};

static bool ends_in(const char *path, const char *with)
{
	size_t n = path ? strlen(path) : 0, m = strlen(with);

	return n >= m && !strcmp(path + n - m, with);
}

/* A .json file is the tree, not speedscope's. */
static enum gospect_format format_of(const struct output_options *o)
{
	if (o->format)
		return format_named(o->format);
	if (ends_in(o->path, ".json"))
		return GOSPECT_JSON;
	if (o->path && format_for_profile(o->path))
		return format_for_profile(o->path);
	return GOSPECT_TEXT;
}

static struct error *choose_format(struct memory_verb *v)
{
	static const enum gospect_format known[] = {GOSPECT_TEXT,   GOSPECT_JSON,
						    GOSPECT_HTML,   GOSPECT_PPROF,
						    GOSPECT_FOLDED, GOSPECT_SPEEDSCOPE};
	const struct output_options *o = &v->request.output;

	v->format = format_of(o);
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i] == v->format)
			return output_check(o, "memory", v->format);
	return error_format(
		ERROR_USAGE,
		"memory: unknown format '%s'; use text, json, html, pprof, folded or speedscope",
		o->format ?: "firefox");
}

static void cleanup_footprint(struct gospect_footprint **m)
{
	gospect_footprint_destroy(*m);
}

static struct error *take_and_write(void *verb, const struct cli_target *s, struct outfile *out)
{
	const struct memory_verb *v = verb;
	const struct gospect_footprint_options how = {.size = sizeof(how), .rows = v->rows};
	_cleanup_(cleanup_footprint) struct gospect_footprint *footprint = NULL;
	struct error *err = library_error(gospect_footprint_take(s->handle, &how, &footprint));

	if (err)
		return err;
	return library_error(gospect_footprint_write(footprint, v->format, output_sink(out)));
}

static struct error *run(int argc, char **argv, int *ret)
{
	struct memory_verb v = {.request.target = {.reads_cores = true,
						   .confines = true,
						   .completes = true,
						   .reads_alone = true},
				.rows = DEFAULT_ROWS};
	bool help;
	struct error *err = parse_options(&argp, "memory", argc, argv, &v, &help);

	if (err || help)
		return err;
	err = target_options_check(&v.request.target, "memory");
	if (!err)
		err = choose_format(&v);
	return err ? err : look_once(&v.request, take_and_write, &v, ret);
}

const struct verb verb_memory = {"memory", "show what the resident memory is made of", run};
