/*
 * CPU samples in Perfetto's format: PerfSample packets, which ui.perfetto.dev shows as flame graphs
 * of the process and of each thread. A stack is interned frame by frame, once a generation.
 */
#ifndef GOTRACE_PERFETTO_SAMPLES_H
#define GOTRACE_PERFETTO_SAMPLES_H

#include <stdbool.h>

#include "base/map.h"
#include "gotrace/perfetto_packets.h"
#include "gotrace/step.h"
#include "gotrace/trace_format.h"
#include "gotrace/trace_symbols.h"
#include "gotrace/used.h"

/* All but `failed` and the sets is the writer's. */
struct perfetto_samples {
	struct packets *packets;
	struct trace_symbols *symbols;
	const struct trace_writer_options *options;
	struct used stacks; /* in this generation */
	uint32_t stack_ids;
	struct map functions; /* a name -> its number, in this generation */
	struct map files;
	struct map frames; /* likewise, by pc */
	bool failed;       /* no memory */
};

void perfetto_samples_add(struct perfetto_samples *s, const struct trace_step *step);
void perfetto_samples_new_generation(struct perfetto_samples *s);
void perfetto_samples_release(struct perfetto_samples *s);

#endif
