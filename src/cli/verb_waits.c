#include <gospect/waits.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "cli/look.h"

enum { KEY_RUNTIME = 0x4000 };

struct waits_verb {
	struct common_options request;
	enum gospect_format format;
	bool all;
};

static const struct argp_option options[] = {{NULL, 0, NULL, 0, "Content:", 4},
					     {"runtime", KEY_RUNTIME, NULL, 0,
					      "Show the runtime's own goroutines too", 4},
					     {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct waits_verb *v = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &v->request;
		state->child_inputs[1] = &v->request.target;
		return 0;
	case KEY_RUNTIME:
		v->all = true;
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
	"Shows who waits for whom. Goroutines are grouped by what they wait for: a lock, channel, "
	"WaitGroup, condition, connection or timer. For each, it shows who holds it. Deadlocks come "
	"first. It does not stop the program.\v"
	"Formats: text, json (.json), dot (.dot). gospect proves the holder of a lock from the code of "
	"its function; otherwise it lists candidates. Names of variables need symbols and DWARF: for a "
	"stripped program, name an unstripped file of the same build with --exe.\n"
	"\n"
	"Examples:\n"
	"  gospect waits server\n"
	"  gospect waits --core core.1234 -f dot | dot -Tsvg -o waits.svg",
	children,
	NULL,
	NULL};

static bool ends_in(const char *path, const char *with)
{
	size_t n = path ? strlen(path) : 0, m = strlen(with);

	return n >= m && !strcmp(path + n - m, with);
}

static struct error *choose_format(struct waits_verb *v)
{
	static const struct {
		const char *name, *ending;
		enum gospect_format format;
	} formats[] = {{"text", ".txt", GOSPECT_TEXT},
		       {"json", ".json", GOSPECT_JSON},
		       {"dot", ".dot", GOSPECT_DOT}};
	const struct output_options *o = &v->request.output;

	v->format = GOSPECT_TEXT;
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		if (o->format ? !strcmp(o->format, formats[i].name)
			      : ends_in(o->path, formats[i].ending)) {
			v->format = formats[i].format;
			return NULL;
		}
	}
	if (!o->format)
		return NULL;
	return error_format(ERROR_USAGE, "waits: unknown format '%s'; use text, json or dot",
			    o->format);
}

static void cleanup_waits(struct gospect_waits **w)
{
	gospect_waits_destroy(*w);
}

static struct error *take_and_write(void *verb, const struct cli_target *s, struct outfile *out)
{
	const struct waits_verb *v = verb;
	const struct gospect_waits_options how = {.size = sizeof(how), .system = v->all};
	_cleanup_(cleanup_waits) struct gospect_waits *waits = NULL;
	struct error *err = library_error(gospect_waits_take(s->handle, &how, &waits));

	if (err)
		return err;
	return library_error(gospect_waits_write(waits, v->format, output_sink(out)));
}

static struct error *run(int argc, char **argv, int *ret)
{
	struct waits_verb v = {
		.request.target = {.reads_cores = true, .confines = true, .completes = true}};
	bool help;
	struct error *err = parse_options(&argp, "waits", argc, argv, &v, &help);

	if (err || help)
		return err;
	err = target_options_check(&v.request.target, "waits");
	if (!err)
		err = choose_format(&v);
	return err ? err : look_once(&v.request, take_and_write, &v, ret);
}

const struct verb verb_waits = {"waits", "show who waits for whom: locks, channels, deadlocks",
				run};
