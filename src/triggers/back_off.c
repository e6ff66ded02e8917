#include "triggers/back_off.h"

#define MOST_REST_NS 3600000000000ull
#define FALLEN 0.95

bool back_off_allows(struct back_off *b, uint64_t now, uint64_t first_rest)
{
	uint64_t last = b->last, rest = b->rest * 2;

	b->last = now;
	if (now < b->rests_until)
		return false;
	if (!last || now - last > first_rest)
		rest = first_rest;
	if (rest > MOST_REST_NS)
		rest = MOST_REST_NS;
	b->rest = rest;
	b->rests_until = now + rest;
	return true;
}

bool level_rises(bool *is_above, double level, double limit)
{
	if (level <= limit * FALLEN)
		*is_above = false;
	if (level <= limit || *is_above)
		return false;
	*is_above = true;
	return true;
}
