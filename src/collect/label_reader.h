/* Reads sets of labels from the memory of the target, for goroutines whose labels the agent did not
 * copy. */
#ifndef COLLECT_LABEL_READER_H
#define COLLECT_LABEL_READER_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "golayout/golayout.h"
#include "labels/label_sets.h"
#include "target/target.h"

/* A goroutine that had labels when it was looked at. */
struct labelled {
	uint64_t g; /* its address */
	uint64_t goid;
	uint64_t labels; /* g.labels */
	uint32_t text;   /* to be found; 0: none, or not known */
};

/* Reads the sets of at most LABELS_BATCH goroutines into ret[], as numbers of `sets`. LABELS_TORN:
 * not known, for example because the goroutine has other labels by now. */
#define LABELS_BATCH 256
struct error *label_reader_read(struct label_sets *sets, struct target *t,
				const struct golayout *lay, struct labelled *items, size_t count,
				uint32_t *ret) must_check;

#endif
