#include "base/unit_test.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "why/stack_kind.h"
#include "why/why_rules.h"

/* ---- what a stack is ---- */

#define STACK(...) ((const char *const[]){__VA_ARGS__, NULL})
#define PARK "runtime.gopark"
#define SELECT PARK, "runtime.selectgo"
#define CALL "syscall.Syscall"

static enum stack_kind kind_of(enum profile_state state, const char *wait,
			       const char *const *functions, const char **ret_place)
{
	struct stack_view view = {.state = state, .wait = wait, .functions = functions};
	enum stack_kind kind;
	size_t at;

	while (functions[view.count])
		view.count++;
	kind = stack_kind_of(&view, &at);
	*ret_place = functions[at];
	return kind;
}

static void check_kind(enum stack_kind kind, const char *place, enum profile_state state,
		       const char *wait, const char *const *functions)
{
	const char *found;

	assert_int_equal(kind_of(state, wait, functions, &found), kind);
	assert_string_equal(found, place);
}

static void a_stack_shows_what_it_waits_for(void **state)
{
	check_kind(STACK_LOCK, "main.put", PROFILE_WAITING, "sync.Mutex.Lock",
		   STACK(PARK, "sync.(*Mutex).lockSlow", "sync.(*Mutex).Lock", "main.put",
			 "main.main"));
	/* Up to Go 1.19 the reason is the same for a mutex and for a WaitGroup. */
	check_kind(STACK_LOCK, "main.put", PROFILE_WAITING, "semacquire",
		   STACK(PARK, "sync.runtime_SemacquireMutex", "sync.(*Mutex).lockSlow", "main.put",
			 "main.main"));
	check_kind(STACK_WORK, "main.main", PROFILE_WAITING, "semacquire",
		   STACK(PARK, "sync.(*WaitGroup).Wait", "main.main", "runtime.main"));
	check_kind(STACK_POOL, "main.query", PROFILE_WAITING, "select",
		   STACK(SELECT, "database/sql.(*DB).conn", "database/sql.(*DB).query",
			 "database/sql.(*DB).QueryContext", "main.query", "main.handle"));
	check_kind(STACK_PEER, "main.fetch", PROFILE_WAITING, "select",
		   STACK(SELECT, "net/http.(*persistConn).roundTrip",
			 "net/http.(*Transport).roundTrip", "net/http.(*Client).Do", "main.fetch",
			 "main.run.func1"));
	check_kind(STACK_SEND, "main.produce", PROFILE_WAITING, "chan send",
		   STACK(PARK, "runtime.chansend", "runtime.chansend1", "main.produce"));
	check_kind(STACK_WORK, "main.worker", PROFILE_WAITING, "chan receive",
		   STACK(PARK, "runtime.chanrecv", "runtime.chanrecv2", "main.worker"));
}

static void system_calls_for_files_are_told_from_others(void **state)
{
	check_kind(STACK_DISK, "main.commit", PROFILE_SYSCALL, "",
		   STACK(CALL, "syscall.Fsync", "internal/poll.(*FD).Fsync", "os.(*File).Sync",
			 "main.commit"));
	/* It may be a terminal. */
	check_kind(STACK_FILE, "main.main", PROFILE_SYSCALL, "",
		   STACK(CALL, "syscall.read", "internal/poll.(*FD).Read", "os.(*File).Read",
			 "main.main"));
	check_kind(STACK_CALL, "main.main", PROFILE_SYSCALL, "",
		   STACK(CALL, "syscall.Wait4", "os.(*Process).Wait", "main.main"));
}

static void running_and_empty_stacks_have_a_kind(void **state)
{
	const char *place = "none";

	check_kind(STACK_RUNS, "main.main", PROFILE_RUNNING, "", STACK("main.main"));
	check_kind(STACK_READY, "main.main", PROFILE_RUNNABLE, "", STACK(PARK, "main.main"));
	kind_of(PROFILE_WAITING, "select", STACK(NULL), &place);
	assert_null(place);
}

/* ---- made-up programs ---- */

static struct why_numbers healthy(void)
{
	struct why_numbers n;

