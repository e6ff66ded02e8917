/*
 * Reads header, stack and header again in one call, which proves that the stack is consistent.
 *
 * The proof is trackingSeq, 8 bits, which a goroutine increments just after it leaves the state
 * "running". It needs two more conditions:
 * - A call reads so few goroutines that none can move 256 times meanwhile: it takes 80 ns at least
 *   to move once. A call that takes longer proves nothing (the kernel gave the CPU to
 *   somebody else in the middle of it, or the machine is slow); then stack and header are read
 *   once more, and have to be the same. A goroutine that moves fast shows another stack then.
 * - Between the change of state and the addition there are a few nanoseconds. As long as they last
 *   g.m is set, which parking takes away only afterwards (proc.go:park_m, goschedImpl) and which is
 *   set again before the goroutine runs (execute): a header without it is not of those
 *   nanoseconds. Of a goroutine that has an m and does not run, as in a system call, the counter
 *   is read once more behind the last header: both reads cannot hit those nanoseconds.
 *
 * A call reads only a few goroutines that move, the pieces of each one behind the other, which
 * takes a microsecond. Of parked goroutines without an m a call reads as many as there is time for:
 * all headers, all stacks, all headers. Neighbours are merged, so that fewer pages are read.
 *
 * The two sides of iter.Pull take turns without counting. Their stacks are read twice, and count
 * when both copies are the same.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "goroutine/set.h"

/* In this time no goroutine moves 256 times. */
#define CALL_NS 20000
/* How many goroutines a call reads one by one, and how many batched at first and at least. */
#define CALL_COUNT 8
#define BATCHED_FIRST 32
#define BATCHED_LEAST 16
/* A stack is read from a little below its pointer, but within the page, in case the goroutine has
 * called deeper by then. */
#define BELOW 256
#define PAGE 4096u
/* For a stack whose pointer is unknown. */
#define USUAL_SIZE 2048

enum part { TICK, HEADER, STACK, STACK_AGAIN, HEADER_AGAIN, TICK_AGAIN, COUNTER, PARTS };

static uint64_t counter_address(const struct goroutine_set *set, const struct pending_read *c)
{
	return g_at_tracking_seq(&set->lay->n, set->g[c->index]);
}

/* Where the copy of its stack begins. */
static uint64_t stack_low(const struct goroutine_set *set, const struct pending_read *c)
{
	uint64_t page;

	if (!pending_read_has_stack(c))
		return c->stack_end > USUAL_SIZE ? c->stack_end - USUAL_SIZE : c->stack_end;
	page = c->now.sp & ~(uint64_t)(PAGE - 1);
	return c->now.sp - page > BELOW ? c->now.sp - BELOW : page;
}

static void fill_pieces(const struct goroutine_set *set, const struct pending_read *c, bool batched,
			struct plan_piece *pieces)
{
	uint64_t g = set->g[c->index], low = stack_low(set, c);
	uint64_t size = goroutine_is_alive(&c->now) ? c->stack_end - low : 0;
	uint32_t tick = c->tick_address ? 4 : 0;

	if (size > set->options.stack_limit)
		size = set->options.stack_limit;
	pieces[TICK] = pieces[TICK_AGAIN] = (struct plan_piece){c->tick_address, tick, 0};
	pieces[HEADER] = pieces[HEADER_AGAIN] = (struct plan_piece){g, set->header_size, 0};
	pieces[STACK] = (struct plan_piece){low, size, 0};
	pieces[STACK_AGAIN] = pieces[STACK];
	if (!record_is_coroutine(set, &c->now))
		pieces[STACK_AGAIN].size = 0;
	pieces[COUNTER] =
		(struct plan_piece){counter_address(set, c), batched || !c->has_m ? 0 : 1, 0};
}

/* The data of a batch for each of its members. */
struct close_look {
	size_t first_range;
	size_t first_byte;
	size_t end;   /* bytes of the whole batch up to which this one's were read */
	bool in_time; /* in a call that was short enough */
};

/*
 * Pieces of the members of a batch, `parts` of each; piece number `part` of member i is
 * items[i * parts + part]. Those of size 0 are not read.
 */
struct pieces {
	struct plan_piece *items;
	size_t parts;
	size_t members;
};

