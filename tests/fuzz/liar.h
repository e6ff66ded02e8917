/*
 * A target with a memory image whose words the input may replace anew at each read. So two reads of
 * one address differ.
 */
#ifndef FUZZ_LIAR_H
#define FUZZ_LIAR_H

#include "base/cursor.h"
#include "target/ops.h"

struct liar {
	struct target base; /* as a target; its operations are those of a live process */
	struct target *truth;
	struct bytes lies; /* records of 16 bytes; they begin again at the end */
	size_t at;
	uint64_t reads;
	uint64_t bytes; /* read in all */
};

void liar_init(struct liar *l, struct target *truth, const uint8_t *lies, size_t size);

#endif
