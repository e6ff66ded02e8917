/* Critical paths while a trace is made, of steps that are made up. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/strbuf.h"
#include "base/unit_test.h"
#include "gotrace/label_text.h"
#include "requests/step_paths.h"

enum { HANDLER = 7, WORKER = 8, OTHER = 9 };

static struct texts texts;
static struct strbuf told; /* paths and steps, a line each */
static struct step_paths *paths;
static struct trace_sink sink;
static uint64_t now;
static uint32_t call, region, chan, request, line;

static struct error *take_step(void *arg, const struct trace_step *step)
{
	return NULL;
}

static struct error *take_generation(void *arg)
{
	strbuf_adds(&told, "--\n");
	return NULL;
}

static void take_path(void *arg, const struct trace_path *path)
{
	strbuf_addf(&told, "%s of %lu, %lu to %lu\n", path->request, path->g, path->begin,
		    path->end);
	for (size_t i = 0; i < path->count; i++) {
		const struct trace_path_segment *s = &path->segments[i];

		strbuf_addf(&told, "%lu to %lu: %lu (%lx) %d%s%s at %u wake %lu\n", s->begin,
			    s->end, s->g, s->start_pc, s->state, *s->reason ? " " : "", s->reason,
			    s->stack, s->wake);
	}
}

static uint32_t add_text(const char *text)
{
	return texts_add(&texts, text, strlen(text));
}

static int set_up(void **state)
{
	const struct trace_sink end = {take_step, take_generation, NULL};

	texts = (struct texts){0};
	told = (struct strbuf)STRBUF_INIT;
	call = add_text("gospect.call main.handle");
	region = add_text("of the program");
	chan = add_text("chan receive");
	request = add_text(REQUEST_CATEGORY);
	line = add_text("method=GET path=/users/7");
	paths = step_paths_create(&(struct step_paths_options){&texts, take_path, NULL});
	sink = step_paths_sink(paths, &end);
	now = 0;
	return 0;
}

static int tear_down(void **state)
{
	step_paths_destroy(paths);
	texts_release(&texts);
	strbuf_release(&told);
	return 0;
}

/* At this time, on a thread that runs `g`. */
static void at(uint64_t ns, uint64_t g, enum trace_op op, uint64_t a, uint64_t b, uint64_t c)
{
	now = ns;
	assert_null(sink.step(sink.arg,
			      &(struct trace_step){.ns = ns, .g = g, .op = op, .arg = {a, b, c}}));
}

static void assert_told(const char *expected)
{
	assert_string_equal(told.data, expected);
	strbuf_reset(&told);
}

/* The worker begins in the request, and computes while the handler waits for it. */
static void begin_request(void)
{
	at(1, 0, OP_GO_STATUS, HANDLER, 0, TRACE_RUNNABLE);
	at(5, 0, OP_GO_START, HANDLER, 1, 0);
	at(10, HANDLER, OP_REGION_BEGIN, 0, call, 0);
	at(12, HANDLER, OP_LOG, 0, request, line);
	at(20, HANDLER, OP_GO_CREATE, WORKER, 0x1000, 3);
	at(30, HANDLER, OP_GO_BLOCK, chan, 4, 0);
	at(35, 0, OP_GO_START, WORKER, 1, 0);
}

static void end_request(void)
{
	at(60, WORKER, OP_GO_UNBLOCK, HANDLER, 1, 6);
	at(65, 0, OP_GO_START, HANDLER, 2, 0);
	at(70, HANDLER, OP_REGION_END, 0, call, 0);
}

#define PATH                                 \
	"GET /users/7 of 7, 10 to 70\n"      \
	"10 to 30: 7 (0) 2 at 4 wake 0\n"    \
	"30 to 35: 8 (1000) 1 at 0 wake 0\n" \
	"35 to 60: 8 (1000) 2 at 6 wake 0\n" \
	"60 to 65: 7 (0) 1 at 0 wake 2\n"    \
	"65 to 70: 7 (0) 2 at 0 wake 0\n"

static void a_request_has_its_path_when_the_generation_ends(void **state)
{
	begin_request();
	end_request();
	at(75, WORKER, OP_GO_BLOCK, chan, 9, 0);
	assert_told("");
	now = 80;
	assert_null(sink.generation(sink.arg));
	assert_told(PATH "--\n");
	assert_null(sink.generation(sink.arg));
	assert_null(step_paths_complete(paths));
	assert_told("--\n");
}

