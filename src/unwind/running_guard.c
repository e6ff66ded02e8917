/* Whether memory that was read after the sample may be believed. */
#include <string.h>

#include "unwind/running_walk.h"

#define OVERLAP 512

void running_guard(struct running_walk *w, bool has_record)
{
	w->guard = w->next_guard;
	w->guard_sp = w->next_guard_sp;
	w->guard_n = w->n;
	w->guard_record = has_record;
	w->guard_chain = chain_place(w, running_fp(w));
	w->result.used_memory = true;
}

/* Compares the outermost captured bytes: they change first when the stack is left and used again.
 */
static bool bytes_are_same(struct running_walk *w)
{
	size_t size = w->in->size < OVERLAP ? w->in->size : OVERLAP, from = w->in->size - size;
	uint8_t now[OVERLAP];

	return size && w->source->read &&
	       w->source->read(w->source->arg, w->sp0 + from, now, size) &&
	       !memcmp(now, w->in->bytes + from, size);
}

/* With a copy: it is at the same place, has not run since, and the copied bytes are still there. */
static bool is_as_in_the_sample(const struct running_walk *w, const struct goroutine_place *now)
{
	const struct sampled_goroutine *m = w->in->sampled;
	uint8_t bytes[WINDOW_SIZE];

	if (!m || m->g != w->result.g)
		return true;
	return now->stack_lo == m->place.stack_lo && now->stack_hi == m->place.stack_hi &&
	       now->sp == m->place.sp && now->pc == m->place.pc && now->ran == m->place.ran &&
	       m->size <= sizeof(bytes) && w->source->read &&
	       w->source->read(w->source->arg, m->place.sp, bytes, m->size) &&
	       !memcmp(bytes, m->bytes, m->size);
}

static bool is_still_parked(struct running_walk *w, uint64_t sp)
{
	struct goroutine_place now;

	return w->result.g && w->source->goroutine(w->source->arg, w->result.g, &now) &&
	       now.sp == sp && is_as_in_the_sample(w, &now);
}

static bool holds(struct running_walk *w, enum guard guard, uint64_t guard_sp)
{
	uint64_t sp;

	switch (guard) {
	case GUARD_UNSET:
		return true;
	case GUARD_NOTHING:
		return chain_proves(w);
	case GUARD_SAME_BYTES:
		return bytes_are_same(w) && chain_agrees(w);
	case GUARD_PARKED:
		return is_still_parked(w, guard_sp) && chain_agrees(w);
	case GUARD_THREAD:
		return w->source->thread_sp(w->source->arg, &sp) && sp == guard_sp;
	}
	return false;
}

bool running_guard_holds(struct running_walk *w)
{
	return holds(w, w->guard, w->guard_sp) && holds(w, w->beyond, w->beyond_sp);
}
