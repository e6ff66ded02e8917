#include "gotrace/trace_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/cursor.h"
#include "base/map.h"
#include "gotrace/event.h"
#include "gotrace/go_file.h"
#include "gotrace/order.h"

enum { HEADER_SIZE = 16 };

/* A frame as the file has it; its texts may come later in the file. */
struct raw_frame {
	uint64_t pc;
	uint64_t function;
	uint64_t file;
	uint64_t line;
};

/* The events of a thread in one batch. */
struct batch {
	uint64_t m;
	uint64_t ticks; /* time of its first event, from which the others count */
	const uint8_t *data;
	size_t size;
	size_t next; /* index + 1 of the thread's next batch */
};

/* A thread of this generation. */
struct thread {
	uint64_t m;
	size_t batch; /* index + 1; 0: no more */
	size_t last_batch;
	struct cursor data;
	uint64_t ticks;
	bool ready; /* `step` waits to be taken */
	struct trace_step step;
};

/* A CPU sample of this generation. */
struct sample {
	uint64_t ticks;
	uint64_t m;
	uint64_t p; /* UINT64_MAX: none */
	uint64_t g;
	uint64_t stack;
};

struct trace_reader {
	struct cursor file;
	char header[HEADER_SIZE + 1];
	unsigned int version; /* 22 for "go 1.22 trace" */
	bool truncated;
	bool started;
	uint64_t base_ns; /* the beginning of the trace: the least time of its first batches */
	uint64_t last_ns;
	struct order order;
	uint64_t generations; /* so far */

	/* For the current generation. */
	uint64_t number;
	uint64_t frequency;
	struct batch *batches;
	size_t batch_count;
	size_t batch_capacity;
	struct thread *threads;
	size_t thread_count;
	size_t thread_capacity;
	struct map threads_index; /* m -> place in threads + 1 */
	/* A heap of threads with a step: the earliest first. Behind the heap are threads whose step
	 * cannot be taken yet. */
	size_t *heap;
	size_t heap_capacity;
	size_t waiting;
	uint64_t refusals;      /* how many steps could not be taken yet, so far */
	struct map texts_index; /* id -> offset in texts + 1 */
	char *texts;
	size_t text_size;
	size_t text_capacity;
	struct map stacks_index; /* id -> first frame << 8 | frames */
	struct raw_frame *raw;
	size_t raw_count;
	size_t raw_capacity;
	struct trace_reader_frame *frames; /* raw_count of them */
	size_t frame_capacity;
	struct sample *samples; /* in the order of time */
	size_t sample_count;
	size_t sample_capacity;
	size_t sample_next;
};

struct error *trace_reader_create(const void *bytes, size_t size, struct trace_reader **ret)
{
	_cleanup_trace_reader_ struct trace_reader *r = calloc(1, sizeof(*r));
	char end[8];

	if (!r)
		return &error_no_memory;
	if (size < HEADER_SIZE)
		return error_format(ERROR_CORRUPT,
				    "it is not a Go execution trace: it is too short");
	memcpy(r->header, bytes, HEADER_SIZE);
	if (sscanf(r->header, "go 1.%u %7s", &r->version, end) != 2 || strcmp(end, "trace"))
		return error_format(ERROR_CORRUPT,
				    "it is not a Go execution trace: it has no trace header");
	if (r->version < 22)
		return error_format(
			ERROR_UNSUPPORTED,
			"it is a trace of Go 1.%u, and gospect reads traces of Go 1.22 and newer; "
			"use `go tool trace`",
			r->version);
	if (r->version > 26)
		return error_format(
			ERROR_UNSUPPORTED,
			"its format, \"%s\", is newer than this gospect; install a newer gospect",
			r->header);
	r->file = cursor_of(bytes, size, "the trace");
	cursor_seek(&r->file, HEADER_SIZE);
	*ret = take_ptr(r);
	return NULL;
}

static void forget_generation(struct trace_reader *r)
{
	r->batch_count = r->thread_count = r->text_size = r->raw_count = 0;
	r->sample_count = r->sample_next = 0;
	r->frequency = 0;
	r->waiting = 0;
	map_release(&r->texts_index);
	map_release(&r->stacks_index);
	map_release(&r->threads_index);
}