static bool plan_one(struct plan *plan, const struct pieces *p, size_t member)
{
	struct plan_piece *items = p->items + member * p->parts;

	for (size_t part = 0; part < p->parts; part++)
		if (items[part].size && !plan_merge(plan, &items[part], plan->count))
			return false;
	return true;
}

/* The members in the order of the addresses of that part. */
static void order_members(const struct pieces *p, size_t part, uint8_t order[CLOSE_BATCH])
{
	for (size_t i = 0; i < p->members; i++) {
		uint64_t address = p->items[i * p->parts + part].address;
		size_t k = i;

		for (; k && p->items[order[k - 1] * p->parts + part].address > address; k--)
			order[k] = order[k - 1];
		order[k] = i;
	}
}

static bool plan_parts(struct plan *plan, const struct pieces *p)
{
	uint8_t order[CLOSE_BATCH];

	for (size_t part = 0; part < p->parts; part++) {
		size_t first = plan->count;

		order_members(p, part, order);
		for (size_t i = 0; i < p->members; i++) {
			struct plan_piece *piece = &p->items[order[i] * p->parts + part];

			if (piece->size && !plan_merge(plan, piece, first))
				return false;
		}
	}
	return true;
}

static bool plan_one_by_one(struct plan *plan, const struct pieces *p, struct close_look *looks)
{
	for (size_t i = 0; i < p->members; i++) {
		looks[i].first_range = plan->count;
		looks[i].first_byte = plan->bytes;
		if (!plan_one(plan, p, i))
			return false;
	}
	return true;
}

static struct error *plan_all(struct goroutine_set *set, const uint32_t *who, size_t count,
			      bool batched, struct close_look *looks)
{
	struct pieces p = {.parts = PARTS, .members = count};

	plan_reset(&set->batch);
	if (!array_reserve(&set->batch_pieces, &set->batch_piece_capacity, PARTS * count))
		return &error_no_memory;
	p.items = set->batch_pieces;
	for (size_t i = 0; i < count; i++)
		fill_pieces(set, &set->pending_reads[who[i]], batched, p.items + i * PARTS);
	memset(looks, 0, count * sizeof(*looks));
	if (!(batched ? plan_parts(&set->batch, &p) : plan_one_by_one(&set->batch, &p, looks)) ||
	    !array_reserve(&set->batch_bytes, &set->batch_capacity, set->batch.bytes))
		return &error_no_memory;
	return NULL;
}

/* The ranges of the members from `from` to before `to`. */
static struct error *read_call(struct goroutine_set *set, size_t count, struct close_look *looks,
			       size_t from, size_t to)
{
	size_t last = to < count ? looks[to].first_range : set->batch.count, done;
	struct plan call = {.ranges = set->batch.ranges + looks[from].first_range,
			    .count = last - looks[from].first_range};
	uint64_t start = clock_now(), end;
	struct error *err;

	err = plan_read(&call, set->t, set->batch_bytes + looks[from].first_byte, &done);
	end = clock_now();
	for (size_t i = from; !err && i < to; i++) {
		looks[i].in_time = end - start < CALL_NS;
		looks[i].end = looks[from].first_byte + done;
	}
	set->call_ns = end - start;
	return err;
}

static struct error *read_one_by_one(struct goroutine_set *set, size_t count,
				     struct close_look *looks)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < count; i += CALL_COUNT)
		err = read_call(set, count, looks, i,
				i + CALL_COUNT < count ? i + CALL_COUNT : count);
	return err;
}

static const uint8_t *part_bytes(const struct goroutine_set *set, const struct close_look *look,
				 const struct plan_piece *pieces, enum part part)
{
	const struct plan_piece *p = &pieces[part];

	return (size_t)p->offset + p->size <= look->end ? set->batch_bytes + p->offset : NULL;
}

static bool same_state(const struct goroutine_record *a, const struct goroutine_record *b)
{
	return a->goid == b->goid && goroutine_status(a) == goroutine_status(b) &&
	       goroutine_wait_reason(a) == goroutine_wait_reason(b);
}

bool pending_read_is_right(const struct goroutine_set *set, const struct pending_read *c)
{
	return !set->options.keep_state || same_state(&c->now, &c->first);
}

