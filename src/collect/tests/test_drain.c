/* Taking records out of rings that are written as the agent writes them, and out of nonsense. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/unit_test.h"
#include "collect/backlog.h"
#include "collect/drain.h"
#include "collect/rings.h"

enum { CHUNKS = 4, RING = CHUNKS * AGENT_CHUNK_BYTES, SLOTS = 3, NOW = 1000000, BLOCKS = 8 };

struct made {
	struct agent_shared *shared;
	struct agent_shared layout;
	struct rings *rings;
	struct backlog *backlog;
	struct drain *drain;
};

static int make(void **state)
{
	struct made *d = calloc(1, sizeof(*d));
	struct agent_shared *l = &d->layout;

	l->slots = SLOTS;
	l->ring_bytes = RING;
	l->table_offset = 4096;
	l->arena_offset = l->table_offset + AGENT_TABLE_SLOTS * sizeof(struct agent_stack);
	l->arena_words = 512;
	l->slots_offset = l->arena_offset + 4096;
	l->rings_offset = l->slots_offset + SLOTS * AGENT_SLOT_BYTES;
	l->size = l->rings_offset + SLOTS * RING;
	d->shared = mmap(NULL, l->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	*state = d;
	return rings_create(d->shared, l, NULL, UINT64_MAX, &d->rings) ||
			       backlog_create(BLOCKS, &d->backlog) ||
			       drain_create(l, d->backlog, &d->drain)
		       ? -1
		       : 0;
}

static int unmake(void **state)
{
	struct made *d = *state;

	drain_destroy(d->drain);
	backlog_destroy(d->backlog);
	rings_destroy(d->rings);
	munmap(d->shared, d->layout.size);
	free(d);
	return 0;
}

static struct agent_slot *slot_of(struct made *d, unsigned int i)
{
	return (void *)((uint8_t *)d->shared + d->layout.slots_offset + i * AGENT_SLOT_BYTES);
}

static uint8_t *ring_of(struct made *d, unsigned int i)
{
	return (uint8_t *)d->shared + d->layout.rings_offset + i * RING;
}

/* Where the next byte goes. */
static uint8_t *place_of(struct made *d, unsigned int i)
{
	struct agent_slot *slot = slot_of(d, i);
	unsigned int n = slot->write / AGENT_CHUNK_BYTES, place = n + slot->moved[n % CHUNKS];

	return ring_of(d, i) + place % CHUNKS * AGENT_CHUNK_BYTES + slot->write % AGENT_CHUNK_BYTES;
}

static void write_bytes(struct made *d, unsigned int i, const void *bytes, size_t n)
{
	memcpy(place_of(d, i), bytes, n);
	slot_of(d, i)->write += n;
}

static void begin_chunk(struct made *d, unsigned int i, uint64_t tick, uint64_t lost)
{
	struct agent_chunk chunk = {tick, 100 + i, lost};
	struct agent_slot *slot = slot_of(d, i);

	if (slot->write % AGENT_CHUNK_BYTES)
		*place_of(d, i) = RECORD_NONE;
	slot->write = (slot->write + AGENT_CHUNK_BYTES - 1) / AGENT_CHUNK_BYTES * AGENT_CHUNK_BYTES;
	write_bytes(d, i, &chunk, sizeof(chunk));
}

/* A goroutine starts, so many ticks (less than 128) after the last record. */
static void write_start(struct made *d, unsigned int i, uint8_t since, uint8_t goid)
{
	uint8_t record[] = {RECORD_START, since, goid};

	write_bytes(d, i, record, sizeof(record));
}

/* All that is in the rings; false: some was left there. */
static bool collect(struct made *d, uint64_t now, uint64_t margin, bool ended)
{
	struct block *first = backlog_get(d->backlog), *taken;
	bool all;

	if (!first)
		return false;
	all = rings_collect(d->rings, d->backlog, first, now, margin, ended);
	backlog_put(d->backlog, first);
	assert_null(backlog_take(d->backlog, &taken));
	assert_ptr_equal(taken, first);
	drain_add(d->drain, first);
	return all;
}