void trace_reader_destroy(struct trace_reader *r)
{
	if (!r)
		return;
	forget_generation(r);
	order_release(&r->order);
	free(r->batches);
	free(r->threads);
	free(r->heap);
	free(r->texts);
	free(r->raw);
	free(r->frames);
	free(r->samples);
	free(r);
}

static struct error *parse_string(struct trace_reader *r, struct cursor *c)
{
	uint64_t id = cursor_uvarint(c), length = cursor_uvarint(c), *place;
	const void *bytes = cursor_bytes(c, length);

	if (c->failed || id == MAP_NO_KEY)
		return NULL;
	if (length > MAX_STRING)
		return error_format(ERROR_CORRUPT, "the trace is corrupt: a string of %lu bytes",
				    (unsigned long)length);
	if (!array_reserve(&r->texts, &r->text_capacity, r->text_size + length + 1))
		return &error_no_memory;
	place = map_at(&r->texts_index, id);
	if (!place)
		return &error_no_memory;
	*place = r->text_size + 1;
	memcpy(r->texts + r->text_size, bytes, length);
	r->texts[r->text_size + length] = 0;
	r->text_size += length + 1;
	return NULL;
}

static struct error *parse_stack(struct trace_reader *r, struct cursor *c)
{
	uint64_t id = cursor_uvarint(c), count = cursor_uvarint(c), *place;

	if (c->failed || id == MAP_NO_KEY)
		return NULL;
	if (count > MAX_FRAMES)
		return error_format(ERROR_CORRUPT, "the trace is corrupt: a stack of %lu frames",
				    (unsigned long)count);
	if (!array_reserve(&r->raw, &r->raw_capacity, r->raw_count + count))
		return &error_no_memory;
	place = map_at(&r->stacks_index, id);
	if (!place)
		return &error_no_memory;
	*place = (uint64_t)r->raw_count << 8 | count;
	for (size_t i = 0; i < count; i++) {
		struct raw_frame *f = &r->raw[r->raw_count++];

		f->pc = cursor_uvarint(c);
		f->function = cursor_uvarint(c);
		f->file = cursor_uvarint(c);
		f->line = cursor_uvarint(c);
	}
	return NULL;
}

static struct error *parse_sample(struct trace_reader *r, struct cursor *c)
{
	struct sample s = {.ticks = cursor_uvarint(c)};

	s.m = cursor_uvarint(c);
	s.p = cursor_uvarint(c);
	s.g = cursor_uvarint(c);
	s.stack = cursor_uvarint(c);
	if (c->failed)
		return NULL;
	if (!array_reserve(&r->samples, &r->sample_capacity, r->sample_count + 1))
		return &error_no_memory;
	r->samples[r->sample_count++] = s;
	return NULL;
}

/* A batch that is a table: its kind, then records that begin with `record`. */
static struct error *parse_table(struct trace_reader *r, struct cursor *c, uint8_t record,
				 struct error *(*parse)(struct trace_reader *, struct cursor *))
{
	struct error *err = NULL;

	while (c->at < c->end && !c->failed && !err) {
		uint8_t kind = cursor_u8(c);

		if (kind != record)
			return error_format(
				ERROR_CORRUPT,
				"the trace is corrupt: a record of kind %u in a table of %u", kind,
				record);
		err = parse(r, c);
	}
	return err ? err : cursor_error(c);
}

static struct error *parse_sync(struct trace_reader *r, struct cursor *c)
{
	while (c->at < c->end && !c->failed) {
		uint8_t kind = cursor_u8(c);

		if (kind == FREQUENCY) {
			r->frequency = cursor_uvarint(c);
		} else if (kind == CLOCK_SNAPSHOT) {
			for (size_t i = 0; i < 4; i++)
				cursor_uvarint(c);
		} else if (kind != SYNC) {
			return error_format(
				ERROR_CORRUPT,
				"the trace is corrupt: a record of kind %u in a sync batch", kind);
		}
	}
	return cursor_error(c);
}

static struct thread *thread_of(struct trace_reader *r, uint64_t m)
{
	/* The map cannot have the key that stands for no thread. */
	uint64_t *place = map_at(&r->threads_index, m == TRACE_NO_M ? MAP_NO_KEY - 1 : m);

