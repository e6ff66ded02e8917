#include "base/unit_test.h"

#include "base/cleanup.h"
#include "profile/goroutine_rows.h"
#include "profile/profile.h"
#include "profile/profile_symbols.h"

#define MS 1000000u

enum { RUNS, ACCEPTS, LOCKS, OTHER_LOCK };

static size_t frames_of(const void *functions, uint64_t word, struct go_frame *ret, size_t max)
{
	static const char *const names[] = {"main.run", "net.(*TCPListener).Accept",
					    "sync.(*Mutex).Lock", "sync.(*RWMutex).RLock"};

	(void)functions;
	if (!max || word < 1000 || word > 1003)
		return 0;
	*ret = (struct go_frame){.function = names[word - 1000], .file = "a.go", .line = 1};
	return 1;
}

/* 1 s: one sample runs, one waits for a connection, and two wait for locks. */
struct fixture {
	struct profile *profile;
	struct profile_symbols *symbols;
	struct goroutine_ledger ledger;
	struct goroutine_rows rows;
};

static void make(struct fixture *f)
{
	const struct symbol_source source = {frames_of, NULL};

	*f = (struct fixture){.profile = profile_create()};
	assert_non_null(f->profile);
	f->profile->duration_ns = 1000 * MS;
	for (uint32_t i = RUNS; i <= OTHER_LOCK; i++) {
		const char *wait = i == ACCEPTS ? "IO wait" : "sync.Mutex.Lock";
		uint64_t word = 1000 + i;
		struct profile_sample sample = {
			.pcs = &word,
			.depth = 1,
			.state = i == RUNS ? PROFILE_RUNNING : PROFILE_WAITING,
			.wait = i == RUNS ? 0 : intern_string(&f->profile->strings, wait),
			.wall_ns = MS,
		};

		assert_null(profile_append(f->profile, &sample));
	}
	assert_null(symbols_create(f->profile, &source, &f->symbols));
}

static void release(struct fixture *f)
{
	goroutine_ledger_release(&f->ledger);
	goroutine_rows_release(&f->rows);
	profile_symbols_destroy(f->symbols);
	profile_destroy(f->profile);
}

static struct goroutine_time time_of(uint64_t goroutine, uint32_t sample, uint64_t from_ms,
				     uint64_t to_ms)
{
	return (struct goroutine_time){.goroutine = goroutine,
				       .sample = sample,
				       .begin = from_ms * MS,
				       .end = to_ms * MS};
}

static void add(struct fixture *f, uint64_t goroutine, uint32_t sample, uint64_t from, uint64_t to)
{
	struct goroutine_time time = time_of(goroutine, sample, from, to);

	assert_null(goroutine_ledger_add(&f->ledger, f->profile, &time));
}

static void choose(struct fixture *f)
{
	assert_null(goroutine_ledger_choose(&f->ledger, f->profile, f->symbols, &f->rows));
}

static const struct goroutine_row *row_of(const struct fixture *f, uint64_t goroutine)
{
	const uint64_t *place = map_find(&f->rows.index, goroutine);

	return place ? &f->rows.rows[*place - 1] : NULL;
}

static void the_busiest_and_the_longest_waiting_are_chosen(void **state)
{
	struct fixture f;

	(void)state;
	make(&f);
	/* Goroutine g runs for g ms. The last 200 are chosen by that, and 10 of the others by their
	 * waits. */
	for (uint64_t g = 1; g <= 500; g++)
		add(&f, g, RUNS, 0, g);
	for (uint64_t g = 1; g <= 10; g++)
		add(&f, g, LOCKS, 500, 500 + g);
	choose(&f);
	assert_int_equal(f.rows.count, 210);
	assert_non_null(row_of(&f, 301));
	assert_null(row_of(&f, 300));
	assert_null(row_of(&f, 11));
	assert_int_equal(row_of(&f, 10)->longest_ns, 10 * MS);
	assert_int_equal(f.rows.others, 290);
	assert_int_equal(f.rows.others_cpu_ns, (11 + 300) * 290 / 2 * (uint64_t)MS);
	assert_int_equal(f.rows.others_wall_ns, f.rows.others_cpu_ns);
	release(&f);
}

static void waits_for_work_and_all_through_do_not_count(void **state)
{
	struct fixture f;

	(void)state;
	make(&f);
	add(&f, 1, ACCEPTS, 0, 900);
	add(&f, 2, LOCKS, 0, 1000);
	add(&f, 3, ACCEPTS, 0, 600);
	add(&f, 3, LOCKS, 600, 605);
	add(&f, 3, OTHER_LOCK, 700, 720);
	add(&f, 3, LOCKS, 800, 830);
	choose(&f);
	assert_int_equal(f.rows.count, 1);
	assert_int_equal(f.rows.rows[0].goroutine, 3);
	assert_int_equal(f.rows.rows[0].longest_ns, 30 * MS);
	assert_int_equal(f.rows.others, 2);
	release(&f);
}

