/*
 * The stacks of those that are not as they were, each proven untorn.
 *
 * Many at once are read in address order, neighbours merged; their headers again afterwards. Who
 * ran meanwhile is tried again in small batches (80 us), then alone. What is read in one call is
 * read in the order of its ranges: first m.syscalltick, then the stack, then the header and the
 * tick again.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "goroutine/set.h"

/* From so many on it pays to read in address order. */
#define MERGE_FROM 256
#define LARGE_BATCH 512
#define SMALL_BATCH 64
#define MAX_TRIES 8
/* What the stacks of one batch have together at most, but for a single larger one. */
#define BATCH_BYTES (8u << 20)

static bool has_stack(const struct candidate *c)
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

/* Ends a candidate's way: its record is what c->now says. */
static struct error *settle(struct goroutine_set *set, struct candidate *c)
{
	struct goroutine_record *record = &set->records[c->index];
	struct error *err = NULL;

	c->settled = true;
	c->now.owner_bucket = record->owner_bucket;
	c->now.owner_since = record->owner_since;
	c->now.owner_rotation = record->owner_rotation;
	if (goroutine_is_alive(&c->now))
		c->now.flags |= goroutine_set_system_flag(set, c->start_pc, c->now.stack);
	if (c->now.flags & GOROUTINE_UNKNOWN)
		set->stats.unknown++;
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

/* Who runs, or is just getting another stack, shows none; and neither do the dead. */
static struct error *settle_without_stack(struct goroutine_set *set, struct candidate *c)
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
	return err ? err : settle(set, c);
}

static int compare_sp(const void *a, const void *b, void *arg)
{
	const struct candidate *candidates = arg;
	uint64_t x = candidates[*(const uint32_t *)a].now.sp;
	uint64_t y = candidates[*(const uint32_t *)b].now.sp;

	return (x > y) - (x < y);
}

static size_t stack_size(const struct goroutine_set *set, const struct candidate *c)
{
	size_t size = c->stack_end - c->now.sp;

	return size < set->options.stack_limit ? size : set->options.stack_limit;
}

/* The order in which a batch's stacks are read; its headers are in address order as they come. */
static bool order_batch(struct goroutine_set *set, const uint32_t *who, size_t count)
{
	if (!array_reserve(&set->order, &set->order_capacity, count))
		return false;
	memcpy(set->order, who, count * sizeof(*who));
	qsort_r(set->order, count, sizeof(*set->order), compare_sp, set->candidates);
	return true;
}

/*
 * A batch's pieces: [ticks][stacks by address][headers][ticks], `count` of each in who's order but
 * for the stacks, which are in set->order's.
 */
enum part { PART_TICK, PART_STACK, PART_HEADER, PART_TICK_AGAIN, PARTS };

static void fill_part(struct goroutine_set *set, const uint32_t *who, size_t count, enum part part,
		      struct plan_piece *pieces)
{
	for (size_t i = 0; i < count; i++) {
		const struct candidate *c =
			&set->candidates[part == PART_STACK ? set->order[i] : who[i]];

		if (part == PART_STACK)
			pieces[i] = (struct plan_piece){c->now.sp, stack_size(set, c), 0};
		else if (part == PART_HEADER)
			pieces[i] = (struct plan_piece){set->g[c->index], set->header_size, 0};
		else
			pieces[i] = (struct plan_piece){c->tick_address, 4, 0};
	}
}

/* Ticks are few and scattered: each is a range of its own, and only for those that need it. */
static bool add_ticks(struct goroutine_set *set, struct plan_piece *pieces, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (pieces[i].address && !plan_add(&set->batch, &pieces[i], 1))
			return false;
	return true;
}

/* Plans the parts `from` to `to` of a batch. */
static bool plan_parts(struct goroutine_set *set, const uint32_t *who, size_t count, enum part from,
		       enum part to)
{
	for (enum part part = from; part <= to; part++) {
		struct plan_piece *pieces = set->batch_pieces + part * count;
		bool is_tick = part == PART_TICK || part == PART_TICK_AGAIN;

		fill_part(set, who, count, part, pieces);
		if (!(is_tick ? add_ticks(set, pieces, count)
			      : plan_add(&set->batch, pieces, count)))
			return false;
	}
	return true;
}

static struct error *read_batch(struct goroutine_set *set, size_t from, size_t *ret_end)
{
	struct plan rest = set->batch;
	size_t done, skip = 0, bytes = 0;
	struct error *err;

