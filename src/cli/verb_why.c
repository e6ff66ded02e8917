#include <gospect/why.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/outfile.h"
#include "cli/common_options.h"
#include "cli/duration.h"
#include "cli/look.h"
#include "cli/stop.h"
#include "cli/terminal.h"

#define DEFAULT_SECONDS 10
#define LEAST_SECONDS 0.1
#define MOST_SECONDS 86400
/* One screen. The JSON has all. */
#define MOST_SHOWN 5

struct why_verb {
	struct common_options request;
	double duration;
	enum gospect_format format;
};

static const struct argp_option options[] = {{NULL, 0, NULL, 0, "Recording:", 4},
					     {"duration", 'd', "DURATION", 0,
					      "Look for DURATION, as 10s or 1m (10s)", 4},
					     {"json", 'j', NULL, 0, "The same as -f json", 4},
					     {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct why_verb *v = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &v->request;
		state->child_inputs[1] = &v->request.target;
		return 0;
	case 'd':
		return parse_duration_option(arg, LEAST_SECONDS, MOST_SECONDS, &v->duration, state);
	case 'j':
		v->request.output.format = "json";
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_child children[] = {{&common_options_without_filter_argp, 0, NULL, 0},
					     {&target_options_core_argp, 0, NULL, 0},
					     {0}};

static const struct argp argp =
	{options,
	 parse,
	 "PID|NAME\n-- COMMAND ARGS...\n--core FILE",
	 "Finds out what is wrong with a running Go program: whether it is hung, leaking, slow, or "
	 "short of CPU or memory; and the cause. It looks at the program for ten seconds, and does "
	 "not stop it.\v"
	 "Each finding has its evidence and the command to run next; the gravest comes first. "
	 "Formats: text, json (.json).\n"
	 "\n"
	 "Examples:\n"
	 "  gospect why server\n"
	 "  gospect why --core core.1234 -f json",
	 children,
	 NULL,
	 NULL};

static struct error *choose_format(struct why_verb *v)
{
	const struct output_options *o = &v->request.output;
	size_t n = o->path ? strlen(o->path) : 0;

	v->format = GOSPECT_TEXT;
	if (o->format ? !strcmp(o->format, "json") : n >= 5 && !strcmp(o->path + n - 5, ".json"))
		v->format = GOSPECT_JSON;
	else if (o->format && strcmp(o->format, "text") != 0)
		return error_format(ERROR_USAGE, "why: unknown format '%s'; use text or json",
				    o->format);
	return NULL;
}

/* ---- text ---- */

static void write_finding(const struct gospect_cause *c, FILE *out)
{
	terminal_write_words(out, "", c->sentence, 2);
	terminal_write_words(out, "  evidence: ", c->evidence, 4);
	terminal_write_words(out, "  next: ", c->next, 4);
	fputc('\n', out);
}

static void write_end(const struct gospect_why *why, FILE *out)
{
	const struct gospect_why_info *info = gospect_why_info(why);
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	const char *unknown;

	if (info->seconds > 0)
		strbuf_addf(&sb, "Looked for %.1f s at %.0f goroutines", info->seconds,
			    info->goroutines);
	else
		strbuf_addf(&sb, "Looked once at %.0f goroutines", info->goroutines);
	if (info->cores >= 0)
		strbuf_addf(&sb, "; the process used %.2f CPUs", info->cores);
	if (info->finding_count > MOST_SHOWN)
		strbuf_addf(&sb, "; %zu more findings are in -f json",
			    info->finding_count - MOST_SHOWN);
	terminal_write_words(out, "", sb.data, 2);
	for (size_t i = 0; (unknown = gospect_why_unknown(why, i)); i++)
		terminal_write_words(out, "Not known: ", unknown, 2);
}

static void write_text(const struct gospect_why *why, FILE *out)
{
	const struct gospect_cause *c;

	for (size_t i = 0; i < MOST_SHOWN && (c = gospect_why_finding(why, i)); i++)
		write_finding(c, out);
	if (!gospect_why_info(why)->finding_count)
		terminal_write_words(out, "",
				     "Nothing is wrong that gospect can see: no rule of `man "
				     "gospect-why` applies",
				     2);
	write_end(why, out);
}

/* ---- */

struct progress {
	double duration;
};

static void progress(void *arg, double seconds)
{
	const struct progress *p = arg;

	say_progress("%.0f of %g s", seconds, p->duration);
}

static void cleanup_why(struct gospect_why **w)
{
	gospect_why_destroy(*w);
}

static struct error *take_and_write(const struct why_verb *v, const struct cli_target *s,
				    struct outfile *out)
{
	struct progress p = {v->duration};
	const struct gospect_why_options how = {.size = sizeof(how),
						.duration = v->duration,
						.progress = progress,
						.arg = &p};
	_cleanup_(cleanup_why) struct gospect_why *why = NULL;
	struct error *err = library_error(gospect_why_take(s->handle, &how, &why));

	say_progress(NULL);
	if (err)
		return err;
	if (v->format == GOSPECT_JSON)
		return library_error(gospect_why_write(why, v->format, output_sink(out)));
	look_write_heading(out->stream);
	write_text(why, out->stream);
	return NULL;
}

static struct error *run_why(struct why_verb *v, int *ret)
{
	const char *path = v->request.output.path;
	_cleanup_outfile_ struct outfile out = {0};
	_cleanup_cli_target_ struct cli_target s = {0};
	struct error *err = target_options_check(&v->request.target, "why");

	if (!err)
		err = choose_format(v);
	if (!err)
		err = outfile_open(path ? path : "-", &out);
	v->request.target.out = &out;
	if (!err)
		stop_on_signals();
	if (!err)
		err = cli_target_open(&v->request.target, &s);
	if (!err)
		err = take_and_write(v, &s, &out);
	if (!err)
		err = outfile_commit(&out);
	return cli_target_finish(&s, err, ret);
}

static struct error *run(int argc, char **argv, int *ret)
{
	struct why_verb v = {.request.target = {.reads_cores = true, .confines = true},
			     .duration = DEFAULT_SECONDS};
	bool help;
	struct error *err = parse_options(&argp, "why", argc, argv, &v, &help);

	if (!err && !help)
		err = run_why(&v, ret);
	return err;
}

const struct verb verb_why = {"why",
			      "find out what is wrong: hung, leaking, slow, short of CPU or memory",
			      run};