static void a_row_has_its_time_in_each_sample(void **state)
{
	const struct goroutine_time times[] = {time_of(7, RUNS, 0, 20), time_of(8, RUNS, 0, 30),
					       time_of(7, LOCKS, 20, 50), time_of(7, RUNS, 50, 60),
					       time_of(9, RUNS, 60, 61)};
	_cleanup_free_ struct timeline_step *steps = NULL;
	struct fixture f;
	size_t count;

	(void)state;
	make(&f);
	add(&f, 7, RUNS, 0, 30);
	choose(&f);
	for (size_t i = 0; i < 5; i++)
		assert_null(goroutine_rows_add(&f.rows, &times[i]));
	assert_int_equal(f.rows.part_count, 2);
	assert_int_equal(f.rows.parts[0].sample, RUNS);
	assert_int_equal(f.rows.parts[0].ns, 30 * MS);
	assert_int_equal(f.rows.parts[1].sample, LOCKS);
	assert_int_equal(f.rows.parts[1].ns, 30 * MS);
	assert_null(timeline_steps(&f.rows.timeline, &steps, &count));
	/* Columns of 10 ms: 0 to 20 and 50 to 60 have one, 20 to 50 the other. */
	assert_int_equal(count, 6);
	assert_int_equal(steps[1].column, 2);
	assert_int_equal(steps[1].ns, 0);
	assert_int_equal(steps[4].row, 1);
	assert_int_equal(steps[4].column, 2);
	assert_int_equal(steps[4].ns, 10 * MS);
	release(&f);
}

static void few_goroutines_all_have_a_row(void **state)
{
	struct goroutine_time time = time_of(1, ACCEPTS, 0, 900);
	struct fixture f;

	(void)state;
	make(&f);
	for (; time.goroutine <= 2 * GOROUTINE_ROWS_EACH; time.goroutine++) {
		add(&f, time.goroutine, ACCEPTS, 0, 900);
		assert_null(goroutine_rows_offer(&f.rows, &time));
		assert_null(goroutine_rows_offer(&f.rows, &time));
	}
	add(&f, 5, LOCKS, 900, 907);
	choose(&f);
	assert_int_equal(f.rows.count, 2 * GOROUTINE_ROWS_EACH);
	assert_int_equal(f.rows.others, 0);
	assert_int_equal(f.rows.parts[4].ns, 1800 * MS);
	assert_int_equal(row_of(&f, 5)->longest_ns, 7 * MS);
	add(&f, time.goroutine, RUNS, 0, 1);
	assert_null(goroutine_rows_offer(&f.rows, &time));
	assert_true(f.rows.is_full);
	assert_int_equal(f.rows.count, 0);
	choose(&f);
	assert_int_equal(f.rows.count, 2);
	assert_int_equal(f.rows.others, 2 * GOROUTINE_ROWS_EACH - 1);
	release(&f);
}

static void memory_is_bounded(void **state)
{
	struct fixture f;

	(void)state;
	make(&f);
	for (uint64_t g = 1; g <= GOROUTINE_ROWS_MOST_SUMS + 3; g++)
		add(&f, g, RUNS, 0, 1);
	assert_int_equal(f.ledger.count, GOROUTINE_ROWS_MOST_SUMS);
	choose(&f);
	assert_int_equal(f.rows.count, GOROUTINE_ROWS_EACH);
	assert_int_equal(f.rows.others_cpu_ns,
			 (GOROUTINE_ROWS_MOST_SUMS + 3 - GOROUTINE_ROWS_EACH) * (uint64_t)MS);
	for (uint32_t sample = 0; sample < GOROUTINE_ROWS_MOST_PARTS + 3; sample++) {
		struct goroutine_time time = time_of(1, sample, 0, 1);

		assert_null(goroutine_rows_add(&f.rows, &time));
	}
	assert_int_equal(f.rows.part_count, GOROUTINE_ROWS_MOST_PARTS);
	release(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_busiest_and_the_longest_waiting_are_chosen),
		cmocka_unit_test(waits_for_work_and_all_through_do_not_count),
		cmocka_unit_test(a_row_has_its_time_in_each_sample),
		cmocka_unit_test(few_goroutines_all_have_a_row),
		cmocka_unit_test(memory_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
