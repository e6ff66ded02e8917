#include "gotrace/trace_format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "gotrace/event.h"
#include "gotrace/go_file.h"
#include "gotrace/label_text.h"
#include "gotrace/trace_symbols.h"
#include "gotrace/used.h"

/* The unit of times in the file, much as Go's own (64 ticks of the TSC): events that are 4 us apart
 * take one byte for the time. No two events have the same time. So times would be late with more
 * than 31 million events a second; gospect cannot record that many. */
#define TIME_UNIT_NS 32

/* No single record is longer. */
enum { MAX_RECORD = 8 << 10, MAX_STEP = 1 + 5 * UVARINT_MAX };
/* A batch with this many bytes gets no more. */
enum { FULL_BATCH = MAX_BATCH - MAX_RECORD + 1 };

#define NOT_TRACED "not traced"
/* Bytes of a message, including the goid. */
#define LABELS_PART 1000

/* Bytes of ids in a message, and of the reason. */
#define PARKED_IDS 700
#define PARKED_REASON 200

/* A thread's events since its last complete batch. */
struct batch {
	uint64_t m;
	uint64_t began;
	uint64_t last;
	struct strbuf bytes;
	size_t room; /* with fewer bytes than this, one more step fits without a check; 0: empty */
};

/* Batches that are found without a search, because most steps belong to few threads. A power of
 * two. */
#define RECENT_BATCHES 64

struct trace_writer {
	struct trace_writer_options options;
	unsigned int wire; /* the format is that of Go 1.`wire` */
	struct trace_symbols symbols;
	uint64_t number;   /* of the generation */
	uint64_t first_ns; /* of its first event; 0: none yet */
	uint64_t first_time;
	uint64_t last_time; /* of the last step */
	struct strbuf bytes;
	size_t event_bytes;                   /* in batches that are not complete */
	struct map batches;                   /* thread -> struct batch * */
	struct batch *recent[RECENT_BATCHES]; /* by the low bits of the thread's id; or NULL */
	struct used stacks;
	struct used cpu_stacks; /* of options.cpu_stacks */
	struct strbuf samples;  /* a batch of them */
	struct used names;      /* of functions and files */
	struct used texts;
	struct map used_starts; /* pc -> id of its stack, of one frame */
	uint32_t stack_ids;     /* the last id in this generation of stacks and starts */
	struct intern messages; /* of this generation */
	struct used used_messages;
	uint32_t string_ids; /* the last id of names, texts and messages */
	size_t table_bytes;  /* approximate bytes of texts and messages */
	/* Goroutines that are parked at one place, as one message; see write_parked(). */
	struct trace_step parked; /* the first of them; op 0: there is none */
	uint64_t parked_last;     /* the last one's id */
	struct strbuf parked_ids;
	bool failed;
};

static struct error *create_of(const struct trace_writer_options *options, unsigned int wire,
			       struct trace_writer **ret)
{
	struct trace_writer *t = calloc(1, sizeof(*t));

	if (!t)
		return &error_no_memory;
	t->options = *options;
	t->wire = wire;
	t->symbols.functions = options->functions;
	t->symbols.c_functions = options->c_functions;
	t->number = 1;
	t->bytes = (struct strbuf)STRBUF_INIT;
	t->parked_ids = t->samples = (struct strbuf)STRBUF_INIT;
	*ret = t;
	return NULL;
}

static struct error *create(const struct trace_writer_options *options, struct trace_writer **ret)
{
	return create_of(options, 22, ret);
}

static struct error *create_123(const struct trace_writer_options *options,
				struct trace_writer **ret)
{
	return create_of(options, 23, ret);
}

static struct error *create_125(const struct trace_writer_options *options,
				struct trace_writer **ret)
{
	return create_of(options, 25, ret);
}

/* Very many of these are emitted at once, and their times mean nothing. */
static bool is_state(const struct trace_step *step)
{
	return step->op == OP_GO_STATUS || step->op == OP_PROC_STATUS || step->op == OP_PARKED ||
	       (step->op == OP_LABELS && step->arg[2] != TRACE_LABELS_BY_ITSELF);
}

