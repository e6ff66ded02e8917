/* A recording of several processes: each in a worker of its own (cli/record_worker.h), all of them
 * in one profile. */
#ifndef CLI_RECORD_MANY_H
#define CLI_RECORD_MANY_H

#include <gospect/profile.h>

#include "base/outfile.h"
#include "cli/target_options.h"

struct many_summary {
	size_t processes; /* that were recorded */
	double goroutines;
	double cpu_percent; /* of one CPU that their recordings used */
};

/* Whether the options name several processes. */
bool record_many_is(const struct target_options *target);

/*
 * Records them and gives up privilege: afterwards the output may be written. A process that cannot
 * be recorded is named in a line, and the others stay. Samples have the labels `pid` and `command`.
 * With a filter that leaves nothing: ERROR_FAILED.
 */
struct error *record_many(struct target_options *target,
			  const struct gospect_record_options *recording, struct outfile *out,
			  struct gospect_profile **ret,
			  struct many_summary *ret_summary) must_check;
/* recording_say() of it. */
void record_many_say(const struct gospect_profile *profile, const struct many_summary *summary,
		     const char *path);

#endif