	while (skip < rest.count && bytes < from)
		bytes += rest.ranges[skip++].size;
	rest.ranges += skip;
	rest.count -= skip;
	if (!array_reserve(&set->batch_bytes, &set->batch_capacity, set->batch.bytes))
		return &error_no_memory;
	err = plan_read(&rest, set->t, set->batch_bytes + from, &done);
	*ret_end = from + done;
	return err;
}

/* The labels of the batch's goroutines, between their stacks and their headers. */
static struct error *read_labels(struct goroutine_set *set, const uint32_t *who, size_t count)
{
	_cleanup_free_ uint64_t *pointers = malloc(count * sizeof(*pointers));
	_cleanup_free_ uint32_t *ids = malloc(count * sizeof(*ids));
	struct error *err;

	if (!pointers || !ids)
		return &error_no_memory;
	for (size_t i = 0; i < count; i++)
		pointers[i] = set->candidates[who[i]].labels;
	err = label_sets_read(&set->labels, set->t, pointers, count, ids);
	for (size_t i = 0; !err && i < count; i++)
		set->candidates[who[i]].now.labels = ids[i];
	return err;
}

static bool any_labels(const struct goroutine_set *set, const uint32_t *who, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (set->candidates[who[i]].labels)
			return true;
	return false;
}

/* Reads all parts; what lies behind *ret_end in the buffer was not read. When it is 0, nothing is
 * there, and not all parts have a place. */
static struct error *read_parts(struct goroutine_set *set, const uint32_t *who, size_t count,
				size_t *ret_end)
{
	bool labels = any_labels(set, who, count);
	struct error *err;
	size_t middle;

	plan_reset(&set->batch);
	if (!array_reserve(&set->batch_pieces, &set->batch_piece_capacity, PARTS * count) ||
	    !order_batch(set, who, count) ||
	    !plan_parts(set, who, count, PART_TICK, labels ? PART_STACK : PART_TICK_AGAIN))
		return &error_no_memory;
	err = read_batch(set, 0, ret_end);
	if (err || !labels)
		return err;
	middle = set->batch.bytes;
	if (*ret_end < middle) {
		*ret_end = 0;
		return NULL;
	}
	err = read_labels(set, who, count);
	if (err)
		return err;
	if (!plan_parts(set, who, count, PART_HEADER, PART_TICK_AGAIN))
		return &error_no_memory;
	return read_batch(set, middle, ret_end);
}

static const uint8_t *part_bytes(const struct goroutine_set *set, enum part part, size_t count,
				 size_t i, size_t end)
{
	const struct plan_piece *p = &set->batch_pieces[part * count + i];

	return (size_t)p->offset + p->size <= end ? set->batch_bytes + p->offset : NULL;
}

/* Whether the goroutine did not run from its first header to the one read behind its stack. */
static bool stood_still(struct goroutine_set *set, struct candidate *c, size_t count, size_t i,
			size_t end)
{
	const uint8_t *again = part_bytes(set, PART_HEADER, count, i, end);
	struct goroutine_record record;

	if (!again || c->now.labels == LABELS_TORN)
		return false;
	record = record_of(set, again);
	if (!record_same(&record, &c->now) ||
	    header_u64(again, set->lay->n.g_stack_hi) != c->stack_end ||
	    header_u64(again, set->lay->n.g_labels) != c->labels)
		return false;
	if (c->tick_address) {
		const uint8_t *before = part_bytes(set, PART_TICK, count, i, end);
		const uint8_t *after = part_bytes(set, PART_TICK_AGAIN, count, i, end);

		if (!before || !after || memcmp(before, after, 4))
			return false;
		memcpy(&c->now.tick, after, 4);
	}
	return true;
}

static struct error *unwind(struct goroutine_set *set, struct candidate *c, const uint8_t *bytes,
			    size_t size)
{
	struct stack_memory memory = {
		.pc = c->now.pc,
		.sp = c->now.sp,
		.start_pc = c->start_pc,
		.bytes = bytes,
		.size = size,
		.whole = c->now.sp + size == c->stack_end,
	};

	if (set->img->machine == MACHINE_ARM64)
		memory.lr = header_u64(c->header, set->lay->n.g_sched_lr);
	c->truncated = !memory.whole;
	set->stats.stacks++;
	return stacks_unwind(set->stacks, &memory, &c->now.stack);
}

/*
 * Tries to settle a batch. Those that moved stay unsettled and are packed to the front of `who`;
 * *ret_left is how many.
 */
