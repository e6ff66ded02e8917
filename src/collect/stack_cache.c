#include "collect/stack_cache.h"

size_t stack_cache_read(const struct stack_cache *c, uint64_t number,
			uint64_t ret[STACK_CACHE_WORDS])
{
	const uint8_t *base = (const uint8_t *)c->shared;
	const struct agent_stack *table = (const void *)(base + c->layout->table_offset);
	const uint64_t *arena = (const void *)(base + c->layout->arena_offset);
	uint64_t offset, count;

	if (!number || number > AGENT_TABLE_SLOTS)
		return 0;
	offset = __atomic_load_n(&table[number - 1].offset, __ATOMIC_ACQUIRE);
	if (!offset || offset > c->layout->arena_words)
		return 0;
	count = __atomic_load_n(&arena[offset - 1], __ATOMIC_RELAXED);
	if (count > STACK_CACHE_WORDS || count > c->layout->arena_words - offset)
		return 0;
	for (uint64_t i = 0; i < count; i++)
		ret[i] = __atomic_load_n(&arena[offset + i], __ATOMIC_RELAXED);
	return count;
}