static void assert_start(struct made *d, uint64_t tick, uint64_t goid, uint64_t thread)
{
	const struct drain_record *r = drain_next(d->drain);

	assert_non_null(r);
	assert_int_equal(r->kind, RECORD_START);
	assert_int_equal(r->tick, tick);
	assert_int_equal(r->numbers[0], goid);
	assert_int_equal(r->thread, thread);
}

static void assert_none(struct made *d)
{
	assert_null(drain_next(d->drain));
}

static void records_of_all_rings_come_in_the_order_of_their_times(void **state)
{
	struct made *d = *state;

	begin_chunk(d, 0, 1000, 0);
	write_start(d, 0, 10, 1);
	write_start(d, 0, 20, 3);
	begin_chunk(d, 2, 1000, 0);
	write_start(d, 2, 20, 2);
	write_start(d, 2, 20, 4);
	collect(d, NOW, 10, false);
	assert_start(d, 1010, 1, 100);
	assert_start(d, 1020, 2, 102);
	assert_start(d, 1030, 3, 100);
	assert_start(d, 1040, 4, 102);
	assert_none(d);
}

static void record_that_may_have_predecessors_waits(void **state)
{
	struct made *d = *state;

	begin_chunk(d, 0, 1000, 0);
	write_start(d, 0, 10, 1);
	write_start(d, 0, 100, 2);
	slot_of(d, 1)->busy = 1; /* makes one that is later than this */
	slot_of(d, 1)->tick = 1050;
	collect(d, NOW, 10, false);
	assert_start(d, 1010, 1, 100);
	assert_none(d);
	slot_of(d, 1)->busy = 0;
	begin_chunk(d, 1, 1060, 0);
	write_start(d, 1, 0, 7);
	collect(d, NOW, 10, false);
	assert_start(d, 1060, 7, 101);
	assert_start(d, 1110, 2, 100);
	assert_none(d);
}

static void the_last_moments_wait_until_the_end(void **state)
{
	struct made *d = *state;

	begin_chunk(d, 0, 1000, 0);
	write_start(d, 0, 10, 1);
	collect(d, 1015, 10, false);
	assert_none(d);
	collect(d, 1015, 10, true);
	assert_start(d, 1010, 1, 100);
}

static void another_thread_on_the_processor_is_noticed(void **state)
{
	static const uint8_t thread[] = {RECORD_M, 0xe7, 0x07};
	struct made *d = *state;

	begin_chunk(d, 0, 1000, 0);
	write_start(d, 0, 1, 1);
	write_bytes(d, 0, thread, sizeof(thread));
	write_start(d, 0, 1, 2);
	collect(d, NOW, 10, false);
	assert_start(d, 1001, 1, 100);
	assert_start(d, 1002, 2, 999);
}

static void a_loss_is_reported_where_it_happened(void **state)
{
	struct made *d = *state;
	const struct drain_record *r;

	begin_chunk(d, 0, 1000, 0);
	write_start(d, 0, 1, 1);
	begin_chunk(d, 0, 5000, 12);
	write_start(d, 0, 1, 2);
	collect(d, NOW, 10, false);
	assert_start(d, 1001, 1, 100);
	r = drain_next(d->drain);
	assert_non_null(r);
	assert_int_equal(r->kind, RECORD_LOST);
	assert_int_equal(r->numbers[0], 12);
	assert_int_equal(r->tick, 5000);
	assert_start(d, 5001, 2, 100);
}

static void
room_is_given_back_when_bytes_were_copied_and_blocks_when_records_were_taken(void **state)
{
	struct made *d = *state;
	uint64_t taken = 0, written = 0;

	for (int turn = 0; turn < 40; turn++) {
		const struct drain_record *r;

		begin_chunk(d, 0, 1000 + turn * 100000, 0);
		for (int i = 0; i < 10000; i++, written++)
			write_start(d, 0, 1, i & 0x7f);
		collect(d, UINT64_MAX / 2, 10, false);
		assert_int_equal(slot_of(d, 0)->read, slot_of(d, 0)->write);
		for (; (r = drain_next(d->drain)); taken++)
			assert_int_equal(r->numbers[0], taken % 10000 & 0x7f);
	}
	assert_int_equal(taken, written);
	assert_true(backlog_fill(d->backlog) == 0);
}

