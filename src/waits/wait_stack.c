/* A copy of the memory of one goroutine's stack. */
#include <stdlib.h>
#include <string.h>

#include "waits/room.h"

bool wait_stack_word(const struct wait_stack *s, uint64_t address, uint64_t *ret)
{
	if (address < s->sp || s->size < sizeof(*ret) || address - s->sp > s->size - sizeof(*ret))
		return false;
	memcpy(ret, s->bytes + (address - s->sp), sizeof(*ret));
	return true;
}

/* arm64's innermost frame record lies below SP. */
static size_t below(const struct wait_graph *w, uint64_t sp)
{
	return w->img->machine == MACHINE_ARM64 && sp % 4096 >= 16 ? 16 : 0;
}

struct error *wait_stack_read(const struct wait_graph *w, const struct wait_goroutine *g,
			      size_t limit, struct wait_stack *ret, bool *ret_ok)
{
	size_t before = below(w, g->sp), size;
	struct stack_memory memory = {.pc = g->pc, .sp = g->sp, .fp = g->fp, .lr = g->lr};
	struct error *err;

	*ret_ok = false;
	*ret = (struct wait_stack){0};
	if (!g->has_stack || g->sp >= g->stack_hi || g->sp < 4096 || g->sp & 7)
		return NULL;
	size = g->stack_hi - g->sp < limit ? g->stack_hi - g->sp : limit;
	ret->bytes = malloc(before + size);
	if (!ret->bytes)
		return &error_no_memory;
	err = target_read(w->t, g->sp - before, ret->bytes, before + size);
	if (err && err->code != ERROR_FAULT)
		return err;
	if (error_dropped(err))
		return NULL;
	memory.bytes = ret->bytes + before;
	memory.below = before;
	memory.size = size;
	memory.whole = size == g->stack_hi - g->sp;
	err = frames_unwind(&w->img->functions, w->img->machine, &memory, &ret->frames);
	memmove(ret->bytes, ret->bytes + before, size);
	ret->sp = g->sp;
	ret->size = size;
	*ret_ok = !err;
	return err;
}

void wait_stack_release(struct wait_stack *s)
{
	frames_release(&s->frames);
	free(s->bytes);
	*s = (struct wait_stack){0};
}
