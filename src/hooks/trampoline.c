#include "hooks/trampoline.h"

#include <string.h>

#define STEP 0x10000ull
#define DISTANCE 0x100000ull /* from other mappings */
#define STACK_ROOM 0x40000000ull
#define LOWEST 0x100000ull /* above vm.mmap_min_addr */

/* A jump from there with that last byte leads to these addresses. */
struct window {
	uint64_t first;
	uint64_t last;
};

static struct window window_of(const struct code_site *site)
{
	int32_t least = (int32_t)((uint32_t)site->bytes[SITE_JUMP_BYTES - 1] << 24);
	uint64_t first = site->address + SITE_JUMP_BYTES + (int64_t)least;

	return (struct window){first, first + 0xffffff};
}

static bool take_from(struct trampolines *all, size_t page, const struct window *w,
		      struct code_site *site)
{
	uint64_t at = all->pages[page] + all->used[page] * CODE_TRAMPOLINE_BYTES;

	if (all->used[page] >= CODE_PAGE_BYTES / CODE_TRAMPOLINE_BYTES || at < w->first ||
	    at > w->last)
		return false;
	site->jump = at;
	all->used[page]++;
	return true;
}

/* Where the first thread's stack may grow to, nothing is to be in its way. */
static uint64_t room_below(const struct target_map *map)
{
	return strcmp(map->path, "[stack]") || map->start < STACK_ROOM ? 0 : STACK_ROOM;
}

static bool is_free(const struct trampolines *all, const struct target_maps *maps, uint64_t start)
{
	uint64_t end = start + CODE_PAGE_BYTES + DISTANCE;

	start -= DISTANCE;
	for (size_t i = 0; i < maps->count; i++)
		if (maps->items[i].start - room_below(&maps->items[i]) < end &&
		    maps->items[i].end > start)
			return false;
	for (size_t i = 0; i < CODE_TRAMPOLINE_PAGES; i++)
		if (all->pages[i] && all->pages[i] < end && all->pages[i] + CODE_PAGE_BYTES > start)
			return false;
	return true;
}

/* From the window's end, so that probe sites behind this one reach it too; 0: nothing is free. */
static uint64_t find_page(const struct trampolines *all, const struct target_maps *maps,
			  const struct window *w)
{
	uint64_t at = (w->last - CODE_PAGE_BYTES) & ~(STEP - 1);

	if (w->first < LOWEST + DISTANCE || w->last > ADDRESS_END)
		return 0;
	for (; at >= w->first; at -= STEP)
		if (is_free(all, maps, at))
			return at;
	return 0;
}

static bool take(struct trampolines *all, const struct target_maps *maps, struct code_site *site)
{
	struct window w = window_of(site);

	for (size_t i = 0; i < CODE_TRAMPOLINE_PAGES; i++) {
		if (!all->pages[i])
			all->pages[i] = find_page(all, maps, &w);
		if (!all->pages[i])
			return false;
		if (take_from(all, i, &w, site))
			return true;
	}
	return false;
}

bool trampolines_take(struct trampolines *all, const struct target_maps *maps,
		      struct code_site *sites, size_t count)
{
	struct trampolines taken = *all;

	for (size_t i = 0; i < count; i++)
		if (sites[i].length < SITE_JUMP_BYTES && !take(&taken, maps, &sites[i]))
			return false;
	*all = taken;
	return true;
}
