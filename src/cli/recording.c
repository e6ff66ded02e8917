#include "cli/recording.h"

#include <math.h>

#include "cli/duration.h"
#include "cli/stop.h"

/* With a larger error than this, the summary names a larger budget. */
#define LARGE_ERROR 0.02
#define LARGER_BUDGET 5

enum { KEY_BUDGET = 0x5100 };

static const struct argp_option options[] =
	{{NULL, 0, NULL, 0, "Recording:", 4},
	 {"duration", 'd', "DURATION", 0,
	  "Stop after DURATION, as 10s, 500ms or 2m (default: when interrupted)", 4},
	 {"rate", 'r', "HZ", 0, "Sample this many times a second (100)", 4},
	 {"budget", KEY_BUDGET, "PERCENT", 0,
	  "Use at most this share of one core (1); 100 means no limit. With too many goroutines "
	  "gospect samples a random part of them",
	  4},
	 {"verbose", 'v', NULL, 0, "Print the whole summary on a terminal too", 4},
	 {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct gospect_record_options *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		o->size = sizeof(*o);
		return 0;
	case 'd':
		return parse_duration_option(arg, 0.01, 1e7, &o->duration, state);
	case 'r':
		return parse_number_option(arg, 0.1, 10000, &o->rate, state, "rate");
	case 'v':
		print_all_numbers();
		return 0;
	case KEY_BUDGET:
		return parse_number_option(arg, 0.01, 100, &o->budget, state, "budget");
	}
	return ARGP_ERR_UNKNOWN;
}

const struct argp recording_argp = {.options = options, .parser = parse};

struct progress {
	struct cli_target *target;
	double duration;
};

static void progress(void *arg, double seconds, uint64_t looks)
{
	const struct progress *p = arg;

	cli_target_go_on(p->target);
	if (p->duration > 0)
		say_progress("%.0f of %g s, %lu goroutine reads", seconds, p->duration, looks);
	else
		say_progress("%.0f s, %lu goroutine reads; Ctrl-C ends the recording", seconds,
			     looks);
}

struct error *recording_take(struct cli_target *target, const struct gospect_record_options *given,
			     struct gospect_profile **ret)
{
	struct progress p = {target, given->duration};
	struct gospect_record_options o = *given;
	struct gospect_error *err;

	o.progress = progress;
	o.arg = &p;
	err = gospect_record(target->handle, &o, ret);
	say_progress(NULL);
	return library_error(err);
}

/* A goroutine that was not sampled in each tick is sampled more often with a larger budget. */
static void say_budget(const struct gospect_profile_info *p, const struct gospect_record_options *o)
{
	double budget = o->budget > 0 ? o->budget : 1, more = LARGER_BUDGET / budget;
	double most = p->looks > 0 ? p->rate / p->looks : 1;

	if (p->error < LARGE_ERROR || more <= 1 || most < 1.5)
		return;
	/* The error falls with the square root of the number of samples. */
	say("--budget %d would make the shares accurate to about ±%.1g points", LARGER_BUDGET,
	    100 * p->error / sqrt(more < most ? more : most));
}

/* With an error of 50 points, 50 % may be anything. */
static const char *accuracy_text(double error, char text[64])
{
	if (!(error < 0.5))
		return "too few samples for shares";
	snprintf(text, 64, "shares accurate to ±%.2g points (95 %% confidence)", 100 * error);
	return text;
}

void recording_say(const struct gospect_profile *profile,
		   const struct gospect_record_options *given, const char *path)
{
	const struct gospect_profile_info *p = gospect_profile_info(profile);
	const char *arrow = path ? " -> " : "";
	char samples[32], accuracy[64];

	say_budget(p, given);
	if (prints_all_numbers())
		say("%.1f s, %.0f goroutines (each sampled %.1f times a second), %lu samples at "
		    "%.1f Hz, %s, %lu ticks "
		    "missed, %lu reads dropped as torn, gospect used %.1f %% of a core%s%s",
		    p->duration_ns / 1e9, p->goroutines, p->looks, p->samples, p->rate,
		    accuracy_text(p->error, accuracy), p->missed, p->torn, p->cpu_percent, arrow,
		    path ?: "");
	else
		say("%.1f s, %.0f goroutines, %s samples%s%s", p->duration_ns / 1e9, p->goroutines,
		    count_text(p->samples, samples), arrow, path ?: "");
}
