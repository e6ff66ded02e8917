/* The spans of a trace in Perfetto's format are those of the Go trace of the same events. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/strbuf.h"
#include "base/unit_test.h"
#include "gotrace/label_text.h"
#include "gotrace/model.h"
#include "gotrace/perfetto_fields.h"
#include "gotrace/trace_format.h"
#include "made_up_schedule.h"
#include "requests/perfetto_spans.h"
#include "tests/made_functions.h"

static const struct made_function functions[] = {
	{"main.worker", NULL, 16, 0, 0},
	{"main.serve", "main.read", 16, 0, 0},
	{"main.main", NULL, 16, 0, 0},
	{"runtime.goexit", NULL, 0, FUNC_TOPFRAME, 0},
};

static const uint64_t made_stacks[][3] = {
	{MADE_TEXT + 12, MADE_TEXT + 3 * MADE_SIZE + 12},
	{MADE_TEXT + MADE_SIZE + MADE_INLINED + 12, MADE_TEXT + MADE_SIZE + 12,
	 MADE_TEXT + 3 * MADE_SIZE + 12},
	{MADE_TEXT + MADE_SIZE + 12, MADE_TEXT + 2 * MADE_SIZE + 12,
	 MADE_TEXT + 3 * MADE_SIZE + 12},
};

/* Between two events are at least SHORTEST_NS. Go's format has times in units of 32 ns, and the
 * steps that a format needs for itself, one in a nanosecond, come first: ERROR_NS at most. */
enum { FIRST_OF_C = 1000000 };
enum { SHORTEST_NS = 10000, ERROR_NS = 1000, EVENTS = 3000, SEEDS = 24 };

struct made {
	struct made_functions functions;
	struct stacks *stacks;
	struct texts texts;
};

static int make(void **state)
{
	static struct made d;
	static const char *const names[] = {"chan receive", "sync", TRACE_CALL_PREFIX "main.serve",
					    "k=v"};

	d = (struct made){0};
	made_functions_init(&d.functions, PCLNTAB_GO120, functions, ARRAY_SIZE(functions));
	d.stacks = stacks_create(&d.functions.tab, MACHINE_AMD64);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_int_equal(texts_add(&d.texts, names[i], strlen(names[i])), i + 1);
	for (size_t i = 0; i < ARRAY_SIZE(made_stacks); i++) {
		uint32_t id;

		assert_null(
			stacks_intern(d.stacks, made_stacks[i], made_stacks[i][2] ? 3 : 2, &id));
		assert_int_equal(id, i + 1);
	}
	*state = &d;
	return 0;
}

static int unmake(void **state)
{
	struct made *d = *state;

	texts_release(&d->texts);
	stacks_destroy(d->stacks);
	made_functions_release(&d->functions);
	return 0;
}

static struct error *take_generation(void *arg, const void *bytes, size_t size, uint64_t ns)
{
	strbuf_add(arg, bytes, size);
	return NULL;
}

/* `every`: how many events a generation has; 0: all. */
static void write_trace(struct made *d, const struct trace_format *format, bool separate,
			size_t every, const struct trace_event *events, size_t count,
			struct strbuf *file)
{
	const struct trace_writer_options options = {.functions = &d->functions.tab,
						     .stacks = d->stacks,
						     .texts = &d->texts,
						     .depth = 32,
						     .separate = separate,
						     .process = "made-up",
						     .pid = 1,
						     .generation = take_generation,
						     .arg = file};
	_cleanup_trace_model_ struct trace_model *model = NULL;
	struct trace_writer *writer;
	struct trace_sink sink;

	strbuf_add(file, format->header, format->header_size);
	assert_null(format->create(&options, &writer));
	sink = format->sink(writer);
	assert_null(trace_model_create(&sink, &model));
	for (size_t i = 0; i < count; i++) {
		if (every && i % every == every - 1)
			assert_null(trace_model_new_generation(model, events[i].ns));
		assert_null(trace_model_add(model, &events[i]));
	}
	assert_null(trace_model_complete(model));
	assert_null(format->finish(writer));
	format->destroy(writer);
}

