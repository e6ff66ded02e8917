/*
 * The stacks of those that are not as they were, each proven untorn (closely.c).
 *
 * Of many at once those that are not expected to move are read together. Who ran meanwhile, and
 * whoever is not read with many, is read closely, then alone.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "goroutine/set.h"

/* From so many on it pays to read them together. */
#define MERGE_FROM 256
#define MAX_TRIES 8
/* What the stacks of one batch have together at most, but for a single larger one. */
#define BATCH_BYTES (8u << 20)

bool candidate_has_stack(const struct candidate *c)
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

struct error *candidate_settle(struct goroutine_set *set, struct candidate *c)
{
	struct goroutine_record *record = &set->records[c->index];
	struct error *err = NULL;

	c->settled = true;
	c->now.owner_bucket = record->owner_bucket;
	c->now.owner_since = record->owner_since;
	c->now.owner_rotation = record->owner_rotation;
	c->now.owner_creator = record->owner_creator;
	if (goroutine_is_alive(&c->now))
		c->now.flags |= goroutine_set_system_flag(set, c->start_pc, c->now.stack);
	if (c->now.flags & GOROUTINE_UNKNOWN)
		set->stats.unknown++;
	set->stats.changed++;
	c->now.flags |= GOROUTINE_MOVED;
	if (set->options.changed)
		err = set->options.changed(set->options.arg, record, &c->now, c->header);
	*record = c->now;
	return err;
}

/* Of a goroutine that runs: right when it still has them afterwards. */
static struct error *read_own_labels(struct goroutine_set *set, struct candidate *c)
{
	uint64_t address = set->g[c->index] + set->lay->n.g_labels, after;
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

struct error *candidate_settle_without_stack(struct goroutine_set *set, struct candidate *c)
{
	bool runs = goroutine_status(&c->now) == G_RUNNING;
	struct error *err = NULL;

	c->now.stack = STACK_NONE;
	if (runs && set->options.registers)
		err = running_stack(set, c);
	if (!err && c->now.stack != STACK_NONE)
		c->now.flags |= GOROUTINE_ON_CPU;
	else if (!err && goroutine_is_alive(&c->now))
		err = made_stack(set, runs ? STACK_PC_RUNNING : STACK_PC_UNKNOWN, c->start_pc,
				 &c->now.stack);
	if (goroutine_is_alive(&c->now) && !runs)
		c->now.flags |= GOROUTINE_UNKNOWN;
	if (!err && runs)
		err = read_own_labels(set, c);
	return err ? err : candidate_settle(set, c);
}

size_t candidate_stack_size(const struct goroutine_set *set, const struct candidate *c)
{
	size_t size = c->stack_end - c->now.sp;

	return size < set->options.stack_limit ? size : set->options.stack_limit;
}

bool candidate_wants_labels(const struct candidate *c)
{
	return c->labels && !c->settled && c->now.stack != STACK_NONE;
}

struct error *candidates_read_labels(struct goroutine_set *set, const uint32_t *who, size_t count)
{
	_cleanup_free_ uint64_t *pointers = calloc(count, sizeof(*pointers));
	_cleanup_free_ uint32_t *ids = calloc(count, sizeof(*ids));
	struct error *err;

	if (!pointers || !ids)
		return &error_no_memory;
	for (size_t i = 0; i < count; i++)
		if (candidate_wants_labels(&set->candidates[who[i]]))
			pointers[i] = set->candidates[who[i]].labels;
	err = label_sets_read(&set->labels, set->t, pointers, count, ids);
	for (size_t i = 0; !err && i < count; i++)
		if (pointers[i])
			set->candidates[who[i]].now.labels = ids[i];
	return err;
}

bool candidates_have_labels(const struct goroutine_set *set, const uint32_t *who, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (candidate_wants_labels(&set->candidates[who[i]]))
			return true;
	return false;
}

struct error *candidate_unwind(struct goroutine_set *set, struct candidate *c, const uint8_t *bytes,
			       size_t size, size_t below)
{
	struct stack_memory memory = {
		.pc = c->now.pc,
		.sp = c->now.sp,
		.fp = parked_registers(set, c->header, &c->now).fp,
		.start_pc = c->start_pc,
		.bytes = bytes,
		.size = size,
		.below = below,
		.whole = c->now.sp + size == c->stack_end,
	};

	if (set->img->machine == MACHINE_ARM64)
		memory.lr = g_view_sched_lr(header_view(set, c->header));
	c->truncated = !memory.whole;
	set->stats.stacks++;
	return stacks_unwind(set->stacks, &memory, &c->now.stack);
}

void candidate_take_header(const struct goroutine_set *set, struct candidate *c,
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
		c->tick_address = g_view_m(g) + set->lay->n.m_syscalltick;
}

/* Reads a goroutine's header anew. False: it cannot be read. */
static bool look_again(struct goroutine_set *set, struct candidate *c)
{
	if (error_dropped(target_read(set->t, set->g[c->index], set->again, set->header_size)))
		return false;
	c->header = set->again;
	candidate_take_header(set, c, set->again);
	return true;
}

/* Its stack is not to be had. */
static struct error *give_up(struct goroutine_set *set, struct candidate *c)
{
	if (set->options.keep_state || !look_again(set, c)) {
		c->now = c->first;
		c->start_pc = c->first_start_pc;
	}
	c->now.labels = LABELS_NONE;
	return candidate_settle_without_stack(set, c);
}

/*
 * A goroutine that moved at every try so far, alone. When its state has to be kept, only a stack of
 * that state counts: it would be counted too little in the states that it is rarely seen in.
 */
static struct error *try_alone(struct goroutine_set *set, uint32_t who)
{
	struct candidate *c = &set->candidates[who];

