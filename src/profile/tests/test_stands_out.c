#include "base/unit_test.h"

#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "profile/stands_out.h"
#include "tests/made_up.h"

static void find(const struct made_up *m, struct stands_out *ret)
{
	_cleanup_profile_symbols_ struct profile_symbols *symbols = made_up_symbolize(m);

	assert_null(stands_out_find(m->profile, symbols, ret));
}

static void add(struct made_up *m, enum profile_state state, const char *wait, uint64_t ms,
		const char *stack)
{
	made_up_add(m, &(struct made_up_sample){state, wait, NULL, ms, 0}, stack);
}

#define EXPECT(m, ...)                                                           \
	do {                                                                     \
		static const char *const expected[] = {__VA_ARGS__};             \
		_cleanup_stands_out_ struct stands_out s;                        \
                                                                                 \
		find(m, &s);                                                     \
		for (size_t i = 0; i < s.grave && i < ARRAY_SIZE(expected); i++) \
			assert_string_equal(s.sentences[i].text, expected[i]);   \
		assert_int_equal(s.grave, ARRAY_SIZE(expected));                 \
	} while (0)

#define EXPECT_NOTHING(m)                                 \
	do {                                              \
		_cleanup_stands_out_ struct stands_out s; \
                                                          \
		find(m, &s);                              \
		assert_int_equal(s.grave, 0);             \
	} while (0)

#define REQUEST "net/http.(*conn).serve;net/http.serverHandler.ServeHTTP;main.(*API).get;"

static void a_service_waits_for_connections_and_locks(void **state)
{
	_cleanup_(made_up_deinit) struct made_up m;

	(void)state;
	made_up_service(&m);
	EXPECT(&m, "50 % of request time waits for select in sql.(*DB).conn",
	       "21 % of request time waits for sync.Mutex.Lock in "
	       "cache.(*Cache[...]).Get",
	       "17 cores busy; 57 % of CPU time in rank.(*Index).Score",
	       "8.4 goroutines wait for a CPU, 33 % of the time in which they could run");
}

static void a_view_shows_what_a_sentence_speaks_of(void **state)
{
	_cleanup_(made_up_deinit) struct made_up m;
	_cleanup_stands_out_ struct stands_out s;

	(void)state;
	made_up_service(&m);
	find(&m, &s);
	assert_string_equal(s.sentences[1].focus,
			    "^shop/internal/cache\\.\\(\\*Cache\\[\\.\\.\\.\\]\\)\\.Get$");
	assert_string_equal(s.sentences[1].wait, "sync.Mutex.Lock");
	assert_false(s.sentences[1].idle);
	assert_string_equal(s.sentences[2].kind, "running");
	assert_null(s.sentences[2].wait);
}

static void a_lock_outside_requests_is_a_finding(void **state)
{
	_cleanup_(made_up_deinit) struct made_up m;

	(void)state;
	made_up_init(&m, "x", 1000);
	add(&m, PROFILE_WAITING, "sync.Mutex.Lock", 3240, "main.worker;sync.(*Mutex).Lock");
	EXPECT(&m, "3.2 goroutines wait for sync.Mutex.Lock in main.worker");
	add(&m, PROFILE_RUNNABLE, NULL, 10, REQUEST "main.(*API).list");
	EXPECT(&m, "3.2 goroutines outside requests wait for sync.Mutex.Lock in main.worker");
}

static void cpu_time_is_named_by_the_deepest_function_that_holds_it(void **state)
{
	_cleanup_(made_up_deinit) struct made_up m;

	(void)state;
	made_up_init(&m, "x", 1000);
	add(&m, PROFILE_RUNNING, NULL, 380,
	    "runtime.main;main.main;main.send;encoding/json.Marshal;"
	    "encoding/json.(*encodeState).marshal;encoding/json.(*encodeState).reflectValue");
	add(&m, PROFILE_RUNNING, NULL, 100, "runtime.main;main.main;main.send");
	add(&m, PROFILE_RUNNING, NULL, 520, "main.other;runtime.mallocgc");
	EXPECT(&m, "1.0 cores busy; 52 % of CPU time in main.other");
	made_up_deinit(&m);
	made_up_init(&m, "x", 1000);
	add(&m, PROFILE_RUNNING, NULL, 380,
	    "main.main;main.send;encoding/json.Marshal;encoding/json.(*encodeState).marshal;"
	    "encoding/json.(*encodeState).reflectValue");
	add(&m, PROFILE_RUNNING, NULL, 120, "main.main;main.send");
	EXPECT(&m, "0.50 cores busy; 76 % of CPU time in json.Marshal");
}