static bool same_part(const struct goroutine_set *set, const struct close_look *look,
		      const struct plan_piece *pieces, enum part part, enum part again)
{
	const uint8_t *a = part_bytes(set, look, pieces, part);
	const uint8_t *b = part_bytes(set, look, pieces, again);

	return a && b && pieces[part].size && pieces[again].size == pieces[part].size &&
	       !memcmp(a, b, pieces[part].size);
}

/* Whether the counter in the last header includes every move. */
static bool has_counted(const struct goroutine_set *set, const struct close_look *look,
			const struct plan_piece *pieces, const uint8_t *again)
{
	const uint8_t *counter = part_bytes(set, look, pieces, COUNTER);

	if (!pieces[COUNTER].size)
		return !g_view_m(header_view(set, again));
	return counter && *counter == g_view_tracking_seq(header_view(set, again));
}

/* Whether c->now, of the first header, was so up to the last; and with it the stack's copy. */
static bool stood_still(const struct goroutine_set *set, const struct pending_read *c,
			const struct close_look *look, const struct plan_piece *pieces)
{
	const uint8_t *again = part_bytes(set, look, pieces, HEADER_AGAIN);
	struct goroutine_record record;

	if (!again || !has_counted(set, look, pieces, again))
		return false;
	record = record_of(set, again);
	if (!record_same(&record, &c->now) ||
	    g_view_stack_hi(header_view(set, again)) != c->stack_end ||
	    g_view_labels(header_view(set, again)) != c->labels)
		return false;
	if (c->tick_address && (c->tick_address != pieces[TICK].address ||
				!same_part(set, look, pieces, TICK, TICK_AGAIN)))
		return false;
	return !record_is_coroutine(set, &c->now) ||
	       same_part(set, look, pieces, STACK, STACK_AGAIN);
}

/* The stack of the state that c->now says, from the copy, if it is all in there. */
static struct error *unwind_copy(struct goroutine_set *set, struct pending_read *c,
				 const struct close_look *look, const struct plan_piece *pieces)
{
	const uint8_t *bytes = part_bytes(set, look, pieces, STACK);
	uint64_t low = pieces[STACK].address, end = low + pieces[STACK].size;

	c->now.stack = STACK_NONE;
	c->stack = NULL;
	if (!bytes || !pending_read_has_stack(c) || c->now.sp < low || c->now.sp >= end)
		return NULL;
	if (end != c->stack_end && pieces[STACK].size != set->options.stack_limit)
		return NULL;
	if (c->tick_address) {
		const uint8_t *tick = part_bytes(set, look, pieces, TICK);

		memcpy(&c->now.tick, tick, 4);
	}
	return pending_read_unwind(set, c, bytes + (c->now.sp - low), end - c->now.sp,
				   c->now.sp - low);
}

/* The first look at a late one. True: it is committed, having not moved or having no stack. */
static struct error *look_first(struct goroutine_set *set, struct pending_read *c,
				bool *ret_committed)
{
	struct goroutine_record *record = &set->records[c->index];

	c->late = false;
	c->first = c->now;
	c->first_start_pc = c->start_pc;
	*ret_committed = record_unchanged(set, record, &c->now) ||
			 (!goroutine_is_alive(record) && !goroutine_is_alive(&c->now));
	if (*ret_committed) {
		record->flags &= ~GOROUTINE_MOVED;
		c->committed = true;
		return NULL;
	}
	if (goroutine_is_alive(&c->now) && goroutine_status(&c->now) != G_RUNNING)
		return NULL;
	*ret_committed = true;
	return pending_read_commit_without_stack(set, c);
}

/* Validates a member's read. Then c->now.stack is its stack, or STACK_NONE. */
static struct error *validate(struct goroutine_set *set, struct pending_read *c,
			      struct close_look *look, const struct plan_piece *pieces)
{
	const uint8_t *header = part_bytes(set, look, pieces, HEADER);
	const uint8_t *again = part_bytes(set, look, pieces, HEADER_AGAIN);
	struct error *err = NULL;
	bool committed;

	c->now.stack = STACK_NONE;
	if (!header)
		return NULL;
	c->header = header;
	pending_read_take_header(set, c, header);
	if (c->late) {
		err = look_first(set, c, &committed);
		if (err || committed)
			return err;
	}
	if (pending_read_is_right(set, c) && stood_still(set, c, look, pieces))
		err = unwind_copy(set, c, look, pieces);
	if (c->now.stack == STACK_NONE && again)
		pending_read_take_header(set, c, again);
	return err;
}

