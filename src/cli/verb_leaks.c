#include <gospect/leaks.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "cli/duration.h"
#include "cli/exact_options.h"
#include "cli/look.h"
#include "cli/stop.h"

struct leaks_verb {
	struct common_options request;
	struct exact_options exact;
	double growth; /* seconds between two looks; 0: one look */
	enum gospect_format format;
};

enum { KEY_GROWTH = 0x7700 };

static const struct argp_option options[] =
	{{NULL, 0, NULL, 0, "Leaks:", 4},
	 {"growth", KEY_GROWTH, "DURATION", 0,
	  "Look twice, DURATION apart, and print how many goroutines leaked between the looks", 4},
	 {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct leaks_verb *v = state->input;

	if (key == KEY_GROWTH)
		return parse_duration_option(arg, 0.01, 1e6, &v->growth, state);
	if (key != ARGP_KEY_INIT)
		return ARGP_ERR_UNKNOWN;
	state->child_inputs[0] = &v->request;
	state->child_inputs[1] = &v->request.target;
	state->child_inputs[2] = &v->exact;
	return 0;
}

static const struct argp_child children[] = {{&common_options_without_filter_argp, 0, NULL, 0},
					     {&target_options_core_argp, 0, NULL, 0},
					     {&exact_options_argp, 0, NULL, 0},
					     {0}};

static const struct argp argp = {
	options,
	parse,
	"PID|NAME\n-- COMMAND ARGS...\n--core FILE",
	"Prints goroutines that nothing can wake any more, where they were created, and the memory "
	"that they keep. No global variable and no goroutine that can run leads to what they wait "
	"for. Only --exact stops the program. No garbage collection is started.\v"
	"Formats: text, json (.json). gospect reads a running program at least twice. A goroutine is "
	"leaked if two looks agree and it did not run meanwhile. A core file, and a program with "
	"--exact, are read once. Suspected leaks are listed after certain ones.\n"
	"\n"
	"Examples:\n"
	"  gospect leaks server\n"
	"  gospect leaks --core core.1234 -f json",
	children,
	NULL,
	NULL};

static bool ends_in(const char *path, const char *with)
{
	size_t n = path ? strlen(path) : 0, m = strlen(with);

	return n >= m && !strcmp(path + n - m, with);
}

static struct error *must_check choose_format(struct leaks_verb *v)
{
	const struct output_options *o = &v->request.output;

	v->format = GOSPECT_TEXT;
	if (o->format ? !strcmp(o->format, "json") : ends_in(o->path, ".json"))
		v->format = GOSPECT_JSON;
	else if (o->format && strcmp(o->format, "text"))
		return error_format(ERROR_USAGE, "leaks: unknown format '%s'; use text or json",
				    o->format);
	return NULL;
}

static void cleanup_found(struct gospect_leaks **l)
{
	gospect_leaks_destroy(*l);
}

static struct error *must_check find(const struct leaks_verb *v, const struct cli_target *s,
				     struct gospect_leaks **ret)
{
	struct error *err = exact_begin(&v->exact, s), *lost;

	if (err)
		return err;
	err = library_error(gospect_leaks_find(s->handle, NULL, ret));
	lost = exact_end(&v->exact, s);
	if (!lost)
		return err;
	error_destroy(err);
	return lost;
}

/* A signal ends the wait. */
static void wait_between(double seconds)
{
	const struct timespec time = {.tv_sec = (time_t)seconds,
				      .tv_nsec = (long)((seconds - (time_t)seconds) * 1e9)};

	stop_on_signals();
	if (!stop_requested)
		nanosleep(&time, NULL);
}

static struct error *must_check find_and_write(void *verb, const struct cli_target *s,
					       struct outfile *out)
{
	const struct leaks_verb *v = verb;
	_cleanup_(cleanup_found) struct gospect_leaks *earlier = NULL, *leaks = NULL;
	struct error *err = v->growth > 0 ? find(v, s, &earlier) : NULL;

	if (!err && earlier)
		wait_between(v->growth);
	if (!err)
		err = find(v, s, &leaks);
	if (err)
		return err;
	if (earlier)
		gospect_leaks_compare(leaks, earlier);
	return library_error(gospect_leaks_write(leaks, v->format, output_sink(out)));
}

static struct error *run(int argc, char **argv, int *ret)
{
	struct leaks_verb v = {
		.request.target = {.reads_cores = true, .confines = true, .completes = true}};
	bool help;
	struct error *err;

	v.exact.target = &v.request.target;
	err = parse_options(&argp, "leaks", argc, argv, &v, &help);

	if (err || help)
		return err;
	err = target_options_check(&v.request.target, "leaks");
	if (!err)
		err = exact_options_check(&v.exact, "leaks");
	if (!err && v.growth > 0 && v.request.target.core)
		err = error_format(ERROR_USAGE,
				   "leaks: --growth and --core are mutually exclusive");
	if (!err)
		err = choose_format(&v);
	return err ? err : look_once(&v.request, find_and_write, &v, ret);
}

const struct verb verb_leaks = {"leaks", "find goroutines that nothing can wake any more", run};