static void the_collector_is_said_from_a_tenth_of_cpu_time_on(void **state)
{
	_cleanup_(made_up_deinit) struct made_up m;

	(void)state;
	made_up_init(&m, "x", 1000);
	add(&m, PROFILE_RUNNING, NULL, 180, "runtime.gcBgMarkWorker;runtime.gcDrain");
	add(&m, PROFILE_RUNNING, NULL, 820, "main.main");
	EXPECT(&m, "1.0 cores busy; 82 % of CPU time in main.main",
	       "18 % of CPU time is garbage collection");
}

static void a_crowd_at_one_place_is_counted(void **state)
{
	_cleanup_(made_up_deinit) struct made_up m;

	(void)state;
	made_up_init(&m, "x", 10);
	add(&m, PROFILE_WAITING, "chan receive", 102310, "main.leak.func1;runtime.chanrecv1");
	EXPECT(&m, "10,231 goroutines wait for chan receive in main.leak.func1");
}

static void unused_connections_are_no_crowd(void **state)
{
	_cleanup_(made_up_deinit) struct made_up m;

	(void)state;
	made_up_init(&m, "x", 10);
	add(&m, PROFILE_WAITING, "IO wait", 102310,
	    "net/http.(*conn).serve;bufio.(*Reader).Peek;net.(*conn).Read");
	EXPECT_NOTHING(&m);
}

/* A view that shows idle goroutines too: leaked goroutines stay at one place during the whole
 * recording. */
static void a_crowd_that_stands_still_is_shown(void **state)
{
	_cleanup_(made_up_deinit) struct made_up m;
	_cleanup_stands_out_ struct stands_out s;

	(void)state;
	made_up_init(&m, "x", 1000);
	made_up_add(&m, &(struct made_up_sample){PROFILE_WAITING, "chan send", NULL, 100000, 90000},
		    "main.leak.func1;runtime.chansend1");
	find(&m, &s);
	assert_string_equal(s.sentences[0].text,
			    "100 goroutines wait for chan send in main.leak.func1");
	assert_true(s.sentences[0].idle);
}

static void system_calls_are_said_with_their_caller(void **state)
{
	_cleanup_(made_up_deinit) struct made_up m;

	(void)state;
	made_up_init(&m, "x", 1000);
	add(&m, PROFILE_SYSCALL, NULL, 850, "main.log;os.(*File).Write;syscall.write");
	EXPECT(&m, "0.85 goroutines in system calls, most of them in main.log");
}

static void a_dump_counts_goroutines(void **state)
{
	_cleanup_(made_up_deinit) struct made_up m;

	(void)state;
	made_up_init(&m, "x", 0);
	add(&m, PROFILE_WAITING, "sync.Mutex.Lock", 500, "main.worker;sync.(*Mutex).Lock");
	m.profile->samples[0].wall_ns = 0;
	EXPECT(&m, "50 goroutines wait for sync.Mutex.Lock in main.worker");
}

static void findings_without_a_duration_have_shares_only(void **state)
{
	_cleanup_(made_up_deinit) struct made_up m;

	(void)state;
	made_up_service(&m);
	m.profile->duration_ns = 0;
	EXPECT(&m, "50 % of request time waits for select in sql.(*DB).conn",
	       "21 % of request time waits for sync.Mutex.Lock in "
	       "cache.(*Cache[...]).Get");
	for (size_t i = 0; i < m.profile->count; i++)
		m.profile->samples[i].wall_ns = m.profile->samples[i].count = 0;
	EXPECT_NOTHING(&m);
}

