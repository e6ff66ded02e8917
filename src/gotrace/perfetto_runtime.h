/* What the runtime does in Perfetto's format: the GC, Ps, the heap, and the kernel's counters. */
#ifndef GOTRACE_PERFETTO_RUNTIME_H
#define GOTRACE_PERFETTO_RUNTIME_H

#include "gotrace/perfetto_writer.h"
#include "gotrace/step.h"

/* OP_STW_BEGIN to OP_GC_END. */
void perfetto_write_gc(struct trace_writer *w, const struct trace_step *step);
/* OP_ASSIST_BEGIN and OP_GO_LABEL: what a goroutine does for the GC. */
void perfetto_write_assist(struct trace_writer *w, const struct trace_step *step);
/* Counters, and Ps that stop. Others are ignored. */
void perfetto_write_runtime(struct trace_writer *w, const struct trace_step *step);

#endif
