#include "hooks/far.h"

#include <string.h>

#define STEP 0x10000ull
#define DISTANCE 0x100000ull /* from what is mapped */
#define STACK_ROOM 0x40000000ull
#define LOWEST 0x100000ull /* above vm.mmap_min_addr */
#define HIGHEST (1ull << 47)

/* A jump from there with that last byte leads to these addresses. */
struct window {
	uint64_t first;
	uint64_t last;
};

static struct window window_of(const struct code_place *place)
{
	int32_t least = (int32_t)((uint32_t)place->bytes[PLACE_JUMP_BYTES - 1] << 24);
	uint64_t first = place->address + PLACE_JUMP_BYTES + (int64_t)least;

	return (struct window){first, first + 0xffffff};
}

static bool take_from(struct far *far, size_t page, const struct window *w,
		      struct code_place *place)
{
	uint64_t at = far->pages[page] + far->used[page] * CODE_FAR_JUMP_BYTES;

	if (far->used[page] >= CODE_PAGE_BYTES / CODE_FAR_JUMP_BYTES || at < w->first ||
	    at > w->last)
		return false;
	place->jump = at;
	far->used[page]++;
	return true;
}

/* Where the first thread's stack may grow to, nothing is to be in its way. */
static uint64_t room_below(const struct target_map *map)
{
	return strcmp(map->path, "[stack]") || map->start < STACK_ROOM ? 0 : STACK_ROOM;
}

static bool is_free(const struct far *far, const struct target_maps *maps, uint64_t start)
{
	uint64_t end = start + CODE_PAGE_BYTES + DISTANCE;

	start -= DISTANCE;
	for (size_t i = 0; i < maps->count; i++)
		if (maps->items[i].start - room_below(&maps->items[i]) < end &&
		    maps->items[i].end > start)
			return false;
	for (size_t i = 0; i < CODE_FAR_PAGES; i++)
		if (far->pages[i] && far->pages[i] < end && far->pages[i] + CODE_PAGE_BYTES > start)
			return false;
	return true;
}

/* From the window's end, so that places behind this one reach it too; 0: nothing is free. */
static uint64_t find_page(const struct far *far, const struct target_maps *maps,
			  const struct window *w)
{
	uint64_t at = (w->last - CODE_PAGE_BYTES) & ~(STEP - 1);

	if (w->first < LOWEST + DISTANCE || w->last > HIGHEST)
		return 0;
	for (; at >= w->first; at -= STEP)
		if (is_free(far, maps, at))
			return at;
	return 0;
}

static bool take(struct far *far, const struct target_maps *maps, struct code_place *place)
{
	struct window w = window_of(place);

	for (size_t i = 0; i < CODE_FAR_PAGES; i++) {
		if (!far->pages[i])
			far->pages[i] = find_page(far, maps, &w);
		if (!far->pages[i])
			return false;
		if (take_from(far, i, &w, place))
			return true;
	}
	return false;
}

bool far_take(struct far *far, const struct target_maps *maps, struct code_place *places,
	      size_t count)
{
	struct far taken = *far;

	for (size_t i = 0; i < count; i++)
		if (places[i].length < PLACE_JUMP_BYTES && !take(&taken, maps, &places[i]))
			return false;
	*far = taken;
	return true;
}
