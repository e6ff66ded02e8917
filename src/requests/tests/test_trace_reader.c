/* Traces that would take long, or much memory, to read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/strbuf.h"
#include "base/unit_test.h"
#include "requests/machine.h"
#include "requests/requests.h"
#include "requests/spans.h"
#include "requests/summary.h"

enum { BATCH = 1, STACKS = 2, STACK = 3, STRINGS = 4, STRING = 5, FREQUENCY = 8 };
/* Limits of CPU time on a slow machine under sanitizers. The quadratic version took some 20,000. */
enum { NS_OF_BYTE = 5000, NS_OF_FILE = 100000000, SIZE = 1 << 20 };

static int make(void **state)
{
	static struct strbuf file;

	file = (struct strbuf)STRBUF_INIT;
	strbuf_add(&file, "go 1.22 trace\0\0\0", 16);
	*state = &file;
	return 0;
}

static int unmake(void **state)
{
	strbuf_release(*state);
	return 0;
}

static void add_batch(struct strbuf *file, uint64_t m, const struct strbuf *data)
{
	strbuf_addc(file, BATCH);
	strbuf_add_uvarint(file, 1);
	strbuf_add_uvarint(file, m);
	strbuf_add_uvarint(file, 1);
	strbuf_add_uvarint(file, data->length);
	strbuf_add(file, data->data, data->length);
}

static void add_frequency(struct strbuf *file)
{
	_cleanup_strbuf_ struct strbuf data = STRBUF_INIT;

	strbuf_addc(&data, FREQUENCY);
	strbuf_add_uvarint(&data, 1000000000);
	add_batch(file, TRACE_NO_M, &data);
}

