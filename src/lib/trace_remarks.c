#include "lib/trace_remarks.h"

#include <string.h>

#include "agent/abi.h"
#include "gotrace/model.h"
#include "gotrace/trace_format.h"

static void remark_left_out(const struct gospect_trace *t)
{
	const char *line = tracer_left_out(t->tracer)->data;

	while (*line) {
		int length = (int)strcspn(line, "\n");

		remark(&t->target->remark, "%.*s", length, line);
		line += length + 1;
	}
}

static void remark_no_cpu_samples(const struct gospect_trace *t)
{
	const struct error *why = tracer_no_cpu_samples(t->tracer);

	if (why)
		remark(&t->target->remark, "the trace has no CPU samples: %s", why->message);
}

void trace_remark_begin(const struct gospect_trace *t)
{
	remark_left_out(t);
	remark_no_cpu_samples(t);
}

static void remark_lost(const struct remark *to, const struct tracer_stats *stats)
{
	if (stats->lost && stats->had_to_wait)
		remark(to,
		       "events were lost because gospect got too little CPU time; allow it a real-time priority: run it as root, with CAP_SYS_NICE or with `ulimit -r 1`");
}

static void remark_spill(const struct remark *to, const struct tracer_stats *stats)
{
	if (stats->spill_failed)
		remark(to,
		       "cannot write trace records to a temporary file: %s; gospect decoded them during the trace instead, which takes CPU time from the program",
		       strerror(stats->spill_failed));
}

static void remark_labels(const struct remark *to, const struct tracer_stats *stats)
{
	if (stats->labels_cut)
		remark(to,
		       "%lu labels were truncated or lost: the limits are %d bytes a value, and %d labels and %d bytes a set",
		       stats->labels_cut, AGENT_MAX_LABEL, AGENT_MAX_LABELS, AGENT_LABEL_BYTES);
	if (stats->labels_lost)
		remark(to,
		       "%lu label sets were lost: the table of label sets was full, or the labels changed before gospect read them",
		       stats->labels_lost);
}

static void remark_texts(const struct remark *to, const struct tracer_stats *stats)
{
	if (stats->texts_lost)
		remark(to,
		       "%lu strings of tasks, regions, logs and labels are left out: the limit is %u strings and %u MB at a time",
		       stats->texts_lost, TEXTS_MAX, TEXTS_MAX_BYTES >> 20);
}

static void remark_limits(const struct gospect_trace *t)
{
	const struct remark *to = &t->target->remark;
	uint64_t refused = trace_model_stats(t->model).refused;
	uint64_t (*left_out)(const struct trace_writer *) = t->format->left_out;
	uint64_t tasks = left_out ? left_out(t->writer) : 0;

	if (tasks)
		remark(to, "%lu tasks are left out: the limit is %u tasks at a time", tasks,
		       TRACE_MOST_TASKS);
	if (refused)
		remark(to,
		       "%lu events are left out: the limit of goroutines, threads or open regions at a time is reached",
		       refused);
	if (t->given_up)
		remark(to, "the trace ends early: decoding the last events takes too long");
}

static void remark_processors(const struct remark *to, const struct tracer_stats *stats)
{
	if (stats->without_ring)
		remark(to,
		       "%lu Ps have no ring buffer of their own and share %d, so events may be lost: GOMAXPROCS grew during the trace or exceeds %d; lower it, or trace again",
		       stats->without_ring, AGENT_FALLBACK_SLOTS, AGENT_MOST_P_SLOTS);
}

static void remark_cpu_samples(const struct remark *to, const struct tracer_stats *stats)
{
	if (stats->cpu_samples_lost)
		remark(to, "%lu on-CPU samples were lost; lower the rate of --cpu",
		       stats->cpu_samples_lost);
	if (stats->threads_unsampled)
		remark(to,
		       "too many open files: %lu threads are not sampled; raise the limit (ulimit -n)",
		       stats->threads_unsampled);
}

void trace_remark_end(const struct gospect_trace *t, const struct tracer_stats *stats, bool full)
{
	const struct remark *to = &t->target->remark;

	if (full)
		remark(to,
		       "the trace reached its maximum size, %g MB, and ended early; raise --max-size",
		       trace_megabytes(t));
	else if (t->filled)
		remark(to,
		       "the trace reached its maximum size, %g MB, with the records that waited for "
		       "an idle CPU, and ended early; raise --max-size",
		       trace_megabytes(t));
	if (stats->absences)
		remark(to,
		       "gospect got no CPU time for seconds, %lu times; the agent switched itself off, so the events of these times are missing",
		       stats->absences);
	remark_lost(to, stats);
	remark_spill(to, stats);
	remark_labels(to, stats);
	remark_texts(to, stats);
	remark_limits(t);
	remark_processors(to, stats);
	remark_cpu_samples(to, stats);
}