	if (!place)
		return NULL;
	if (*place)
		return &r->threads[*place - 1];
	if (!array_reserve(&r->threads, &r->thread_capacity, r->thread_count + 1))
		return NULL;
	r->threads[r->thread_count] = (struct thread){.m = m};
	*place = ++r->thread_count;
	return &r->threads[*place - 1];
}

static struct error *add_batch(struct trace_reader *r, uint64_t m, uint64_t ticks,
			       struct bytes data)
{
	struct thread *t = thread_of(r, m);

	if (!t || !array_reserve(&r->batches, &r->batch_capacity, r->batch_count + 1))
		return &error_no_memory;
	r->batches[r->batch_count++] =
		(struct batch){.m = m, .ticks = ticks, .data = data.data, .size = data.size};
	if (t->last_batch)
		r->batches[t->last_batch - 1].next = r->batch_count;
	else
		t->batch = r->batch_count;
	t->last_batch = r->batch_count;
	return NULL;
}

static struct error *parse_batch(struct trace_reader *r, uint64_t m, uint64_t ticks,
				 struct bytes data)
{
	struct cursor c = cursor_of(data.data, data.size, "a batch of the trace");
	uint8_t kind = cursor_u8(&c);

	switch (kind) {
	case BATCH_STACKS:
		return parse_table(r, &c, STACK, parse_stack);
	case BATCH_STRINGS:
		return parse_table(r, &c, STRING, parse_string);
	case BATCH_SAMPLES:
		return parse_table(r, &c, SAMPLE, parse_sample);
	case FREQUENCY:
	case SYNC:
		cursor_seek(&c, 0);
		return parse_sync(r, &c);
	default:
		return data.size ? add_batch(r, m, ticks, data) : NULL;
	}
}

struct batch_header {
	uint8_t kind;
	uint64_t generation;
	uint64_t m;
	uint64_t ticks;
	struct bytes data;
};

/* False at the end of the file, or where it is truncated. */
static bool read_header(struct trace_reader *r, struct batch_header *ret)
{
	struct cursor *c = &r->file;

	if (c->at == c->end)
		return false;
	ret->kind = cursor_u8(c);
	if (ret->kind == END_OF_GENERATION)
		return true;
	if (ret->kind == EXPERIMENTAL_BATCH)
		cursor_u8(c);
	ret->generation = cursor_uvarint(c);
	ret->m = cursor_uvarint(c);
	ret->ticks = cursor_uvarint(c);
	ret->data.size = cursor_uvarint(c);
	ret->data.data = cursor_bytes(c, ret->data.size);
	r->truncated |= c->failed;
	return !c->failed;
}

static struct error *resolve_frames(struct trace_reader *r)
{
	if (!array_reserve(&r->frames, &r->frame_capacity, r->raw_count))
		return &error_no_memory;
	for (size_t i = 0; i < r->raw_count; i++)
		r->frames[i] = (struct trace_reader_frame){
			.pc = r->raw[i].pc,
			.function = trace_reader_text(r, r->raw[i].function),
			.file = trace_reader_text(r, r->raw[i].file),
			.line = r->raw[i].line,
		};
	return NULL;
}

/* A nonsensical time is clipped to the latest one. */
static uint64_t ns_of(const struct trace_reader *r, uint64_t ticks)
{
	double ns = (double)ticks * (1e9 / (double)r->frequency);

	if (r->frequency == 1000000000)
		return ticks;
	return ns < (double)(1ull << 63) ? (uint64_t)ns : 1ull << 63;
}

static int by_ticks(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;

	return (x->ticks > y->ticks) - (x->ticks < y->ticks);
}

/* Reads all batches of the next generation. *ret_more is false if there is none. An incomplete
 * generation is left out. */
static struct error *read_generation(struct trace_reader *r, bool *ret_more)
{
	struct batch_header h;
	struct error *err = NULL;
	bool any = false;
	uint64_t first = 0;

