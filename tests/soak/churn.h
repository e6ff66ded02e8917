/*
 * Decodes a stack of the program churn (tests/programs/churn): the names of twelve functions spell
 * the goroutine's id, its round, and a checksum over both and its way to wait. A mix of two times
 * fails the checksum.
 */
#ifndef SOAK_CHURN_H
#define SOAK_CHURN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"
#include "image/pclntab.h"
#include "unwind/stacks.h"

enum { CHURN_DEPTH = 12 };

struct churn {
	const struct pclntab *functions;
	struct map codes;  /* a stack word -> the code of its function */
	struct map rounds; /* goid -> the round that it was last seen in */
	uint64_t fresh;    /* stacks of a round that its goroutine was not seen in before */
};

/* How many digits the stack spells; 0: it is not of a goroutine that walks. */
unsigned int churn_digits(struct churn *c, struct stack stack);

/* NULL, or the defect. `wait_reason` is "" for a goroutine that does not wait. */
const char *churn_wrong(struct churn *c, struct stack stack, uint64_t goid,
			const char *wait_reason);

/* Forgets rounds: goroutines are looked at anew. */
void churn_forget(struct churn *c);
void churn_release(struct churn *c);

#endif
