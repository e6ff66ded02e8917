/* Making events of records and stacks that a hostile target has written. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/unit_test.h"
#include "collect/decode.h"
#include "gotrace/label_text.h"
#include "tests/made_runtime.h"

enum { SLOTS = 1 + AGENT_FALLBACK_SLOTS, ARENA_WORDS = 1024 };

struct made {
	struct made_runtime runtime;
	struct agent_shared *shared;
	struct agent_shared layout;
	struct drain *drain;
	struct decoder *decoder;
};

static int make(void **state)
{
	struct made *d = calloc(1, sizeof(*d));
	struct agent_shared *l = &d->layout;
	struct backlog *none = NULL;

	made_runtime_init(&d->runtime, 27, 1);
	l->slots = SLOTS;
	l->table_offset = 4096;
	l->arena_offset = l->table_offset + AGENT_TABLE_SLOTS * sizeof(struct agent_stack);
	l->arena_words = ARENA_WORDS;
	l->size = l->arena_offset + ARENA_WORDS * sizeof(uint64_t);
	l->config.text = MADE_TEXT;
	l->sites.entry_points[0] = MADE_TEXT + MADE_ROOT * MADE_SIZE;
	d->shared = mmap(NULL, l->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	*state = d;
	if (d->shared == MAP_FAILED || error_dropped(drain_create(l, none, &d->drain)))
		return -1;
	return error_dropped(decoder_create(&d->runtime.base, &d->runtime.img, &d->runtime.lay,
					    &(struct stack_cache){d->shared, l}, &d->decoder));
}

static int unmake(void **state)
{
	struct made *d = *state;

	decoder_destroy(d->decoder);
	drain_destroy(d->drain);
	munmap(d->shared, d->layout.size);
	made_runtime_release(&d->runtime);
	free(d);
	return 0;
}

/* So many words at this place of the arena are stack 1. */
static uint64_t *make_stack(struct made *d, uint64_t place, uint64_t count)
{
	uint8_t *base = (uint8_t *)d->shared;
	struct agent_stack *table = (void *)(base + d->layout.table_offset);
	uint64_t *arena = (void *)(base + d->layout.arena_offset);

	arena[place] = count;
	table[0].offset = place + 1;
	return &arena[place + 1];
}

/* The stack with which goroutine 7 blocks. */
static struct stack block_on(struct made *d, uint64_t stack)
{
	struct drain_record record = {.kind = RECORD_BLOCK, .numbers = {7, stack, 0}};
	struct trace_event events[DECODE_MAX_EVENTS];
	size_t count;

	assert_null(decoder_events(d->decoder, &record, 1, events, &count));
	assert_int_equal(count, 1);
	return stacks_get(decoder_stacks(d->decoder), events[0].stack);
}

static void a_stack_of_nothing_but_missing_frames_is_twice_as_long(void **state)
{
	struct made *d = *state;
	uint64_t *words = make_stack(d, 0, STACK_CACHE_WORDS);
	struct stack stack;

	for (size_t i = 0; i < STACK_CACHE_WORDS; i++)
		words[i] = AGENT_WORD_CUT | 0x424242420000 | i;
	stack = block_on(d, 1);
	assert_int_equal(stack.count, 2 * STACK_CACHE_WORDS);
	assert_true(stack.pcs[0] == STACK_PC_TRUNCATED);
	assert_true(stack.pcs[1] == (0x424242420000 | STACK_PC_EXACT));
}

static void a_stack_at_the_arenas_end_has_the_words_that_are_there(void **state)
{
	struct made *d = *state;

	make_stack(d, ARENA_WORDS - 2, 1)[0] = 0x1000;
	assert_int_equal(block_on(d, 1).count, 1);
}

static void a_stack_beyond_the_arena_is_none(void **state)
{
	struct made *d = *state;

	make_stack(d, ARENA_WORDS - 2, 2)[0] = 0x1000;
	assert_int_equal(block_on(d, 1).count, 0);
}

/* ---- records ---- */

enum { GOID = 7, OTHER = 9, STACK = 1, THREAD = 42, SLOT = 0 };
#define TEXT(s)                                             \
	{                                                   \
		{                                           \
			(const uint8_t *)(s), sizeof(s) - 1 \
		}                                           \
	}