/*
 * The time of a step, later than that of the last step. States emitted together have one time: the
 * reader keeps their order, and the events after a million of them are not late.
 */
static uint64_t time_of(struct trace_writer *t, const struct trace_step *step)
{
	uint64_t time = step->ns / TIME_UNIT_NS + 1; /* 0 stands for none */

	if (time <= t->last_time)
		time = t->last_time + !is_state(step);
	t->last_time = time;
	return time;
}

static void add_batch(struct trace_writer *t, uint64_t m, uint64_t time, const struct strbuf *data)
{
	strbuf_addc(&t->bytes, BATCH);
	strbuf_add_uvarint(&t->bytes, t->number);
	strbuf_add_uvarint(&t->bytes, m);
	strbuf_add_uvarint(&t->bytes, time);
	strbuf_add_uvarint(&t->bytes, data->length);
	strbuf_add(&t->bytes, data->data, data->length);
	t->failed |= data->failed | t->bytes.failed;
}

static void flush_batch(struct trace_writer *t, struct batch *b)
{
	if (b->bytes.length)
		add_batch(t, b->m, b->began, &b->bytes);
	t->event_bytes -= b->bytes.length;
	strbuf_reset(&b->bytes);
	b->room = 0;
}

static struct batch *find_batch(struct trace_writer *t, uint64_t m)
{
	/* The map cannot have the key that stands for no thread. */
	uint64_t *place = map_at(&t->batches, m == TRACE_NO_M ? MAP_NO_KEY - 1 : m);
	struct batch *b;

	if (!place)
		return NULL;
	if (!*place) {
		b = calloc(1, sizeof(*b));
		if (!b)
			return NULL;
		b->m = m;
		b->bytes = (struct strbuf)STRBUF_INIT;
		*place = (uintptr_t)b;
	}
	return (struct batch *)(uintptr_t)*place;
}

/* Also called for the first step of each generation, which has no batch yet. */
static struct batch *begin_batch(struct trace_writer *t, const struct trace_step *step,
				 uint64_t time)
{
	struct batch *b = find_batch(t, step->m);

	if (!b)
		return NULL;
	t->recent[step->m % RECENT_BATCHES] = b;
	if (b->bytes.length >= FULL_BATCH)
		flush_batch(t, b);
	if (!b->bytes.length)
		b->began = b->last = time;
	if (!strbuf_reserve(&b->bytes, MAX_STEP))
		return NULL;
	b->room = b->bytes.capacity - MAX_STEP;
	if (b->room > FULL_BATCH)
		b->room = FULL_BATCH;
	if (!t->first_ns) {
		t->first_ns = step->ns;
		t->first_time = time;
	}
	return b;
}

/* The batch that a step of this thread goes into, with room for MAX_STEP bytes; NULL when there is
 * no memory. */
static inline struct batch *batch_of(struct trace_writer *t, const struct trace_step *step,
				     uint64_t time)
{
	struct batch *b = t->recent[step->m % RECENT_BATCHES];

	return b && b->m == step->m && b->bytes.length < b->room ? b : begin_batch(t, step, time);
}

/* The number's id, in the order of first use, so that frequent ones tend to be short. */
static inline uint32_t use(struct trace_writer *t, struct used *used, uint32_t number,
			   uint32_t *ids)
{
	uint32_t id = used_find(used, number);

	if (id)
		return id;
	id = used_add(used, number, ids);
	t->failed |= !id;
	return id;
}

/* The strings of a trace: functions and files, texts of events, and messages that are made here.
 * All are in one table. */
static uint32_t name_id(struct trace_writer *t, uint32_t number)
{
	return number ? use(t, &t->names, number, &t->string_ids) : 0;
}