	why_numbers_init(&n);
	n.target = "-p 7";
	n.seconds = 10;
	n.state = 'S';
	n.goroutines = 120;
	n.moves = 5000;
	n.running = 1.2;
	n.ready = 0.3;
	n.working = 8;
	n.cpu = (struct why_cpu){.cores = 1.2,
				 .procs = 4,
				 .gc = 0.08,
				 .timers = 0.02,
				 .gc_rate = 3,
				 .samples = 1200,
				 .steal = 0.01};
	n.memory = (struct why_memory){.rss = {100000000, 101000000},
				       .heap_live = 60000000,
				       .group_limit = 500000000,
				       .group_used = 120000000};
	return n;
}

static struct why_findings find(struct why_numbers *n)
{
	struct why_findings f;

	why_sort_places(n);
	assert_null(why_find(n, &f));
	return f;
}

/* The first finding has this kind and severity, and these words in its sentence or evidence. */
static void check(struct why_numbers *n, const char *kind, enum why_severity severity,
		  const char *sentence, const char *evidence)
{
	_cleanup_why_findings_ struct why_findings f = find(n);

	assert_true(f.count > 0);
	assert_string_equal(f.items[0].kind, kind);
	assert_int_equal(f.items[0].severity, severity);
	assert_string_equal(f.items[0].sentence, sentence);
	assert_string_equal(f.items[0].evidence, evidence);
	assert_non_null(strstr(f.items[0].next, "7"));
	why_numbers_release(n);
}

static void check_nothing(struct why_numbers *n)
{
	_cleanup_why_findings_ struct why_findings f = find(n);

	assert_int_equal(f.count, 0);
	why_numbers_release(n);
}

static void add(struct why_numbers *n, enum stack_kind kind, const char *function, const char *wait,
		double goroutines, double length)
{
	const struct why_place p = {kind, function, wait, goroutines, 0, length};

	assert_true(why_add_place(n, &p));
	n->working += goroutines;
}

static void a_healthy_program_has_no_finding(void **state)
{
	struct why_numbers n = healthy();

	/* Ordinary contention, quick peers, a journal that is written now and then. */
	add(&n, STACK_LOCK, "main.put", "sync.Mutex.Lock", 0.4, 0.0002);
	add(&n, STACK_PEER, "main.fetch", "select", 5, 0.02);
	add(&n, STACK_DISK, "main.commit", "", 0.3, 0.004);
	add(&n, STACK_SEND, "main.produce", "chan send", 2, 0.001);
	check_nothing(&n);
}

static void a_convoy_names_its_lock_and_its_holder(void **state)
{
	struct why_numbers n = healthy();

	n.objects = calloc(1, sizeof(*n.objects));
	n.object_count = 1;
	n.objects[0] = (struct why_object){.name = "mutex 0x10 (main.mu)",
					   .waiters = 14,
					   .looks = 5,
					   .holder = {.function = "a.b/c.put",
						      .stands = "sleep",
						      .proved = true,
						      .looks = 4}};
	add(&n, STACK_LOCK, "main.put", "sync.Mutex.Lock", 14.2, 0.082);
	check(&n, "lock_convoy", WHY_SERIOUS,
	      "Slow: 14 goroutines wait for a lock, 64 % of those at work: mutex 0x10 (main.mu)",
	      "a wait in main.put [sync.Mutex.Lock] takes 82 ms; c.put holds it in 4 of 5 looks, "
	      "while it is in [sleep]");
}

static void a_lock_that_is_never_given_back_is_hung_and_not_slow(void **state)
{
	struct why_numbers n = healthy();
	const struct why_place p = {STACK_LOCK, "main.put", "sync.Mutex.Lock", 0, 8, 0};

	assert_true(why_add_place(&n, &p));
	n.of_kind[STACK_LOCK] = 8;
	check(&n, "stuck_lock", WHY_CRITICAL,
	      "Hung: 8 goroutines waited for a lock all the time, 10 s",
	      "they wait in main.put [sync.Mutex.Lock]");
}

