/*
 * The stacks of those that are not as they were, each proven untorn.
 *
 * Many at once are read in address order, neighbours merged, each stack twice; then their headers
 * again. trackingSeq has 8 bits, and who moves fast enough may have moved 256 times in a read that
 * takes so long; but then the two copies differ. Who ran meanwhile, and whoever is not read with
 * many, is read closely (closely.c), then alone. What is read in one call is read in the order of
 * its ranges.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "goroutine/set.h"

/* From so many on it pays to read in address order. */
#define MERGE_FROM 256
#define LARGE_BATCH 512
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

static int compare_sp(const void *a, const void *b, void *arg)
{
	const struct candidate *candidates = arg;
	uint64_t x = candidates[*(const uint32_t *)a].now.sp;
	uint64_t y = candidates[*(const uint32_t *)b].now.sp;

	return (x > y) - (x < y);
}

size_t candidate_stack_size(const struct goroutine_set *set, const struct candidate *c)
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
 * A batch's pieces: [ticks][stacks by address][stacks][headers][ticks], `count` of each in who's
 * order but for the stacks, which are in set->order's.
 */
enum part { PART_TICK, PART_STACK, PART_STACK_AGAIN, PART_HEADER, PART_TICK_AGAIN, PARTS };

static bool is_stack(enum part part)
{
	return part == PART_STACK || part == PART_STACK_AGAIN;
}

static void fill_part(struct goroutine_set *set, const uint32_t *who, size_t count, enum part part,
		      struct plan_piece *pieces)
{
	for (size_t i = 0; i < count; i++) {
		const struct candidate *c =
			&set->candidates[is_stack(part) ? set->order[i] : who[i]];

		if (is_stack(part))
			pieces[i] = (struct plan_piece){c->now.sp, candidate_stack_size(set, c), 0};
		else if (part == PART_TICK || part == PART_TICK_AGAIN)
			pieces[i] = (struct plan_piece){c->tick_address, 4, 0};
		else
			pieces[i] = (struct plan_piece){set->g[c->index], set->header_size, 0};
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

struct error *candidates_read_labels(struct goroutine_set *set, const uint32_t *who, size_t count)
{
	_cleanup_free_ uint64_t *pointers = calloc(count, sizeof(*pointers));
	_cleanup_free_ uint32_t *ids = calloc(count, sizeof(*ids));
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

bool candidates_have_labels(const struct goroutine_set *set, const uint32_t *who, size_t count)
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
	bool labels = candidates_have_labels(set, who, count);
	struct error *err;
	size_t middle;

	plan_reset(&set->batch);
	if (!array_reserve(&set->batch_pieces, &set->batch_piece_capacity, PARTS * count) ||
	    !order_batch(set, who, count) ||
	    !plan_parts(set, who, count, PART_TICK, labels ? PART_STACK_AGAIN : PART_TICK_AGAIN))
		return &error_no_memory;
	err = read_batch(set, 0, ret_end);
	if (err || !labels)
		return err;
	middle = set->batch.bytes;
	if (*ret_end < middle) {
		*ret_end = 0;
		return NULL;
	}
	err = candidates_read_labels(set, who, count);
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

static bool header_agrees(const struct goroutine_set *set, const struct candidate *c,
			  const uint8_t *again)
{
	struct goroutine_record record;

	if (!again)
		return false;
	record = record_of(set, again);
	return record_same(&record, &c->now) &&
	       header_u64(again, set->lay->n.g_stack_hi) == c->stack_end &&
	       header_u64(again, set->lay->n.g_labels) == c->labels;
}

/* Whether the goroutine did not run from its first header to the one read behind its stack. */
static bool stood_still(struct goroutine_set *set, struct candidate *c, size_t count, size_t i,
			size_t end)
{
	if (c->now.labels == LABELS_TORN ||
	    !header_agrees(set, c, part_bytes(set, PART_HEADER, count, i, end)))
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

struct error *candidate_unwind(struct goroutine_set *set, struct candidate *c, const uint8_t *bytes,
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
		const uint8_t *bytes = end ? part_bytes(set, PART_STACK, count, k, end) : NULL;

		c->now.stack = STACK_NONE;
		if (bytes)
			err = candidate_unwind(set, c, bytes, candidate_stack_size(set, c));
		if (err)
			return err;
	}
	for (size_t i = 0; i < count; i++) {
		struct candidate *c = &set->candidates[who[i]];

		if (end && stood_still(set, c, count, i, end) && c->now.stack != STACK_NONE) {
			set->stats.truncated += c->truncated;
			err = candidate_settle(set, c);
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

void candidate_take_header(const struct goroutine_set *set, struct candidate *c,
			   const uint8_t *header)
{
	const struct golayout_numbers *n = &set->lay->n;

	c->now = record_of(set, header);
	c->stack_end = header_u64(header, n->g_stack_hi);
	c->labels = header_u64(header, n->g_labels);
	c->start_pc = header_u64(header, n->g_startpc);
	c->tick_address = 0;
	if (record_needs_tick(set, &c->now) && header_u64(header, n->g_m))
		c->tick_address = header_u64(header, n->g_m) + n->m_syscalltick;
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

static struct error *
try_in_batches(struct goroutine_set *set, uint32_t *who, size_t count, size_t most,
	       struct error *(*try)(struct goroutine_set *, uint32_t *, size_t, size_t *),
	       size_t *ret_left)
{
	size_t left = 0, n, moved;

	for (size_t i = 0; i < count; i += n) {
		struct error *err;

		n = batch_length(set, who + i, count - i, most);
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

		if (c->late || record_is_coroutine(set, &c->now))
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
		err = try_in_batches(set, who, patient, LARGE_BATCH, try_batch, &left);
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
		err = try_in_batches(set, who, count, CLOSE_BATCH, try_closely, &count);
	for (size_t i = 0; !err && i < set->candidate_count; i++)
		if (!set->candidates[i].settled)
			err = try_alone(set, i);
	return err;
}