static uint32_t message_id(struct trace_writer *t, const char *text, size_t length)
{
	size_t before = t->messages.count;
	uint32_t number = intern_bytes(&t->messages, text, length);

	t->table_bytes += t->messages.count > before ? length + UVARINT_MAX : 0;
	t->failed |= number == INTERN_FAILED;
	return number && number != INTERN_FAILED ? use(t, &t->used_messages, number, &t->string_ids)
						 : 0;
}

static uint32_t new_text(struct trace_writer *t, uint32_t text)
{
	if (text == TRACE_TEXT_LOST)
		return message_id(t, NOT_TRACED, strlen(NOT_TRACED));
	t->table_bytes += texts_length(t->options.texts, text) + UVARINT_MAX;
	return use(t, &t->texts, text, &t->string_ids);
}

static inline uint32_t text_id(struct trace_writer *t, uint32_t text)
{
	return text ? used_find(&t->texts, text) ?: new_text(t, text) : 0;
}

static uint32_t new_stack(struct trace_writer *t, uint32_t number)
{
	return t->options.depth ? use(t, &t->stacks, number, &t->stack_ids) : 0;
}

static inline uint32_t stack_id(struct trace_writer *t, uint32_t number)
{
	return number ? used_find(&t->stacks, number) ?: new_stack(t, number) : 0;
}

static uint32_t start_id(struct trace_writer *t, uint64_t pc)
{
	uint64_t *place;

	if (pc)
		pc = pclntab_wrapped(t->options.functions, pc);
	if (!pc || pc == MAP_NO_KEY)
		return 0;
	place = map_at(&t->used_starts, pc);
	if (!place) {
		t->failed = true;
		return 0;
	}
	if (!*place)
		*place = ++t->stack_ids;
	return *place;
}

/* The id that an argument which is not a number has in this generation. */
static uint32_t id_of(struct trace_writer *t, char kind, uint64_t value)
{
	switch (kind) {
	case 'k':
		return stack_id(t, value);
	case 't':
		return text_id(t, value);
	default:
		return start_id(t, value);
	}
}

/* How many bytes of the text fit, up to the end of a character. */
static size_t part_of(const char *text, size_t most)
{
	size_t n = strnlen(text, most + 1);

	if (n <= most)
		return n;
	for (n = most; n && ((unsigned char)text[n] & 0xc0) == 0x80;)
		n--;
	return n ? n : most;
}

static void write_log(struct trace_writer *t, struct batch *b, uint64_t time, const char *category,
		      uint64_t message, uint32_t stack)
{
	uint8_t record[MAX_STEP];
	size_t n = 0;

	record[n++] = OP_LOG;
	n += uvarint_put(record + n, time - b->last);
	record[n++] = 0;
	n += uvarint_put(record + n, message_id(t, category, strlen(category)));
	n += uvarint_put(record + n, message);
	n += uvarint_put(record + n, stack_id(t, stack));
	strbuf_add(&b->bytes, record, n);
	t->event_bytes += n;
	b->last = time;
}

static struct error *write_labels(struct trace_writer *t, const struct trace_step *step,
				  uint64_t time)
{
	const char *text = texts_get(t->options.texts, step->arg[1]);
	const char *category = LABELS_BY_ITSELF;
	char part[LABELS_PART + 1];
	size_t begin = 0, n;

	if (step->arg[2] != TRACE_LABELS_BY_ITSELF) {
		category = LABELS_BY_ANOTHER;
		begin = snprintf(part, sizeof(part), "%lu ", (unsigned long)step->arg[0]);
	}
	do {
		struct batch *b = batch_of(t, step, time);

		if (!b)
			return &error_no_memory;
		n = part_of(text, LABELS_PART - begin);
		memcpy(part + begin, text, n);
		write_log(t, b, time, category, message_id(t, part, begin + n), 0);
		text += n;
		begin = 0;
		category = LABELS_MORE;
	} while (*text);
	return t->failed ? &error_no_memory : NULL;
}