static void a_deadlock_comes_before_all_else(void **state)
{
	struct why_numbers n = healthy();

	n.cycles = calloc(1, sizeof(*n.cycles));
	n.cycle_count = 1;
	n.cycles[0] = (struct why_cycle){2, true, "goroutine 18 waits"};
	n.cpu.gc = 0.7;
	add(&n, STACK_PEER, "main.fetch", "select", 8, 0.4);
	check(&n, "deadlock", WHY_CRITICAL,
	      "Hung: a deadlock: 2 goroutines wait for each other and can never go on",
	      "goroutine 18 waits");
}

static void the_goroutines_of_a_deadlock_are_told_once(void **state)
{
	struct why_numbers n = healthy();
	_cleanup_why_findings_ struct why_findings f = {0};
	const struct why_place p = {STACK_LOCK, "main.put", "sync.Mutex.Lock", 0, 2, 0};

	n.cycles = calloc(1, sizeof(*n.cycles));
	n.cycle_count = 1;
	n.cycles[0] = (struct why_cycle){2, true, "goroutine 18 waits"};
	assert_true(why_add_place(&n, &p));
	n.of_kind[STACK_LOCK] = 2;
	n.working = 3;
	f = find(&n);
	assert_int_equal(f.count, 1);
	assert_string_equal(f.items[0].kind, "deadlock");
	why_numbers_release(&n);
}

static void a_cycle_of_candidates_is_a_suspicion(void **state)
{
	struct why_numbers n = healthy();

	n.cycles = calloc(1, sizeof(*n.cycles));
	n.cycle_count = 1;
	n.cycles[0] = (struct why_cycle){1, false, "goroutine 18 waits"};
	check(&n, "deadlock", WHY_MINOR,
	      "Perhaps hung: a deadlock: 1 goroutine waits for a lock that it holds itself, if the "
	      "holders are right",
	      "goroutine 18 waits");
}

static void pool_disk_and_peer_are_told_apart(void **state)
{
	struct why_numbers n = healthy();

	add(&n, STACK_POOL, "main.query", "select", 10, 0.5);
	add(&n, STACK_POOL_USE, "main.(*stmt).Query", "IO wait", 2, 0);
	n.working -= 2;
	check(&n, "pool_exhausted", WHY_SERIOUS,
	      "Slow: the connection pool is exhausted: 10 goroutines wait for a free connection, 56 % "
	      "of those at work",
	      "a wait in main.query [select] takes 500 ms; 2 goroutines use the connections, most in "
	      "main.(*stmt).Query [IO wait]");
	n = healthy();
	add(&n, STACK_DISK, "main.commit", "", 7.2, 0.0521);
	n.sleeping = 5.7;
	check(&n, "slow_disk", WHY_SERIOUS,
	      "Slow: the disk is slow: 7.2 goroutines wait for files, 47 % of those at work",
	      "a system call in main.commit takes 52 ms; threads in uninterruptible sleep: 5.7");
	n = healthy();
	add(&n, STACK_PEER, "main.fetch", "select", 8, 0.391);
	n.peer = (struct why_peer){"10.0.0.7:80", 1, 15, true};
	check(&n, "slow_peer", WHY_SERIOUS,
	      "Slow: a peer is slow: 8 goroutines wait for the network, most for 10.0.0.7:80",
	      "a wait in main.fetch [select] takes 391 ms; 10.0.0.7:80 is the other end of 1 "
	      "connection (one is fd 15)");
}

static void a_read_of_a_terminal_is_no_slow_disk(void **state)
{
	struct why_numbers n = healthy();

	n.working = 0;
	add(&n, STACK_FILE, "main.main", "", 1, 0.9);
	n.sleeping = 0;
	check_nothing(&n);
}

/* ---- growth ---- */

static struct why_creator creator(double first, double step, double ended)
{
	struct why_creator c = {.function = "main.accept",
				.file = "/src/main.go",
				.line = 12,
				.first = first,
				.ended = ended,
				.place = "main.wait",
				.wait = "chan receive",
				.at_place = 90};

	for (size_t i = 0; i < WHY_PARTS; i++)
		c.alive[i] = first + step * (double)(i + 1);
	return c;
}

