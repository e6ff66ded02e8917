/* Reports the samples of a part of the recording: see wall_options.part. For this room alone. */
#ifndef SAMPLE_PARTS_H
#define SAMPLE_PARTS_H

#include "sample/interval.h"

struct parts {
	struct error *(*part)(void *arg, uint64_t begin, uint64_t end,
			      const struct wall_part *parts, size_t count); /* NULL: no receiver */
	void *arg;
	struct interval interval;
	uint64_t samples_end; /* ns since the beginning; on-CPU samples up to here were reported */
};

/* Reports the samples up to the last pass, and the on-CPU samples up to `now`, in ns since the
 * beginning. On-CPU samples come in each tick, however long a pass is. `cpu` may be all zero. */
struct error *parts_report(struct parts *parts, const struct estimate *e, struct goroutine_set *set,
			   const struct cpu_source *cpu, uint64_t now) must_check;
/* After estimate_finish(): reports what the estimate made of the pass that the end cut short. */
struct error *parts_report_rest(struct parts *parts, const struct estimate *e,
				uint64_t end) must_check;

#endif