/* Completes the current message. */
static struct error *must_check end_parked(struct trace_writer *t)
{
	const struct trace_step *step = &t->parked;
	const char *reason = texts_get(t->options.texts, step->arg[1]);
	struct batch *b = batch_of(t, step, t->last_time);
	_cleanup_strbuf_ struct strbuf message = STRBUF_INIT;

	if (!b)
		return &error_no_memory;
	strbuf_addf(&message, "%lu %s ", (unsigned long)step->arg[2], t->parked_ids.data);
	strbuf_add(&message, reason, part_of(reason, PARKED_REASON));
	t->failed |= message.failed | t->parked_ids.failed;
	if (!t->failed)
		write_log(t, b, t->last_time, PARKED_CATEGORY,
			  message_id(t, message.data, message.length), step->arg[3]);
	t->parked.op = 0;
	return t->failed ? &error_no_memory : NULL;
}

static bool parked_alike(const struct trace_step *a, const struct trace_step *b)
{
	return a->op == b->op && a->m == b->m && a->arg[1] == b->arg[1] && a->arg[2] == b->arg[2] &&
	       a->arg[3] == b->arg[3];
}

/* Goroutines at one place share a message: the first goid, and then how much each is above the one
 * before. 100,000 of them take 2 bytes each. */
static struct error *must_check write_parked(struct trace_writer *t, const struct trace_step *step)
{
	struct error *err = NULL;

	if (t->parked.op && (!parked_alike(&t->parked, step) || step->arg[0] <= t->parked_last ||
			     t->parked_ids.length > PARKED_IDS))
		err = end_parked(t);
	if (!t->parked.op) {
		t->parked = *step;
		strbuf_reset(&t->parked_ids);
		t->parked_last = 0;
	}
	strbuf_addf(&t->parked_ids, "%s%lu", t->parked_last ? "+" : "",
		    (unsigned long)(step->arg[0] - t->parked_last));
	t->parked_last = step->arg[0];
	return err;
}

/* Writes the arguments of any operation, by their kinds. */
static size_t put_arguments(struct trace_writer *t, uint8_t *to, const struct trace_step *step)
{
	const char *kinds = trace_op_arguments(step->op);
	size_t n = 0;

	for (size_t i = 0; kinds[i]; i++) {
		uint64_t value = step->arg[i];

		n += uvarint_put(to + n, kinds[i] == 'n' ? value : id_of(t, kinds[i], value));
	}
	return n;
}

static inline uint8_t *put(uint8_t *to, uint64_t value)
{
	return to + uvarint_put(to, value);
}

/* Go 1.22 has no status with a stack. */
static uint8_t *put_status_stack(struct trace_writer *t, uint8_t *to, const struct trace_step *step,
				 uint64_t since)
{
	*to++ = OP_GO_STATUS_STACK;
	to = put(to, since);
	for (size_t i = 0; i < 3; i++)
		to = put(to, step->arg[i]);
	return put(to, stack_id(t, step->stack));
}

/* Writes the step and returns the end of its bytes. The most frequent operations need no look-up of
 * their arguments' kinds. */
static inline uint8_t *put_step(struct trace_writer *t, uint8_t *to, const struct trace_step *step,
				uint64_t since)
{
	if (step->stack && t->wire >= 23)
		return put_status_stack(t, to, step, since);
	*to++ = step->op;
	to = put(to, since);
	switch (step->op) {
	case OP_GO_START:
		return put(put(to, step->arg[0]), step->arg[1]);
	case OP_GO_UNBLOCK:
		to = put(put(to, step->arg[0]), step->arg[1]);
		return put(to, stack_id(t, step->arg[2]));
	case OP_GO_BLOCK:
		to = put(to, text_id(t, step->arg[0]));
		return put(to, stack_id(t, step->arg[1]));
	case OP_GO_SYSCALL_BEGIN:
		return put(put(to, step->arg[0]), stack_id(t, step->arg[1]));
	case OP_GO_SYSCALL_END:
		return to;
	default:
		return to + put_arguments(t, to, step);
	}
}

