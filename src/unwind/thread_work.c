#include "unwind/thread_work.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

static bool is_among(const char *name, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

static bool holds(const struct pclntab *functions, const struct stack *stack,
		  const char *const *names, size_t count)
{
	struct go_func f;

	for (uint32_t i = 0; i < stack->count; i++)
		if (!stack_pc_is_pseudo(stack->pcs[i]) &&
		    pclntab_find(functions, stack_pc_lookup(stack->pcs[i]), &f) &&
		    is_among(f.name, names, count))
			return true;
	return false;
}

static bool is_in_go(const struct pclntab *functions, const struct stack *stack)
{
	struct go_func f;

	for (uint32_t i = 0; i < stack->count; i++)
		if (!stack_pc_is_pseudo(stack->pcs[i]) &&
		    pclntab_find(functions, stack_pc_lookup(stack->pcs[i]), &f))
			return true;
	return false;
}

enum stack_pc work_of_thread(const struct pclntab *functions, const struct stack *stack)
{
	/* Looking for a goroutine to run, and going to sleep for want of one: runtime/proc.go. */
	static const char *const idle[] = {"runtime.findRunnable", "runtime.findrunnable",
					   "runtime.stopm", "runtime.sysmon"};

	if (!is_in_go(functions, stack))
		return STACK_PC_OUTSIDE;
	return holds(functions, stack, idle, ARRAY_SIZE(idle)) ? STACK_PC_IDLE : STACK_PC_SCHEDULER;
}

enum stack_pc work_of_goroutine(const struct pclntab *functions, const struct stack *stack)
{
	static const char *const collectors[] = {"runtime.gcBgMarkWorker", "runtime.bgsweep",
						 "runtime.bgscavenge", "runtime.forcegchelper"};

	return holds(functions, stack, collectors, ARRAY_SIZE(collectors)) ? STACK_PC_GC
									   : STACK_PC_RUNTIME;
}

struct error *work_mark(struct stacks *stacks, uint32_t stack, enum stack_pc root, uint32_t *ret)
{
	struct stack s = stacks_get(stacks, stack);
	_cleanup_free_ uint64_t *words = calloc((size_t)s.count + 1, sizeof(*words));

	if (!words)
		return &error_no_memory;
	if (s.count)
		memcpy(words, s.pcs, s.count * sizeof(*words));
	words[s.count] = root;
	return stacks_intern(stacks, words, (size_t)s.count + 1, ret);
}
