#include "base/cleanup.h"
#include "cli/format_names.h"
#include "cli/look.h"
#include "cli/no_match.h"
#include "cli/unwind_option.h"

enum { KEY_RUNTIME = 0x4000, KEY_GROUP, KEY_RAW, KEY_VALUES, KEY_LOCALS };

struct dump_verb {
	struct common_options request;
	uint32_t unwind; /* enum gospect_unwind */
	uint32_t flags;  /* enum gospect_snapshot_write_flags */
	uint32_t values; /* enum gospect_values */
	enum gospect_format format;
	bool all;
};

static const struct argp_option options[] = {
	{NULL, 0, NULL, 0, "Content:", 4},
	{"runtime", KEY_RUNTIME, NULL, 0,
	 "Show the runtime's goroutines and frames too, as SIGQUIT does with GOTRACEBACK=system",
	 4},
	{"all", 0, NULL, OPTION_ALIAS, NULL, 4},
	{"group", KEY_GROUP, NULL, 0, "Merge equal stacks, most goroutines first", 4},
	{"raw", KEY_RAW, NULL, 0,
	 "Write addresses only; gospect symbolize adds functions and lines", 4},
	{"values", KEY_VALUES, NULL, 0,
	 "Show the arguments of calls as the runtime prints them, and the descriptors and addresses "
	 "of connections",
	 4},
	{"locals", KEY_LOCALS, NULL, 0,
	 "Show local variables too, with their values; needs DWARF. Includes --values", 4},
	{0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct dump_verb *v = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &v->request;
		state->child_inputs[1] = &v->request.target;
		state->child_inputs[2] = &v->unwind;
		return 0;
	case KEY_RUNTIME:
		v->all = true;
		return 0;
	case KEY_GROUP:
		v->flags |= GOSPECT_WRITE_GROUPS;
		return 0;
	case KEY_RAW:
		v->flags |= GOSPECT_WRITE_ADDRESSES;
		return 0;
	case KEY_VALUES:
		if (!v->values)
			v->values = GOSPECT_VALUES_ARGUMENTS;
		return 0;
	case KEY_LOCALS:
		v->values = GOSPECT_VALUES_LOCALS;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_child children[] = {{&common_options_argp, 0, NULL, 0},
					     {&target_options_core_argp, 0, NULL, 0},
					     {&unwind_argp, 0, NULL, 0},
					     {0}};

static const struct argp argp = {
	options,
	parse,
	"PID|NAME\n-- COMMAND ARGS...\n--core FILE",
	"Prints every goroutine of a running Go program or of a core file. It does not stop the "
	"program.\v"
	"Formats: text (as the runtime prints it), json (.json), html (.html), folded (.folded), folded-state, pprof (.pb.gz, "
	".pprof), speedscope, firefox (.firefox.json).\n"
	"\n"
	"Examples:\n"
	"  gospect dump server --group\n"
	"  gospect dump --core core.1234 --wait sync.Mutex.Lock",
	children,
	NULL,
	NULL};

/* Values belong to one goroutine; merged stacks and profiles have none. */
static struct error *check_values(const struct dump_verb *v)
{
	const char *option = v->values == GOSPECT_VALUES_LOCALS ? "--locals" : "--values";

	if (v->values && v->format != GOSPECT_TEXT && v->format != GOSPECT_JSON)
		return error_format(ERROR_USAGE,
				    "dump: %s supports text and json only; use -f text or -f json",
				    option);
	if (v->values && v->flags & (GOSPECT_WRITE_GROUPS | GOSPECT_WRITE_ADDRESSES))
		return error_format(ERROR_USAGE, "dump: %s and %s are mutually exclusive", option,
				    v->flags & GOSPECT_WRITE_GROUPS ? "--group" : "--raw");
	return NULL;
}

#define RAW_FORMATS "dump: --raw supports text and pprof only; use -f text or -f pprof"

static struct error *choose_format(struct dump_verb *v)
{
	const char *name = v->request.output.format, *path = v->request.output.path;
	enum gospect_format format = GOSPECT_TEXT;
	bool raw = v->flags & GOSPECT_WRITE_ADDRESSES;
	struct error *err;

	if (name)
		format = format_named(name);
	else if (path && format_for_dump(path))
		format = format_for_dump(path);
	if (!format)
		return error_format(
			ERROR_USAGE,
			"dump: unknown format '%s'; use text, json, folded, folded-state, pprof, "
			"speedscope, firefox or html",
			name);
	if (raw && format != GOSPECT_TEXT && format != GOSPECT_PPROF)
		return error_format(ERROR_USAGE, RAW_FORMATS);
	if (v->flags & GOSPECT_WRITE_GROUPS && format != GOSPECT_TEXT && format != GOSPECT_JSON)
		return error_format(
			ERROR_USAGE,
			"dump: --group supports text and json only; the other formats merge equal "
			"stacks anyway");
	v->format = format;
	err = check_values(v);
	return err ? err : output_check(&v->request.output, "dump", format);
}

static void cleanup_snapshot(struct gospect_snapshot **s)
{
	gospect_snapshot_destroy(*s);
}

static struct error *take_and_write(void *verb, const struct cli_target *s, struct outfile *out)
{
	const struct dump_verb *v = verb;
	const struct gospect_filter *filter = &v->request.filter;
	uint32_t flags = v->flags;
	const struct gospect_snapshot_options how = {.size = sizeof(how),
						     .filter = filter,
						     .system = v->all,
						     .unwind = v->unwind,
						     .values = v->values};
	_cleanup_(cleanup_snapshot) struct gospect_snapshot *snapshot = NULL;
	struct error *err = library_error(gospect_snapshot_take(s->handle, &how, &snapshot));

	if (err)
		return err;
	if (filter_is_set(filter) && !gospect_snapshot_count(snapshot))
		return no_match(s->handle, filter, v->all);
	/* JSON has a separate entry for each goroutine. */
	if (v->format == GOSPECT_JSON)
		flags &= ~(uint32_t)GOSPECT_WRITE_GROUPS;
	return library_error(gospect_snapshot_write(snapshot, v->format, flags, output_sink(out)));
}

static struct error *run(int argc, char **argv, int *ret)
{
	struct dump_verb v = {
		.request.target = {.reads_cores = true, .confines = true, .completes = true}};
	bool help;
	struct error *err = parse_options(&argp, "dump", argc, argv, &v, &help);

	if (err || help)
		return err;
	err = target_options_check(&v.request.target, "dump");
	if (!err)
		err = choose_format(&v);
	return err ? err : look_once(&v.request, take_and_write, &v, ret);
}

const struct verb verb_dump = {"dump", "print every goroutine with its stack", run};