	forget_generation(r);
	r->generations++;
	*ret_more = false;
	while (!err) {
		const uint8_t *before = r->file.at;

		if (!read_header(r, &h))
			break;
		if (h.kind == END_OF_GENERATION)
			break;
		if (h.kind != BATCH && h.kind != EXPERIMENTAL_BATCH)
			return error_format(ERROR_CORRUPT,
					    "the trace is corrupt: a batch of kind %u", h.kind);
		if (any && h.generation != r->number) {
			r->file.at = before;
			break;
		}
		any = true;
		r->number = h.generation;
		if (!first || h.ticks < first)
			first = h.ticks;
		if (h.kind == BATCH)
			err = parse_batch(r, h.m, h.ticks, h.data);
	}
	if (err || !any || r->truncated)
		return err;
	if (!r->frequency) {
		r->truncated = true;
		return NULL;
	}
	if (!r->started)
		r->base_ns = r->last_ns = ns_of(r, first);
	r->started = true;
	*ret_more = true;
	if (r->sample_count)
		qsort(r->samples, r->sample_count, sizeof(*r->samples), by_ticks);
	return resolve_frames(r);
}

/* Decodes the next event of a thread into its `step`. */
static struct error *decode(struct trace_reader *r, struct thread *t)
{
	const char *kinds;
	uint8_t op;

	while (t->data.at == t->data.end) {
		const struct batch *b = t->batch ? &r->batches[t->batch - 1] : NULL;

		if (!b)
			return NULL;
		t->data = cursor_of(b->data, b->size, "an event of the trace");
		t->ticks = b->ticks;
		t->batch = b->next;
	}
	op = cursor_u8(&t->data);
	kinds = trace_op_arguments(op);
	if (!kinds)
		return error_format(ERROR_CORRUPT, "the trace is corrupt: an event of kind %u", op);
	t->ticks += cursor_uvarint(&t->data);
	t->step = (struct trace_step){.m = t->m, .op = op, .ns = ns_of(r, t->ticks)};
	for (size_t i = 0; kinds[i]; i++)
		t->step.arg[i] = cursor_uvarint(&t->data);
	t->ready = true;
	return cursor_error(&t->data);
}

static uint64_t heap_ns(const struct trace_reader *r, size_t i)
{
	return r->threads[r->heap[i]].step.ns;
}

static void heap_swap(struct trace_reader *r, size_t i, size_t k)
{
	size_t thread = r->heap[i];

	r->heap[i] = r->heap[k];
	r->heap[k] = thread;
}

static void heap_sink(struct trace_reader *r, size_t i)
{
	for (;;) {
		size_t least = i;

		for (size_t k = 2 * i + 1; k <= 2 * i + 2 && k < r->waiting; k++)
			if (heap_ns(r, k) < heap_ns(r, least))
				least = k;
		if (least == i)
			return;
		heap_swap(r, i, least);
		i = least;
	}
}

/* Moves the last item of the heap to its place. */
static void heap_rise(struct trace_reader *r)
{
	size_t i = r->waiting++;

	for (; i && heap_ns(r, i) < heap_ns(r, (i - 1) / 2); i = (i - 1) / 2)
		heap_swap(r, i, (i - 1) / 2);
}

/* If many threads wait for each other, each step takes a search. Traces of real programs, with 65
 * MB and 16 Ps, have no such search. */
#define FREE_REFUSALS (1u << 20)
#define REFUSALS_OF_BYTE 16

static struct error *check_refusals(const struct trace_reader *r)
{
	if (r->refusals <
	    FREE_REFUSALS + REFUSALS_OF_BYTE * (uint64_t)(r->file.end - r->file.start))
		return NULL;
	return error_format(ERROR_CORRUPT,
			    "the trace is corrupt: its threads wait for each other in a cycle");
}

/* Chooses the thread of the next step and moves it to the heap's end; NULL in *ret: none. */
static struct error *choose(struct trace_reader *r, struct thread **ret)
{
	size_t all = r->waiting;
	struct error *err;