#define TEXTS(s, t)                                         \
	{                                                   \
		{(const uint8_t *)(s), sizeof(s) - 1},      \
		{                                           \
			(const uint8_t *)(t), sizeof(t) - 1 \
		}                                           \
	}

/* A record, and what of its event is not as it is for most. */
struct example {
	struct drain_record record;
	enum trace_kind kind;
	bool no_event;
	bool no_g;
	bool stack;
	uint32_t p;
	uint64_t arg, arg2;
	const char *text, *text2;
};

/* One of each record, in their order: a record may depend on the one before it. */
static const struct example examples[RECORDS] = {
	[RECORD_START] = {{.numbers = {GOID}}, TRACE_START},
	[RECORD_START_WORKER] = {{.numbers = {GOID, 0}}, TRACE_START},
	[RECORD_BLOCK] = {{.numbers = {GOID, STACK, 255}},
			  TRACE_BLOCK,
			  .stack = true,
			  .text = "unspecified"},
	[RECORD_BLOCK_PREEMPT] = {{.numbers = {GOID, STACK}},
				  TRACE_BLOCK,
				  .stack = true,
				  .text = "preempted"},
	[RECORD_YIELD] = {{.numbers = {GOID, STACK}},
			  TRACE_YIELD,
			  .stack = true,
			  .text = "runtime.Gosched"},
	[RECORD_PREEMPT] = {{.numbers = {GOID, STACK}},
			    TRACE_YIELD,
			    .stack = true,
			    .text = "preempted"},
	[RECORD_EXIT] = {{.numbers = {GOID}}, TRACE_END},
	[RECORD_UNBLOCK] = {{.numbers = {GOID, STACK}}, TRACE_UNBLOCK, .stack = true},
	[RECORD_CREATE] = {{.numbers = {GOID, 16, STACK}},
			   TRACE_CREATE,
			   .stack = true,
			   .arg = MADE_TEXT + 16},
	[RECORD_SYSCALL] = {{.numbers = {GOID, STACK}}, TRACE_SYSCALL, .stack = true},
	[RECORD_SYSCALL_EXIT] = {{.numbers = {GOID}}, TRACE_SYSCALL_EXIT},
	[RECORD_SYSCALL_NO_P] = {{.numbers = {GOID}}, TRACE_SYSCALL_EXIT_NO_P},
	[RECORD_THREAD_ENTER] = {{.numbers = {GOID}}, TRACE_THREAD_ENTER},
	[RECORD_THREAD_LEAVE] = {{.numbers = {GOID}}, TRACE_THREAD_LEAVE},
	[RECORD_CORO_SWITCH] = {{.numbers = {GOID, OTHER, STACK}},
				TRACE_CORO_SWITCH,
				.stack = true,
				.arg = OTHER},
	[RECORD_CORO_EXIT] = {{.numbers = {GOID, OTHER}}, .no_event = true},
	[RECORD_P_START] = {{.numbers = {3}}, TRACE_P_START, .no_g = true, .p = 3},
	[RECORD_P_STOP] = {{.numbers = {3}}, TRACE_P_STOP, .no_g = true, .p = 3},
	[RECORD_P_STEAL] = {{.numbers = {3}}, TRACE_P_STEAL, .no_g = true, .p = 3},
	[RECORD_STW_BEGIN] = {{.numbers = {GOID, 1, STACK}},
			      TRACE_STW_BEGIN,
			      .stack = true,
			      .text = "GC mark termination"},
	[RECORD_STW_END] = {{.numbers = {GOID}}, TRACE_STW_END},
	[RECORD_GC_BEGIN] = {{.numbers = {GOID, STACK}}, TRACE_GC_BEGIN, .stack = true},
	[RECORD_GC_END] = {{.numbers = {GOID}}, TRACE_GC_END},
	[RECORD_ASSIST_BEGIN] = {{.numbers = {GOID, STACK}}, TRACE_ASSIST_BEGIN, .stack = true},
	[RECORD_ASSIST_END] = {{.numbers = {GOID}}, TRACE_ASSIST_END},
	[RECORD_SWEEP_BEGIN] = {{.numbers = {GOID, STACK}}, TRACE_SWEEP_BEGIN, .stack = true},
	[RECORD_SWEEP_END] = {{.numbers = {GOID, 8192}}, TRACE_SWEEP_END, .arg = 8192},
	[RECORD_CALL] = {{.numbers = {GOID, 0, 1000}},
			 TRACE_CALL,
			 .stack = true,
			 .arg = 1000,
			 .text = TRACE_CALL_PREFIX "main.root"},
	[RECORD_RETURN] = {{.numbers = {GOID, 0, 1000}},
			   TRACE_RETURN,
			   .stack = true,
			   .arg = 1000,
			   .text = TRACE_CALL_PREFIX "main.root"},
	[RECORD_TASK_BEGIN] = {{.numbers = {GOID, 5, 4, STACK}, .texts = TEXT("task")},
			       TRACE_TASK_BEGIN,
			       .stack = true,
			       .arg = 5,
			       .arg2 = 4,
			       .text = "task"},
	[RECORD_TASK_END] = {{.numbers = {GOID, 5, STACK}},
			     TRACE_TASK_END,
			     .stack = true,
			     .arg = 5},
	[RECORD_REGION_BEGIN] = {{.numbers = {GOID, 5, STACK}, .texts = TEXT("region")},
				 TRACE_REGION_BEGIN,
				 .stack = true,
				 .arg = 5,
				 .text = "region"},
	[RECORD_REGION_END] = {{.numbers = {GOID, 5, STACK}, .texts = TEXT("region")},
			       TRACE_REGION_END,
			       .stack = true,
			       .arg = 5,
			       .text = "region"},
	[RECORD_LOG] = {{.numbers = {GOID, 5, STACK}, .texts = TEXTS("category", "message")},
			TRACE_LOG,
			.stack = true,
			.arg = 5,
			.text = "category",
			.text2 = "message"},
	[RECORD_LABELS] = {{.numbers = {GOID, 3, 0}, .texts = TEXT("\1k\1v")},
			   TRACE_LABELS,
			   .text = "k=v"},
	[RECORD_LABELS_AGAIN] = {{.numbers = {GOID, 3}}, TRACE_LABELS, .text = "k=v"},
	[RECORD_LABELS_NONE] = {{.numbers = {GOID}}, TRACE_LABELS},
	[RECORD_LABELS_UNREAD] = {{.numbers = {GOID, 0, 0}}, TRACE_LABELS},
	[RECORD_REQUEST] = {{.numbers = {GOID}, .texts = TEXT("\1\3GET\2\2/a")},
			    TRACE_LOG,
			    .text = REQUEST_CATEGORY,
			    .text2 = "method=GET path=/a"},
	[RECORD_ROUTE] = {{.numbers = {GOID}, .texts = TEXT("GET /a")},
			  TRACE_LOG,
			  .text = REQUEST_CATEGORY,
			  .text2 = "route=GET%20/a"},
	[RECORD_GRPC_STATUS] = {{.numbers = {GOID, 5}},
				TRACE_LOG,
				.text = REQUEST_CATEGORY,
				.text2 = "status=NotFound"},
	[RECORD_STATUS] = {{.numbers = {GOID, 404}},
			   TRACE_LOG,
			   .text = REQUEST_CATEGORY,
			   .text2 = "status=404"},
	[RECORD_ALLOC] = {{.numbers = {GOID, STACK, 4096, 524288}},
			  TRACE_LOG,
			  .stack = true,
			  .text = ALLOC_CATEGORY,
			  .text2 = "rate=524288 size=4096"},
};

