/* The cost of Perfetto's format: allocations, bytes and lanes, for made-up schedules. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/strbuf.h"
#include "base/unit_test.h"
#include "gotrace/model.h"
#include "gotrace/trace_format.h"
#include "made_up_schedule.h"
#include "tests/made_runtime.h"

enum { MAIN = 1, FIRST = 10, M = 100, PAIRS = 50, STEPS = 100000, SCHEDULES = 8 };
enum { GOROUTINES = 10000, MOST_AT_ONCE = 37, MOST_OF_PIECE = 1 << 20 };

/* ---- allocations: the linker puts these before the C library's (--wrap) ---- */

static atomic_size_t allocations;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

void *__wrap_malloc(size_t size)
{
	atomic_fetch_add(&allocations, 1);
	return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	atomic_fetch_add(&allocations, 1);
	return __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
	atomic_fetch_add(&allocations, 1);
	return __real_realloc(memory, size);
}

/* ---- a writer ---- */

struct made {
	const struct trace_format *format;
	struct made_runtime runtime;
	struct stacks *stacks;
	struct texts texts;
	struct trace_writer *writer;
	struct trace_model *model;
	uint64_t ns;
	uint64_t random;
	struct strbuf bytes; /* of all generations */
};

static struct error *take_generation(void *arg, const void *bytes, size_t size, uint64_t ns)
{
	struct made *d = arg;

	strbuf_add(&d->bytes, bytes, size);
	return d->bytes.failed ? &error_no_memory : NULL;
}