	*ret = NULL;
	while (r->waiting) {
		heap_swap(r, 0, --r->waiting);
		heap_sink(r, 0);
		if (order_permits(&r->order, &r->threads[r->heap[r->waiting]].step))
			break;
		r->refusals++;
	}
	if (!all)
		return NULL;
	err = check_refusals(r);
	if (err)
		return err;
	*ret = &r->threads[r->heap[r->waiting]];
	if (!order_permits(&r->order, &(*ret)->step))
		return error_format(ERROR_CORRUPT,
				    "the trace is corrupt: no thread can continue at %lu ns",
				    (unsigned long)((*ret)->step.ns - r->base_ns));
	heap_swap(r, r->waiting, all - 1);
	while (r->waiting < all - 1)
		heap_rise(r);
	return NULL;
}

static struct error *decode_all(struct trace_reader *r)
{
	struct error *err = NULL;

	if (!array_reserve(&r->heap, &r->heap_capacity, r->thread_count))
		return &error_no_memory;
	for (size_t i = 0; i < r->thread_count && !err; i++) {
		err = decode(r, &r->threads[i]);
		r->heap[r->waiting] = i;
		if (!err && r->threads[i].ready)
			heap_rise(r);
	}
	return err;
}

/* The thread is at the heap's end; its next step takes its place in the heap. */
static struct error *advance(struct trace_reader *r, struct thread *t)
{
	struct error *err;

	t->ready = false;
	err = decode(r, t);
	if (!err && t->ready)
		heap_rise(r);
	return err;
}

/* A step that waited for another thread's step happened after that. */
static void set_time(struct trace_reader *r, struct trace_step *step)
{
	if (step->ns < r->last_ns)
		step->ns = r->last_ns;
	r->last_ns = step->ns;
	step->ns -= r->base_ns;
}

/* The next CPU sample, if it comes before the next step of all threads. */
static bool take_sample(struct trace_reader *r, struct trace_step *ret)
{
	const struct sample *s;
	uint64_t ns;

	if (r->sample_next >= r->sample_count)
		return false;
	s = &r->samples[r->sample_next];
	ns = ns_of(r, s->ticks);
	if (r->waiting && heap_ns(r, 0) <= ns)
		return false;
	*ret = (struct trace_step){.ns = ns,
				   .m = s->m,
				   .g = s->g,
				   .p = s->p < TRACE_NO_P ? s->p : TRACE_NO_P,
				   .op = OP_CPU_SAMPLE,
				   .arg = {s->g, s->stack}};
	set_time(r, ret);
	r->sample_next++;
	return true;
}

struct error *trace_reader_next(struct trace_reader *r, struct trace_step *ret, bool *ret_more)
{
	struct thread *t;
	struct error *err;

	*ret_more = true;
	if (take_sample(r, ret))
		return NULL;
	err = choose(r, &t);

	while (!err && !t) {
		err = read_generation(r, ret_more);
		if (err || !*ret_more)
			return err;
		err = decode_all(r);
		if (!err && take_sample(r, ret))
			return NULL;
		if (!err)
			err = choose(r, &t);
	}
	if (err)
		return err;
	order_take(&r->order, &t->step);
	*ret = t->step;
	set_time(r, ret);
	return r->order.failed ? &error_no_memory : advance(r, t);
}

const char *trace_reader_text(const struct trace_reader *r, uint64_t number)
{
	const uint64_t *place = map_find(&r->texts_index, number);

	return place && *place ? r->texts + *place - 1 : "";
}

const struct trace_reader_frame *trace_reader_stack(const struct trace_reader *r, uint64_t number,
						    size_t *ret_count)
{
	const uint64_t *place = map_find(&r->stacks_index, number);

	*ret_count = place ? *place & 0xff : 0;
	return place ? r->frames + (*place >> 8) : NULL;
}

uint64_t trace_reader_generation(const struct trace_reader *r)
{
	return r->generations;
}

const char *trace_reader_header(const struct trace_reader *r)
{
	return r->header;
}

bool trace_reader_is_truncated(const struct trace_reader *r)
{
	return r->truncated;
}

bool trace_reader_has_samples(const void *bytes, size_t size)
{
	_cleanup_trace_reader_ struct trace_reader *r = NULL;
	struct batch_header h;

	if (error_dropped(trace_reader_create(bytes, size, &r)))
		return false;
	while (read_header(r, &h))
		if (h.kind == BATCH && h.data.size > 1 &&
		    *(const uint8_t *)h.data.data == BATCH_SAMPLES)
			return true;
	return false;
}