static void assert_text(struct made *d, uint32_t number, const char *expected)
{
	assert_string_equal(texts_get(decoder_texts(d->decoder), number), expected ? expected : "");
}

static void assert_event(struct made *d, const struct example *x, const struct trace_event *ev)
{
	assert_int_equal(ev->kind, x->kind);
	assert_int_equal(ev->ns, 1);
	assert_int_equal(ev->m, THREAD);
	assert_int_equal(ev->g, x->no_g ? 0 : GOID);
	assert_int_equal(ev->p, x->p);
	assert_int_equal(ev->stack != STACK_NONE, x->stack);
	assert_int_equal(ev->arg, x->arg);
	assert_int_equal(ev->arg2, x->arg2);
	assert_text(d, ev->text, x->text);
	assert_text(d, ev->text2, x->text2);
}

static void each_record_becomes_its_event(void **state)
{
	struct made *d = *state;
	struct trace_event events[DECODE_MAX_EVENTS];
	size_t count;

	make_stack(d, 0, 1)[0] = MADE_TEXT + 1;
	for (unsigned int kind = RECORD_M + 1; kind < RECORDS; kind++) {
		struct drain_record record = examples[kind].record;

		record.kind = kind;
		record.thread = THREAD;
		/* A wait reason without an example has no number. */
		assert_true(record.numbers[0]);
		assert_null(decoder_events(d->decoder, &record, 1, events, &count));
		assert_int_equal(count, !examples[kind].no_event);
		if (count)
			assert_event(d, &examples[kind], &events[0]);
	}
}

