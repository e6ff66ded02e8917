/*
 * The model that makes a trace legal: what every thread, P and goroutine does, by the rules that
 * Go's own reader checks (internal/trace/order.go, 1.22 to 1.27).
 *
 * Events come as they were seen: some are missing, some are late, and everything began before the
 * trace did. The model turns each event into legal steps, drops it, or first inserts what must have
 * happened unseen. So the trace is legal, whatever the events are. Each step has a time of its own:
 * later than all before it.
 */
#ifndef GOTRACE_MODEL_H
#define GOTRACE_MODEL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/map.h"
#include "gotrace/event.h"
#include "gotrace/step.h"
#include "gotrace/texts.h"

struct trace_model;

struct trace_model_stats {
	uint64_t events;     /* received */
	uint64_t steps;      /* emitted */
	uint64_t reconciled; /* transitions inserted for missing events */
	uint64_t dropped;    /* events that could not be used */
	uint64_t lost;       /* records that did not fit the target's buffers */
	uint64_t refused;    /* goroutines, threads and regions beyond the limits */
};

/* Copies `sink`. */
struct error *trace_model_create(const struct trace_sink *sink,
				 struct trace_model **ret) must_check;
void trace_model_destroy(struct trace_model *model);

/* Fails only if the sink fails or memory runs out. The model is unusable afterwards. */
struct error *trace_model_add(struct trace_model *model, const struct trace_event *ev) must_check;

/* Begins a new generation, unless the world stops just now: then a later call does. After very many
 * calls the stop is ended. */
struct error *trace_model_new_generation(struct trace_model *model, uint64_t ns) must_check;

/* Emits what still waits for a goroutine that runs. Call it after the last event, before the
 * writer's finish(). */
struct error *trace_model_complete(struct trace_model *model) must_check;

/* Ends all goroutines that are known since before this time and are not in the list: their end
 * events were lost. */
struct error *trace_model_bury(struct trace_model *model, const struct map *living,
			       uint64_t before_ns) must_check;

/* Marks the texts that later steps may use without an event that brings them. */
void trace_model_mark_texts(const struct trace_model *model, struct texts *texts);

struct trace_model_stats trace_model_stats(const struct trace_model *model);

static inline void cleanup_trace_model(struct trace_model **model)
{
	trace_model_destroy(*model);
}
#define _cleanup_trace_model_ __attribute__((cleanup(cleanup_trace_model)))

#endif
