#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/unit_test.h"
#include "gotrace/event.h"
#include "gotrace/label_text.h"
#include "tests/made_functions.h"
#include "triggers/watch.h"

#define MS 1000000ull
#define HANDLER "net/http.serverHandler.ServeHTTP"

static const struct made_function made[] = {
	{"runtime.gopark"},      {"sync.runtime_SemacquireMutex"},
	{"main.(*Shelf).level"}, {"sync.runtime_SemacquireWaitGroup"},
	{"main.wait"},
};

struct fixture {
	struct watch *watch;
	struct trace_sink sink;
	struct made_functions functions;
	struct stacks *stacks;
	struct texts texts;
	uint64_t ns;
	unsigned int handed_on;
};

static struct error *count(void *arg, const struct trace_step *step)
{
	((struct fixture *)arg)->handed_on++;
	return NULL;
}

static struct error *no_generation(void *arg)
{
	return NULL;
}

static void begin(struct fixture *f, const char *one, const char *other)
{
	const char *conditions[] = {one, other, NULL};
	struct watch_options options = {conditions, 10000 * MS};
	const struct trace_sink next = {.step = count, .generation = no_generation, .arg = f};
	struct watch_source source;

	*f = (struct fixture){0};
	made_functions_init(&f->functions, PCLNTAB_GO120, made, ARRAY_SIZE(made));
	f->stacks = stacks_create(&f->functions.tab, MACHINE_AMD64);
	assert_null(watch_create(&options, &f->watch));
	source = (struct watch_source){&f->texts, f->stacks, &f->functions.tab};
	f->sink = watch_sink(f->watch, &source, &next);
}

static void end(struct fixture *f)
{
	watch_destroy(f->watch);
	stacks_destroy(f->stacks);
	texts_release(&f->texts);
	made_functions_release(&f->functions);
}

/* A step so many ms after the last. */
static void step(struct fixture *f, uint64_t ms, enum trace_op op, uint64_t g, uint64_t a,
		 uint64_t b, uint64_t c)
{
	struct trace_step s = {.op = op, .g = g, .m = 1, .p = 0, .arg = {a, b, c}};

	f->ns += ms * MS + 1;
	s.ns = f->ns;
	assert_null(f->sink.step(f->sink.arg, &s));
}

static uint32_t text(struct fixture *f, const char *words)
{
	return texts_add(&f->texts, words, strlen(words));
}

static uint32_t stack(struct fixture *f, size_t innermost, size_t outer)
{
	uint64_t pcs[] = {made_pc(0, false), made_pc(innermost, false), made_pc(outer, false)};
	uint32_t id;

	assert_null(stacks_intern(f->stacks, pcs, ARRAY_SIZE(pcs), &id));
	return id;
}

static void expect(struct fixture *f, const char *word, const char *sentence)
{
	struct incident incident;

	assert_true(watch_take(f->watch, &incident));
	assert_string_equal(incident.word, word);
	assert_string_equal(incident.sentence, sentence);
}

static void expect_nothing(struct fixture *f)
{
	struct incident incident;

	assert_false(watch_take(f->watch, &incident));
}

static void conditions_are_as_typed(void **state)
{
	static const struct {
		const char *text;
		enum condition_kind kind;
		uint64_t limit;
		const char *pattern;
	} good[] = {
		{"request > 500ms", CONDITION_REQUEST, 500 * MS, NULL},
		{"request>1.5s", CONDITION_REQUEST, 1500 * MS, NULL},
		{"request /^main\\.(a|b)$/ > 2s", CONDITION_REQUEST, 2000 * MS, "^main\\.(a|b)$"},
		{"request /a/b/ > 2s", CONDITION_REQUEST, 2000 * MS, "a/b"},
		{"runnable > 20us", CONDITION_RUNNABLE, 20000, NULL},
		{"lock >1m", CONDITION_LOCK, 60000 * MS, NULL},
		{"stop > 5ms", CONDITION_STOP, 5 * MS, NULL},
		{"goroutines > 10000", CONDITION_GOROUTINES, 10000, NULL},
		{"heap > 1.5GB", CONDITION_HEAP, 3ull << 29, NULL},
		{"call ^main\\.fail$", CONDITION_CALL, 0, "^main\\.fail$"},
		{"panic", CONDITION_PANIC, 0, NULL},
		{"rss > 1GB", CONDITION_RSS, 1ull << 30, NULL},
		{"request > 5ms route ^/api", CONDITION_REQUEST, 5 * MS, NULL},
		{"rss > 80%", CONDITION_RSS, 80, NULL},
		{"growth > 100", CONDITION_GROWTH, 100, NULL},
		{"wait > 5s", CONDITION_WAIT, 5000 * MS, NULL},
		{"wait /^main\\.held$/ > 5s", CONDITION_WAIT, 5000 * MS, "^main\\.held$"},
	};
	static const char *const bad[] = {
		"",
		"request",
		"request > ",
		"request > 5",
		"request > -5ms",
		"request < 5ms",
		"request /a > 5ms",
		"request /(/ > 5ms",
		"request // > 5ms",
		"requests > 5ms",
		"goroutines > 5ms",
		"goroutines > 1e30",
		"heap > 5m",
		"lock /a/ > 5ms",
		"call",
		"call (",
		"panic > 5",
		"panic now",
		"request > infs",
		"request > 5ms route (",
		"lock > 5ms route ^/api",
		"rss > 0%",
		"heap > 80%",
		"growth > 80%",
		"request > nanms",
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		struct condition c;

		assert_null(condition_parse(good[i].text, &c));
		assert_int_equal(c.kind, good[i].kind);
		assert_int_equal(c.limit, good[i].limit);
		assert_int_equal(c.has_name, !!good[i].pattern);
		if (good[i].pattern)
			assert_string_equal(c.pattern, good[i].pattern);
		condition_release(&c);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct condition c;
		struct error *err = condition_parse(bad[i], &c);

		assert_non_null(err);
		assert_int_equal(err->code, ERROR_USAGE);
		error_destroy(err);
	}
}