static void nothing_is_said_of_a_program_that_idles(void **state)
{
	_cleanup_(made_up_deinit) struct made_up m;

	(void)state;
	made_up_idle(&m);
	EXPECT_NOTHING(&m);
	made_up_deinit(&m);
	made_up_nothing(&m);
	EXPECT_NOTHING(&m);
}

/* Facts about any profile come after the grave findings. */
static void expect_rest(const struct made_up *m, const char *const *expected, size_t count)
{
	_cleanup_stands_out_ struct stands_out s;

	find(m, &s);
	for (size_t i = 0; i < count && s.grave + i < s.count; i++)
		assert_string_equal(s.sentences[s.grave + i].text, expected[i]);
	assert_int_equal(s.count - s.grave, count);
}

#define EXPECT_REST(m, ...)                                \
	expect_rest(m, (const char *const[]){__VA_ARGS__}, \
		    ARRAY_SIZE(((const char *const[]){__VA_ARGS__})))

static void what_any_profile_has_is_said_as_well(void **state)
{
	_cleanup_(made_up_deinit) struct made_up m;

	(void)state;
	made_up_service(&m);
	EXPECT_REST(
		&m,
		"46 % of all time waits for work: 34 % in http.(*conn).serve, 10 % in main.(*worker).run");
	made_up_deinit(&m);
	made_up_idle(&m);
	EXPECT_REST(&m, "99.8 % of all time waits for work: 99.8 % in main.main",
		    "5.0 goroutines on average, 100 % of them in main.main",
		    "CPU time by function: 100 % main.main");
	made_up_deinit(&m);
	made_up_small(&m);
	EXPECT_REST(&m, "1.0 goroutines on average, 70 % of them in main.query",
		    "Of what is not idle, 57 % waits for chan receive in main.query");
}

static void waits_every_two_seconds_are_a_finding(void **state)
{
	_cleanup_(made_up_deinit) struct made_up m;
	_cleanup_stands_out_ struct stands_out found;

	(void)state;
	made_up_bursts(&m);
	EXPECT(&m, "2.5 goroutines wait for sync.Mutex.Lock in main.store",
	       "Every 2.0 s, for 500 ms, 10 goroutines wait for sync.Mutex.Lock in main.store",
	       "0.75 cores busy; 100 % of CPU time in main.compute");
	EXPECT_REST(&m, "24 % of all time waits for work: 24 % in main.janitor",
		    "4.2 goroutines on average, 59 % of them in main.store");
	find(&m, &found);
	assert_string_equal(found.sentences[1].focus, "^main\\.store$");
	assert_string_equal(found.sentences[1].wait, "sync.Mutex.Lock");
}

static void irregular_bursts_are_no_rhythm(void **state)
{
	static const uint64_t begins[] = {100, 400, 2900, 3300, 7000, 9100};
	_cleanup_(made_up_deinit) struct made_up m;
	_cleanup_stands_out_ struct stands_out s;

	(void)state;
	made_up_init(&m, "x", 10000);
	for (size_t i = 0; i < ARRAY_SIZE(begins); i++)
		made_up_add_from(&m,
				 &(struct made_up_sample){PROFILE_WAITING, "sync.Mutex.Lock", NULL,
							  1000, 0},
				 begins[i], begins[i] + 200, "main.main;main.a;main.b;main.c");
	find(&m, &s);
	for (size_t i = 0; i < s.count; i++)
		assert_null(strstr(s.sentences[i].text, "Every"));
}

static void a_lock_of_a_trace_is_called_so(void **state)
{
	_cleanup_(made_up_deinit) struct made_up m;

	(void)state;
	made_up_init(&m, "x", 1000);
	add(&m, PROFILE_WAITING, "sync", 3240, "main.worker;sync.(*Mutex).Lock");
	EXPECT(&m, "3.2 goroutines wait for a lock (sync) in main.worker");
}

static void the_collectors_semaphores_are_no_lock(void **state)
{
	_cleanup_(made_up_deinit) struct made_up m;

	(void)state;
	made_up_collector(&m);
	EXPECT(&m, "1.0 goroutines wait for semacquire in main.replace");
}

