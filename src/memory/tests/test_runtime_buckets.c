#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/unit_test.h"
#include "memory/runtime_buckets.h"
#include "target/callback_memory.h"

/* The target's memory: variables, then buckets of a fixed size. */
#define BASE 0xc000010000ull
#define FIRST 16 /* word of the first bucket */
#define DEPTH 3
#define HEADER 6
#define BUCKETS 40
#define MOST_RECORD 16
#define BUCKET_WORDS (HEADER + DEPTH + MOST_RECORD)

enum { MBUCKETS, BBUCKETS, XBUCKETS, CYCLE, LOCK };

static const struct heap_variables variables = {
	.mbuckets = BASE + 8 * MBUCKETS,
	.bbuckets = BASE + 8 * BBUCKETS,
	.xbuckets = BASE + 8 * XBUCKETS,
	.cycle = BASE + 8 * CYCLE,
	.publish_lock = BASE + 8 * LOCK,
};

static uint64_t memory[(128 << 10) / 8];
static struct golayout lay;
static struct target *target;
static size_t cycle_words;

/* What happens between two reads; NULL: nothing. */
static void (*meanwhile)(void);

static int read_memory(void *arg, uint64_t address, void *buffer, size_t size)
{
	if (meanwhile)
		meanwhile();
	if (address < BASE || size > sizeof(memory) || address - BASE > sizeof(memory) - size)
		return 1;
	memcpy(buffer, (char *)memory + (address - BASE), size);
	return 0;
}

static uint64_t *bucket(size_t i)
{
	return &memory[FIRST + i * BUCKET_WORDS];
}

static uint64_t address_of(size_t i)
{
	return BASE + 8 * (FIRST + i * BUCKET_WORDS);
}

/* The counters of `active` (0) or of a future cycle. */
static uint64_t *cycle(size_t i, size_t which)
{
	return bucket(i) + HEADER + DEPTH + which * cycle_words;
}

static uint64_t *future(size_t i, uint64_t number)
{
	return cycle(i, 1 + number % 3);
}

static void set_cycle(uint64_t number)
{
	memory[CYCLE] = number << 1;
}

/* The list of all buckets, the last one first. */
static void link_buckets(size_t list, uint64_t kind, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t *b = bucket(i);

		b[1] = i ? address_of(i - 1) : 0;
		b[2] = kind;
		b[4] = kind == BUCKET_MEMORY ? 16 * (i + 1) : 0;
		b[5] = DEPTH;
		for (size_t j = 0; j < DEPTH; j++)
			b[HEADER + j] = 0x401000 + 16 * i + j;
	}
	memory[list] = count ? address_of(count - 1) : 0;
}

static int set_up_version(int minor)
{
	const struct target_callbacks callbacks = {read_memory, NULL, "made-up", 0};

	memset(memory, 0, sizeof(memory));
	lay = (struct golayout){.minor = minor, .n = *golayout_table(minor, 99)};
	cycle_words = lay.n.mem_cycle_bytes / 8;
	meanwhile = NULL;
	return target_open_callback(&callbacks, &target) != NULL;
}

static int set_up(void **state)
{
	return set_up_version(27);
}

static int set_up_old(void **state)
{
	return set_up_version(22);
}

static int tear_down(void **state)
{
	target_close(target);
	return 0;
}

static struct runtime_buckets read_all(enum bucket_kind kind, bool up_to_now)
{
	const struct buckets_wanted wanted = {.kind = kind, .up_to_now = up_to_now};
	struct runtime_buckets b = {0};

	assert_null(runtime_buckets_read(target, &lay, &variables, &wanted, &b));
	return b;
}

static void assert_refused(enum bucket_kind kind, const char *why)
{
	const struct buckets_wanted wanted = {.kind = kind};
	struct runtime_buckets b = {0};
	struct error *err = runtime_buckets_read(target, &lay, &variables, &wanted, &b);

	assert_non_null(err);
	assert_int_equal(err->code, ERROR_CORRUPT);
	if (!strstr(err->message, why))
		fail_msg("\"%s\" does not say \"%s\"", err->message, why);
	error_destroy(err);
}

static void buckets_come_with_their_stacks(void **state)
{
	struct runtime_buckets b;

	link_buckets(MBUCKETS, BUCKET_MEMORY, 3);
	cycle(1, 0)[0] = 5;
	b = read_all(BUCKET_MEMORY, false);
	assert_int_equal(b.count, 3);
	assert_int_equal(b.items[1].address, address_of(1));
	assert_int_equal(b.items[1].object_size, 32);
	assert_int_equal(b.items[1].depth, DEPTH);
	assert_int_equal(b.pcs[b.items[1].first + 2], 0x401000 + 16 + 2);
	assert_int_equal(b.items[1].allocs, 5);
	assert_int_equal(b.items[1].alloc_bytes, 5 * 32);
	runtime_buckets_release(&b);
}