static void a_request_over_two_generations_is_in_the_second(void **state)
{
	begin_request();
	assert_null(sink.generation(sink.arg));
	/* What is repeated says nothing new. */
	at(40, 0, OP_GO_STATUS, HANDLER, 0, TRACE_WAITING);
	at(41, 0, OP_GO_STATUS, WORKER, 0, TRACE_RUNNING);
	end_request();
	assert_null(step_paths_complete(paths));
	assert_told("--\n" PATH);
}

/* Calls of handlers within one another are one request; other regions are none. */
static void the_outermost_call_is_the_request(void **state)
{
	at(1, 0, OP_GO_STATUS, HANDLER, 0, TRACE_RUNNABLE);
	at(5, 0, OP_GO_START, HANDLER, 1, 0);
	at(8, HANDLER, OP_REGION_BEGIN, 0, region, 0);
	at(10, HANDLER, OP_REGION_BEGIN, 0, call, 0);
	at(20, HANDLER, OP_REGION_BEGIN, 0, call, 0);
	at(30, HANDLER, OP_REGION_END, 0, call, 0);
	at(40, HANDLER, OP_REGION_END, 0, call, 0);
	at(50, HANDLER, OP_REGION_END, 0, region, 0);
	assert_null(step_paths_complete(paths));
	assert_told("main.handle of 7, 10 to 40\n10 to 40: 7 (0) 2 at 0 wake 0\n");
}

static void of_many_requests_the_slowest_have_paths(void **state)
{
	at(1, 0, OP_GO_STATUS, HANDLER, 0, TRACE_RUNNABLE);
	at(5, 0, OP_GO_START, HANDLER, 1, 0);
	for (uint64_t i = 0; i < 50; i++) {
		uint64_t begin = 1000 + 100 * i, length = 1 + i * 7 % 50;

		at(begin, HANDLER, OP_REGION_BEGIN, 0, call, 0);
		at(begin + length, HANDLER, OP_REGION_END, 0, call, 0);
	}
	assert_null(step_paths_complete(paths));
	for (uint64_t i = 0; i < 50; i++) {
		uint64_t begin = 1000 + 100 * i, length = 1 + i * 7 % 50;
		char head[64];

		snprintf(head, sizeof(head), "of 7, %lu to %lu\n", begin, begin + length);
		assert_int_equal(strstr(told.data, head) != NULL, length > 40);
	}
}

/* A request during which a million things happen: the memory is bounded, and later ones have their
 * paths. */
static void what_does_not_fit_has_no_path(void **state)
{
	uint64_t ns = 1000;

	begin_request();
	at(50, 0, OP_GO_STATUS, OTHER, 0, TRACE_RUNNABLE);
	for (; ns < 1500000; ns += 3) {
		at(ns, 0, OP_GO_START, OTHER, 1, 0);
		at(ns + 2, OTHER, OP_GO_STOP, 0, 0, 0);
	}
	at(ns + 1, WORKER, OP_GO_UNBLOCK, HANDLER, 1, 6);
	at(ns + 2, 0, OP_GO_START, HANDLER, 2, 0);
	at(ns + 3, HANDLER, OP_REGION_END, 0, call, 0);
	at(ns + 10, HANDLER, OP_REGION_BEGIN, 0, call, 0);
	at(ns + 20, HANDLER, OP_REGION_END, 0, call, 0);
	assert_null(step_paths_complete(paths));
	assert_non_null(strstr(told.data, "main.handle of 7, "));
	assert_null(strstr(told.data, "GET"));
}

/* The end of a goroutine is that of its request. */
static void a_goroutine_that_ends_has_no_open_request(void **state)
{
	begin_request();
	at(40, HANDLER, OP_GO_DESTROY, 0, 0, 0);
	at(41, 0, OP_GO_STATUS, OTHER, 0, TRACE_RUNNABLE);
	at(42, 0, OP_GO_START, OTHER, 1, 0);
	at(43, OTHER, OP_REGION_BEGIN, 0, call, 0);
	at(44, OTHER, OP_REGION_END, 0, call, 0);
	assert_null(step_paths_complete(paths));
	assert_told("main.handle of 9, 43 to 44\n43 to 44: 9 (0) 2 at 0 wake 0\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_request_has_its_path_when_the_generation_ends),
		TEST(a_request_over_two_generations_is_in_the_second),
		TEST(the_outermost_call_is_the_request),
		TEST(of_many_requests_the_slowest_have_paths),
		TEST(what_does_not_fit_has_no_path),
		TEST(a_goroutine_that_ends_has_no_open_request),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
