#include "target/read_plan.h"

#include <stdlib.h>

#include "base/array.h"

bool plan_merge(struct plan *plan, struct plan_piece *piece, size_t first)
{
	struct target_range *last = plan->count > first ? &plan->ranges[plan->count - 1] : NULL;
	uint64_t end = piece->address + piece->size;

	if (last && piece->address >= last->address &&
	    piece->address <= last->address + last->size + PLAN_GAP &&
	    end - last->address <= PLAN_CALL_BYTES) {
		if (end > last->address + last->size) {
			plan->bytes += end - (last->address + last->size);
			last->size = end - last->address;
		}
	} else {
		if (!array_reserve(&plan->ranges, &plan->capacity, plan->count + 1))
			return false;
		last = &plan->ranges[plan->count++];
		*last = (struct target_range){piece->address, piece->size, NULL};
		plan->bytes += piece->size;
	}
	piece->offset = plan->bytes - last->size + (piece->address - last->address);
	return true;
}

void plan_reset(struct plan *plan)
{
	plan->count = plan->bytes = 0;
}

void plan_release(struct plan *plan)
{
	free(plan->ranges);
	*plan = (struct plan){0};
}

/* How many ranges from `first` on fit one call. */
static size_t call_ranges(const struct plan *plan, size_t first, size_t *ret_bytes)
{
	size_t n = 0, bytes = 0;

	while (first + n < plan->count && n < TARGET_MAX_RANGES &&
	       (!n || bytes + plan->ranges[first + n].size <= PLAN_CALL_BYTES))
		bytes += plan->ranges[first + n++].size;
	*ret_bytes = bytes;
	return n;
}

struct error *plan_read(const struct plan *plan, struct target *t, uint8_t *buffer,
			size_t *ret_bytes)
{
	size_t at = 0;

	for (size_t i = 0; i < plan->count;) {
		size_t bytes, done, n = call_ranges(plan, i, &bytes);
		struct error *err = target_read_packed(t, plan->ranges + i, n, buffer + at, &done);

		if (err)
			return err;
		if (done < n) {
			for (size_t k = 0; k < done; k++)
				at += plan->ranges[i + k].size;
			break;
		}
		at += bytes;
		i += n;
	}
	*ret_bytes = at;
	return NULL;
}
