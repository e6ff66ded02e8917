#include "cli/tracing.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common_options.h"
#include "cli/stop.h"

/* The flight that SIGUSR1 writes; NULL: none yet. */
static struct gospect_trace *volatile flying;
static volatile sig_atomic_t asked_before;
static bool is_detached;
/* The flight's last file; NULL: none so far. */
static char *last_incident;

static void on_write_request(int number)
{
	if (flying)
		gospect_trace_write_flight(flying);
	else
		asked_before = 1;
}

void tracing_handle_signals(bool flight)
{
	/* Interrupted calls continue: the signal may come at any time, and often. */
	struct sigaction ask = {.sa_handler = on_write_request, .sa_flags = SA_RESTART};

	stop_on_signals();
	if (flight)
		sigaction(SIGUSR1, &ask, NULL);
}

static void progress(void *arg, double seconds, uint64_t events)
{
	say_progress("%.0f s, %lu events%s", seconds, events,
		     is_detached ? "; the program is not traced any more" : "");
}

static void detached(void *arg)
{
	is_detached = true;
	stop_release();
}

static void incident_written(void *arg, const char *path, double seconds,
			     const struct gospect_error *err)
{
	if (err) {
		say("%s; the trace continues, and SIGUSR1 tries again", gospect_error_message(err));
		return;
	}
	say("wrote the last %.1f s to %s", seconds, path);
	free(last_incident);
	last_incident = strdup(path);
}

struct error *tracing_create(const struct gospect_trace_options *options,
			     struct gospect_trace **ret)
{
	struct gospect_trace_options o = *options;
	struct error *err;

	o.progress = progress;
	o.detached = detached;
	o.incident_written = incident_written;
	err = library_error(gospect_trace_create(&o, ret));
	if (err)
		return err;
	flying = *ret;
	if (asked_before)
		gospect_trace_write_flight(*ret);
	return NULL;
}

struct error *tracing_begin(struct gospect_trace *trace, struct cli_target *s)
{
	struct error *err;

	stop_hold();
	err = library_error(gospect_trace_begin(trace, s->handle, s->surgeon));
	if (err)
		stop_release();
	else
		cli_target_go_on(s);
	return err;
}

static void say_summary(const struct gospect_trace_stats *stats, const char *path)
{
	bool named = path && strcmp(path, "-");
	char events[32];

	if (!prints_all_numbers() && !stats->lost && !stats->stacks_lost) {
		say("%.1f s, %s events, the target paused for %.2f ms at most%s%s",
		    stats->duration_ns / 1e9, count_text(stats->events, events),
		    stats->pause_ns / 1e6, named ? " -> " : "", named ? path : "");
		return;
	}
	say("%.1f s, %lu events, %lu lost, %lu stacks%s, the target paused for %.2f ms at most%s%s",
	    stats->duration_ns / 1e9, stats->events, stats->lost, stats->stacks,
	    stats->stacks_lost ? " (too many to keep all)" : "", stats->pause_ns / 1e6,
	    named ? " -> " : "", named ? path : "");
}

struct error *tracing_run(struct gospect_trace *trace, const char *path)
{
	struct error *err = library_error(gospect_trace_run(trace));
	const struct gospect_trace_stats *stats = gospect_trace_stats(trace);

	say_progress(NULL);
	flying = NULL;
	if (stats)
		say_summary(stats, last_incident ?: path);
	return err;
}