static void a_coroutine_that_ends_starts_the_next(void **state)
{
	struct made *d = *state;
	struct drain_record exit = {.kind = RECORD_CORO_EXIT, .numbers = {GOID, OTHER}};
	struct trace_event events[DECODE_MAX_EVENTS];
	size_t count;

	assert_null(decoder_events(d->decoder, &exit, 1, events, &count));
	assert_int_equal(count, 0);
	exit.kind = RECORD_EXIT;
	assert_null(decoder_events(d->decoder, &exit, 1, events, &count));
	assert_int_equal(count, 3);
	assert_true(events[0].kind == TRACE_END && events[0].g == GOID);
	assert_true(events[1].kind == TRACE_UNBLOCK && events[1].g == OTHER);
	assert_true(events[2].kind == TRACE_START && events[2].g == OTHER);
}

static void a_worker_of_the_collector_has_a_label(void **state)
{
	struct made *d = *state;
	struct drain_record start = {.kind = RECORD_START_WORKER, .numbers = {GOID, 1}};
	struct trace_event events[DECODE_MAX_EVENTS];
	size_t count;

	assert_null(decoder_events(d->decoder, &start, 1, events, &count));
	assert_int_equal(count, 2);
	assert_true(events[0].kind == TRACE_START && events[1].kind == TRACE_LABEL);
	assert_text(d, events[1].text, "GC (dedicated)");
}

/* ---- labels that were read when they were collected ---- */

static struct unread_set *make_read(uint64_t goid, uint64_t labels, const char *bytes)
{
	struct unread_set *set = malloc(sizeof(*set) + strlen(bytes));

	*set = (struct unread_set){.goid = goid, .labels = labels, .size = strlen(bytes)};
	memcpy(set->bytes, bytes, set->size);
	return set;
}

static void label_records_apply_once_to_their_set(void **state)
{
	struct made *d = *state;
	struct drain_record record = {.kind = RECORD_LABELS_UNREAD, .numbers = {GOID, 0, 0x1000}};
	struct trace_event events[DECODE_MAX_EVENTS];
	size_t count;

	labels_add_read(decoder_labels(d->decoder), make_read(OTHER, 0x1000, "\1a\1b"));
	labels_add_read(decoder_labels(d->decoder), make_read(GOID, 0x2000, "\1c\1d"));
	labels_add_read(decoder_labels(d->decoder), make_read(GOID, 0x1000, "\1k\1v"));
	assert_null(decoder_events(d->decoder, &record, 1, events, &count));
	assert_text(d, events[0].text, "k=v");
	assert_null(decoder_events(d->decoder, &record, 1, events, &count));
	assert_text(d, events[0].text, NULL);
	assert_int_equal(decoder_labels(d->decoder)->dropped, 1);
}

static void labels_that_were_not_read_when_they_were_collected_are_lost(void **state)
{
	struct made *d = *state;
	struct drain_record record = {.kind = RECORD_LABELS_UNREAD,
				      .numbers = {GOID, d->runtime.allg[0], 0x1000}};
	struct trace_event events[DECODE_MAX_EVENTS];
	size_t reads = d->runtime.reads, count;

	assert_null(decoder_events(d->decoder, &record, 1, events, &count));
	assert_text(d, events[0].text, NULL);
	assert_int_equal(decoder_labels(d->decoder)->dropped, 1);
	assert_int_equal(d->runtime.reads, reads);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make, unmake)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_stack_of_nothing_but_missing_frames_is_twice_as_long),
		TEST(a_stack_at_the_arenas_end_has_the_words_that_are_there),
		TEST(a_stack_beyond_the_arena_is_none),
		TEST(each_record_becomes_its_event),
		TEST(a_coroutine_that_ends_starts_the_next),
		TEST(a_worker_of_the_collector_has_a_label),
		TEST(label_records_apply_once_to_their_set),
		TEST(labels_that_were_not_read_when_they_were_collected_are_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
