#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/strbuf.h"
#include "base/unit_test.h"
#include "gotrace/label_text.h"
#include "requests/inferred_spans.h"
#include "requests/summary.h"

static void labels_survive_being_a_line_of_text(void **state)
{
	struct label_pair pairs[] = {{"user", 4, "a b", 3},
				     {"", 0, "%41\n=", 5},
				     {"user", 4, "twin", 4},
				     {"k=", 2, "", 0}};
	struct strbuf line = STRBUF_INIT, key = STRBUF_INIT, value = STRBUF_INIT;
	const char *at;

	label_text_add(&line, pairs, 4);
	assert_string_equal(line.data, "=%2541%0A%3D k%3D= user=a%20b");
	assert_true(label_text_find(line.data, "user", &value));
	assert_string_equal(value.data, "a b");
	assert_true(label_text_find(line.data, "k=", &value));
	assert_string_equal(value.data, "");
	assert_false(label_text_find(line.data, "use", &value));
	at = line.data;
	assert_true(label_text_next(&at, &key, &value));
	assert_string_equal(key.data, "");
	assert_string_equal(value.data, "%41\n=");
	strbuf_release(&line);
	strbuf_release(&key);
	strbuf_release(&value);
}

static void any_line_is_read(void **state)
{
	static const char *const lines[] = {"", "%", "%4", "=", "a", " a=%G1 ", "a=b=c", "%00=x"};
	struct strbuf key = STRBUF_INIT, value = STRBUF_INIT;

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		for (const char *at = lines[i]; label_text_next(&at, &key, &value);)
			assert_true(at <= lines[i] + strlen(lines[i]));
	strbuf_release(&key);
	strbuf_release(&value);
}

static struct span_tables tables;
static struct requests requests;

static int set_up(void **state)
{
	tables = (struct span_tables){0};
	requests = (struct requests){.key = "id", .per = "route"};
	return 0;
}

static int tear_down(void **state)
{
	span_tables_release(&tables);
	requests_release(&requests);
	return 0;
}

static uint32_t text(const char *t)
{
	return intern_string(&tables.texts, t);
}

static void spends(uint64_t g, uint64_t begin, uint64_t end, enum trace_status state,
		   const char *labels)
{
	struct span span = {.g = g,
			    .begin = begin,
			    .end = end,
			    .state = state,
			    .labels = text(labels),
			    .reason = text("sleep")};

	assert_null(requests_add(&requests, &tables, &span));
}

static void goroutines_with_one_value_add_up(void **state)
{
	spends(1, 10, 20, TRACE_RUNNING, "id=a route=x");
	spends(2, 15, 40, TRACE_WAITING, "id=a other=1 route=x");
	spends(1, 20, 25, TRACE_RUNNABLE, "id=a route=x");
	spends(1, 60, 70, TRACE_RUNNING, "id=a route=x");
	spends(3, 5, 500, TRACE_RUNNING, "route=x");
	spends(3, 5, 500, TRACE_RUNNING, "");
	assert_null(requests_complete(&requests, 1000));
	assert_int_equal(requests.count, 1);
	assert_string_equal(intern_get(&requests.names, requests.items[0].name), "a");
	assert_int_equal(requests.items[0].goroutines, 2);
	assert_int_equal(requests.items[0].total_ns, 50);
	assert_int_equal(requests.items[0].elapsed_ns, 40);
	assert_int_equal(requests.items[0].ns[TRACE_RUNNING], 20);
	assert_int_equal(requests.items[0].begin, 10);
	assert_int_equal(requests.items[0].end, 70);
	assert_false(requests.items[0].cut);
}