/* Times by what a span says. */
struct sums {
	struct span_tables tables;
	struct intern keys;
	uint64_t ns[1 << 16];
	uint32_t count[1 << 16];
	uint64_t duration;
	/* The goroutine of a thread of C may end with a generation's last step, and begin again in
	 * the next: that cannot be told from one that goes on. */
	bool no_threads_of_c;
};

static void add_stack(struct strbuf *key, const struct span_tables *tables, uint32_t stack)
{
	size_t count;
	const uint32_t *frames = span_stack(tables, stack, &count);

	for (size_t i = 0; i < count; i++)
		strbuf_addf(key, " %s",
			    intern_get(&tables->texts, span_frame(tables, frames[i]).function));
}

static struct error *take_span(void *arg, const struct span *span)
{
	_cleanup_strbuf_ struct strbuf key = STRBUF_INIT;
	struct sums *s = arg;
	uint32_t number;

	assert_true(span->begin <= span->end);
	if (s->no_threads_of_c && span->g >= FIRST_OF_C)
		return NULL;
	strbuf_addf(&key, "%lu %d %s %s at", span->g, span->state,
		    span->state == TRACE_WAITING ? intern_get(&s->tables.texts, span->reason) : "",
		    intern_get(&s->tables.texts, span->labels));
	add_stack(&key, &s->tables, span->stack);
	if (span->state == TRACE_WAITING && span->ended.is_known) {
		strbuf_addf(&key, " by %lu at", span->ended.goroutine);
		if (span->ended.goroutine)
			add_stack(&key, &s->tables, span->ended.stack);
	}
	number = intern_bytes(&s->keys, key.data, key.length);
	assert_true(number < ARRAY_SIZE(s->ns));
	s->ns[number] += span->end - span->begin;
	s->count[number]++;
	return NULL;
}

static void sums_release(struct sums **s)
{
	if (!*s)
		return;
	span_tables_release(&(*s)->tables);
	intern_release(&(*s)->keys);
	free(*s);
}
#define _cleanup_sums_ __attribute__((cleanup(sums_release)))

static struct sums *read_go(const struct strbuf *file, bool separate)
{
	struct sums *s = calloc(1, sizeof(*s));
	struct spans_options options = {.span = take_span, .arg = s};
	_cleanup_trace_reader_ struct trace_reader *reader = NULL;

	s->no_threads_of_c = separate;
	assert_null(trace_reader_create(file->data, file->length, &reader));
	assert_null(spans_read(reader, &options, &s->tables, &s->duration));
	return s;
}

static struct sums *read_perfetto(const struct strbuf *file, bool separate)
{
	struct sums *s = calloc(1, sizeof(*s));
	struct spans_options options = {.span = take_span, .arg = s};
	_cleanup_perfetto_reader_ struct perfetto_reader *reader = NULL;

	s->no_threads_of_c = separate;
	assert_true(perfetto_is(file->data, file->length));
	assert_null(perfetto_reader_create(file->data, file->length, &reader));
	assert_null(perfetto_spans_read(reader, &options, &s->tables, &s->duration));
	return s;
}

/* What `a` says, `b` says, too, as often and for as long. A Go trace ends with the last step, the
 * other one with the last that has a slice. */
static void assert_contains(const struct sums *b, const struct sums *a)
{
	uint64_t end =
		a->duration > b->duration ? a->duration - b->duration : b->duration - a->duration;

	assert_true(end < a->duration / 100);
	for (size_t i = 1; i < a->keys.count; i++) {
		const struct interned *key = &a->keys.strings[i];
		uint32_t j = intern_find(&b->keys, key->data, key->length);

		if (j == INTERN_FAILED || a->count[i] != b->count[j] ||
		    a->ns[i] > b->ns[j] + ERROR_NS * a->count[i] + end)
			fail_msg("%s: %lu ns in %u", key->data, a->ns[i], a->count[i]);
	}
}

/* In a real program, others give a goroutine labels before it runs, and not later. */
static size_t leave_out_labels_by_another(struct trace_event *events, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++)
		if (events[i].kind != TRACE_LABELS || events[i].arg == TRACE_LABELS_BY_ITSELF)
			events[kept++] = events[i];
	return kept;
}

