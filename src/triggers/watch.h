/*
 * Checks the steps of a trace for conditions. It gets each step from the model and passes it on to
 * the writer.
 *
 * A request or a wait counts when it ends, so that the file has all of it. If it lasts longer than
 * half of the flight, it counts at that time, so that the file still has its beginning. After an
 * incident a condition is ignored for the length of a flight, so that files do not overlap. If it
 * is true again then, this time doubles, up to an hour.
 */
#ifndef TRIGGERS_WATCH_H
#define TRIGGERS_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "gotrace/step.h"
#include "gotrace/texts.h"
#include "image/pclntab.h"
#include "triggers/condition.h"
#include "unwind/stacks.h"

struct watch;

struct watch_options {
	const char *const *conditions; /* as typed, NULL-terminated */
	uint64_t flight_ns;
};

/* What stacks and texts of the steps are of; they stay until the watch is destroyed. */
struct watch_source {
	const struct texts *texts;
	const struct stacks *stacks;
	const struct pclntab *functions;
};

struct error *watch_create(const struct watch_options *options, struct watch **ret) must_check;
void watch_destroy(struct watch *w);

/* A regular expression of the functions whose calls must be recorded; NULL: none but handlers. */
const char *watch_functions(const struct watch *w);

/* The receiver of the model's steps; `next` receives them afterwards. */
struct trace_sink watch_sink(struct watch *w, const struct watch_source *source,
			     const struct trace_sink *next);

/* The resident memory of the process, and the limit of its control group (0: none), for conditions
 * that want it. */
bool watch_wants_rss(const struct watch *w);
void watch_see_rss(struct watch *w, uint64_t rss, uint64_t limit);

struct incident {
	const char *word; /* for a file's name */
	char sentence[256];
};

/* Whether something became true since the last call; the first such. */
bool watch_take(struct watch *w, struct incident *ret);
/* How many incidents came while their condition rested. */
uint64_t watch_rested(const struct watch *w);

#endif
