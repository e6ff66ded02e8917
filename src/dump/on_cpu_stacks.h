/* The stacks of running goroutines in a live process. For the files of this room alone. */
#ifndef DUMP_ON_CPU_STACKS_H
#define DUMP_ON_CPU_STACKS_H

#include "dump/dump.h"

/*
 * Samples the target's threads for a short time. Each running goroutine of the dump gets the stack
 * of its first whole sample, or, if none comes soon, of its first. A missing permission is no
 * error: dump->no_on_cpu says why. The dump is sorted by id.
 */
struct error *running_collect(struct target *t, const struct golayout *lay,
			      struct dump *dump) must_check;

#endif