static void fill_tables(struct made *d)
{
	static const char *const texts[] = {"chan receive", "sync", "preempted", "GC (dedicated)"};
	const uint64_t stacks[][3] = {
		{made_pc(MADE_LEAF, false), made_pc(MADE_ROOT, false)},
		{made_pc(MADE_LEAF, false), made_pc(MADE_OTHER, false), made_pc(MADE_ROOT, false)},
		{made_pc(MADE_OTHER, false), made_pc(MADE_ROOT, false)},
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_int_equal(texts_add(&d->texts, texts[i], strlen(texts[i])), i + 1);
	for (size_t i = 0; i < ARRAY_SIZE(stacks); i++) {
		uint32_t id;

		assert_null(stacks_intern(d->stacks, stacks[i], stacks[i][2] ? 3 : 2, &id));
	}
}

static struct made *begin(const struct trace_format *format)
{
	static struct made d;
	struct trace_writer_options options = {.texts = &d.texts,
					       .depth = 32,
					       .process = "made-up",
					       .pid = 1,
					       .generation = take_generation,
					       .arg = &d};
	struct trace_sink sink;

	d = (struct made){.format = format, .ns = 1, .random = 1, .bytes = STRBUF_INIT};
	made_runtime_init(&d.runtime, 27, 1);
	d.stacks = stacks_create(&d.runtime.img.functions, MACHINE_AMD64);
	fill_tables(&d);
	options.functions = &d.runtime.img.functions;
	options.stacks = d.stacks;
	assert_null(format->create(&options, &d.writer));
	sink = format->sink(d.writer);
	assert_null(trace_model_create(&sink, &d.model));
	return &d;
}

static void end(struct made *d)
{
	trace_model_destroy(d->model);
	d->format->destroy(d->writer);
	texts_release(&d->texts);
	stacks_destroy(d->stacks);
	made_runtime_release(&d->runtime);
	strbuf_release(&d->bytes);
}

static void add(struct made *d, struct trace_event ev)
{
	d->ns += 500;
	ev.ns = d->ns;
	ev.m = M;
	assert_null(trace_model_add(d->model, &ev));
}

/* ---- no allocation for an event ---- */

static uint64_t steps(const struct made *d)
{
	return trace_model_stats(d->model).steps;
}

/* One event of each kind that goroutines often have. */
static void play(struct made *d, uint64_t g, uint32_t stack)
{
	add(d, (struct trace_event){.kind = TRACE_UNBLOCK, .g = g, .stack = stack});
	add(d, (struct trace_event){.kind = TRACE_BLOCK, .g = MAIN, .text = 1, .stack = stack});
	add(d, (struct trace_event){.kind = TRACE_START, .g = g});
	add(d, (struct trace_event){.kind = TRACE_LABELS, .g = g, .text = 1 + g % 4});
	add(d, (struct trace_event){.kind = TRACE_LOG, .g = g, .text = 2, .text2 = 3});
	add(d, (struct trace_event){.kind = TRACE_UNBLOCK, .g = MAIN, .stack = stack});
	add(d, (struct trace_event){.kind = TRACE_BLOCK, .g = g, .text = 2, .stack = stack});
	add(d, (struct trace_event){.kind = TRACE_START, .g = MAIN});
}

static void play_until(struct made *d, uint64_t last)
{
	for (uint64_t i = 0; steps(d) < last; i++)
		play(d, FIRST + i % PAIRS, 1 + i % 3);
}

static void an_event_takes_no_allocation(void **state)
{
	struct made *d = begin(&trace_format_perfetto);
	size_t before;

	add(d, (struct trace_event){.kind = TRACE_CREATE, .g = MAIN});
	add(d, (struct trace_event){.kind = TRACE_START, .g = MAIN});
	for (uint64_t i = 0; i < PAIRS; i++) {
		uint64_t g = FIRST + i, pc = made_pc(MADE_ROOT, false);

		add(d, (struct trace_event){.kind = TRACE_CREATE, .g = g, .arg = pc});
		add(d, (struct trace_event){.kind = TRACE_BLOCK, .g = MAIN});
		add(d, (struct trace_event){.kind = TRACE_START, .g = g});
		add(d, (struct trace_event){.kind = TRACE_BLOCK, .g = g});
		add(d, (struct trace_event){.kind = TRACE_UNBLOCK, .g = MAIN});
		add(d, (struct trace_event){.kind = TRACE_START, .g = MAIN});
	}
	play_until(d, steps(d) + STEPS / 10);
	before = allocations;
	play_until(d, steps(d) + STEPS);
	/* The buffer of the generation doubles now and then. */
	assert_in_range(allocations - before, 0, 40);
	assert_true(allocations > 0);
	assert_null(d->format->finish(d->writer));
	assert_true(d->bytes.length > STEPS / 10);
	end(d);
}

/* ---- bytes ---- */

static size_t bytes_of(const struct trace_format *format, const struct trace_event *events,
		       size_t count)
{
	struct made *d = begin(format);
	size_t bytes;

	for (size_t i = 0; i < count; i++)
		assert_null(trace_model_add(d->model, &events[i]));
	assert_null(format->finish(d->writer));
	bytes = d->bytes.length;
	end(d);
	return bytes;
}

/* Events are drawn at random, so nothing repeats that could be compressed. */
static void the_same_events_take_at_most_three_times_the_bytes_of_gos_format(void **state)
{
	for (uint64_t seed = 1; seed <= SCHEDULES; seed++) {
		struct schedule_options options = {
			.seed = seed,
			.events = 20000 * seed,
			.lose = seed % 4 == 3 ? 20 : 0,
			.go126 = seed & 1,
			.texts = 4,
			.stacks = 3,
			.start_pc = made_pc(MADE_ROOT, false),
		};
		_cleanup_free_ struct trace_event *events = NULL;
		size_t count, go, perfetto;

		events = schedule_make(&options, &count);
		assert_non_null(events);
		assert_int_equal(count, options.events);
		go = bytes_of(&trace_format_go, events, count);
		perfetto = bytes_of(&trace_format_perfetto, events, count);
		assert_true(go > count && perfetto > count);
		assert_true(perfetto <= 3 * go);
	}
}

/* ---- lanes ---- */

static uint64_t number_at(const uint8_t **at, const uint8_t *end)
{
	uint64_t value = 0;

	for (unsigned int shift = 0; *at < end; shift += 7) {
		uint8_t byte = *(*at)++;

		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			break;
	}
	return value;
}

/* The next field of a message whose fields are all byte strings. */
static uint64_t field_at(const uint8_t **at, const uint8_t *end, size_t *ret_size)
{
	uint64_t tag = number_at(at, end);

	assert_int_equal(tag & 7, 2);
	*ret_size = number_at(at, end);
	assert_true(*ret_size <= (size_t)(end - *at));
	return tag >> 3;
}

static void add_inflated(const uint8_t *bytes, size_t size, struct strbuf *to)
{
	uLongf length = MOST_OF_PIECE;
	_cleanup_free_ uint8_t *piece = malloc(length);

	assert_non_null(piece);
	assert_int_equal(uncompress(piece, &length, bytes, size), Z_OK);
	strbuf_add(to, (const char *)piece, length);
}

/* Each packet of the file is TracePacket.compressed_packets, its field 50. */
static void inflate_all(const struct strbuf *file, struct strbuf *to)
{
	const uint8_t *at = (const uint8_t *)file->data, *end = at + file->length;

	while (at < end) {
		size_t size, packed;
		const uint8_t *inner;

		assert_int_equal(field_at(&at, end, &size), 1);
		inner = at;
		assert_int_equal(field_at(&inner, at + size, &packed), 50);
		add_inflated(inner, packed, to);
		at += size;
	}
	assert_false(to->failed);
}

/* The function's tracks, which are named "main.root 1" and so on. */
static uint64_t count_lanes(const struct strbuf *packets, bool *seen, size_t most)
{
	static const char name[] = "main.root ";
	const char *at = packets->data, *end = at + packets->length;
	uint64_t lanes = 0;

	while ((at = memmem(at, end - at, name, strlen(name)))) {
		uint64_t number = strtoull(at + strlen(name), NULL, 10);

		at += strlen(name);
		assert_in_range(number, 1, most);
		lanes += !seen[number];
		seen[number] = true;
	}
	return lanes;
}

static uint64_t draw(struct made *d, uint64_t below)
{
	d->random ^= d->random << 13;
	d->random ^= d->random >> 7;
	d->random ^= d->random << 17;
	return (d->random >> 11) % below;
}

struct crowd {
	uint64_t alive[MOST_AT_ONCE];
	size_t count, most;
};

static void give_birth(struct made *d, struct crowd *crowd, uint64_t g)
{
	add(d,
	    (struct trace_event){.kind = TRACE_CREATE, .g = g, .arg = made_pc(MADE_ROOT, false)});
	crowd->alive[crowd->count++] = g;
	if (crowd->count > crowd->most)
		crowd->most = crowd->count;
}

static void end_one(struct made *d, struct crowd *crowd)
{
	size_t i = draw(d, crowd->count);
	uint64_t g = crowd->alive[i];

	crowd->alive[i] = crowd->alive[--crowd->count];
	add(d, (struct trace_event){.kind = TRACE_BLOCK, .g = MAIN});
	add(d, (struct trace_event){.kind = TRACE_START, .g = g});
	add(d, (struct trace_event){.kind = TRACE_UNBLOCK, .g = MAIN});
	add(d, (struct trace_event){.kind = TRACE_END, .g = g});
	add(d, (struct trace_event){.kind = TRACE_START, .g = MAIN});
}

static void short_goroutines_take_as_many_lanes_as_live_at_once(void **state)
{
	struct made *d = begin(&trace_format_perfetto);
	_cleanup_strbuf_ struct strbuf packets = STRBUF_INIT;
	bool seen[GOROUTINES + 1] = {false};
	struct crowd crowd = {.count = 0};
	uint64_t born = 0;

	add(d, (struct trace_event){.kind = TRACE_CREATE, .g = MAIN});
	add(d, (struct trace_event){.kind = TRACE_START, .g = MAIN});
	while (born < GOROUTINES || crowd.count) {
		bool more = born < GOROUTINES && crowd.count < MOST_AT_ONCE;

		if (more && (!crowd.count || draw(d, 2)))
			give_birth(d, &crowd, FIRST + born++);
		else
			end_one(d, &crowd);
	}
	assert_null(d->format->finish(d->writer));
	inflate_all(&d->bytes, &packets);
	assert_int_equal(crowd.most, MOST_AT_ONCE);
	assert_int_equal(count_lanes(&packets, seen, GOROUTINES), crowd.most);
	end(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_event_takes_no_allocation),
		cmocka_unit_test(the_same_events_take_at_most_three_times_the_bytes_of_gos_format),
		cmocka_unit_test(short_goroutines_take_as_many_lanes_as_live_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
