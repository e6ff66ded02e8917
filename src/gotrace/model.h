/*
 * The model that makes a trace legal: what every thread, processor and goroutine is doing, by the
 * rules that Go's own reader checks (internal/trace/order.go, 1.22 to 1.27).
 *
 * Events come as they were seen: some are missing, some are late, and everything began before the
 * trace did. The model turns each into the steps that the rules permit, with others before it where
 * something must have happened that was not seen, or drops it. So whatever the events are, the
 * trace is legal. Each step has a time of its own: later than all before it.
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
	uint64_t events;     /* taken in */
	uint64_t steps;      /* given out */
	uint64_t reconciled; /* transitions inserted for missing events */
	uint64_t dropped;    /* events that nothing could be made of */
	uint64_t lost;       /* records that the target's buffers had no room for */
	uint64_t refused;    /* goroutines, threads and regions beyond the limits */
};

/* Copies `sink`. */
struct error *trace_model_create(const struct trace_sink *sink,
				 struct trace_model **ret) must_check;
void trace_model_destroy(struct trace_model *model);

/* Fails only where the sink fails or memory runs out; the model is of no use afterwards. */
struct error *trace_model_add(struct trace_model *model, const struct trace_event *ev) must_check;

/* Begins a new generation, unless this moment is within a stop of the world: then a later call will
 * do. One that does not end for very many calls is ended. */
struct error *trace_model_new_generation(struct trace_model *model, uint64_t ns) must_check;

/* Ends all goroutines that are known since before this time and are not in the list: their end
 * events were lost. */
struct error *trace_model_bury(struct trace_model *model, const struct map *living,
			       uint64_t before_ns) must_check;

/* Marks the texts that later steps may have though no event brings them. */
void trace_model_mark_texts(const struct trace_model *model, struct texts *texts);

struct trace_model_stats trace_model_stats(const struct trace_model *model);

static inline void cleanup_trace_model(struct trace_model **model)
{
	trace_model_destroy(*model);
}
#define _cleanup_trace_model_ __attribute__((cleanup(cleanup_trace_model)))

#endif