/* Those that have a stack, but whose call took too long: stack and header are read again. */
static bool plan_slow(struct goroutine_set *set, const uint32_t *who,
		      const struct close_look *looks, bool batched, const struct pieces *slow)
{
	for (size_t i = 0; i < slow->members; i++) {
		const struct pending_read *c = &set->pending_reads[who[i]];
		struct plan_piece *mine = slow->items + 2 * i;

		mine[0] = set->batch_pieces[i * PARTS + STACK];
		mine[1] = set->batch_pieces[i * PARTS + HEADER];
		if (looks[i].in_time || c->committed || c->now.stack == STACK_NONE)
			mine[0].size = mine[1].size = 0;
	}
	plan_reset(&set->confirm);
	if (batched && !plan_parts(&set->confirm, slow))
		return false;
	for (size_t i = 0; !batched && i < slow->members; i++)
		if (!plan_one(&set->confirm, slow, i))
			return false;
	return array_reserve(&set->confirm_bytes, &set->confirm_capacity, set->confirm.bytes + 1);
}

static bool is_confirmed(const struct goroutine_set *set, const struct pending_read *c,
			 const struct plan_piece *first, const struct plan_piece *mine, size_t end)
{
	struct goroutine_record record;

	if ((size_t)mine[0].offset + mine[0].size > end ||
	    (size_t)mine[1].offset + mine[1].size > end ||
	    memcmp(set->batch_bytes + first[STACK].offset, set->confirm_bytes + mine[0].offset,
		   mine[0].size))
		return false;
	record = record_of(set, set->confirm_bytes + mine[1].offset);
	return record_same(&record, &c->now);
}

/* Reads the stacks and headers again for those whose first read took too long. */
static struct error *confirm(struct goroutine_set *set, const uint32_t *who, size_t count,
			     bool batched, const struct close_look *looks)
{
	struct plan_piece items[2 * CLOSE_BATCH];
	const struct pieces slow = {items, 2, count};
	size_t end = 0;
	struct error *err;

	if (!plan_slow(set, who, looks, batched, &slow))
		return &error_no_memory;
	if (!set->confirm.count)
		return NULL;
	err = plan_read(&set->confirm, set->t, set->confirm_bytes, &end);
	for (size_t i = 0; !err && i < count; i++) {
		struct pending_read *c = &set->pending_reads[who[i]];

		if (items[2 * i].size &&
		    !is_confirmed(set, c, set->batch_pieces + i * PARTS, &items[2 * i], end))
			c->now.stack = STACK_NONE;
	}
	return err;
}

/* Reads where those with labels point to now. The value is in set->confirm_bytes at
 * items[i].offset; it was read if that is below *ret_end. */
static struct error *read_label_pointers(struct goroutine_set *set, const uint32_t *who,
					 const struct pieces *p, size_t *ret_end)
{
	for (size_t i = 0; i < p->members; i++) {
		const struct pending_read *c = &set->pending_reads[who[i]];

		p->items[i].address = g_at_labels(&set->lay->n, set->g[c->index]);
		p->items[i].size = pending_read_wants_labels(c) ? sizeof(uint64_t) : 0;
	}
	plan_reset(&set->confirm);
	if (!plan_parts(&set->confirm, p) ||
	    !array_reserve(&set->confirm_bytes, &set->confirm_capacity, set->confirm.bytes + 1))
		return &error_no_memory;
	return plan_read(&set->confirm, set->t, set->confirm_bytes, ret_end);
}

/* A goroutine has the labels that were read when it still points to them. */
static struct error *read_labels(struct goroutine_set *set, const uint32_t *who, size_t count)
{
	struct plan_piece items[CLOSE_BATCH];
	struct error *err;
	size_t end;

	if (!pending_reads_have_labels(set, who, count))
		return NULL;
	err = pending_reads_read_labels(set, who, count);
	if (!err)
		err = read_label_pointers(set, who, &(struct pieces){items, 1, count}, &end);
	for (size_t i = 0; !err && i < count; i++) {
		struct pending_read *c = &set->pending_reads[who[i]];

		if (items[i].size &&
		    (c->now.labels == LABELS_TORN || items[i].offset + sizeof(uint64_t) > end ||
		     memcmp(set->confirm_bytes + items[i].offset, &c->labels, sizeof(c->labels)) !=
			     0))
			c->now.stack = STACK_NONE;
	}
	return err;
}