static void give(struct why_numbers *n, struct why_creator c)
{
	n->creators = calloc(1, sizeof(c));
	n->creators[0] = c;
	n->creator_count = 1;
}

static void goroutines_that_only_grow_leak(void **state)
{
	struct why_numbers n = healthy();

	give(&n, creator(100, 12.5, 0));
	check(&n, "goroutine_leak", WHY_SERIOUS,
	      "Leaking: goroutines that main.accept creates grow from 100 to 200, and hardly any ends",
	      "10 more each second; 90 of them wait in main.wait [chan receive]; created at main.go:12");
}

static void load_that_rises_is_no_leak(void **state)
{
	struct why_numbers n = healthy();
	struct why_creator c = creator(100, 12.5, 0);

	c.on_network = 80; /* with connections */
	give(&n, c);
	check_nothing(&n);
	n = healthy();
	give(&n, creator(100, 12.5, 60)); /* those that were there end */
	check_nothing(&n);
	n = healthy();
	c = creator(0, 0, 0); /* workers that begin at once */
	for (size_t i = 0; i < WHY_PARTS; i++)
		c.alive[i] = i ? 64 : 20;
	give(&n, c);
	check_nothing(&n);
}

static void memory_that_one_function_keeps_is_a_queue(void **state)
{
	struct why_numbers n = healthy();

	n.memory.rss[1] = 310000000;
	n.memory.grown = "main.(*queue).push";
	n.memory.grown_part = 0.98;
	check(&n, "memory_growth", WHY_SERIOUS,
	      "Short of memory: an unbounded queue or cache: memory grows by 21 MB a second, allocated "
	      "in main.(*queue).push",
	      "the resident memory grew from 100 MB to 310 MB; 98 % of what more is in use after "
	      "collections was allocated there");
}

/* ---- CPU and memory ---- */

static void a_quota_throttles(void **state)
{
	struct why_numbers n = healthy();

	n.cpu.quota = 0.2;
	n.cpu.periods = 100;
	n.cpu.throttled = 93;
	n.cpu.throttled_s = 7.4;
	n.cpu.cores = 0.2;
	check(&n, "throttled", WHY_SERIOUS,
	      "Short of CPU: the control group throttles the process in 93 % of the periods: its quota "
	      "is 0.20 CPUs",
	      "cpu.stat: 93 of 100 periods, 7.4 s of held threads; it used 0.20 CPUs; GOMAXPROCS is 4");
}

static void a_spinning_goroutine_is_no_computation(void **state)
{
	struct why_numbers n = healthy();

	n.spin = (struct why_spin){.goroutine = 5,
				   .part = 1,
				   .running = 0.998,
				   .function = "main.spin",
				   .in_function = 0.97,
				   .goroutines = 1,
				   .looks = 300};
	check(&n, "hot_loop", WHY_SERIOUS,
	      "Short of CPU: goroutine 5 spins in main.spin: a hot loop that never waits",
	      "it ran for 99.8 % of the time; 97 % of its CPU samples are in that function itself");
	n = healthy();
	n.spin = (struct why_spin){.goroutine = 5,
				   .part = 1,
				   .running = 0.998,
				   .function = "main.encode",
				   .in_function = 0.2,
				   .goroutines = 1,
				   .looks = 300};
	check_nothing(&n);
}

static void a_goroutine_that_is_seen_a_few_times_does_not_spin(void **state)
{
	struct why_numbers n = healthy();

	n.spin = (struct why_spin){.goroutine = 5,
				   .part = 1,
				   .running = 0.998,
				   .function = "main.work",
				   .in_function = 0.97,
				   .looks = 5};
	check_nothing(&n);
	n = healthy();
	n.spin = (struct why_spin){.goroutine = 5,
				   .part = 1,
				   .running = 0.2,
				   .function = "main.work",
				   .in_function = 0.97,
				   .looks = 300};
	check_nothing(&n);
}