/* A table is batches that begin with its kind. */
static void begin_table(struct strbuf *batch, uint8_t kind)
{
	strbuf_reset(batch);
	strbuf_addc(batch, kind);
}

static void flush_table(struct trace_writer *t, struct strbuf *batch, uint8_t kind, size_t limit)
{
	if (batch->length <= limit)
		return;
	add_batch(t, TRACE_NO_M, t->first_time, batch);
	begin_table(batch, kind);
}

static struct error *write_counter(struct trace_writer *t, const struct trace_step *step,
				   uint64_t time)
{
	struct batch *b = batch_of(t, step, time);
	char text[64];
	int n = snprintf(text, sizeof(text), "%s=%lu", trace_counter_names[step->arg[0]],
			 (unsigned long)step->arg[1]);

	if (!b)
		return &error_no_memory;
	write_log(t, b, time, COUNTER_CATEGORY, message_id(t, text, n), 0);
	return t->failed ? &error_no_memory : NULL;
}

/* Samples have their own batches, without an order. */
static struct error *write_sample(struct trace_writer *t, const struct trace_step *step,
				  uint64_t time)
{
	uint32_t stack = t->options.depth && t->options.cpu_stacks
				 ? use(t, &t->cpu_stacks, step->arg[1], &t->stack_ids)
				 : 0;

	if (!t->first_ns) {
		t->first_ns = step->ns;
		t->first_time = time;
	}
	flush_table(t, &t->samples, BATCH_SAMPLES, MAX_BATCH - MAX_RECORD);
	if (!t->samples.length)
		begin_table(&t->samples, BATCH_SAMPLES);
	strbuf_addc(&t->samples, SAMPLE);
	strbuf_add_uvarint(&t->samples, time);
	strbuf_add_uvarint(&t->samples, step->m);
	strbuf_add_uvarint(&t->samples, step->p == TRACE_NO_P ? UINT64_MAX : step->p);
	strbuf_add_uvarint(&t->samples, step->arg[0]);
	strbuf_add_uvarint(&t->samples, stack);
	return t->failed || t->samples.failed ? &error_no_memory : NULL;
}

static struct error *write_step(void *arg, const struct trace_step *step)
{
	struct trace_writer *t = arg;
	struct error *err = t->parked.op && step->op != OP_PARKED ? end_parked(t) : NULL;
	uint64_t time = time_of(t, step);
	struct batch *b = NULL;
	uint8_t *to;
	size_t n;

	if (!err && step->op == OP_CPU_SAMPLE)
		return write_sample(t, step, time);
	if (!err && step->op == OP_COUNTER)
		return write_counter(t, step, time);
	b = err ? NULL : batch_of(t, step, time);
	if (!b)
		return err ? err : &error_no_memory;
	if (step->op == OP_PARKED)
		return write_parked(t, step);
	if (step->op == OP_LABELS)
		return write_labels(t, step, time);
	to = (uint8_t *)b->bytes.data + b->bytes.length;
	n = put_step(t, to, step, time - b->last) - to;
	b->bytes.length += n;
	t->event_bytes += n;
	b->last = time;
	return t->failed ? &error_no_memory : NULL;
}

static void flush_events(struct trace_writer *t)
{
	_cleanup_free_ uint64_t *threads = map_sorted_keys(&t->batches);

	t->failed |= t->batches.count && !threads;
	for (size_t i = 0; threads && i < t->batches.count; i++) {
		struct batch *b = (struct batch *)(uintptr_t)*map_find(&t->batches, threads[i]);

		if (!b)
			continue;
		flush_batch(t, b);
		strbuf_release(&b->bytes);
		free(b);
	}
	map_release(&t->batches);
	memset(t->recent, 0, sizeof(t->recent));
}