static void time_counts_once_in_whatever_order_it_comes(void **state)
{
	static const uint64_t spans[][2] = {{50, 60}, {10, 20}, {90, 95}, {20, 30}, {55, 70},
					    {12, 15}, {40, 50}, {94, 99}, {5, 8},   {30, 40}};

	for (size_t i = 0; i < sizeof(spans) / sizeof(*spans); i++)
		spends(i, spans[i][0], spans[i][1], TRACE_RUNNABLE, "id=a");
	assert_null(requests_complete(&requests, 1000));
	assert_int_equal(requests.items[0].elapsed_ns, 60 + 9 + 3);
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* The nanoseconds of adding spans of one request that alternate between `stacks` stacks. */
static uint64_t stands_at(uint32_t stacks)
{
	struct span span = {.g = 1,
			    .state = TRACE_WAITING,
			    .labels = text("id=a"),
			    .reason = text("x")};
	uint64_t began = cpu_ns();

	for (uint32_t i = 0; i < 2 * stacks; i++) {
		span.begin = i * 10ull;
		span.end = span.begin + 1 + i % stacks;
		span.stack = i % stacks + 1;
		assert_null(requests_add(&requests, &tables, &span));
	}
	return cpu_ns() - began;
}

static void a_request_that_stood_at_many_places_is_added_up_in_time(void **state)
{
	enum { FEW = 8000, TIMES = 8 };
	uint64_t few = UINT64_MAX, many = UINT64_MAX, ns;
	const struct traced_request *r;

	/* Of each the fastest: others on the machine take caches away, and never give time. */
	for (int i = 0; i < 5; i++) {
		ns = stands_at(FEW);
		few = ns < few ? ns : few;
		tear_down(state);
		set_up(state);
		ns = stands_at(TIMES * FEW);
		many = ns < many ? ns : many;
		if (i < 4) {
			tear_down(state);
			set_up(state);
		}
	}
	assert_true(many < 3 * TIMES * few);
	r = &requests.items[0];
	assert_int_equal(r->place_count, TIMES * FEW);
	for (uint32_t i = 0; i < TIMES * FEW; i++) {
		assert_int_equal(r->places[i].stack, i + 1);
		assert_int_equal(r->places[i].count, 2);
		assert_int_equal(r->places[i].ns, 2 * (1 + i));
	}
}

static void percentiles_are_of_requests_that_were_seen_whole(void **state)
{
	struct request_group *groups = NULL;
	size_t count;

	for (uint64_t i = 1; i <= 100; i++) {
		char labels[64];

		snprintf(labels, sizeof(labels), "id=%lu route=%s", i, i % 2 ? "odd" : "even");
		spends(i, i * 1000, i * 1000 + i, TRACE_WAITING, labels);
	}
	spends(200, 0, 5000, TRACE_WAITING, "id=200 route=odd");
	spends(201, 9, 200000, TRACE_WAITING, "id=201 route=odd");
	assert_null(requests_complete(&requests, 200000));
	assert_null(requests_group(&requests, &groups, &count));
	assert_int_equal(count, 2);
	assert_string_equal(intern_get(&requests.names, groups[0].name), "even");
	assert_int_equal(groups[0].p50, 50);
	assert_int_equal(groups[0].p90, 90);
	assert_int_equal(groups[0].p99, 100);
	assert_int_equal(groups[1].max, 99);
	assert_int_equal(groups[1].count, 50);
	assert_int_equal(groups[1].cut, 2);
	requests_groups_release(groups, count);
}

static void samples(uint64_t g, const char *labels, const char *function, int count)
{
	struct span span = {.g = g,
			    .state = TRACE_RUNNING,
			    .labels = text(labels),
			    .stack = text(function),
			    .function = text(function),
			    .moment = SPAN_SAMPLE};

	for (int i = 0; i < count; i++)
		assert_null(requests_add(&requests, &tables, &span));
}

static void samples_share_the_running_time(void **state)
{
	struct request_group *groups;
	size_t count;

	requests.per = "route";
	samples(1, "id=a route=x", "f", 3);
	samples(1, "id=a route=x", "g", 1);
	spends(1, 100, 500, TRACE_RUNNING, "id=a route=x");
	spends(1, 500, 510, TRACE_WAITING, "id=a route=x");
	spends(2, 100, 200, TRACE_RUNNING, "id=b route=x");
	samples(2, "id=b route=x", "g", 4);
	spends(3, 100, 150, TRACE_RUNNING, "id=c route=y");
	assert_null(requests_complete(&requests, 1000));
	assert_int_equal(requests.items[0].running.count, 2);
	assert_int_equal(requests.items[0].running.items[0].ns, 300);
	assert_int_equal(requests.items[0].running.items[0].samples, 3);
	assert_int_equal(requests.items[0].running.items[1].ns, 100);
	/* Of 4 samples a half is as likely as a share of 3 quarters, or nearly all of it. */
	assert_in_range(requests.items[0].running.items[0].error_ns, 140, 280);
	assert_int_equal(requests.items[0].places[0].ns, 300);
	assert_int_equal(requests.items[1].running.items[0].ns, 100);
	assert_in_range(requests.items[1].running.items[0].error_ns, 30, 70);
	assert_int_equal(requests.items[2].running.count, 0);
	assert_null(requests_group(&requests, &groups, &count));
	assert_int_equal(count, 2);
	/* All 8 samples share all 500 ns. */
	assert_int_equal(groups[0].running.items[0].samples, 5);
	assert_int_equal(groups[0].running.items[0].ns, 312);
	assert_int_equal(groups[1].running.count, 0);
	requests_groups_release(groups, count);
}

/* ---- without labels ---- */

static uint32_t stack(const char *inner, const char *outer)
{
	struct span_frame frames[] = {{text(inner), 0, 1}, {text(outer), 0, 1}};
	uint32_t numbers[] = {intern_bytes(&tables.frames, &frames[0], sizeof(frames[0])),
			      intern_bytes(&tables.frames, &frames[1], sizeof(frames[1]))};

	return intern_bytes(&tables.stacks, numbers, sizeof(numbers));
}

static void stands(struct inferred_spans *s, uint64_t begin, uint64_t end, enum trace_status state,
		   uint32_t where)
{
	struct span span = {.g = 1,
			    .begin = begin,
			    .end = end,
			    .state = state,
			    .stack = where,
			    .start = text("http.serve")};

	assert_null(inferred_spans_add(s, &tables, &span));
}

static void an_inferred_span_is_between_what_was_seen_outside(void **state)
{
	struct inferred_spans s = {.requests = &requests};
	uint32_t outside = stack("read", "http.serve"), inside = stack("lock", "handle");
	regex_t root;

	assert_int_equal(regcomp(&root, "^handle$", REG_EXTENDED | REG_NOSUB), 0);
	s.root = &root;
	stands(&s, 0, 100, TRACE_WAITING, outside);
	stands(&s, 100, 110, TRACE_RUNNABLE, outside);
	stands(&s, 110, 130, TRACE_RUNNING, outside); /* handle is called somewhere in here */
	stands(&s, 130, 200, TRACE_WAITING, inside);
	stands(&s, 200, 205, TRACE_RUNNABLE, inside);
	stands(&s, 205, 250, TRACE_RUNNING, inside);
	stands(&s, 250, 300, TRACE_IN_SYSCALL, inside);
	stands(&s, 300, 330, TRACE_RUNNING, inside); /* and returns here */
	stands(&s, 330, 400, TRACE_WAITING, outside);
	stands(&s, 400, 500, TRACE_RUNNING, outside); /* no other call is seen */
	stands(&s, 500, 600, TRACE_WAITING, outside);
	stands(&s, 600, 610, TRACE_RUNNING, outside);
	stands(&s, 610, 700, TRACE_WAITING, inside); /* one that is still open */
	assert_null(inferred_spans_complete(&s));
	assert_null(requests_complete(&requests, 700));
	assert_int_equal(requests.count, 2);
	assert_int_equal(requests.items[0].elapsed_ns, 220);
	assert_int_equal(requests.items[0].edge_ns, 50);
	assert_int_equal(requests.items[0].ns[TRACE_RUNNING], 95);
	assert_int_equal(requests.items[0].ns[TRACE_IN_SYSCALL], 50);
	assert_false(requests.items[0].cut);
	assert_int_equal(requests.items[1].elapsed_ns, 100);
	assert_true(requests.items[1].cut);
	inferred_spans_release(&s);
	regfree(&root);
}

static void a_goroutine_that_begins_in_the_function_is_one_inferred_span(void **state)
{
	struct inferred_spans s = {.requests = &requests};
	regex_t root;

	assert_int_equal(regcomp(&root, "serve", REG_EXTENDED | REG_NOSUB), 0);
	s.root = &root;
	stands(&s, 20, 30, TRACE_RUNNABLE, 0);
	stands(&s, 30, 50, TRACE_RUNNING, 0);
	stands(&s, 50, 60, TRACE_WAITING, stack("lock", "http.serve"));
	assert_null(inferred_spans_complete(&s));
	assert_null(requests_complete(&requests, 700));
	assert_int_equal(requests.count, 1);
	assert_int_equal(requests.items[0].elapsed_ns, 40);
	assert_int_equal(requests.items[0].edge_ns, 0);
	inferred_spans_release(&s);
	regfree(&root);
}

static void passes(struct inferred_spans *s, uint64_t ns, enum span_moment moment,
		   const char *function)
{
	struct span span = {.g = 1,
			    .begin = ns,
			    .end = ns,
			    .state = TRACE_RUNNING,
			    .start = text("http.serve"),
			    .moment = moment,
			    .function = text(function)};

	assert_null(inferred_spans_add(s, &tables, &span));
}

static void recorded_calls_bound_inferred_spans(void **state)
{
	struct inferred_spans s = {.requests = &requests};
	uint32_t outside = stack("read", "http.serve"), inside = stack("lock", "handle");
	regex_t root;

	assert_int_equal(regcomp(&root, "^handle$", REG_EXTENDED | REG_NOSUB), 0);
	s.root = &root;
	stands(&s, 0, 90, TRACE_WAITING, inside); /* from a call before the trace */
	stands(&s, 90, 100, TRACE_RUNNING, inside);
	passes(&s, 100, SPAN_RETURN, "handle");
	stands(&s, 100, 150, TRACE_RUNNING, inside);
	stands(&s, 150, 160, TRACE_RUNNABLE, inside); /* not yet outside, or inside again */
	stands(&s, 160, 200, TRACE_RUNNING, outside);
	passes(&s, 200, SPAN_CALL, "handle");
	stands(&s, 200, 205, TRACE_RUNNING, inside); /* neither waits nor is stopped */
	passes(&s, 205, SPAN_RETURN, "handle");
	passes(&s, 205, SPAN_CALL, "handle");
	stands(&s, 205, 220, TRACE_RUNNING, inside);
	passes(&s, 220, SPAN_CALL, "other");
	passes(&s, 220, SPAN_CALL, "handle"); /* by itself */
	stands(&s, 220, 230, TRACE_WAITING, inside);
	passes(&s, 230, SPAN_RETURN, "handle");
	stands(&s, 230, 245, TRACE_RUNNING, inside);
	passes(&s, 245, SPAN_RETURN, "handle");
	stands(&s, 245, 300, TRACE_RUNNING, outside);
	assert_null(inferred_spans_complete(&s));
	assert_null(requests_complete(&requests, 700));
	assert_int_equal(requests.count, 3);
	assert_int_equal(requests.items[0].elapsed_ns, 100);
	assert_true(requests.items[0].cut);
	assert_int_equal(requests.items[1].elapsed_ns, 40);
	assert_int_equal(requests.items[1].ns[TRACE_WAITING], 10);
	assert_int_equal(requests.items[2].elapsed_ns, 5);
	for (int i = 0; i < 3; i++)
		assert_int_equal(requests.items[i].edge_ns, 0);
	assert_false(requests.by_stacks);
	inferred_spans_release(&s);
	regfree(&root);
}

static void knows(struct inferred_spans *s, uint64_t ns, struct span_facts facts)
{
	struct span span = {.g = 1,
			    .begin = ns,
			    .end = ns,
			    .state = TRACE_RUNNING,
			    .start = text("http.serve"),
			    .moment = SPAN_FACTS,
			    .facts = facts};

	assert_null(inferred_spans_add(s, &tables, &span));
}

static void facts_are_of_the_last_request_until_the_next(void **state)
{
	struct inferred_spans s = {.requests = &requests};
	struct span_facts first = {.request = text("path=/1")},
			  second = {.request = text("path=/2")};
	regex_t root;

	assert_int_equal(regcomp(&root, "^handle$", REG_EXTENDED | REG_NOSUB), 0);
	s.root = &root;
	knows(&s, 1, first); /* of no call that is known */
	passes(&s, 10, SPAN_CALL, "handle");
	knows(&s, 11, first);
	stands(&s, 11, 50, TRACE_RUNNING, 0);
	passes(&s, 50, SPAN_RETURN, "handle");
	first.status = text("200");
	knows(&s, 51, first); /* as net/http writes it when nobody else did */
	passes(&s, 60, SPAN_CALL, "handle");
	second.route = text("/");
	knows(&s, 61, second);
	stands(&s, 61, 70, TRACE_RUNNING, 0);
	passes(&s, 70, SPAN_RETURN, "handle");
	passes(&s, 80, SPAN_CALL, "handle"); /* of which nothing is known */
	stands(&s, 80, 81, TRACE_RUNNING, 0);
	passes(&s, 81, SPAN_RETURN, "handle");
	assert_null(inferred_spans_complete(&s));
	assert_null(requests_complete(&requests, 700));
	assert_int_equal(requests.count, 3);
	assert_int_equal(requests.items[0].facts.request, first.request);
	assert_int_equal(requests.items[0].facts.status, first.status);
	assert_int_equal(requests.items[0].facts.route, 0);
	assert_int_equal(requests.items[1].facts.request, second.request);
	assert_int_equal(requests.items[1].facts.status, 0);
	assert_int_equal(requests.items[1].facts.route, second.route);
	assert_int_equal(requests.items[2].facts.request, 0);
	for (int i = 0; i < 3; i++)
		assert_false(requests.items[i].of_several);
	inferred_spans_release(&s);
	regfree(&root);
}

static void calls_of_parts_count_within_their_request(void **state)
{
	struct inferred_spans s = {.requests = &requests};
	regex_t root, part;

	assert_int_equal(regcomp(&root, "^handle$", REG_EXTENDED | REG_NOSUB), 0);
	assert_int_equal(regcomp(&part, "^(query|send)$", REG_EXTENDED | REG_NOSUB), 0);
	s.root = &root;
	s.part = &part;
	passes(&s, 1, SPAN_CALL, "query"); /* in no request */
	passes(&s, 5, SPAN_RETURN, "query");
	passes(&s, 10, SPAN_CALL, "handle");
	passes(&s, 20, SPAN_CALL, "query");
	passes(&s, 22, SPAN_CALL, "send");
	passes(&s, 24, SPAN_CALL, "query"); /* by itself: the outer one counts */
	passes(&s, 25, SPAN_RETURN, "query");
	passes(&s, 30, SPAN_RETURN, "query"); /* send's return was lost */
	passes(&s, 31, SPAN_RETURN, "send");  /* or it began before */
	passes(&s, 40, SPAN_CALL, "other");
	passes(&s, 50, SPAN_CALL, "query");
	stands(&s, 50, 60, TRACE_RUNNING, 0);
	passes(&s, 60, SPAN_RETURN, "handle"); /* a panic has left the query */
	passes(&s, 70, SPAN_RETURN, "query");
	assert_null(inferred_spans_complete(&s));
	assert_null(requests_complete(&requests, 700));
	assert_int_equal(requests.count, 1);
	assert_int_equal(requests.items[0].part_count, 2);
	assert_int_equal(requests.items[0].parts[0].function, text("query"));
	assert_int_equal(requests.items[0].parts[0].ns, 20);
	assert_int_equal(requests.items[0].parts[0].count, 2);
	assert_int_equal(requests.items[0].parts[1].function, text("send"));
	assert_int_equal(requests.items[0].parts[1].ns, 8);
	inferred_spans_release(&s);
	regfree(&root);
	regfree(&part);
}

static bool is_short(const void *arg, const struct traced_request *item)
{
	return item->elapsed_ns < *(const uint64_t *)arg;
}

static void requests_that_are_not_kept_are_gone(void **state)
{
	struct inferred_spans s = {.requests = &requests};
	const uint64_t limit = 20;
	regex_t root;

	assert_int_equal(regcomp(&root, "^handle$", REG_EXTENDED | REG_NOSUB), 0);
	s.root = &root;
	for (uint64_t i = 1; i <= 4; i++) {
		passes(&s, 100 * i, SPAN_CALL, "handle");
		stands(&s, 100 * i, 108 * i, TRACE_WAITING, stack("lock", "handle"));
		passes(&s, 108 * i, SPAN_RETURN, "handle");
	}
	assert_null(inferred_spans_complete(&s));
	assert_null(requests_complete(&requests, 700));
	assert_int_equal(requests.count, 4);
	requests_keep(&requests, is_short, &limit);
	assert_int_equal(requests.count, 2);
	assert_int_equal(requests.items[0].elapsed_ns, 16);
	assert_int_equal(requests.items[1].elapsed_ns, 8);
	inferred_spans_release(&s);
	regfree(&root);
}

static void a_call_that_began_before_the_trace_is_cut(void **state)
{
	struct inferred_spans s = {.requests = &requests};
	regex_t root;

	assert_int_equal(regcomp(&root, "^handle$", REG_EXTENDED | REG_NOSUB), 0);
	s.root = &root;
	stands(&s, 0, 50, TRACE_WAITING, 0); /* place unknown */
	stands(&s, 50, 60, TRACE_RUNNING, 0);
	passes(&s, 60, SPAN_RETURN, "handle");
	stands(&s, 60, 70, TRACE_RUNNING, 0);
	passes(&s, 70, SPAN_RETURN, "handle"); /* its call was lost */
	assert_null(inferred_spans_complete(&s));
	assert_null(requests_complete(&requests, 700));
	assert_int_equal(requests.count, 2);
	assert_true(requests.items[0].cut);
	assert_int_equal(requests.items[0].edge_ns, 0);
	assert_false(requests.items[1].cut);
	assert_int_equal(requests.items[1].edge_ns, 10);
	inferred_spans_release(&s);
	regfree(&root);
}

static void span_starts_at_the_call_of_a_stopped_goroutine(void **state)
{
	struct inferred_spans s = {.requests = &requests};
	uint32_t inside = stack("morestack", "handle");
	regex_t root;

	assert_int_equal(regcomp(&root, "^handle$", REG_EXTENDED | REG_NOSUB), 0);
	s.root = &root;
	stands(&s, 10, 20, TRACE_RUNNING, 0);
	stands(&s, 20, 50, TRACE_RUNNABLE, inside);
	stands(&s, 50, 51, TRACE_RUNNING, inside);
	passes(&s, 51, SPAN_CALL, "handle");
	stands(&s, 51, 60, TRACE_RUNNING, inside);
	passes(&s, 60, SPAN_RETURN, "handle");
	assert_null(inferred_spans_complete(&s));
	assert_null(requests_complete(&requests, 700));
	assert_int_equal(requests.count, 1);
	assert_int_equal(requests.items[0].elapsed_ns, 9);
	assert_int_equal(requests.items[0].edge_ns, 0);
	assert_false(requests.items[0].cut);
	inferred_spans_release(&s);
	regfree(&root);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static void goroutines_of_an_unknown_function_come_last(void **state)
{
	struct summary s = {0};
	struct span spans[] =
		{{.g = 1, .end = 900, .state = TRACE_WAITING},
		 {.g = 2, .end = 5, .state = TRACE_WAITING, .start = text("little")},
		 {.g = 3, .end = 50, .state = TRACE_WAITING, .start = text("much"), .waited_ns = 7},
		 {.g = 4,
		  .end = 50,
		  .state = TRACE_WAITING,
		  .start = text("much"),
		  .waited_ns = 3}};

	for (size_t i = 0; i < ARRAY_SIZE(spans); i++)
		assert_null(summary_add(&s, &spans[i]));
	summary_complete(&s);
	assert_int_equal(s.count, 3);
	assert_int_equal(s.rows[0].start, text("much"));
	assert_int_equal(s.rows[0].total_ns, 100);
	assert_int_equal(s.rows[0].reasons[0].waited_ns, 7);
	assert_int_equal(s.rows[1].start, text("little"));
	assert_int_equal(s.rows[2].start, 0);
	summary_release(&s);
}

/* ---- who ended waits ---- */

static void is_ended(uint64_t ns, uint32_t stack, uint64_t by, uint32_t by_stack)
{
	static uint64_t now;
	struct span span = {.g = 1,
			    .begin = now + 1,
			    .end = now + 1 + ns,
			    .state = TRACE_WAITING,
			    .labels = text("id=a"),
			    .stack = stack,
			    .ended = {.is_known = by || by_stack,
				      .goroutine = by == UINT64_MAX ? 0 : by,
				      .stack = by_stack}};

	now = span.end;
	assert_null(requests_add(&requests, &tables, &span));
}

static void assert_waker(const struct waker *w, uint64_t g, uint32_t by_stack, uint64_t ns,
			 uint64_t count)
{
	assert_int_equal(w->g, g);
	assert_int_equal(w->stack, by_stack);
	assert_int_equal(w->ns, ns);
	assert_int_equal(w->count, count);
}

static void each_place_has_who_ended_its_waits(void **state)
{
	const struct request_place *p;

	is_ended(10, 1, 7, 3);
	is_ended(100, 2, 7, 3);
	is_ended(5, 1, 8, 3);
	is_ended(20, 1, 7, 3);
	is_ended(1, 1, 7, 4);
	is_ended(400, 2, 0, 0); /* nobody has, in the trace */
	is_ended(2, 1, UINT64_MAX, 0);
	is_ended(90, 1, UINT64_MAX, 1);
	assert_null(requests_complete(&requests, 1000));
	p = requests.items[0].places;
	assert_int_equal(p[0].stack, 2);
	assert_int_equal(p[0].ns, 500);
	assert_int_equal(p[0].waker_count, 1);
	assert_waker(&p[0].wakers[0], 7, 3, 100, 1);
	assert_int_equal(p[1].waker_count, 5);
	assert_waker(&p[1].wakers[0], 0, 1, 90, 1);
	assert_waker(&p[1].wakers[1], 7, 3, 30, 2);
	assert_waker(&p[1].wakers[2], 8, 3, 5, 1);
	assert_waker(&p[1].wakers[3], 0, 0, 2, 1);
	assert_waker(&p[1].wakers[4], 7, 4, 1, 1);
}

/* Each of them ends a wait at each place, in turn. */
static void many_wakers_add_up(void **state)
{
	enum { GOROUTINES = 300, PLACES = 30, TIMES = 4 };
	size_t wakers = 0;

	for (uint64_t i = 0; i < GOROUTINES * PLACES * TIMES; i++)
		is_ended(1, 1 + i % PLACES, 1 + i / PLACES % GOROUTINES, 9);
	assert_null(requests_complete(&requests, UINT64_MAX));
	assert_int_equal(requests.items[0].place_count, PLACES);
	for (size_t i = 0; i < PLACES; i++) {
		const struct request_place *p = &requests.items[0].places[i];

		assert_int_equal(p->waker_count, GOROUTINES);
		for (size_t k = 0; k < GOROUTINES; k++)
			wakers += p->wakers[k].count == TIMES && p->wakers[k].ns == TIMES;
	}
	assert_int_equal(wakers, GOROUTINES * PLACES);
	assert_true(requests.items[0].wakers.capacity < 6 * GOROUTINES * PLACES);
}

static void wakers_of_a_start_function_add_up_by_stack(void **state)
{
	struct summary s = {0};
	struct span span = {.g = 1, .end = 10, .state = TRACE_WAITING, .start = text("work")};
	size_t count;
	const struct waker *w;

	for (uint64_t i = 0; i < 6; i++) {
		span.ended = (struct span_by){.is_known = i < 5,
					      .goroutine = i ? i : 0,
					      .stack = i == 4 ? 2 : 1};
		assert_null(summary_add(&s, &span));
	}
	summary_complete(&s);
	w = wakers_of(&s.wakers, s.rows[0].reasons[0].number, &count);
	assert_int_equal(count, 3);
	assert_waker(&w[0], WAKERS_SEVERAL, 1, 30, 3);
	assert_waker(&w[1], 0, 1, 10, 1);
	assert_waker(&w[2], 4, 2, 10, 1);
	summary_release(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_place_has_who_ended_its_waits),
		TEST(many_wakers_add_up),
		TEST(wakers_of_a_start_function_add_up_by_stack),
		TEST(goroutines_of_an_unknown_function_come_last),
		TEST(labels_survive_being_a_line_of_text),
		TEST(any_line_is_read),
		TEST(goroutines_with_one_value_add_up),
		TEST(time_counts_once_in_whatever_order_it_comes),
		TEST(samples_share_the_running_time),
		TEST(a_request_that_stood_at_many_places_is_added_up_in_time),
		TEST(percentiles_are_of_requests_that_were_seen_whole),
		TEST(an_inferred_span_is_between_what_was_seen_outside),
		TEST(a_goroutine_that_begins_in_the_function_is_one_inferred_span),
		TEST(recorded_calls_bound_inferred_spans),
		TEST(a_call_that_began_before_the_trace_is_cut),
		TEST(facts_are_of_the_last_request_until_the_next),
		TEST(requests_that_are_not_kept_are_gone),
		TEST(calls_of_parts_count_within_their_request),
		TEST(span_starts_at_the_call_of_a_stopped_goroutine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
