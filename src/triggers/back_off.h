/*
 * How often a condition that is true again and again is told: after an incident it rests, twice as
 * long each time, up to an hour, until it was not true for the length of its first rest.
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

/* It is true now. Whether that may be told. */
bool back_off_allows(struct back_off *b, uint64_t now, uint64_t first_rest);

/* Whether a level has risen above its limit. It must fall to 95 % of that before it can rise again.
 */
bool level_rises(bool *is_above, double level, double limit);

#endif
