/* Which goroutines the runtime hides, and synthetic stacks for those without one. */
#include <string.h>

#include "base/array.h"
#include "goroutine/set.h"

enum start_kind { START_USER, START_SYSTEM, START_FINALIZERS };

/* traceback.go:isSystemGoroutine. */
static enum start_kind start_kind(const struct pclntab *functions, uint64_t pc)
{
	static const char *const users[] = {"runtime.main", "runtime.corostart",
					    "runtime.handleAsyncEvent"};
	static const char *const finalizers[] = {"runtime.runfinq", "runtime.runFinalizers",
						 "runtime.runCleanups"};
	struct go_func f;

	if (!pclntab_find(functions, pc, &f) || strncmp(f.name, "runtime.", 8))
		return START_USER;
	for (size_t i = 0; i < ARRAY_SIZE(users); i++)
		if (!strcmp(f.name, users[i]))
			return START_USER;
	for (size_t i = 0; i < ARRAY_SIZE(finalizers); i++)
		if (!strcmp(f.name, finalizers[i]))
			return START_FINALIZERS;
	return START_SYSTEM;
}

/* The runtime has a flag for "runs a finalizer now". From outside the stack shows it: a function
 * outside the runtime is on it. */
static bool runs_user_code(const struct goroutine_set *set, uint32_t id)
{
	struct stack stack = stacks_get(set->stacks, id);
	struct go_func f;

	for (uint32_t i = 0; i < stack.count; i++)
		if (!stack_pc_is_pseudo(stack.pcs[i]) &&
		    pclntab_find(&set->img->functions, stack_pc_lookup(stack.pcs[i]), &f) &&
		    strncmp(f.name, "runtime.", 8) && strcmp(f.name, "reflectcall"))
			return true;
	return false;
}

uint32_t goroutine_set_system_flag(struct goroutine_set *set, uint64_t start_pc, uint32_t stack)
{
	uint64_t *kind = map_at(&set->start_kinds, start_pc & ~STACK_PC_EXACT);

	if (!kind)
		return 0;
	if (!*kind)
		*kind = start_kind(&set->img->functions, start_pc) + 1;
	switch ((enum start_kind)(*kind - 1)) {
	case START_USER:
		return 0;
	case START_FINALIZERS:
		return runs_user_code(set, stack) ? 0 : GOROUTINE_SYSTEM;
	default:
		return GOROUTINE_SYSTEM;
	}
}

struct error *synthetic_stack(struct goroutine_set *set, enum stack_pc pseudo, uint64_t start_pc,
			      uint32_t *ret)
{
	struct map *map = pseudo == STACK_PC_RUNNING ? &set->running : &set->unknown;
	uint64_t pcs[2] = {pseudo, start_pc | STACK_PC_EXACT};
	uint64_t *stack = map_at(map, start_pc & ~STACK_PC_EXACT);
	struct error *err;

	if (!stack)
		return &error_no_memory;
	if (!*stack) {
		err = stacks_intern(set->stacks, pcs, start_pc ? 2 : 1, ret);
		if (err)
			return err;
		*stack = *ret;
	}
	*ret = *stack;
	return NULL;
}