static void a_simple_profile_has_three_sentences(void **state)
{
	_cleanup_(made_up_deinit) struct made_up m;

	(void)state;
	made_up_init(&m, "x", 1000);
	add(&m, PROFILE_RUNNING, NULL, 600, "main.main;main.compute;main.hash");
	add(&m, PROFILE_RUNNING, NULL, 300, "main.main;main.compute");
	add(&m, PROFILE_RUNNABLE, NULL, 100, "main.main;main.compute");
	EXPECT(&m, "0.90 cores busy; 67 % of CPU time in main.hash");
	EXPECT_REST(&m, "1.0 goroutines on average, 60 % of them in main.hash",
		    "Of all time, goroutines are 90 % on a CPU, 10 % waiting for a CPU");
	made_up_deinit(&m);
	made_up_init(&m, "x", 1000);
	add(&m, PROFILE_RUNNING, NULL, 600, "main.main;main.compute;main.hash");
	add(&m, PROFILE_RUNNING, NULL, 400, "main.main;main.compute");
	EXPECT_REST(&m, "1.0 goroutines on average, 60 % of them in main.hash",
		    "CPU time by function: 60 % main.hash, 40 % main.compute");
	made_up_deinit(&m);
	made_up_init(&m, "x", 1000);
	add(&m, PROFILE_WAITING, "sleep", 600, "main.main;main.a;main.b;main.fetch");
	add(&m, PROFILE_WAITING, "chan send", 200, "main.main;main.a;main.b;main.fetch");
	EXPECT_REST(&m, "0.80 goroutines on average, 100 % of them in main.fetch",
		    "Of what is not idle, 75 % waits for a timer (sleep) in main.fetch",
		    "Blocked, by reason: 75 % a timer (sleep), 25 % chan send");
}

static void growth_is_said_with_both_numbers(void **state)
{
	_cleanup_(made_up_deinit) struct made_up m;

	(void)state;
	made_up_hour(&m);
	EXPECT(&m, "The number of goroutines grows from 14 to 105");
}

static void the_longest_wait_is_said_with_its_goroutine(void **state)
{
	_cleanup_(made_up_deinit) struct made_up m;

	(void)state;
	made_up_init(&m, "x", 10000);
	made_up_add(&m, &(struct made_up_sample){PROFILE_WAITING, "sleep", NULL, 9000, 0, 9000},
		    "main.poll;time.Sleep");
	made_up_add(&m, &(struct made_up_sample){PROFILE_WAITING, "chan send", NULL, 900, 0, 480},
		    "main.main;main.a;main.b;main.c");
	EXPECT_REST(&m, "91 % of all time waits for work: 91 % in main.poll",
		    "0.99 goroutines on average, 91 % of them in main.poll",
		    "The longest wait: 480 ms, goroutine 18, for chan send in main.c");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_service_waits_for_connections_and_locks),
		cmocka_unit_test(a_view_shows_what_a_sentence_speaks_of),
		cmocka_unit_test(a_lock_outside_requests_is_a_finding),
		cmocka_unit_test(cpu_time_is_named_by_the_deepest_function_that_holds_it),
		cmocka_unit_test(the_collector_is_said_from_a_tenth_of_cpu_time_on),
		cmocka_unit_test(a_crowd_at_one_place_is_counted),
		cmocka_unit_test(unused_connections_are_no_crowd),
		cmocka_unit_test(a_crowd_that_stands_still_is_shown),
		cmocka_unit_test(system_calls_are_said_with_their_caller),
		cmocka_unit_test(a_dump_counts_goroutines),
		cmocka_unit_test(findings_without_a_duration_have_shares_only),
		cmocka_unit_test(nothing_is_said_of_a_program_that_idles),
		cmocka_unit_test(what_any_profile_has_is_said_as_well),
		cmocka_unit_test(waits_every_two_seconds_are_a_finding),
		cmocka_unit_test(irregular_bursts_are_no_rhythm),
		cmocka_unit_test(a_lock_of_a_trace_is_called_so),
		cmocka_unit_test(the_collectors_semaphores_are_no_lock),
		cmocka_unit_test(a_simple_profile_has_three_sentences),
		cmocka_unit_test(growth_is_said_with_both_numbers),
		cmocka_unit_test(the_longest_wait_is_said_with_its_goroutine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
