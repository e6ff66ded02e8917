#include "unwind/steps.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/map.h"
#include "unwind/switches.h"

/* A hostile target could show us any number of pcs: past this many the cache begins again. */
#define MAX_STEPS (1u << 20)

/* Source: runtime/traceback.go, (*unwinder).next. */
static bool is_injected(const char *name)
{
	static const char *const names[] = {"runtime.sigpanic", "runtime.asyncPreempt",
					    "runtime.debugCallV2"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

static int32_t delta_of(const struct steps *steps, const struct go_func *f, uint64_t pc)
{
	int32_t delta;

	if (!steps->frames)
		return pclntab_sp_delta(f, pc);
	return debug_frame_sp_delta(steps->frames, pc, &delta) ? delta : -1;
}

static struct step step_of(const struct steps *steps, uint64_t pc)
{
	struct step step = {.pc = pc};
	struct go_func f;
	int32_t delta;

	step.flags = pclntab_is_code(steps->functions, pc) ? STEP_GO : 0;
	if (!pclntab_find(steps->functions, pc, &f))
		return step;
	delta = delta_of(steps, &f, pc);
	step.flags |= f.flags & FUNC_TOPFRAME ? STEP_TOP : 0;
	/* cgocallback takes care that its frame is right on both stacks: resolveInternal. */
	if (f.flags & FUNC_SPWRITE && strcmp(f.name, "runtime.cgocallback"))
		step.flags |= STEP_SPWRITE;
	step.flags |= pc == f.entry ? STEP_ENTRY : 0;
	step.flags |= is_injected(f.name) ? STEP_INJECTED : 0;
	if (delta < 0 && steps->frames)
		step.flags |= STEP_BLIND;
	if (delta >= 0 || step.flags & (STEP_TOP | STEP_BLIND))
		step.flags |= STEP_KNOWN;
	step.delta = delta < 0 ? 0 : delta;
	step.stack_switch = switch_of(f.name);
	return step;
}

static struct step *slot_of(const struct steps *steps, uint64_t pc)
{
	size_t i = hash_u64(pc) & (steps->capacity - 1);

	while (steps->slots[i].pc != pc && steps->slots[i].pc)
		i = (i + 1) & (steps->capacity - 1);
	return &steps->slots[i];
}

static bool grow(struct steps *steps)
{
	struct steps bigger = *steps;

	bigger.capacity = steps->capacity ? steps->capacity * 2 : 8192;
	if (bigger.capacity > MAX_STEPS) {
		memset(steps->slots, 0, steps->capacity * sizeof(*steps->slots));
		steps->count = 0;
		return true;
	}
	bigger.slots = calloc(bigger.capacity, sizeof(*bigger.slots));
	if (!bigger.slots)
		return false;
	for (size_t i = 0; i < steps->capacity; i++)
		if (steps->slots[i].pc)
			*slot_of(&bigger, steps->slots[i].pc) = steps->slots[i];
	free(steps->slots);
	*steps = bigger;
	return true;
}

const struct step *steps_at(struct steps *steps, uint64_t pc)
{
	static const struct step nowhere;
	struct step *slot;

	if (!pc)
		return &nowhere;
	if (steps->count >= steps->capacity / 2 && !grow(steps))
		return NULL;
	slot = slot_of(steps, pc);
	if (!slot->pc) {
		*slot = step_of(steps, pc);
		steps->count++;
	}
	return slot;
}