static void a_request_counts_when_it_ends(void **state)
{
	struct fixture f;
	uint32_t handler, other;

	begin(&f, "request > 500ms", "call ^main\\.fail$");
	handler = text(&f, TRACE_CALL_PREFIX HANDLER);
	other = text(&f, TRACE_CALL_PREFIX "main.fail");
	assert_string_equal(watch_functions(f.watch), "(^main\\.fail$)");
	step(&f, 1, OP_REGION_BEGIN, 7, 0, handler, 0);
	step(&f, 400, OP_REGION_END, 7, 0, handler, 0);
	expect_nothing(&f);
	/* Of calls within each other the outermost is the request. */
	step(&f, 1, OP_REGION_BEGIN, 7, 0, handler, 0);
	step(&f, 300, OP_REGION_BEGIN, 7, 0, handler, 0);
	step(&f, 300, OP_REGION_END, 7, 0, handler, 0);
	expect_nothing(&f);
	step(&f, 10, OP_REGION_END, 7, 0, handler, 0);
	expect(&f, "request", HANDLER " of goroutine 7 took 610 ms");
	step(&f, 1, OP_REGION_BEGIN, 7, 0, other, 0);
	expect(&f, "call", "goroutine 7 called main.fail");
	/* The program's own region is no call, and a return without a call is none of a request. */
	step(&f, 1, OP_REGION_BEGIN, 8, 0, text(&f, "main.fail"), 0);
	step(&f, 1, OP_REGION_END, 9, 0, handler, 0);
	expect_nothing(&f);
	assert_int_equal(f.handed_on, 9);
	end(&f);
}

static void only_requests_of_a_route_count(void **state)
{
	struct fixture f;
	uint32_t handler;

	begin(&f, "request > 500ms route ^/api/", "request > 500ms route ^GET /b");
	handler = text(&f, TRACE_CALL_PREFIX HANDLER);
	for (int i = 0; i < 3; i++) {
		static const char *const facts[] = {"method=GET path=/other", "path=/api/7",
						    "path=/b route=GET%20/b"};

		step(&f, 20000, OP_REGION_BEGIN, 7, 0, handler, 0);
		step(&f, 1, OP_LOG, 7, 0, text(&f, REQUEST_CATEGORY), text(&f, facts[i]));
		step(&f, 1, OP_LOG, 7, 0, text(&f, REQUEST_CATEGORY), text(&f, "status=200"));
		step(&f, 600, OP_REGION_END, 7, 0, handler, 0);
		if (i)
			expect(&f, "request", HANDLER " of goroutine 7 took 602 ms");
		else
			expect_nothing(&f);
	}
	end(&f);
}

static void an_open_request_counts_while_its_beginning_is_there(void **state)
{
	struct fixture f;
	uint32_t handler;

	begin(&f, "request > 500ms", NULL);
	handler = text(&f, TRACE_CALL_PREFIX HANDLER);
	step(&f, 1, OP_REGION_BEGIN, 7, 0, handler, 0);
	step(&f, 4000, OP_HEAP_ALLOC, 0, 1, 0, 0);
	assert_null(f.sink.generation(f.sink.arg));
	expect_nothing(&f);
	step(&f, 2000, OP_HEAP_ALLOC, 0, 1, 0, 0);
	assert_null(f.sink.generation(f.sink.arg));
	expect(&f, "request", HANDLER " of goroutine 7 has taken 6 s so far");
	/* It is told once. */
	step(&f, 20000, OP_REGION_END, 7, 0, handler, 0);
	assert_null(f.sink.generation(f.sink.arg));
	expect_nothing(&f);
	assert_int_equal(watch_rested(f.watch), 0);
	end(&f);
}

