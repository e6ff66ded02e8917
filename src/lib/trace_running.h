/*
 * Where goroutines ran, by the CPU samples of a trace: running time belongs to the stack of the
 * sample that is nearest in time, among those of goroutines with the same start function and
 * labels. Samples come at equal distances of CPU time, so each stands for the running time around
 * it.
 */
#ifndef LIB_TRACE_RUNNING_H
#define LIB_TRACE_RUNNING_H

#include "base/array.h"
#include "base/map.h"
#include "lib/trace_spans.h"

struct running_sample;

struct trace_running {
	struct running_sample *samples; /* by start function and labels, then by time */
	size_t count;
	size_t capacity;
	struct map firsts; /* start function and labels -> index of the first + 1 */
};

/* Reads the samples of a trace, if it has some: the texts and stacks go to `tables`. `cancel` as in
 * spans_options. */
struct error *trace_running_read(struct trace_running *r, const void *bytes, size_t size,
				 const atomic_int *cancel, struct span_tables *tables) must_check;
void trace_running_release(struct trace_running *r);
#define _cleanup_trace_running_ __attribute__((cleanup(trace_running_release)))

/* The stack of the sample nearest to the beginning of a running span, 0: there is none; and until
 * when that is the nearest. */
uint32_t trace_running_stack(const struct trace_running *r, const struct span *span,
			     uint64_t *ret_until);

#endif
