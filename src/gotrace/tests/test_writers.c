/* Both formats, with the events of a program that never does the same twice. */
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/unit_test.h"
#include "gotrace/model.h"
#include "gotrace/trace_format.h"
#include "tests/made_runtime.h"

/* Goroutines that start, work and end one after the other. */
enum { M = 100, MAIN = 1, FIRST = 10, SECONDS_AT_MOST = 120 };
/* AddressSanitizer keeps freed memory: how much is taken means nothing with it. */
enum { WARM_UP = UNDER_ASAN ? 2000 : 100000, ROUNDS = 3 * WARM_UP };
#define ROUND_NS 20000ull

struct made {
	const struct trace_format *format;
	struct made_runtime runtime;
	struct stacks *stacks;
	struct texts texts;
	struct trace_writer *writer;
	struct trace_model *model;
	uint64_t ns;
	size_t bytes; /* of the last generation */
	unsigned int generations;
};

static struct error *take_generation(void *arg, const void *bytes, size_t size, uint64_t ns)
{
	struct made *d = arg;

	d->bytes = size;
	d->generations++;
	return NULL;
}

static int make(void **state, const struct trace_format *format)
{
	static struct made d;
	struct trace_writer_options options = {.texts = &d.texts,
					       .separate = true,
					       .process = "made-up",
					       .pid = 1,
					       .generation = take_generation,
					       .arg = &d};
	struct trace_sink sink;

	d = (struct made){.format = format, .ns = 1};
	*state = &d;
	made_runtime_init(&d.runtime, 27, 1);
	d.stacks = stacks_create(&d.runtime.img.functions, MACHINE_AMD64);
	options.functions = &d.runtime.img.functions;
	options.stacks = d.stacks;
	if (error_dropped(format->create(&options, &d.writer)))
		return -1;
	sink = format->sink(d.writer);
	mallopt(M_MMAP_THRESHOLD, 128 << 10); /* as gospect does */
	alarm(SECONDS_AT_MOST);
	return error_dropped(trace_model_create(&sink, &d.model));
}

static int make_go(void **state)
{
	return make(state, &trace_format_go);
}

static int make_perfetto(void **state)
{
	return make(state, &trace_format_perfetto);
}

static int unmake(void **state)
{
	struct made *d = *state;

	alarm(0);
	trace_model_destroy(d->model);
	d->format->destroy(d->writer);
	texts_release(&d->texts);
	stacks_destroy(d->stacks);
	made_runtime_release(&d->runtime);
	return 0;
}

static void add(struct made *d, struct trace_event ev)
{
	ev.ns = ++d->ns;
	ev.m = M;
	assert_null(trace_model_add(d->model, &ev));
}

static uint32_t text(struct made *d, const char *what, uint64_t i)
{
	char unique[64];
	int n = snprintf(unique, sizeof(unique), "%s %08lu", what, (unsigned long)i);

	return texts_add(&d->texts, unique, n);
}

static void sweep(struct made *d)
{
	if (!texts_are_due(&d->texts))
		return;
	trace_model_mark_texts(d->model, &d->texts);
	d->format->mark_texts(d->writer, &d->texts);
	texts_sweep(&d->texts);
}

/* A round with everything that has a text or a name. Every other region lacks its end or its
 * beginning. */
static void live(struct made *d, uint64_t i)
{
	uint64_t g = FIRST + i;

	add(d,
	    (struct trace_event){.kind = TRACE_CREATE, .g = g, .arg = made_pc(MADE_ROOT, false)});
	add(d, (struct trace_event){.kind = TRACE_BLOCK, .g = MAIN});
	add(d, (struct trace_event){.kind = TRACE_START, .g = g});
	add(d, (struct trace_event){.kind = TRACE_LABELS, .g = g, .text = text(d, "label", i)});
	add(d, (struct trace_event){.kind = TRACE_TASK_BEGIN,
				    .g = g,
				    .arg = i + 1,
				    .text = text(d, "task", i)});
	add(d, (struct trace_event){.kind = i & 1 ? TRACE_REGION_BEGIN : TRACE_REGION_END,
				    .g = g,
				    .arg = i + 1,
				    .text = text(d, "region", i)});
	add(d, (struct trace_event){.kind = TRACE_LOG,
				    .g = g,
				    .arg = i + 1,
				    .text = text(d, "category", i),
				    .text2 = text(d, "message", i)});
	if (i & 2)
		add(d, (struct trace_event){.kind = TRACE_TASK_END, .g = g, .arg = i + 1});
	add(d, (struct trace_event){.kind = TRACE_UNBLOCK, .g = MAIN});
	add(d, (struct trace_event){.kind = TRACE_END, .g = g});
	add(d, (struct trace_event){.kind = TRACE_START, .g = MAIN});
	d->ns += ROUND_NS;
}

