/*
 * The stacks of goroutines that changed, each proven untorn (read_stack.c).
 *
 * Goroutines that are not expected to move are read in batches. The others, and those that ran
 * meanwhile, are read one by one, in the end each in a call of its own.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "goroutine/set.h"

/* From this many on, batched reads pay. */
#define MERGE_FROM 256
#define MAX_TRIES 8
/* The most bytes of stacks in one batch, except for a single larger stack. */
#define BATCH_BYTES (8u << 20)

/* Reads a goroutine's header anew. False: it cannot be read. */
static bool look_again(struct goroutine_set *set, struct pending_read *c)
{
	if (error_dropped(target_read(set->t, set->g[c->index], set->again, set->header_size)))
		return false;
	c->header = set->again;
	pending_read_take_header(set, c, set->again);
	return true;
}

/* Its stack cannot be read. */
static struct error *give_up(struct goroutine_set *set, struct pending_read *c)
{
	if (set->options.keep_state || !look_again(set, c)) {
		c->now = c->first;
		c->start_pc = c->first_start_pc;
	}
	c->now.labels = LABELS_NONE;
	return pending_read_commit_without_stack(set, c);
}

/*
 * Reads alone a goroutine that moved at every try so far. When its state has to be kept, only a
 * stack of that state counts. Otherwise the states that are rarely caught would be undercounted.
 */
static struct error *try_alone(struct goroutine_set *set, uint32_t who)
{
	struct pending_read *c = &set->pending_reads[who];

	for (int i = 0; i < MAX_TRIES; i++) {
		uint32_t one = who;
		struct error *err;
		size_t left;

		if (!pending_read_has_stack(c) && !look_again(set, c))
			break;
		if (pending_read_is_right(set, c) &&
		    (!goroutine_is_alive(&c->now) || goroutine_status(&c->now) == G_RUNNING))
			return pending_read_commit_without_stack(set, c);
		if (!pending_read_has_stack(c))
			continue;
		err = try_one_by_one(set, &one, 1, &left);
		if (err || !left)
			return err;
	}
	return give_up(set, c);
}

/* How many of `who` form the next batch. */
static size_t batch_length(const struct goroutine_set *set, const uint32_t *who, size_t count,
			   size_t most)
{
	size_t given = set->options.read_bytes, limit = given ? given : BATCH_BYTES;
	size_t n = 0, bytes = 0;

	while (n < count && n < most && (!n || bytes < limit))
		bytes += pending_read_stack_size(set, &set->pending_reads[who[n++]]);
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
				 try == try_batched ? batched_count(set) : CLOSE_BATCH);
		err = try(set, who + i, n, &moved);
		if (err)
			return err;
		memmove(who + left, who + i, moved * sizeof(*who));
		left += moved;
	}
	*ret_left = left;
	return NULL;
}

/* Moves those that may be read in a batch to the front of `who`, and returns their number. */
static size_t part_patient(const struct goroutine_set *set, uint32_t *who, size_t count)
{
	size_t n = 0;

	for (size_t i = 0; i < count; i++) {
		const struct pending_read *c = &set->pending_reads[who[i]];
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
		err = try_in_batches(set, who, patient, try_batched, &left);
	memmove(who + left, who + patient, (*count - patient) * sizeof(*who));
	*count -= patient - left;
	return err;
}

struct error *pending_reads_commit(struct goroutine_set *set)
{
	_cleanup_free_ uint32_t *who = malloc((set->pending_read_count + 1) * sizeof(*who));
	size_t count = 0;
	struct error *err = NULL;

	if (!who)
		return &error_no_memory;
	for (size_t i = 0; !err && i < set->pending_read_count; i++) {
		struct pending_read *c = &set->pending_reads[i];

		if (c->late || pending_read_has_stack(c))
			who[count++] = i;
		else if (!goroutine_is_alive(&c->now) || goroutine_status(&c->now) == G_RUNNING)
			err = pending_read_commit_without_stack(set, c);
	}
	if (!err && count >= MERGE_FROM)
		err = try_many(set, who, &count);
	if (!err && count)
		err = try_in_batches(set, who, count, try_one_by_one, &count);
	for (size_t i = 0; !err && i < set->pending_read_count; i++)
		if (!set->pending_reads[i].committed)
			err = try_alone(set, i);
	return err;
}