static void add_step(struct strbuf *data, enum trace_op op, const uint64_t *args, size_t count)
{
	strbuf_addc(data, op);
	strbuf_add_uvarint(data, 1);
	for (size_t i = 0; i < count; i++)
		strbuf_add_uvarint(data, args[i]);
}
#define STEP(data, op, ...)                           \
	add_step(data, op, (uint64_t[]){__VA_ARGS__}, \
		 sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

struct reading {
	struct span_tables tables;
	struct summary summary;
	struct requests requests;
};

static struct error *take_span(void *arg, const struct span *span)
{
	struct reading *r = arg;
	struct error *err = summary_add(&r->summary, span);

	return err ? err : requests_add(&r->requests, &r->tables, span);
}

static uint64_t processor_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void read_machine(const struct strbuf *file)
{
	struct machine_report *m = calloc(1, sizeof(*m));
	_cleanup_trace_reader_ struct trace_reader *reader = NULL;
	uint64_t began = processor_ns();
	struct error *err = trace_reader_create(file->data, file->length, &reader);

	assert_non_null(m);
	if (!err)
		err = machine_read(reader, NULL, m);
	error_destroy(err);
	assert_true(processor_ns() - began < NS_OF_FILE + NS_OF_BYTE * file->length);
	machine_release(m);
	free(m);
}

/* Reads the file as `report` does, in time proportional to its size. */
static struct error *read_all(const struct strbuf *file)
{
	struct reading r = {.requests.key = "key"};
	struct spans_options options = {.span = take_span, .arg = &r};
	_cleanup_trace_reader_ struct trace_reader *reader = NULL;
	uint64_t duration, began = processor_ns();
	struct error *err = trace_reader_create(file->data, file->length, &reader);

	if (!err)
		err = spans_read(reader, &options, &r.tables, &duration);
	summary_complete(&r.summary);
	err = err ?: requests_complete(&r.requests, 1);
	assert_true(processor_ns() - began < NS_OF_FILE + NS_OF_BYTE * file->length);
	summary_release(&r.summary);
	requests_release(&r.requests);
	span_tables_release(&r.tables);
	read_machine(file);
	return err;
}

static void threads_that_wait_for_each_other_are_given_up(void **state)
{
	struct strbuf *file = *state;
	struct error *err;

	add_frequency(file);
	for (uint64_t i = 0; file->length < SIZE; i++) {
		_cleanup_strbuf_ struct strbuf data = STRBUF_INIT;

		if (!i)
			STEP(&data, OP_PROC_STATUS, 0, PROC_IDLE);
		else
			STEP(&data, OP_PROC_START, 0, 50000 - i);
		STEP(&data, OP_PROC_STOP, 0);
		data.length--; /* it has no arguments */
		add_batch(file, i + 1, &data);
	}
	err = read_all(file);
	assert_non_null(err);
	assert_int_equal(err->code, ERROR_CORRUPT);
	error_destroy(err);
}

/* 128 frames with names of 1,000 bytes each. */
static void add_large_stack(struct strbuf *file)
{
	_cleanup_strbuf_ struct strbuf stacks = STRBUF_INIT, strings = STRBUF_INIT;
	char name[1000];

	memset(name, 'x', sizeof(name));
	strbuf_addc(&strings, STRINGS);
	strbuf_addc(&stacks, STACKS);
	strbuf_addc(&stacks, STACK);
	strbuf_add_uvarint(&stacks, 1);
	strbuf_add_uvarint(&stacks, 128);
	for (uint64_t i = 1; i <= 128; i++) {
		strbuf_addc(&strings, STRING);
		strbuf_add_uvarint(&strings, i);
		strbuf_add_uvarint(&strings, sizeof(name));
		memcpy(name, &i, sizeof(i));
		strbuf_add(&strings, name, sizeof(name));
		for (int k = 0; k < 4; k++)
			strbuf_add_uvarint(&stacks, i);
	}
	add_batch(file, TRACE_NO_M, &strings);
	add_batch(file, TRACE_NO_M, &stacks);
}

static void a_large_stack_is_looked_at_once(void **state)
{
	_cleanup_strbuf_ struct strbuf data = STRBUF_INIT;
	struct strbuf *file = *state;

	add_frequency(file);
	add_large_stack(file);
	STEP(&data, OP_GO_STATUS, 1, 5, TRACE_RUNNING);
	for (uint64_t i = 1; data.length < SIZE; i++) {
		STEP(&data, OP_GO_BLOCK, 1, 1);
		STEP(&data, OP_GO_UNBLOCK, 1, 2 * i - 1, 0);
		STEP(&data, OP_GO_START, 1, 2 * i);
	}
	add_batch(file, 5, &data);
	assert_null(read_all(file));
}

static void very_many_reasons_are_no_search(void **state)
{
	_cleanup_strbuf_ struct strbuf data = STRBUF_INIT, strings = STRBUF_INIT;
	struct strbuf *file = *state;

	add_frequency(file);
	strbuf_addc(&strings, STRINGS);
	STEP(&data, OP_GO_STATUS, 1, 5, TRACE_RUNNING);
	for (uint64_t i = 1; data.length < SIZE; i++) {
		char reason[16];
		int n = snprintf(reason, sizeof(reason), "r%lu", (unsigned long)i);

		strbuf_addc(&strings, STRING);
		strbuf_add_uvarint(&strings, i);
		strbuf_add_uvarint(&strings, n);
		strbuf_add(&strings, reason, n);
		STEP(&data, OP_GO_BLOCK, i, 0);
		STEP(&data, OP_GO_UNBLOCK, 1, 2 * i - 1, 0);
		STEP(&data, OP_GO_START, 1, 2 * i);
	}
	add_batch(file, TRACE_NO_M, &strings);
	add_batch(file, 5, &data);
	assert_null(read_all(file));
}

static void a_text_longer_than_any_that_go_writes_is_refused(void **state)
{
	_cleanup_strbuf_ struct strbuf strings = STRBUF_INIT;
	struct strbuf *file = *state;
	char text[1025] = "";
	struct error *err;

	strbuf_addc(&strings, STRINGS);
	strbuf_addc(&strings, STRING);
	strbuf_add_uvarint(&strings, 1);
	strbuf_add_uvarint(&strings, sizeof(text));
	strbuf_add(&strings, text, sizeof(text));
	add_batch(file, TRACE_NO_M, &strings);
	add_frequency(file);
	err = read_all(file);
	assert_non_null(err);
	error_destroy(err);
}

static void times_that_are_no_times_are_bounded(void **state)
{
	_cleanup_strbuf_ struct strbuf frequency = STRBUF_INIT, data = STRBUF_INIT;
	struct strbuf *file = *state;

	strbuf_addc(&frequency, FREQUENCY);
	strbuf_add_uvarint(&frequency, 1);
	add_batch(file, TRACE_NO_M, &frequency);
	strbuf_addc(&data, OP_GO_STATUS);
	strbuf_add_uvarint(&data, UINT64_MAX - 1);
	for (uint64_t i = 1; i <= 3; i++)
		strbuf_add_uvarint(&data, i);
	add_batch(file, 5, &data);
	assert_null(read_all(file));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make, unmake)

struct cancelling {
	atomic_int cancel;
	int spans;
};

static struct error *cancel_at_the_third(void *arg, const struct span *span)
{
	struct cancelling *c = arg;

	if (++c->spans == 3)
		atomic_store(&c->cancel, 1);
	return NULL;
}

static void a_reading_ends_when_it_is_cancelled(void **state)
{
	_cleanup_strbuf_ struct strbuf data = STRBUF_INIT;
	_cleanup_trace_reader_ struct trace_reader *reader = NULL;
	struct strbuf *file = *state;
	struct cancelling c = {0};
	struct spans_options options = {.span = cancel_at_the_third,
					.arg = &c,
					.cancel = &c.cancel};
	struct span_tables tables = {0};
	struct error *err;
	uint64_t duration;

	add_frequency(file);
	add_large_stack(file);
	STEP(&data, OP_GO_STATUS, 1, 5, TRACE_RUNNING);
	for (uint64_t i = 1; i < 1000; i++) {
		STEP(&data, OP_GO_BLOCK, 1, 1);
		STEP(&data, OP_GO_UNBLOCK, 1, 2 * i - 1, 0);
		STEP(&data, OP_GO_START, 1, 2 * i);
	}
	add_batch(file, 5, &data);
	assert_null(trace_reader_create(file->data, file->length, &reader));
	err = spans_read(reader, &options, &tables, &duration);
	assert_ptr_equal(err, &error_stopped);
	/* The goroutine's open span ends with the trace. */
	assert_in_range(c.spans, 3, 4);
	span_tables_release(&tables);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(threads_that_wait_for_each_other_are_given_up),
		TEST(a_reading_ends_when_it_is_cancelled),
		TEST(a_large_stack_is_looked_at_once),
		TEST(very_many_reasons_are_no_search),
		TEST(a_text_longer_than_any_that_go_writes_is_refused),
		TEST(times_that_are_no_times_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
