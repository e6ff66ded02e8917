#include "lib/stack.h"

/* The frames stand behind the pointers to them. */
struct gospect_stack *stack_create(struct arena *arena, size_t count)
{
	const struct gospect_frame **pointers;
	struct gospect_stack *stack;
	struct gospect_frame *frames;

	stack = given_take(arena, sizeof(*stack) + count * (sizeof(*pointers) + sizeof(*frames)));
	if (!stack)
		return NULL;
	pointers = (const struct gospect_frame **)(stack + 1);
	frames = (struct gospect_frame *)(pointers + count);
	for (size_t i = 0; i < count; i++)
		pointers[i] = &frames[i];
	stack->count = count;
	stack->frames = pointers;
	return stack;
}

struct gospect_frame *stack_frame(struct gospect_stack *stack, size_t i)
{
	return (struct gospect_frame *)stack->frames[i];
}

const struct gospect_label *labels_of(struct arena *arena, const struct label_sets *sets,
				      uint32_t id, uint32_t *ret_count)
{
	struct label_set set = label_sets_get(sets, id);
	struct gospect_label *labels = given_take(arena, (set.count + 1) * sizeof(*labels));

	for (uint32_t i = 0; labels && i < set.count; i++) {
		labels[i].key = intern_get(&sets->strings, set.labels[i].key);
		labels[i].value = intern_get(&sets->strings, set.labels[i].value);
	}
	*ret_count = set.count;
	return labels;
}
