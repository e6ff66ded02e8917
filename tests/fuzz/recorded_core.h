/*
 * Recorded core files of real Go programs (tests/fixtures), as hostile targets: either their memory
 * changes at each read, or words of them are replaced. The input's first bytes choose the program
 * and one of the two; the rest is lies (liar.h), or places and words.
 */
#ifndef FUZZ_RECORDED_CORE_H
#define FUZZ_RECORDED_CORE_H

#include "fuzz.h"
#include "golayout/golayout.h"

/* Whether what was looked at was taken for good. */
typedef bool recorded_core_look(struct target *t, const struct image *img,
				const struct golayout *lay);

/* Looks once at the target that the input makes. A process has been read `most_reads` times at most
 * afterwards. */
void recorded_core_take(const uint8_t *data, size_t size, recorded_core_look *look,
			uint64_t most_reads);
void recorded_core_seeds(fuzz_emit *emit, void *arg);

#endif
