/*
 * How often a condition is reported that is true again and again. After an incident it is ignored
 * for a time, the rest. If it is true again then, the rest doubles, up to an hour. When it was
 * false for the length of its first rest, the rest is that long again.
 */
#ifndef TRIGGERS_BACK_OFF_H
#define TRIGGERS_BACK_OFF_H

#include <stdbool.h>
#include <stdint.h>

struct back_off {
	uint64_t rests_until;
	uint64_t rest;
	uint64_t last; /* when it was true the last time; 0: never */
};

/* The condition is true now. Returns whether to report that. */
bool back_off_allows(struct back_off *b, uint64_t now, uint64_t first_rest);

/* Whether a level has risen above its limit. It must fall to 95 % of that before it can rise again.
 */
bool level_rises(bool *is_above, double level, double limit);

#endif