	for (int i = 0; i < MAX_TRIES; i++) {
		uint32_t one = who;
		struct error *err;
		size_t left;

		if (!candidate_has_stack(c) && !look_again(set, c))
			break;
		if (candidate_is_right(set, c) &&
		    (!goroutine_is_alive(&c->now) || goroutine_status(&c->now) == G_RUNNING))
			return candidate_settle_without_stack(set, c);
		if (!candidate_has_stack(c))
			continue;
		err = try_closely(set, &one, 1, &left);
		if (err || !left)
			return err;
	}
	return give_up(set, c);
}

/* How many of `who` make the next batch. */
static size_t batch_length(const struct goroutine_set *set, const uint32_t *who, size_t count,
			   size_t most)
{
	size_t n = 0, bytes = 0;

	while (n < count && n < most && (!n || bytes < BATCH_BYTES))
		bytes += candidate_stack_size(set, &set->candidates[who[n++]]);
	return n;
}

static struct error *try_in_batches(struct goroutine_set *set, uint32_t *who, size_t count,
				    struct error *(*try)(struct goroutine_set *, uint32_t *, size_t,
							 size_t *),
				    size_t *ret_left)
{
	size_t left = 0, n, moved;

	for (size_t i = 0; i < count; i += n) {
		struct error *err;

		n = batch_length(set, who + i, count - i,
				 try == try_together ? together_count(set) : CLOSE_BATCH);
		err = try(set, who + i, n, &moved);
		if (err)
			return err;
		memmove(who + left, who + i, moved * sizeof(*who));
		left += moved;
	}
	*ret_left = left;
	return NULL;
}

/* Moves to the front of `who` those that may be read with many others; gives how many. */
static size_t part_patient(const struct goroutine_set *set, uint32_t *who, size_t count)
{
	size_t n = 0;

	for (size_t i = 0; i < count; i++) {
		const struct candidate *c = &set->candidates[who[i]];
		uint32_t swap = who[i];

		if (c->late || record_is_coroutine(set, &c->now) ||
		    g_view_m(header_view(set, c->header)))
			continue;
		who[i] = who[n];
		who[n++] = swap;
	}
	return n;
}

static struct error *try_many(struct goroutine_set *set, uint32_t *who, size_t *count)
{
	size_t patient = part_patient(set, who, *count), left = patient;
	struct error *err = NULL;

	if (patient >= MERGE_FROM)
		err = try_in_batches(set, who, patient, try_together, &left);
	memmove(who + left, who + patient, (*count - patient) * sizeof(*who));
	*count -= patient - left;
	return err;
}

struct error *candidates_settle(struct goroutine_set *set)
{
	_cleanup_free_ uint32_t *who = malloc((set->candidate_count + 1) * sizeof(*who));
	size_t count = 0;
	struct error *err = NULL;

	if (!who)
		return &error_no_memory;
	for (size_t i = 0; !err && i < set->candidate_count; i++) {
		struct candidate *c = &set->candidates[i];

		if (c->late || candidate_has_stack(c))
			who[count++] = i;
		else if (!goroutine_is_alive(&c->now) || goroutine_status(&c->now) == G_RUNNING)
			err = candidate_settle_without_stack(set, c);
	}
	if (!err && count >= MERGE_FROM)
		err = try_many(set, who, &count);
	if (!err && count)
		err = try_in_batches(set, who, count, try_closely, &count);
	for (size_t i = 0; !err && i < set->candidate_count; i++)
		if (!set->candidates[i].settled)
			err = try_alone(set, i);
	return err;
}