static void compare(struct made *d, uint64_t seed, bool separate)
{
	_cleanup_strbuf_ struct strbuf go = STRBUF_INIT, perfetto = STRBUF_INIT;
	const struct schedule_options schedule = {.seed = seed,
						  .events = EVENTS,
						  .go126 = seed & 1,
						  .lose = seed % 3 == 2 ? 20 : 0,
						  .skip = seed & 4 ? 500 : 0,
						  .texts = 4,
						  .stacks = ARRAY_SIZE(made_stacks),
						  .start_pc = MADE_TEXT};
	size_t count, every = separate || seed & 2 ? 500 : 0;
	_cleanup_free_ struct trace_event *events = schedule_make(&schedule, &count);
	_cleanup_sums_ struct sums *a = NULL, *b = NULL;

	for (size_t i = 0; i < count; i++)
		events[i].ns *= SHORTEST_NS;
	count = leave_out_labels_by_another(events, count);
	write_trace(d, &trace_format_go, separate, every, events, count, &go);
	write_trace(d, &trace_format_perfetto, separate, every, events, count, &perfetto);
	a = read_go(&go, separate);
	b = read_perfetto(&perfetto, separate);
	assert_true(a->keys.count > EVENTS / 10);
	assert_contains(b, a);
	assert_contains(a, b);
}

static void spans_are_those_of_the_go_trace(void **state)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++)
		compare(*state, seed, false);
}

static void generations_that_are_readable_alone_change_nothing(void **state)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++)
		compare(*state, seed, true);
}

/* Adds a piece whose packets are zeros: fields of no message. */
static void add_zeros(struct strbuf *file, size_t size)
{
	_cleanup_strbuf_ struct strbuf packet = STRBUF_INIT;
	uLongf packed_size = compressBound(size);
	_cleanup_free_ uint8_t *packed = malloc(packed_size), *zeros = calloc(1, size);

	assert_true(packed && zeros);
	assert_int_equal(compress2(packed, &packed_size, zeros, size, 9), Z_OK);
	strbuf_add_uvarint(&packet, TAG(PACKET_COMPRESSED_PACKETS, BYTES));
	strbuf_add_uvarint(&packet, packed_size);
	strbuf_add(&packet, packed, packed_size);
	strbuf_add_uvarint(file, TAG(FILE_PACKET, BYTES));
	strbuf_add_uvarint(file, packet.length);
	strbuf_add(file, packet.data, packet.length);
}

static void assert_refused(const struct strbuf *file, const char *message)
{
	const struct spans_options options = {.span = take_span};
	_cleanup_perfetto_reader_ struct perfetto_reader *reader = NULL;
	_cleanup_span_tables_ struct span_tables tables = {0};
	_cleanup_error_ struct error *err = NULL;
	uint64_t duration;

	assert_null(perfetto_reader_create(file->data, file->length, &reader));
	err = perfetto_spans_read(reader, &options, &tables, &duration);
	assert_non_null(err);
	assert_string_equal(err->message, message);
}

static void what_grows_without_bound_is_refused(void **state)
{
	_cleanup_strbuf_ struct strbuf one = STRBUF_INIT, many = STRBUF_INIT;

	add_zeros(&one, (64 << 20) + 1);
	assert_refused(&one, "one of its pieces is too large when unpacked");
	for (int i = 0; i < 8; i++)
		add_zeros(&many, 60 << 20);
	assert_refused(&many, "it is too large when unpacked");
}

static void a_file_that_ends_early_is_read_so_far(void **state)
{
	_cleanup_strbuf_ struct strbuf file = STRBUF_INIT;
	const struct spans_options options = {.span = take_span};
	_cleanup_perfetto_reader_ struct perfetto_reader *reader = NULL;
	_cleanup_span_tables_ struct span_tables tables = {0};
	uint64_t duration;

	add_zeros(&file, 1000);
	assert_null(perfetto_reader_create(file.data, file.length - 1, &reader));
	assert_null(perfetto_spans_read(reader, &options, &tables, &duration));
	assert_true(perfetto_reader_is_truncated(reader));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(spans_are_those_of_the_go_trace, make, unmake),
		cmocka_unit_test_setup_teardown(generations_that_are_readable_alone_change_nothing,
						make, unmake),
		cmocka_unit_test(what_grows_without_bound_is_refused),
		cmocka_unit_test(a_file_that_ends_early_is_read_so_far),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