static void add_stack(struct trace_writer *t, struct strbuf *batch, uint32_t id,
		      const struct trace_frame *frames, size_t count)
{
	flush_table(t, batch, BATCH_STACKS, MAX_BATCH - MAX_RECORD);
	strbuf_addc(batch, STACK);
	strbuf_add_uvarint(batch, id);
	strbuf_add_uvarint(batch, count);
	for (size_t i = 0; i < count; i++) {
		strbuf_add_uvarint(batch, frames[i].pc);
		strbuf_add_uvarint(batch, name_id(t, frames[i].function));
		strbuf_add_uvarint(batch, name_id(t, frames[i].file));
		strbuf_add_uvarint(batch, frames[i].line);
	}
}

static void add_words(struct trace_writer *t, struct strbuf *batch, uint32_t id,
		      const struct stack *stack)
{
	struct trace_frame frames[MAX_FRAMES];
	size_t max = t->options.depth < MAX_FRAMES ? t->options.depth : MAX_FRAMES, count;

	if (!trace_symbols_stack(&t->symbols, stack, frames, max, &count))
		t->failed = true;
	else
		add_stack(t, batch, id, frames, count);
}

static void add_numbered_stacks(struct trace_writer *t, struct strbuf *batch)
{
	for (size_t i = 0; i < t->stacks.count; i++) {
		uint32_t number = t->stacks.numbers[i];
		struct stack stack = stacks_get(t->options.stacks, number);

		add_words(t, batch, t->stacks.ids[number], &stack);
	}
	for (size_t i = 0; i < t->cpu_stacks.count; i++) {
		uint32_t number = t->cpu_stacks.numbers[i];
		struct stack stack = trace_cpu_stack(t->options.cpu_stacks, number);

		add_words(t, batch, t->cpu_stacks.ids[number], &stack);
	}
}

static void add_stacks(struct trace_writer *t)
{
	_cleanup_free_ uint64_t *starts = map_sorted_keys(&t->used_starts);
	_cleanup_strbuf_ struct strbuf batch = STRBUF_INIT;
	struct trace_frame frame;

	begin_table(&batch, BATCH_STACKS);
	add_numbered_stacks(t, &batch);
	t->failed |= t->used_starts.count && !starts;
	for (size_t i = 0; starts && i < t->used_starts.count; i++) {
		if (trace_symbols_function(&t->symbols, starts[i], &frame))
			add_stack(t, &batch, *map_find(&t->used_starts, starts[i]), &frame, 1);
		else
			t->failed = true;
	}
	flush_table(t, &batch, BATCH_STACKS, 1);
}

static void add_string(struct trace_writer *t, struct strbuf *batch, uint32_t id, const char *text)
{
	size_t length = strnlen(text, MAX_STRING);

	flush_table(t, batch, BATCH_STRINGS, MAX_BATCH - MAX_RECORD);
	strbuf_addc(batch, STRING);
	strbuf_add_uvarint(batch, id);
	strbuf_add_uvarint(batch, length);
	strbuf_add(batch, text, length);
}

static void add_used_strings(struct trace_writer *t, struct strbuf *batch, const struct used *used,
			     const struct intern *strings)
{
	for (size_t i = 0; i < used->count; i++) {
		uint32_t number = used->numbers[i];

		add_string(t, batch, used->ids[number], intern_get(strings, number));
	}
}

static void add_used_texts(struct trace_writer *t, struct strbuf *batch)
{
	for (size_t i = 0; i < t->texts.count; i++) {
		uint32_t number = t->texts.numbers[i];

		add_string(t, batch, t->texts.ids[number], texts_get(t->options.texts, number));
	}
}

static void add_strings(struct trace_writer *t)
{
	_cleanup_strbuf_ struct strbuf batch = STRBUF_INIT;

	begin_table(&batch, BATCH_STRINGS);
	add_used_strings(t, &batch, &t->names, &t->symbols.names);
	add_used_texts(t, &batch);
	add_used_strings(t, &batch, &t->used_messages, &t->messages);
	flush_table(t, &batch, BATCH_STRINGS, 1);
}

