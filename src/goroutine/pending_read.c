/* A goroutine that changed, from its header to its new record. */
#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "goroutine/set.h"

/* A goroutine that runs may change its labels without leaving a trace in the header. */
bool record_unchanged(const struct goroutine_set *set, const struct goroutine_record *before,
		      const struct goroutine_record *now)
{
	return record_same(before, now) && !record_needs_tick(set, now) &&
	       !record_is_coroutine(set, now) && goroutine_status(now) != G_RUNNING &&
	       goroutine_status(now) != G_COPYSTACK && !(before->flags & GOROUTINE_UNKNOWN);
}

bool pending_read_has_stack(const struct pending_read *c)
{
	switch (goroutine_status(&c->now)) {
	case G_RUNNABLE:
	case G_SYSCALL:
	case G_WAITING:
	case G_PREEMPTED:
	case G_LEAKED:
		return c->now.sp && c->now.sp < c->stack_end && !(c->now.sp & 7);
	default:
		return false;
	}
}

static struct stack_memory memory_of(const struct goroutine_set *set, const struct pending_read *c)
{
	struct stack_memory memory = {
		.pc = c->now.pc,
		.sp = c->now.sp,
		.fp = parked_registers(set, c->header, &c->now).fp,
		.start_pc = c->start_pc,
		.bytes = c->stack,
		.size = c->stack_size,
		.below = c->stack_below,
		.whole = c->now.sp + c->stack_size == c->stack_end,
	};

	if (set->img->machine == MACHINE_ARM64)
		memory.lr = g_view_sched_lr(header_view(set, c->header));
	return memory;
}

const struct goroutine_memory *goroutine_set_memory(const struct goroutine_set *set)
{
	return &set->memory;
}

struct error *pending_read_commit(struct goroutine_set *set, struct pending_read *c)
{
	struct goroutine_record *record = &set->records[c->index];
	struct error *err = NULL;

	c->committed = true;
	c->now.owner_bucket = record->owner_bucket;
	c->now.owner_since = record->owner_since;
	c->now.owner_pass = record->owner_pass;
	c->now.owner_creator = record->owner_creator;
	if (goroutine_is_alive(&c->now))
		c->now.flags |= goroutine_set_system_flag(set, c->start_pc, c->now.stack);
	if (c->now.flags & GOROUTINE_UNKNOWN)
		set->stats.unknown++;
	set->stats.changed++;
	c->now.flags |= GOROUTINE_MOVED;
	if (c->stack)
		set->memory = (struct goroutine_memory){.memory = memory_of(set, c)};
	if (set->options.changed)
		err = set->options.changed(set->options.arg, record, &c->now, c->header);
	set->memory = (struct goroutine_memory){0};
	*record = c->now;
	return err;
}

/* The labels of a running goroutine: valid if it still has them after the read. */
static struct error *read_own_labels(struct goroutine_set *set, struct pending_read *c)
{
	uint64_t address = g_at_labels(&set->lay->n, set->g[c->index]), after;
	struct error *err;

	c->now.labels = LABELS_NONE;
	if (!c->labels)
		return NULL;
	err = label_sets_read(&set->labels, set->t, &c->labels, 1, &c->now.labels);
	if (!err && (error_dropped(target_read_u64(set->t, address, &after)) || after != c->labels))
		c->now.labels = LABELS_NONE;
	if (c->now.labels == LABELS_TORN)
		c->now.labels = LABELS_NONE;
	return err;
}

struct error *pending_read_commit_without_stack(struct goroutine_set *set, struct pending_read *c)
{
	bool runs = goroutine_status(&c->now) == G_RUNNING;
	struct error *err = NULL;

	c->now.stack = STACK_NONE;
	c->stack = NULL;
	if (runs && set->options.registers)
		err = running_stack(set, c);
	if (!err && c->now.stack != STACK_NONE)
		c->now.flags |= GOROUTINE_ON_CPU;
	else if (!err && goroutine_is_alive(&c->now))
		err = synthetic_stack(set, runs ? STACK_PC_RUNNING : STACK_PC_UNKNOWN, c->start_pc,
				      &c->now.stack);
	if (goroutine_is_alive(&c->now) && !runs)
		c->now.flags |= GOROUTINE_UNKNOWN;
	if (!err && runs)
		err = read_own_labels(set, c);
	return err ? err : pending_read_commit(set, c);
}

size_t pending_read_stack_size(const struct goroutine_set *set, const struct pending_read *c)
{
	size_t size = c->stack_end - c->now.sp;

	return size < set->options.stack_limit ? size : set->options.stack_limit;
}

bool pending_read_wants_labels(const struct pending_read *c)
{
	return c->labels && !c->committed && c->now.stack != STACK_NONE;
}

struct error *pending_reads_read_labels(struct goroutine_set *set, const uint32_t *who,
					size_t count)
{
	_cleanup_free_ uint64_t *pointers = calloc(count, sizeof(*pointers));
	_cleanup_free_ uint32_t *ids = calloc(count, sizeof(*ids));
	struct error *err;

	if (!pointers || !ids)
		return &error_no_memory;
	for (size_t i = 0; i < count; i++)
		if (pending_read_wants_labels(&set->pending_reads[who[i]]))
			pointers[i] = set->pending_reads[who[i]].labels;
	err = label_sets_read(&set->labels, set->t, pointers, count, ids);
	for (size_t i = 0; !err && i < count; i++)
		if (pointers[i])
			set->pending_reads[who[i]].now.labels = ids[i];
	return err;
}

bool pending_reads_have_labels(const struct goroutine_set *set, const uint32_t *who, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (pending_read_wants_labels(&set->pending_reads[who[i]]))
			return true;
	return false;
}

struct error *pending_read_unwind(struct goroutine_set *set, struct pending_read *c,
				  const uint8_t *bytes, size_t size, size_t below)
{
	struct stack_memory memory;

	c->stack = bytes;
	c->stack_size = size;
	c->stack_below = below;
	memory = memory_of(set, c);
	c->truncated = !memory.whole;
	set->stats.stacks++;
	return stacks_unwind(set->stacks, &memory, &c->now.stack);
}

void pending_read_take_header(const struct goroutine_set *set, struct pending_read *c,
			      const uint8_t *header)
{
	struct g_view g = header_view(set, header);

	c->now = record_of(set, header);
	c->stack_end = g_view_stack_hi(g);
	c->labels = g_view_labels(g);
	c->start_pc = g_view_startpc(g);
	c->has_m = g_view_m(g) != 0;
	c->tick_address = 0;
	if (record_needs_tick(set, &c->now) && c->has_m)
		c->tick_address = m_at_syscalltick(&set->lay->n, g_view_m(g));
}