static void collector_timers_and_steal_need_their_share(void **state)
{
	struct why_numbers n = healthy();

	n.cpu.gc = 0.62;
	n.cpu.gc_rate = 41;
	check(&n, "gc_thrash", WHY_SERIOUS,
	      "Short of memory: garbage collection (GC) takes 62 % of the CPU time",
	      "41 collections a second; the heap has 60 MB; allocate less, or raise GOGC or GOMEMLIMIT");
	n = healthy();
	n.cpu.timers = 0.4;
	check(&n, "timer_storm", WHY_SERIOUS,
	      "Short of CPU: a timer storm: 40 % of the CPU time sets and fires timers",
	      "the process uses 1.2 CPUs; CPU samples are in functions of the runtime's timers");
	n = healthy();
	n.cpu.timers = 0.4; /* of nearly nothing */
	n.cpu.cores = 0.02;
	n.running = 0.02;
	n.ready = 0;
	check_nothing(&n);
}

static void a_process_without_cpu_is_starved(void **state)
{
	struct why_numbers n = healthy();
	_cleanup_why_findings_ struct why_findings f = {0};

	n.cpu.cores = 0.03;
	n.cpu.samples = 9;
	n.cpu.gc = 1;
	f = find(&n);
	assert_int_equal(f.count, 1);
	assert_string_equal(f.items[0].kind, "cpu_shortage");
	assert_string_equal(
		f.items[0].sentence,
		"Short of CPU: threads of the process wait for a CPU: 1.2 goroutines in "
		"the state running got 0.03 CPUs");
	assert_non_null(strstr(f.unknown[0], "only 9 samples"));
	why_numbers_release(&n);
}

static void a_group_at_its_limit_is_critical(void **state)
{
	struct why_numbers n = healthy();

	n.memory.group_used = 480000000;
	check(&n, "memory_limit", WHY_CRITICAL,
	      "Short of memory: the control group uses 96 % of its limit; beyond it the kernel kills "
	      "a process",
	      "the limit is 500 MB, the process has 101 MB; the heap has 60 MB");
}

static void a_heap_at_its_own_limit_is_serious(void **state)
{
	struct why_numbers n = healthy();

	n.memory.heap_limit = 64000000;
	check(&n, "memory_limit", WHY_SERIOUS, "Short of memory: the heap has 94 % of GOMEMLIMIT",
	      "the heap has 60 MB, GOMEMLIMIT is 64 MB");
	n = healthy();
	n.memory.heap_limit = 80000000;
	check_nothing(&n);
}

static void time_that_the_host_took_is_a_minor_finding(void **state)
{
	struct why_numbers n = healthy();
	_cleanup_why_findings_ struct why_findings f = {0};

	n.cpu.steal = 0.23;
	f = find(&n);
	assert_int_equal(f.count, 1);
	assert_string_equal(f.items[0].kind, "steal");
	assert_int_equal(f.items[0].severity, WHY_MINOR);
	assert_string_equal(
		f.items[0].sentence,
		"Short of CPU: the host of this virtual machine took 23 % of its CPU time (steal)");
	why_numbers_release(&n);
}

static struct why_numbers resting(void)
{
	struct why_numbers n = healthy();
	const struct why_place p = {STACK_BLOCKED, "main.confirm", "chan receive", 0, 30, 0};

	n.moves = n.running = n.ready = n.cpu.cores = 0;
	assert_true(why_add_place(&n, &p));
	return n;
}

static void a_program_in_which_nothing_runs_is_a_suspicion(void **state)
{
	struct why_numbers n = resting();

	check(&n, "nothing_runs", WHY_MINOR,
	      "Perhaps hung: no goroutine ran for 10 s, and 30 goroutines wait within their work",
	      "most of them in main.confirm [chan receive]; what ends these waits is not known");
	n = resting();
	n.moves = 1;
	check_nothing(&n);
	n = resting();
	n.cpu.cores = 0.2; /* in system calls */
	check_nothing(&n);
	n = resting();
	n.goroutines = 400; /* most of which wait for work */
	check_nothing(&n);
}