static void texts_are_given_with_their_lengths(void **state)
{
	static const uint8_t log[] = {RECORD_LOG, 1, 5, 6, 0, 2, 'a', 'b', 3, 'x', 'y', 'z'};
	struct made *d = *state;
	const struct drain_record *r;

	begin_chunk(d, 0, 1000, 0);
	write_bytes(d, 0, log, sizeof(log));
	collect(d, NOW, 10, false);
	r = drain_next(d->drain);
	assert_non_null(r);
	assert_int_equal(r->texts[0].length, 2);
	assert_memory_equal(r->texts[0].bytes, "ab", 2);
	assert_int_equal(r->texts[1].length, 3);
	assert_memory_equal(r->texts[1].bytes, "xyz", 3);
}

static void nonsense_costs_the_rest_of_its_chunk_alone(void **state)
{
	static const uint8_t wrong[][12] = {
		{RECORDS, 1, 2, 3},                                      /* no such kind */
		{RECORD_START, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, /* no end of a number */
		 0x80, 0x80, 0x80, 0x80},
		{RECORD_LOG, 1, 5, 6, 0, 0xff, 0xff, 0xff, 0xff, 0x0f}, /* longer than the ring */
	};
	struct made *d = *state;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct drain_stats stats;

		begin_chunk(d, 0, 1000 * (i + 1), 0);
		write_start(d, 0, 1, 1);
		write_bytes(d, 0, wrong[i], sizeof(wrong[i]));
		write_start(d, 0, 1, 2);
		begin_chunk(d, 0, 1000 * (i + 1) + 500, 0);
		write_start(d, 0, 1, 3);
		collect(d, NOW, 10, false);
		assert_start(d, 1000 * (i + 1) + 1, 1, 100);
		assert_start(d, 1000 * (i + 1) + 501, 3, 100);
		assert_none(d);
		drain_stats(d->drain, &stats);
		assert_int_equal(stats.corrupt, i + 1);
	}
}

static void positions_that_cannot_be_are_not_believed(void **state)
{
	struct made *d = *state;

	begin_chunk(d, 0, 1000, 0);
	write_start(d, 0, 1, 1);
	collect(d, NOW, 10, false);
	assert_start(d, 1001, 1, 100);
	slot_of(d, 0)->write += 1ull << 40;
	collect(d, NOW, 10, false);
	assert_none(d);
	slot_of(d, 0)->write = 5;
	collect(d, NOW, 10, true);
	assert_none(d);
}

static void a_chunk_is_found_where_its_writer_put_it(void **state)
{
	static const uint16_t moved[] = {3, 65535, 12345};
	struct made *d = *state;
	struct agent_slot *slot = slot_of(d, 0);

	for (unsigned int n = 0; n < sizeof(moved) / sizeof(moved[0]); n++) {
		slot->moved[n] = moved[n];
		begin_chunk(d, 0, 1000 * (n + 1), 0);
		write_start(d, 0, 1, n);
		collect(d, NOW, 10, false);
		assert_start(d, 1000 * (n + 1) + 1, n, 100);
	}
	assert_none(d);
}

/* So many chunks full of starts, from this tick on, a tick after the other. */
static void write_chunks(struct made *d, unsigned int i, uint64_t tick, unsigned int chunks)
{
	for (unsigned int k = 0; k < chunks; k++, tick += 21000) {
		begin_chunk(d, i, tick, 0);
		for (int n = 0; n < 21000; n++)
			write_start(d, i, 1, 1 + i);
	}
}

static uint64_t take_in_order(struct made *d, uint64_t *last)
{
	const struct drain_record *r;
	uint64_t count = 0;

	for (; (r = drain_next(d->drain)); count++) {
		assert_true(r->tick >= *last);
		*last = r->tick;
	}
	return count;
}

static void full_backlog_delays_records_in_order(void **state)
{
	struct made *d = *state;
	uint64_t taken = 0, last = 0;
	int rounds = 0;

	write_chunks(d, 2, 1000, 4);
	write_chunks(d, 0, 30000, 4);
	write_chunks(d, 1, 90000, 3);
	while (!collect(d, UINT64_MAX / 2, 10, false) || taken < 11 * 21000) {
		uint64_t n = take_in_order(d, &last);

		assert_true(n > 0);
		taken += n;
		rounds++;
	}
	assert_true(rounds > 1);
	assert_int_equal(taken, 11 * 21000);
	assert_true(backlog_fill(d->backlog) == 0);
}