/* The clocks of the target's machine at the generation's first event. */
static void add_clocks(const struct trace_writer *t, struct strbuf *batch)
{
	uint64_t wall = t->options.wall_ns + t->first_ns;

	strbuf_addc(batch, CLOCK_SNAPSHOT);
	strbuf_add_uvarint(batch, 0);
	strbuf_add_uvarint(batch, t->options.monotonic_ns + t->first_ns);
	strbuf_add_uvarint(batch, wall / 1000000000);
	strbuf_add_uvarint(batch, wall % 1000000000);
}

/* Times are in whole nanoseconds: the reader truncates the remainder after each event, so finer
 * units would drift apart between threads. */
static void add_frequency(struct trace_writer *t)
{
	_cleanup_strbuf_ struct strbuf batch = STRBUF_INIT;

	if (t->wire >= 25)
		strbuf_addc(&batch, SYNC);
	strbuf_addc(&batch, FREQUENCY);
	strbuf_add_uvarint(&batch, 1000000000 / TIME_UNIT_NS);
	if (t->wire >= 25)
		add_clocks(t, &batch);
	add_batch(t, TRACE_NO_M, t->first_time, &batch);
}

static void forget_generation(struct trace_writer *t)
{
	used_clear(&t->stacks);
	used_clear(&t->cpu_stacks);
	used_clear(&t->names);
	used_clear(&t->texts);
	used_clear(&t->used_messages);
	t->stack_ids = t->string_ids = 0;
	map_release(&t->used_starts);
	intern_release(&t->messages);
	t->table_bytes = 0;
	trace_symbols_trim(&t->symbols);
	strbuf_reset(&t->bytes);
	t->first_ns = 0;
}

static struct error *finish(struct trace_writer *t)
{
	struct error *err;

	if (!t->first_ns)
		return NULL;
	err = t->parked.op ? end_parked(t) : NULL;
	if (err)
		return err;
	flush_events(t);
	flush_table(t, &t->samples, BATCH_SAMPLES, 1);
	strbuf_reset(&t->samples);
	add_stacks(t);
	add_strings(t);
	add_frequency(t);
	if (t->failed)
		return &error_no_memory;
	err = t->options.generation(t->options.arg, t->bytes.data, t->bytes.length, t->first_ns);
	t->number++;
	forget_generation(t);
	return err;
}

static struct error *next_generation(void *arg)
{
	return finish(arg);
}

static struct trace_sink sink(struct trace_writer *t)
{
	return (struct trace_sink){.step = write_step,
				   .generation = next_generation,
				   .arg = t,
				   .separate = t->options.separate,
				   .logs_run = true};
}

/* The texts of this generation, which are written at its end. */
static void mark_texts(const struct trace_writer *t, struct texts *texts)
{
	for (size_t i = 0; i < t->texts.count; i++)
		texts_mark(texts, t->texts.numbers[i]);
}

static size_t size(const struct trace_writer *t)
{
	return t->bytes.length + t->event_bytes + t->table_bytes + t->samples.length;
}

static void destroy(struct trace_writer *t)
{
	if (!t)
		return;
	flush_events(t);
	forget_generation(t);
	used_release(&t->stacks);
	used_release(&t->cpu_stacks);
	used_release(&t->names);
	used_release(&t->texts);
	used_release(&t->used_messages);
	strbuf_release(&t->bytes);
	strbuf_release(&t->parked_ids);
	strbuf_release(&t->samples);
	trace_symbols_release(&t->symbols);
	free(t);
}

#define FORMAT(version, creates)                                                          \
	{                                                                                 \
		.name = "go", .suffix = ".trace", .header = "go " version " trace\0\0\0", \
		.header_size = 16, .create = creates, .sink = sink, .size = size,         \
		.mark_texts = mark_texts, .finish = finish, .destroy = destroy,           \
	}

const struct trace_format trace_format_go = FORMAT("1.22", create);
const struct trace_format trace_format_go_123 = FORMAT("1.23", create_123);
const struct trace_format trace_format_go_125 = FORMAT("1.25", create_125);