/* memProfileInternal: active and the cycle that is about to be published; nothing newer. */
static void only_published_cycles_count(void **state)
{
	struct runtime_buckets b;

	link_buckets(MBUCKETS, BUCKET_MEMORY, 1);
	set_cycle(7);
	cycle(0, 0)[0] = 100;
	cycle(0, 0)[1] = 10;
	future(0, 7)[0] = 20;
	future(0, 8)[0] = 3;
	future(0, 8)[1] = 4;
	future(0, 9)[0] = 5;
	b = read_all(BUCKET_MEMORY, false);
	assert_int_equal(b.items[0].allocs, 120);
	assert_int_equal(b.items[0].frees, 10);
	runtime_buckets_release(&b);
	b = read_all(BUCKET_MEMORY, true);
	assert_int_equal(b.items[0].allocs, 128);
	assert_int_equal(b.items[0].frees, 14);
	assert_int_equal(b.items[0].alloc_bytes, 128 * 16);
	runtime_buckets_release(&b);
}

static void before_the_first_collection_all_counts(void **state)
{
	struct runtime_buckets b;

	link_buckets(MBUCKETS, BUCKET_MEMORY, 2);
	future(0, 2)[0] = 4;
	future(1, 2)[0] = 6;
	b = read_all(BUCKET_MEMORY, false);
	assert_int_equal(b.items[0].allocs + b.items[1].allocs, 10);
	runtime_buckets_release(&b);
}

static void up_to_go_1_26_bytes_are_counted_too(void **state)
{
	struct runtime_buckets b;

	assert_int_equal(cycle_words, 4);
	link_buckets(MBUCKETS, BUCKET_MEMORY, 1);
	memcpy(cycle(0, 0), (uint64_t[]){3, 1, 300, 100}, 32);
	b = read_all(BUCKET_MEMORY, false);
	assert_int_equal(b.items[0].alloc_bytes, 300);
	assert_int_equal(b.items[0].free_bytes, 100);
	runtime_buckets_release(&b);
}

static void events_are_read(void **state)
{
	double count = 2.5;
	struct runtime_buckets b;

	link_buckets(XBUCKETS, BUCKET_MUTEX, 1);
	memcpy(cycle(0, 0), &count, sizeof(count));
	cycle(0, 0)[1] = 77;
	b = read_all(BUCKET_MUTEX, false);
	assert_true(b.items[0].count == 2.5);
	assert_int_equal(b.items[0].cycles, 77);
	assert_int_equal(b.uncertain, 0);
	runtime_buckets_release(&b);
	b = read_all(BUCKET_BLOCK, false);
	assert_int_equal(b.count, 0);
	runtime_buckets_release(&b);
}

static void hostile_lists_are_refused(void **state)
{
	link_buckets(MBUCKETS, BUCKET_MEMORY, 3);
	bucket(0)[1] = address_of(2);
	assert_refused(BUCKET_MEMORY, "circle");
	bucket(0)[1] = 8;
	assert_refused(BUCKET_MEMORY, "unreadable");
	bucket(0)[1] = UINT64_MAX - 7;
	assert_refused(BUCKET_MEMORY, "unreadable");
	bucket(0)[1] = 0;
	bucket(0)[5] = 1ull << 60;
	assert_refused(BUCKET_MEMORY, "length of a stack");
	bucket(0)[5] = DEPTH;
	bucket(0)[2] = BUCKET_BLOCK;
	assert_refused(BUCKET_MEMORY, "another kind");
	/* Its counters lie behind the end of memory. */
	memory[MBUCKETS] = BASE + sizeof(memory) - 8 * (HEADER + DEPTH);
	memory[ARRAY_SIZE(memory) - DEPTH - HEADER + 2] = BUCKET_MEMORY;
	memory[ARRAY_SIZE(memory) - DEPTH - 1] = DEPTH;
	assert_refused(BUCKET_MEMORY, "counters");
}

/* ---- a runtime that goes on while it is read ---- */

/* Allocates, frees, collects and publishes, one step at each call. */
static struct {
	uint64_t number; /* of the cycle */
	size_t at;       /* the bucket that is published next */
	bool is_added;   /* its counts were added, and are not cleared yet */
	size_t calm;     /* steps until the next collection */
	enum { ALLOCATES, PUBLISHES, SWEEPS } phase;
	uint64_t published[BUCKETS]; /* allocations, as memProfileInternal would show them */
	uint64_t history[4096][BUCKETS];
	size_t moments;
} runtime;