/* Until the rings are empty, as if the tracer waited for each collection. */
static uint64_t collect_and_take_all(struct made *d, uint64_t *last)
{
	uint64_t taken = 0;
	bool all = false;

	for (int i = 0; i < 100 && !all; i++) {
		backlog_wait(d->backlog, 0);
		all = collect(d, UINT64_MAX / 2, 10, false);
		taken += take_in_order(d, last);
	}
	assert_true(all);
	return taken;
}

static void
who_is_stopped_while_he_makes_a_record_is_awaited_until_the_backlog_is_full(void **state)
{
	struct made *d = *state;
	uint64_t last = 0, late = 0;

	begin_chunk(d, 1, 1000, 0);
	write_start(d, 1, 1, 1);
	slot_of(d, 1)->busy = 1;
	slot_of(d, 1)->tick = 1000;
	for (unsigned int i = 0; i + 2 < BLOCKS; i++) {
		write_chunks(d, 0, 2000 + 21000 * i, 1);
		assert_true(collect(d, UINT64_MAX / 2, 10, false));
		assert_int_equal(take_in_order(d, &last), 0);
	}
	write_chunks(d, 0, 2000 + 21000 * BLOCKS, 4);
	assert_int_equal(collect_and_take_all(d, &last), 1 + (BLOCKS + 2) * 21000);
	write_start(d, 1, 1, 1);
	slot_of(d, 1)->busy = 0;
	assert_true(collect(d, UINT64_MAX / 2, 10, false));
	assert_int_equal(take_in_order(d, &late), 1);
	assert_int_equal(late, 1002);
	assert_true(backlog_fill(d->backlog) == 0);
}

static void records_of_a_kind_are_found_in_a_piece(void **state)
{
	static const uint8_t records[] = {RECORD_START,
					  1,
					  5,
					  RECORD_LABELS_UNREAD,
					  1,
					  6,
					  7,
					  8,
					  RECORD_LOG,
					  1,
					  5,
					  6,
					  0,
					  2,
					  'a',
					  'b',
					  0,
					  RECORD_LABELS_UNREAD,
					  1,
					  9,
					  10,
					  11,
					  RECORD_NONE};
	struct agent_chunk chunk = {.tick = 1};
	uint8_t bytes[sizeof(chunk) + sizeof(records)];
	struct piece p = {.bytes = bytes, .size = sizeof(bytes)};
	uint64_t found[3][RECORD_MAX_NUMBERS];

	memcpy(bytes, &chunk, sizeof(chunk));
	memcpy(bytes + sizeof(chunk), records, sizeof(records));
	assert_int_equal(drain_find(&p, RECORD_LABELS_UNREAD, found, 3), 2);
	assert_true(found[0][0] == 6 && found[0][1] == 7 && found[0][2] == 8);
	assert_true(found[1][0] == 9 && found[1][1] == 10 && found[1][2] == 11);
	assert_int_equal(drain_find(&p, RECORD_LABELS_UNREAD, found, 1), 1);
	/* In the midst of a chunk there is no head. */
	p.at = 1000;
	p.bytes += sizeof(chunk);
	p.size -= sizeof(chunk);
	assert_int_equal(drain_find(&p, RECORD_LABELS_UNREAD, found, 3), 2);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make, unmake)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(records_of_all_rings_come_in_the_order_of_their_times),
		TEST(record_that_may_have_predecessors_waits),
		TEST(the_last_moments_wait_until_the_end),
		TEST(another_thread_on_the_processor_is_noticed),
		TEST(a_loss_is_reported_where_it_happened),
		TEST(room_is_given_back_when_bytes_were_copied_and_blocks_when_records_were_taken),
		TEST(texts_are_given_with_their_lengths),
		TEST(nonsense_costs_the_rest_of_its_chunk_alone),
		TEST(positions_that_cannot_be_are_not_believed),
		TEST(a_chunk_is_found_where_its_writer_put_it),
		TEST(full_backlog_delays_records_in_order),
		TEST(who_is_stopped_while_he_makes_a_record_is_awaited_until_the_backlog_is_full),
		TEST(records_of_a_kind_are_found_in_a_piece),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
