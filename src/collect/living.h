/*
 * Which goroutines there are, read from outside while the program runs on: for a trace that has
 * lost records, and with them the ends of goroutines.
 */
#ifndef COLLECT_LIVING_H
#define COLLECT_LIVING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/map.h"
#include "golayout/golayout.h"
#include "target/target.h"

struct living {
	struct map goids;  /* of those that were seen alive */
	uint64_t at;       /* in the program's list */
	uint64_t checked;  /* such a length is not too much for its memory */
	uint64_t began_ns; /* CLOCK_MONOTONIC; made before this and not in `goids` when all was
			      read: ended */
	bool complete;
};

/* Reads for about so long; call it until it is complete. ERROR_CORRUPT: the program has no memory
 * for so many goroutines. */
struct error *living_read(struct living *l, struct target *t, const struct golayout *lay,
			  uint64_t ns) must_check;
void living_release(struct living *l);

#endif
