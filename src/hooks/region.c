#include "hooks/region.h"

#include "agent/abi.h"
#include "base/cpus.h"
#include "inject/jump.h"

#define STEP 0x100000ull
#define DISTANCE 0x4000000ull /* from other mappings, at the first try */
#define LOWEST 0x100000ull    /* above vm.mmap_min_addr */
#define P_SLOTS_LEAST 16

/* Whether nothing is mapped there, or within `distance` of it. */
static bool is_free(const struct target_maps *maps, uint64_t start, uint64_t size,
		    uint64_t distance)
{
	uint64_t end = start + size + distance;

	start = start > distance ? start - distance : 0;
	for (size_t i = 0; i < maps->count; i++)
		if (maps->items[i].start < end && maps->items[i].end > start)
			return false;
	return true;
}

static bool search(const struct target_maps *maps, const struct image *img, uint64_t size,
		   uint64_t distance, uint64_t *ret)
{
	uint64_t text = img->functions.text & ~(STEP - 1), etext = img->functions.etext;

	for (uint64_t step = STEP; step < CODE_REACH; step += STEP) {
		uint64_t up = ((etext + STEP) & ~(STEP - 1)) + step, down = text - step;

		if (up + size < text + CODE_REACH && is_free(maps, up, size, distance)) {
			*ret = up;
			return true;
		}
		if (text > step + distance + LOWEST && etext - down < CODE_REACH &&
		    is_free(maps, down, size, distance)) {
			*ret = down;
			return true;
		}
	}
	return false;
}

struct error *region_choose(struct target *t, const struct image *img, uint64_t size, uint64_t *ret)
{
	_cleanup_maps_ struct target_maps maps = {0};
	struct error *err = target_maps(t, &maps);

	if (err)
		return err;
	for (uint64_t distance = DISTANCE; distance; distance = distance > STEP ? distance / 4 : 0)
		if (search(&maps, img, size, distance, ret))
			return NULL;
	return error_format(ERROR_UNSUPPORTED,
			    "no free address space within %llu MB of the code of process %d",
			    CODE_REACH >> 20, target_pid(t));
}

struct error *region_p_count(struct target *t, const struct golayout *lay, uint64_t *ret)
{
	uint64_t allp[2];
	struct error *err = target_read(t, lay->v.allp, allp, sizeof(allp));

	if (!err)
		*ret = allp[1];
	return err;
}

struct error *region_p_slots(struct target *t, const struct golayout *lay, uint64_t *ret_now,
			     uint64_t *ret)
{
	uint64_t cpus = cpus_configured();
	uint64_t now, count;
	struct error *err = region_p_count(t, lay, &now);

	if (err)
		return err;
	now = now < AGENT_MOST_P_SLOTS ? now : AGENT_MOST_P_SLOTS;
	count = cpus > P_SLOTS_LEAST ? cpus : P_SLOTS_LEAST;
	if (count < now * 2)
		count = now * 2;
	*ret = count < AGENT_MOST_P_SLOTS ? count : AGENT_MOST_P_SLOTS;
	*ret_now = now;
	return NULL;
}
