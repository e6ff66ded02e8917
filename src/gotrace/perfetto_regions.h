/* The program's own events in Perfetto's format: its requests, regions, logs and tasks. */
#ifndef GOTRACE_PERFETTO_REGIONS_H
#define GOTRACE_PERFETTO_REGIONS_H

#include "gotrace/perfetto_writer.h"
#include "gotrace/step.h"

/* OP_REGION_BEGIN to OP_LOG. */
void perfetto_write_region(struct trace_writer *w, const struct trace_step *step);
/* OP_TASK_BEGIN and OP_TASK_END. */
void perfetto_write_task(struct trace_writer *w, const struct trace_step *step);

#endif