/* Memory taken from the system, heap and mappings. */
static size_t anonymous_bytes(void)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	size_t kb = 0;

	if (UNDER_ASAN)
		return 1;
	assert_non_null(f);
	while (!kb && fgets(line, sizeof(line), f))
		sscanf(line, "RssAnon: %zu", &kb);
	assert_true(kb > 0);
	return kb << 10;
}

/* The most memory that was taken at the end of a generation. */
static size_t run(struct made *d, uint64_t begin, uint64_t end)
{
	size_t most = 0, now;

	for (uint64_t i = begin; i < end; i++) {
		live(d, i);
		sweep(d);
		if (i % 500)
			continue;
		assert_null(trace_model_new_generation(d->model, d->ns));
		now = anonymous_bytes();
		most = now > most ? now : most;
	}
	return most;
}

static void a_long_trace_takes_no_more_memory_than_a_short_one(void **state)
{
	struct made *d = *state;
	size_t most, bytes;

	add(d, (struct trace_event){.kind = TRACE_CREATE, .g = MAIN});
	add(d, (struct trace_event){.kind = TRACE_START, .g = MAIN});
	most = run(d, 0, WARM_UP);
	bytes = d->bytes;
	assert_true(run(d, WARM_UP, ROUNDS) <= most + most / 10);
	assert_true(d->bytes <= bytes + bytes / 10);
	assert_int_equal(d->texts.refused, 0);
}

static void unmatched_end_does_not_block_the_generation(void **state)
{
	struct made *d = *state;

	add(d, (struct trace_event){.kind = TRACE_CREATE, .g = MAIN});
	add(d, (struct trace_event){.kind = TRACE_START, .g = MAIN});
	add(d, (struct trace_event){.kind = TRACE_REGION_END, .g = MAIN, .text = text(d, "r", 1)});
	add(d, (struct trace_event){.kind = TRACE_TASK_END, .g = MAIN, .arg = 7});
	add(d, (struct trace_event){.kind = TRACE_RETURN, .g = MAIN, .arg = 7});
	assert_null(trace_model_new_generation(d->model, d->ns));
	assert_int_equal(d->generations, 1);
}

/* A task without an end has a track, and the number of tracks is limited. */
static void tasks_past_the_limit_are_counted(void **state)
{
	struct made *d = *state;

	add(d, (struct trace_event){.kind = TRACE_CREATE, .g = MAIN});
	add(d, (struct trace_event){.kind = TRACE_START, .g = MAIN});
	for (uint64_t i = 1; i <= TRACE_MOST_TASKS + 7; i++)
		add(d, (struct trace_event){.kind = TRACE_TASK_BEGIN, .g = MAIN, .arg = i});
	assert_int_equal(d->format->left_out(d->writer), 7);
	add(d, (struct trace_event){.kind = TRACE_TASK_END, .g = MAIN, .arg = 1});
	add(d, (struct trace_event){.kind = TRACE_TASK_BEGIN, .g = MAIN, .arg = 1});
	assert_int_equal(d->format->left_out(d->writer), 7);
}

#define TEST(f, format)                                        \
	{                                                      \
#f "_" #format, f, make_##format, unmake, NULL \
	}
#define TEST_BOTH(f) TEST(f, go), TEST(f, perfetto)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_BOTH(a_long_trace_takes_no_more_memory_than_a_short_one),
		TEST_BOTH(unmatched_end_does_not_block_the_generation),
		TEST(tasks_past_the_limit_are_counted, perfetto),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