static struct error *try_batch(struct goroutine_set *set, uint32_t *who, size_t count,
			       size_t *ret_left)
{
	size_t end, left = 0;
	struct error *err = read_parts(set, who, count, &end);

	if (err)
		return err;
	for (size_t k = 0; k < count; k++) {
		struct candidate *c = &set->candidates[set->order[k]];
		const uint8_t *bytes =
			end ? part_bytes(set, PART_STACK, count, k, end) : NULL;

		c->now.stack = STACK_NONE;
		if (bytes)
			err = unwind(set, c, bytes, stack_size(set, c));
		if (err)
			return err;
	}
	for (size_t i = 0; i < count; i++) {
		struct candidate *c = &set->candidates[who[i]];

		if (end && stood_still(set, c, count, i, end) && c->now.stack != STACK_NONE) {
			set->stats.truncated += c->truncated;
			err = settle(set, c);
		} else {
			set->stats.torn++;
			who[left++] = who[i];
		}
		if (err)
			return err;
	}
	*ret_left = left;
	return NULL;
}

/* Reads a goroutine's header anew. False: it cannot be read. */
static bool look_again(struct goroutine_set *set, struct candidate *c)
{
	const struct golayout_numbers *n = &set->lay->n;

	if (error_dropped(target_read(set->t, set->g[c->index], set->again, set->header_size)))
		return false;
	c->header = set->again;
	c->now = record_of(set, set->again);
	c->stack_end = header_u64(set->again, n->g_stack_hi);
	c->labels = header_u64(set->again, n->g_labels);
	c->start_pc = header_u64(set->again, n->g_startpc);
	c->tick_address = 0;
	if (set->lay->minor >= 26 && goroutine_status(&c->now) == G_SYSCALL &&
	    header_u64(set->again, n->g_m))
		c->tick_address = header_u64(set->again, n->g_m) + n->m_syscalltick;
	return true;
}

static bool same_state(const struct goroutine_record *a, const struct goroutine_record *b)
{
	return a->goid == b->goid && goroutine_status(a) == goroutine_status(b) &&
	       goroutine_wait_reason(a) == goroutine_wait_reason(b);
}

/*
 * A goroutine that moved at every try so far, alone. When its state has to be kept, only a stack of
 * that state counts: it would be counted too little in the states that it is rarely seen in.
 */
static struct error *try_alone(struct goroutine_set *set, uint32_t who)
{
	struct candidate *c = &set->candidates[who];
	struct goroutine_record first = c->now;
	uint64_t start_pc = c->start_pc;

	for (int i = 0; i < MAX_TRIES && look_again(set, c); i++) {
		bool right = !set->options.keep_state || same_state(&c->now, &first);
		uint32_t one = who;
		struct error *err;
		size_t left;

		if (right &&
		    (!goroutine_is_alive(&c->now) || goroutine_status(&c->now) == G_RUNNING))
			return settle_without_stack(set, c);
		if (!right || !has_stack(c))
			continue;
		err = try_batch(set, &one, 1, &left);
		if (err || !left)
			return err;
	}
	if (set->options.keep_state) {
		c->now = first;
		c->start_pc = start_pc;
	}
	c->now.labels = LABELS_NONE;
	return settle_without_stack(set, c);
}

/* How many of `who` make the next batch. */
static size_t batch_length(const struct goroutine_set *set, const uint32_t *who, size_t count,
			   size_t most)
{
	size_t n = 0, bytes = 0;

	while (n < count && n < most && (!n || bytes < BATCH_BYTES))
		bytes += stack_size(set, &set->candidates[who[n++]]);
	return n;
}

static struct error *try_in_batches(struct goroutine_set *set, uint32_t *who, size_t count,
				    size_t most, size_t *ret_left)
{
	size_t left = 0, n, moved;

	for (size_t i = 0; i < count; i += n) {
		struct error *err;

		n = batch_length(set, who + i, count - i, most);
		err = try_batch(set, who + i, n, &moved);
		if (err)
			return err;
		memmove(who + left, who + i, moved * sizeof(*who));
		left += moved;
	}
	*ret_left = left;
	return NULL;
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

		if (has_stack(c))
			who[count++] = i;
		else if (!goroutine_is_alive(&c->now) || goroutine_status(&c->now) == G_RUNNING)
			err = settle_without_stack(set, c);
	}
	if (!err && count >= MERGE_FROM)
		err = try_in_batches(set, who, count, LARGE_BATCH, &count);
	if (!err && count)
		err = try_in_batches(set, who, count, SMALL_BATCH, &count);
	for (size_t i = 0; !err && i < count; i++)
		err = try_alone(set, who[i]);
	for (size_t i = 0; !err && i < set->candidate_count; i++)
		if (!set->candidates[i].settled)
			err = try_alone(set, i);
	return err;
}
