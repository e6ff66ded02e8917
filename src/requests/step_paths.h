/*
 * Critical paths of requests while a trace is made: of the ten slowest that end in each generation.
 *
 * It sees the model's steps before a writer does, and keeps what goroutines did since the oldest
 * open request began. While no request is open, it keeps their states alone. Its memory is bounded.
 * Where very much happens, paths are found more often than once a generation; where too much
 * happens during one request, it has no path.
 */
#ifndef REQUESTS_STEP_PATHS_H
#define REQUESTS_STEP_PATHS_H

#include "gotrace/step.h"
#include "gotrace/texts.h"
#include "gotrace/trace_path.h"

struct step_paths;

/* The texts of steps, and the receiver of paths. */
struct step_paths_options {
	const struct texts *texts;
	/* Called in the order in which the requests began, before their generation ends. */
	void (*path)(void *arg, const struct trace_path *path);
	void *arg;
};

/* NULL: no memory. */
struct step_paths *step_paths_create(const struct step_paths_options *options);
/* A sink in front of another. */
struct trace_sink step_paths_sink(struct step_paths *p, const struct trace_sink *next);
/* The paths of the last generation, before it is finished. */
struct error *step_paths_complete(struct step_paths *p) must_check;
void step_paths_destroy(struct step_paths *p);

#endif