/* Whether it has not run since its stack was read. Where that does not show at once in its counter,
 * it is looked at twice. */
static bool stands_still(struct goroutine_set *set, const struct pending_read *c)
{
	uint32_t tick = c->now.tick;

	for (int i = 0; i < (c->has_m ? 2 : 1); i++) {
		struct goroutine_record record;

		if (error_dropped(
			    target_read(set->t, set->g[c->index], set->named, set->header_size)))
			return false;
		record = record_of(set, set->named);
		if (!record_same(&record, &c->now) ||
		    (g_view_m(header_view(set, set->named)) != 0) != c->has_m)
			return false;
	}
	return !c->tick_address ||
	       (!error_dropped(target_read_u32(set->t, c->tick_address, &tick)) &&
		tick == c->now.tick);
}

/* Adds what is known of the request that it serves to its labels. If it runs while its ids are
 * read, it has its names and no ids. */
static struct error *must_check add_request(struct goroutine_set *set, struct pending_read *c)
{
	const struct request_server server = {c->now.goid, c->stack_end, c->now.stack};

	if (!set->names || record_is_coroutine(set, &c->now) ||
	    !request_names_find(set->names, set->stacks, &server) || !stands_still(set, c))
		return NULL;
	if (request_names_find_ids(set->names) && !stands_still(set, c))
		request_names_forget_ids(set->names);
	return request_names_add(set->names, &set->labels, &c->now.labels);
}

static struct error *commit_all(struct goroutine_set *set, uint32_t *who, size_t count,
				size_t *ret_left)
{
	struct error *err = NULL;
	size_t left = 0;

	for (size_t i = 0; !err && i < count; i++) {
		struct pending_read *c = &set->pending_reads[who[i]];

		if (c->committed)
			continue;
		if (c->now.stack != STACK_NONE) {
			set->stats.truncated += c->truncated;
			err = add_request(set, c);
			if (!err)
				err = pending_read_commit(set, c);
		} else {
			set->stats.torn++;
			c->header = c->first_header;
			who[left++] = who[i];
		}
	}
	*ret_left = left;
	return err;
}

/* Validates the reads, `batched` or one by one, and commits the valid ones. */
static struct error *commit_read(struct goroutine_set *set, uint32_t *who, size_t count,
				 bool batched, struct close_look *looks, size_t *ret_left)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < count; i++)
		err = validate(set, &set->pending_reads[who[i]], &looks[i],
			       set->batch_pieces + i * PARTS);
	if (!err)
		err = confirm(set, who, count, batched, looks);
	if (!err)
		err = read_labels(set, who, count);
	return err ? err : commit_all(set, who, count, ret_left);
}

struct error *try_one_by_one(struct goroutine_set *set, uint32_t *who, size_t count,
			     size_t *ret_left)
{
	struct close_look looks[CLOSE_BATCH];
	struct error *err = plan_all(set, who, count, false, looks);

	if (!err)
		err = read_one_by_one(set, count, looks);
	return err ? err : commit_read(set, who, count, false, looks, ret_left);
}

uint32_t batched_count(const struct goroutine_set *set)
{
	return set->batched ? set->batched : BATCHED_FIRST;
}

/* Adjusts the number to what takes three quarters of the time. */
static void adjust_batched(struct goroutine_set *set, size_t count)
{
	uint32_t n = batched_count(set);

	if (set->call_ns >= CALL_NS)
		n -= n / 8;
	else if (count == n && set->call_ns < CALL_NS / 4 * 3)
		n++;
	if (n >= BATCHED_LEAST && n <= CLOSE_BATCH)
		set->batched = n;
}

struct error *try_batched(struct goroutine_set *set, uint32_t *who, size_t count, size_t *ret_left)
{
	struct close_look looks[CLOSE_BATCH];
	struct error *err = plan_all(set, who, count, true, looks);

	if (!err)
		err = read_call(set, count, looks, 0, count);
	if (!err)
		adjust_batched(set, count);
	return err ? err : commit_read(set, who, count, true, looks, ret_left);
}
