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
	pid_t command;      /* of -- COMMAND, to be waited for; 0: none */
};

/*
 * Records them and gives up privilege; the output can be written afterwards. A message names each
 * process that cannot be recorded; the others are recorded. Samples have the labels `pid` and
 * `command`. ERROR_FAILED: the filter matches nothing. ERROR_NOT_GO: later processes were waited
 * for, and none came. *ret_summary is set on an error, too.
 */
struct error *record_many(const struct target_options *target,
			  const struct gospect_record_options *recording, struct outfile *out,
			  struct gospect_profile **ret,
			  struct many_summary *ret_summary) must_check;
/* As recording_say(), for several processes. */
void record_many_say(const struct gospect_profile *profile, const struct many_summary *summary,
		     const char *path);

#endif