static void a_lock_is_known_by_its_stack(void **state)
{
	struct fixture f;

	begin(&f, "lock > 100ms", "runnable > 20ms");
	step(&f, 1, OP_GO_START, 0, 7, 0, 0);
	step(&f, 1, OP_GO_BLOCK, 7, text(&f, "sync"), stack(&f, 3, 4), 0);
	step(&f, 500, OP_GO_UNBLOCK, 8, 7, 1, 0);
	step(&f, 1, OP_GO_START, 0, 7, 0, 0);
	step(&f, 1, OP_GO_BLOCK, 7, text(&f, "chan receive"), stack(&f, 1, 2), 0);
	step(&f, 500, OP_GO_UNBLOCK, 8, 7, 1, 0);
	step(&f, 1, OP_GO_START, 0, 7, 0, 0);
	expect_nothing(&f);
	step(&f, 1, OP_GO_BLOCK, 7, text(&f, "sync"), stack(&f, 1, 2), 0);
	step(&f, 120, OP_GO_UNBLOCK, 8, 7, 1, 0);
	expect(&f, "lock", "goroutine 7 waited for a lock for 120 ms in main.(*Shelf).level");
	step(&f, 25, OP_GO_START, 0, 7, 0, 0);
	expect(&f, "runnable", "goroutine 7 was runnable for 25 ms");
	end(&f);
}

static void levels_count_when_they_are_crossed(void **state)
{
	struct fixture f;

	begin(&f, "goroutines > 2", "heap > 1MB");
	for (uint64_t g = 1; g <= 3; g++)
		step(&f, 1, OP_GO_CREATE, 0, g, 0, 0);
	expect(&f, "goroutines", "there are 3 goroutines");
	step(&f, 20000, OP_GO_CREATE, 0, 4, 0, 0);
	expect_nothing(&f);
	for (uint64_t g = 1; g <= 3; g++)
		step(&f, 1, OP_GO_DESTROY, g, 0, 0, 0);
	step(&f, 1, OP_GO_CREATE, 0, 5, 0, 0);
	step(&f, 1, OP_GO_CREATE, 0, 6, 0, 0);
	expect(&f, "goroutines", "there are 3 goroutines");
	step(&f, 1, OP_HEAP_ALLOC, 0, 3 << 19, 0, 0);
	expect(&f, "heap", "the heap has 1.5 MB");
	end(&f);
}

static void a_condition_rests_and_longer_when_it_goes_on(void **state)
{
	struct fixture f;

	begin(&f, "stop > 5ms", NULL);
	for (int i = 0; i < 100; i++) { /* each 300 ms: 30 s */
		step(&f, 290, OP_STW_BEGIN, 0, text(&f, "GC mark termination"), 0, 0);
		step(&f, 10, OP_STW_END, 0, 0, 0, 0);
	}
	expect(&f, "stop", "the world was stopped for 10 ms: GC mark termination");
	expect_nothing(&f);
	/* Told at 0.3 s, for 10 s, and at 10.5 s, for 20 s. */
	assert_int_equal(watch_rested(f.watch), 98);
	/* Then it is quiet for long, so that it rests for one flight again. */
	step(&f, 60000, OP_HEAP_ALLOC, 0, 1, 0, 0);
	for (int i = 0; i < 2; i++) {
		step(&f, 30000, OP_STW_BEGIN, 0, text(&f, "GC mark termination"), 0, 0);
		step(&f, 10, OP_STW_END, 0, 0, 0, 0);
		if (i)
			expect(&f, "stop", "the world was stopped for 10 ms: GC mark termination");
		else
			expect(&f, "stop", "the world was stopped for 10 ms: GC mark termination");
	}
	end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(conditions_are_as_typed),
		cmocka_unit_test(a_request_counts_when_it_ends),
		cmocka_unit_test(only_requests_of_a_route_count),
		cmocka_unit_test(an_open_request_counts_while_its_beginning_is_there),
		cmocka_unit_test(a_lock_is_known_by_its_stack),
		cmocka_unit_test(levels_count_when_they_are_crossed),
		cmocka_unit_test(a_condition_rests_and_longer_when_it_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