static void remember(void)
{
	for (size_t i = 0; i < BUCKETS; i++)
		runtime.published[i] = cycle(i, 0)[0] + future(i, runtime.number)[0];
	if (runtime.moments < ARRAY_SIZE(runtime.history))
		memcpy(runtime.history[runtime.moments++], runtime.published,
		       sizeof(runtime.published));
}

/* mProf_FlushLocked, half a bucket at a time. */
static void publish_step(uint64_t number)
{
	uint64_t *from = future(runtime.at, number);

	memory[LOCK] = 1;
	if (!runtime.is_added) {
		cycle(runtime.at, 0)[0] += from[0];
		cycle(runtime.at, 0)[1] += from[1];
	} else {
		from[0] = from[1] = 0;
		runtime.at++;
	}
	runtime.is_added = !runtime.is_added;
	if (runtime.at < BUCKETS)
		return;
	runtime.at = 0;
	memory[LOCK] = 0;
	runtime.phase = runtime.phase == PUBLISHES ? SWEEPS : ALLOCATES;
	if (number == runtime.number)
		memory[CYCLE] |= 1;
	else
		remember();
}

static void allocate_step(void)
{
	size_t i = (size_t)rand() % BUCKETS;

	future(i, runtime.number + 2)[0]++;
	if (rand() % 2)
		future(i, runtime.number + 1)[1]++;
	if (runtime.calm-- > 0)
		return;
	runtime.calm = 200 + (size_t)rand() % 4000;
	set_cycle(++runtime.number);
	remember();
	runtime.phase = PUBLISHES;
}

static void step(void)
{
	for (int n = rand() % 3; n >= 0; n--) {
		if (runtime.phase == PUBLISHES)
			publish_step(runtime.number);
		else if (runtime.phase == SWEEPS)
			publish_step(runtime.number + 1);
		else
			allocate_step();
	}
}

static bool was_at_one_moment(const struct runtime_buckets *b)
{
	uint64_t seen[BUCKETS] = {0};

	for (size_t i = 0; i < b->count; i++)
		seen[(b->items[i].address - address_of(0)) / 8 / BUCKET_WORDS] = b->items[i].allocs;
	for (size_t i = 0; i < runtime.moments; i++)
		if (!memcmp(runtime.history[i], seen, sizeof(seen)))
			return true;
	return false;
}

static void what_is_read_is_of_one_moment(void **state)
{
	srand(1);
	link_buckets(MBUCKETS, BUCKET_MEMORY, BUCKETS);
	memset(&runtime, 0, sizeof(runtime));
	for (size_t i = 0; i < BUCKETS; i++)
		cycle(i, 0)[0] = 1;
	remember();
	meanwhile = step;
	for (size_t i = 0; i < 1000; i++) {
		struct runtime_buckets b = read_all(BUCKET_MEMORY, false);

		assert_true(was_at_one_moment(&b));
		runtime_buckets_release(&b);
	}
	assert_true(runtime.moments > 100);
	assert_true(runtime.moments < ARRAY_SIZE(runtime.history));
}

/* Both words of a record change at each read for a while. */
static void restless(void)
{
	static int left = 50;
	double count = rand();

	if (left-- <= 0)
		return;
	memcpy(cycle(0, 0), &count, sizeof(count));
	cycle(0, 0)[1]++;
}

static void an_event_that_is_counted_meanwhile_is_read_again(void **state)
{
	struct runtime_buckets b;
	double count;

	link_buckets(BBUCKETS, BUCKET_BLOCK, 1);
	meanwhile = restless;
	b = read_all(BUCKET_BLOCK, false);
	memcpy(&count, cycle(0, 0), sizeof(count));
	assert_true(b.items[0].count == count);
	assert_int_equal(b.items[0].cycles, cycle(0, 0)[1]);
	assert_int_equal(b.uncertain, 0);
	runtime_buckets_release(&b);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(buckets_come_with_their_stacks),
		TEST(only_published_cycles_count),
		TEST(before_the_first_collection_all_counts),
		cmocka_unit_test_setup_teardown(up_to_go_1_26_bytes_are_counted_too, set_up_old,
						tear_down),
		TEST(events_are_read),
		TEST(hostile_lists_are_refused),
		TEST(what_is_read_is_of_one_moment),
		TEST(an_event_that_is_counted_meanwhile_is_read_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
