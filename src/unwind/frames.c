#include "unwind/frames.h"

#include <stdlib.h>

#include "base/array.h"
#include "unwind/walk.h"

static struct error *walk(struct steps *steps, enum machine machine, enum unwind_method method,
			  const struct stack_memory *m, struct frames *ret)
{
	walk_step *step = walk_step_for(machine, method);
	enum walk_result result = WALK_NEXT;
	struct walk w = walk_begin(m, method);

	while (result == WALK_NEXT) {
		struct frame f = {.sp = m->sp + w.at};

		result = walk_frame(&w, steps, step, ret->count, &f.word);
		if (result == WALK_TORN)
			break;
		if (result == WALK_NO_MEMORY ||
		    !array_reserve(&ret->items, &ret->capacity, ret->count + 1))
			return &error_no_memory;
		if (result == WALK_NEXT) {
			f.cfa = m->sp + w.cfa;
			f.return_at = w.ret_at == WALK_IN_REGISTER ? 0 : m->sp + w.ret_at;
		}
		ret->items[ret->count++] = f;
	}
	ret->end = result == WALK_LAST  ? FRAMES_WHOLE
		   : result == WALK_CUT ? FRAMES_CUT
					: FRAMES_TORN;
	return NULL;
}

struct error *frames_unwind_by(const struct unwinding *by, const struct pclntab *functions,
			       enum machine machine, const struct stack_memory *memory,
			       struct frames *ret)
{
	struct steps steps = {.functions = functions, .frames = by->frames};
	struct error *err = walk(&steps, machine, by->method, memory, ret);

	free(steps.slots);
	return err;
}

struct error *frames_unwind(const struct pclntab *functions, enum machine machine,
			    const struct stack_memory *memory, struct frames *ret)
{
	return frames_unwind_by(&(struct unwinding){0}, functions, machine, memory, ret);
}

void frames_release(struct frames *frames)
{
	free(frames->items);
	*frames = (struct frames){0};
}