static void a_crowd_that_waits_for_long_is_a_suspicion(void **state)
{
	struct why_numbers n = healthy();
	struct why_creator c = creator(1200, 0, 0);

	c.at_place = 1200;
	c.oldest = 460;
	give(&n, c);
	check(&n, "goroutine_crowd", WHY_MINOR,
	      "Perhaps leaking: 1,200 goroutines that main.accept created wait at one place, one for "
	      "8 minutes",
	      "they wait in main.wait [chan receive]; created at main.go:12");
	n = healthy();
	c.is_work = true;
	give(&n, c);
	check_nothing(&n);
	n = healthy();
	c.is_work = false;
	c.oldest = 20;
	give(&n, c);
	check_nothing(&n);
}

static void a_stopped_process_is_said_to_be_stopped(void **state)
{
	struct why_numbers n = healthy();
	_cleanup_why_findings_ struct why_findings f = {0};

	n.state = 'T';
	f = find(&n);
	assert_string_equal(f.items[0].kind, "stopped");
	assert_string_equal(f.items[0].next, "kill -CONT 7");
	why_numbers_release(&n);
}

static void what_was_not_measured_is_said(void **state)
{
	struct why_numbers n = healthy();
	_cleanup_why_findings_ struct why_findings f = {0};

	n.cpu.gc = -1;
	n.cpu.unsampled = "perf events are not permitted";
	f = find(&n);
	assert_int_equal(f.count, 0);
	assert_int_equal(f.unknown_count, 1);
	assert_non_null(strstr(f.unknown[0], "perf events are not permitted"));
	why_numbers_release(&n);
}

static void json_has_the_promised_keys(void **state)
{
	static const char *const keys[] = {"kind", "severity", "sentence", "evidence", "next"};
	struct why_numbers n = healthy();
	_cleanup_why_findings_ struct why_findings f = {0};
	struct json_object *all, *list, *value;
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	add(&n, STACK_POOL, "main.\"q\n\xff", "select", 10, 0.5);
	f = find(&n);
	why_write_json(&f, out);
	fclose(out);
	all = json_tokener_parse(text);
	assert_true(json_object_object_get_ex(all, "findings", &list));
	assert_int_equal(json_object_array_length(list), 1);
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		assert_true(json_object_object_get_ex(json_object_array_get_idx(list, 0), keys[i],
						      &value));
	json_object_put(all);
	free(text);
	why_numbers_release(&n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stack_shows_what_it_waits_for),
		cmocka_unit_test(system_calls_for_files_are_told_from_others),
		cmocka_unit_test(running_and_empty_stacks_have_a_kind),
		cmocka_unit_test(a_healthy_program_has_no_finding),
		cmocka_unit_test(a_convoy_names_its_lock_and_its_holder),
		cmocka_unit_test(a_lock_that_is_never_given_back_is_hung_and_not_slow),
		cmocka_unit_test(a_deadlock_comes_before_all_else),
		cmocka_unit_test(the_goroutines_of_a_deadlock_are_told_once),
		cmocka_unit_test(a_cycle_of_candidates_is_a_suspicion),
		cmocka_unit_test(pool_disk_and_peer_are_told_apart),
		cmocka_unit_test(a_read_of_a_terminal_is_no_slow_disk),
		cmocka_unit_test(goroutines_that_only_grow_leak),
		cmocka_unit_test(load_that_rises_is_no_leak),
		cmocka_unit_test(memory_that_one_function_keeps_is_a_queue),
		cmocka_unit_test(a_quota_throttles),
		cmocka_unit_test(a_spinning_goroutine_is_no_computation),
		cmocka_unit_test(a_goroutine_that_is_seen_a_few_times_does_not_spin),
		cmocka_unit_test(collector_timers_and_steal_need_their_share),
		cmocka_unit_test(a_process_without_cpu_is_starved),
		cmocka_unit_test(a_group_at_its_limit_is_critical),
		cmocka_unit_test(a_heap_at_its_own_limit_is_serious),
		cmocka_unit_test(time_that_the_host_took_is_a_minor_finding),
		cmocka_unit_test(a_program_in_which_nothing_runs_is_a_suspicion),
		cmocka_unit_test(a_crowd_that_waits_for_long_is_a_suspicion),
		cmocka_unit_test(a_stopped_process_is_said_to_be_stopped),
		cmocka_unit_test(what_was_not_measured_is_said),
		cmocka_unit_test(json_has_the_promised_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
