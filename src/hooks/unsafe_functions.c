#include "hooks/unsafe_functions.h"

#include <string.h>

#include "base/array.h"
#include "hooks/probe_site.h"
#include "hooks/range.h"

/* Here a goroutine waits, and is still its M's: as one that only pretends to
 * (collect/states_at_start.c).
 */
static const char *const parking[] = {"runtime.park_m", "runtime.preemptPark"};

static void add(struct quiescence_functions *functions, uint64_t start, uint64_t end)
{
	functions->items[functions->count++] = (struct agent_range){start, end - start};
}

/* The last call of `called` in the function; its end if there is none. */
static uint64_t last_call(const struct image *img, const struct go_func *f, uint64_t called)
{
	size_t size = f->end - f->entry;
	const uint8_t *code = image_bytes(img, f->entry, size);

	return code ? probe_site_last_call(f->entry, code, size, called) : f->end;
}

void unsafe_functions(const struct image *img, const struct code_head *head, bool goid_late,
		      struct quiescence_functions *ret)
{
	struct go_func f, changes;

	ret->count = 0;
	for (unsigned int i = 0; i <= HOOK_P_HANDOFF; i++)
		if (i != HOOK_PREEMPT_PARK && head->sites[i].address &&
		    pclntab_find(&img->functions, head->sites[i].address, &f))
			add(ret, f.entry, f.end);
	ret->changing = ret->count;
	for (size_t i = 0; i < ARRAY_SIZE(parking); i++)
		if (pclntab_find_name(&img->functions, parking[i], &f))
			add(ret, f.entry, f.end);
	ret->systemstack_switch = range_of(&img->functions, "runtime.systemstack_switch");
	if (!goid_late || !pclntab_find_name(&img->functions, "runtime.casgstatus", &changes) ||
	    !pclntab_find_name(&img->functions, "runtime.newproc1", &f))
		return;
	add(ret, last_call(img, &f, changes.entry), f.end);
}
