/*
 * What a stack of the program churn (tests/programs/churn) says of itself: the names of twelve
 * functions spell the goroutine's id, the round that it is in and a checksum over both and over the
 * way that it waits. A mix of two moments spells nonsense.
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
	struct map codes;  /* a stack word -> what its function stands for */
	struct map rounds; /* goid -> the round that it was last seen in */
	uint64_t fresh;    /* stacks of a round that its goroutine was not seen in before */
};

/* How many digits the stack spells; 0: it is not of a goroutine that walks. */
unsigned int churn_digits(struct churn *c, struct stack stack);

/* NULL, or what is wrong with it. `wait_reason` is "" of who does not wait. */
const char *churn_wrong(struct churn *c, struct stack stack, uint64_t goid,
			const char *wait_reason);

/* Forgets rounds: goroutines are looked at anew. */
void churn_forget(struct churn *c);
void churn_release(struct churn *c);

#endif
