/* Words of stacks: those of the sample, and those read later. */
#include <string.h>

#include "unwind/running_walk.h"

/* NULL: not among the bytes copied at the sample. */
static const uint8_t *captured(const struct running_walk *w, uint64_t address)
{
	const struct sampled_goroutine *m = w->in->sampled;

	if (address >= w->sp0 && address - w->sp0 < w->in->size &&
	    w->in->size - (address - w->sp0) >= 8)
		return w->in->bytes + (address - w->sp0);
	if (m && address >= m->place.sp && address - m->place.sp < m->size &&
	    m->size - (address - m->place.sp) >= 8)
		return m->bytes + (address - m->place.sp);
	return NULL;
}

bool running_is_captured(const struct running_walk *w, uint64_t address)
{
	return captured(w, address) != NULL;
}

bool running_place_of(const struct running_walk *w, uint64_t g, struct goroutine_place *ret)
{
	if (!w->in->sampled || w->in->sampled->g != g)
		return w->source->goroutine(w->source->arg, g, ret);
	*ret = w->in->sampled->place;
	return true;
}

/* The rest of the page, so that one read serves many words and never fails half-way. */
static bool read_window(struct running_walk *w, uint64_t address)
{
	size_t size = WINDOW_SIZE - address % WINDOW_SIZE;

	if (!w->source->read || !w->source->read(w->source->arg, address, w->window, size)) {
		w->window_size = 0;
		return false;
	}
	w->window_at = address;
	w->window_size = size;
	return true;
}

bool running_word(void *walk, uint64_t address, uint64_t *ret)
{
	struct running_walk *w = walk;
	const uint8_t *copied = captured(w, address);

	if (address & 7)
		return false;
	if (copied) {
		memcpy(ret, copied, sizeof(*ret));
		return true;
	}
	if (w->guard == GUARD_UNSET)
		return false;
	if ((address < w->window_at || address - w->window_at >= w->window_size) &&
	    !read_window(w, address))
		return false;
	memcpy(ret, w->window + (address - w->window_at), sizeof(*ret));
	return true;
}
