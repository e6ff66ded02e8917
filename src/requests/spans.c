#include "requests/spans.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cancel.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "gotrace/label_text.h"

/* MAX_HELD: the most spans of a goroutine that wait for its name. */
enum { MAX_HELD = 256, MAX_LINE = 64 << 10 };

/* A goroutine and its current span. */
struct life {
	struct span span;
	bool since_start;  /* its state is still that of the trace's beginning */
	bool named;        /* its start function is known from a stack, or never will be */
	bool labels_known; /* the labels that it has had from the beginning */
	bool labelled;     /* its labels are known */
	uint64_t calls;    /* that are recorded and open */
	struct span *held; /* until both are known */
	size_t held_count;
	size_t held_capacity;
};

struct spans {
	struct spans_options options;
	struct trace_reader *reader;
	struct map lives; /* goid -> struct life * */
	uint64_t now;
	struct tables_filling filling;
	struct map messages; /* in this generation: messages about parked goroutines that were
			      * processed */
	uint64_t generation;
	/* The line of labels that was read last, which may continue in the next log; its goroutine
	 * and its origin.
	 */
	struct strbuf line;
	uint64_t line_g;
	uint64_t line_m;
	uint64_t line_ns;
	bool line_by_itself;
	bool line_waits; /* the line may still continue */
	struct error *error;
};

static uint32_t text(struct spans *s, const char *t)
{
	return filling_text(&s->filling, t);
}

static uint32_t add_stack(struct spans *s, uint64_t number)
{
	return filling_stack(&s->filling, number);
}

static struct life *life_of(struct spans *s, uint64_t g)
{
	bool is_one = g && g < TRACE_HELPER_GOID;
	uint64_t *place = is_one ? map_at(&s->lives, g) : NULL;
	struct life *life;

	if (!place) {
		s->error = s->error ?: (is_one ? &error_no_memory : NULL);
		return NULL;
	}
	if (*place)
		return (struct life *)(uintptr_t)*place;
	life = calloc(1, sizeof(*life));
	if (!life) {
		s->error = s->error ?: &error_no_memory;
		return NULL;
	}
	life->span.g = g;
	life->span.begin = s->now;
	*place = (uintptr_t)life;
	return life;
}

static void give(struct spans *s, const struct span *span)
{
	if (span->state && !s->error)
		s->error = s->options.span(s->options.arg, span);
}

/* Reports held spans, with the start function that is now known. */
static void give_held(struct spans *s, struct life *life)
{
	life->named = life->labels_known = true;
	for (size_t i = 0; i < life->held_count; i++) {
		life->held[i].start = life->span.start;
		give(s, &life->held[i]);
	}
	life->held_count = 0;
}

static void give_held_if_known(struct spans *s, struct life *life)
{
	if (life->named && life->labels_known)
		give_held(s, life);
}

static void give_or_hold(struct spans *s, struct life *life, const struct span *span)
{
	if (life->named && life->labels_known) {
		give(s, span);
	} else if (life->held_count < MAX_HELD &&
		   array_reserve(&life->held, &life->held_capacity, life->held_count + 1)) {
		life->held[life->held_count++] = *span;
	} else {
		give_held(s, life);
		give(s, span);
	}
}

static void end_span(struct spans *s, struct life *life)
{
	life->span.end = s->now;
	give_or_hold(s, life, &life->span);
	life->span.begin = s->now;
}

static void name(struct spans *s, struct life *life, uint64_t stack)
{
	if (life->named)
		return;
	life->span.start = filling_start(&s->filling, stack);
	life->named = life->span.start;
	give_held_if_known(s, life);
}

static void life_destroy(struct spans *s, struct life *life)
{
	end_span(s, life);
	give_held(s, life);
	free(life->held);
	free(life);
}

/* `stack` 0: the place is unchanged. */
static void change(struct spans *s, uint64_t g, enum trace_status state, uint32_t reason,
		   uint64_t stack)
{
	struct life *life = life_of(s, g);

	if (!life)
		return;
	if (stack)
		name(s, life, stack);
	/* Labels from the beginning would have been reported before it ran. */
	if (life->span.state == TRACE_RUNNING && !life->labels_known) {
		life->labels_known = true;
		give_held_if_known(s, life);
	}
	end_span(s, life);
	life->since_start = false;
	life->span.waited_ns = 0;
	life->span.ended = (struct span_by){0};
	life->span.state = state;
	life->span.reason = reason;
	if (stack)
		life->span.stack = add_stack(s, stack);
}

/* A goroutine did something at this stack. */
static struct span_by by(struct spans *s, uint64_t g, uint64_t stack)
{
	return (struct span_by){.is_known = true,
				.goroutine = g < TRACE_HELPER_GOID ? g : 0,
				.stack = stack ? add_stack(s, stack) : 0};
}

/* Its wait, if it is in one, is ended by a goroutine at this stack. */
static void end_wait(struct spans *s, uint64_t g, uint64_t waker, uint64_t stack)
{
	struct life *life = map_find(&s->lives, g) ? life_of(s, g) : NULL;

	if (life && life->span.state == TRACE_WAITING)
		life->span.ended = by(s, waker, stack);
}

static void create(struct spans *s, const struct trace_step *step, enum trace_status state)
{
	struct life *life = life_of(s, step->arg[0]);

	if (!life)
		return;
	name(s, life, step->arg[1]);
	life->span.stack = add_stack(s, step->arg[1]);
	life->span.state = state;
	life->span.begin = s->now;
	life->span.created = by(s, step->g, step->arg[2]);
	life->labels_known = true;
}

static void end_life(struct spans *s, uint64_t g)
{
	struct life *life = map_find(&s->lives, g) ? life_of(s, g) : NULL;

	if (!life)
		return;
	map_remove(&s->lives, g);
	life_destroy(s, life);
}

/* A known goroutine continues; an unknown one has been in this state since the trace began. */
static void say_status(struct spans *s, const struct trace_step *step)
{
	struct life *life;

	if (step->arg[2] < TRACE_RUNNABLE || step->arg[2] > TRACE_WAITING ||
	    map_find(&s->lives, step->arg[0]))
		return;
	change(s, step->arg[0], step->arg[2], 0, step->op == OP_GO_STATUS_STACK ? step->arg[3] : 0);
	life = life_of(s, step->arg[0]);
	if (!life)
		return;
	life->span.begin = 0;
	life->since_start = true;
}

static uint32_t reason_of(struct spans *s, const struct trace_step *step)
{
	return text(s, trace_reader_text(s->reader, step->arg[0]));
}

/* Labels that a goroutine has had from its beginning come with its creation, or with its first
 * status if its creation was not seen. */
static void labels_from_beginning(struct spans *s, struct life *life, uint32_t labels)
{
	for (size_t i = 0; i < life->held_count; i++)
		life->held[i].labels = labels;
	life->span.labels = labels;
	life->labelled = life->labels_known = true;
	give_held_if_known(s, life);
}

static void set_labels(struct spans *s)
{
	struct life *life = map_find(&s->lives, s->line_g) ? life_of(s, s->line_g) : NULL;
	uint32_t labels = text(s, s->line.data);

	if (!life || (life->labelled && life->span.labels == labels))
		return;
	if (!s->line_by_itself && !life->labelled) {
		labels_from_beginning(s, life, labels);
		return;
	}
	life->labelled = life->labels_known = true;
	give_held_if_known(s, life);
	end_span(s, life);
	life->span.labels = labels;
}

/* The line is complete. It counts from the time of its first log. */
static void end_line(struct spans *s)
{
	uint64_t now = s->now;

	if (!s->line_waits)
		return;
	s->line_waits = false;
	s->now = s->line_ns;
	set_labels(s);
	s->now = now;
}

static void begin_line(struct spans *s, const struct trace_step *step, const char *message,
		       bool by_itself)
{
	char *end = NULL;

	s->line_by_itself = by_itself;
	s->line_ns = step->ns;
	s->line_m = step->m;
	s->line_g = by_itself ? step->g : strtoull(message, &end, 10);
	s->line_waits = true;
	strbuf_reset(&s->line);
	strbuf_adds(&s->line, end ? end + (*end == ' ') : message);
}

/* Sets where it has been since the trace began, also in spans that were held when its labels
 * changed. */
static void park(struct spans *s, uint64_t g, uint64_t stack, uint32_t reason, uint64_t waited_ns)
{
	struct life *life = map_find(&s->lives, g) ? life_of(s, g) : NULL;

	if (!life || !life->since_start)
		return;
	life->since_start = false;
	life->span.stack = add_stack(s, stack);
	life->span.reason = reason;
	life->span.waited_ns = waited_ns;
	for (size_t i = 0; i < life->held_count; i++) {
		life->held[i].stack = life->span.stack;
		life->held[i].reason = reason;
		life->held[i].waited_ns = waited_ns;
	}
	name(s, life, stack);
}

/* Whether a message is new in this generation: many steps of few bytes may name a long one. */
static bool is_new_message(struct spans *s, uint64_t number)
{
	uint64_t *place;

	if (s->generation != trace_reader_generation(s->reader))
		map_release(&s->messages);
	s->generation = trace_reader_generation(s->reader);
	place = number == MAP_NO_KEY ? NULL : map_at(&s->messages, number);
	if (!place || *place)
		return false;
	*place = 1;
	return true;
}

/* See PARKED_CATEGORY. */
static void take_parked(struct spans *s, const struct trace_step *step)
{
	const char *message = trace_reader_text(s->reader, step->arg[2]);
	char *at, *space;
	uint64_t waited, g = 0;
	uint32_t reason;

	if (!is_new_message(s, step->arg[2]))
		return;
	waited = strtoull(message, &at, 10);
	space = *at == ' ' ? strchr(at + 1, ' ') : NULL;
	if (!space)
		return;
	reason = text(s, space + 1);
	do {
		g += strtoull(at + 1, &at, 10);
		park(s, g, step->arg[3], reason, waited);
	} while (*at == '+');
}

static void give_moment(struct spans *s, struct life *life, enum span_moment moment,
			uint32_t function)
{
	if (!s->options.calls)
		return;
	end_span(s, life);
	life->span.moment = moment;
	life->span.function = function;
	end_span(s, life);
	life->span.moment = SPAN_TIME;
	life->span.function = 0;
}

/* See REQUEST_CATEGORY. The first status is the one that was sent; the last route is that of the
 * innermost router. */
static void take_facts(struct spans *s, const struct trace_step *step)
{
	const char *line = trace_reader_text(s->reader, step->arg[2]), *rest = line;
	_cleanup_strbuf_ struct strbuf key = STRBUF_INIT, value = STRBUF_INIT;
	struct life *life = map_find(&s->lives, step->g) ? life_of(s, step->g) : NULL;
	struct span_facts *facts;

	if (!life || !label_text_next(&rest, &key, &value))
		return;
	facts = &life->span.facts;
	if (!strcmp(key.data, "route"))
		facts->route = text(s, value.data);
	else if (!strcmp(key.data, "status"))
		facts->status = facts->status ?: text(s, value.data);
	else
		facts->request = text(s, line);
	if (key.failed || value.failed)
		s->error = s->error ?: &error_no_memory;
	give_moment(s, life, SPAN_FACTS, 0);
}

/* See ALLOC_CATEGORY. */
static void take_allocation(struct spans *s, const struct trace_step *step)
{
	struct life *life = map_find(&s->lives, step->g) ? life_of(s, step->g) : NULL;
	const char *line = trace_reader_text(s->reader, step->arg[2]);
	struct span moment;

	if (!life || !s->options.allocations)
		return;
	name(s, life, step->arg[3]);
	moment = life->span;
	moment.begin = moment.end = s->now;
	moment.moment = SPAN_ALLOC;
	moment.stack = add_stack(s, step->arg[3]);
	if (sscanf(line, "rate=%" SCNu64 " size=%" SCNu64, &moment.alloc_rate,
		   &moment.alloc_size) == 2 &&
	    moment.alloc_rate && moment.alloc_size)
		give_or_hold(s, life, &moment);
}

/* Handles logs of labels, requests and allocations; the program's own logs are skipped. */
static void take_log(struct spans *s, const struct trace_step *step)
{
	const char *category = trace_reader_text(s->reader, step->arg[1]);
	const char *message = trace_reader_text(s->reader, step->arg[2]);
	bool by_itself = !strcmp(category, LABELS_BY_ITSELF);

	if (!strcmp(category, LABELS_MORE)) {
		if (s->line_waits && step->m == s->line_m && s->line.length < MAX_LINE)
			strbuf_adds(&s->line, message);
	} else if (!strcmp(category, PARKED_CATEGORY)) {
		take_parked(s, step);
	} else {
		end_line(s);
		if (by_itself || !strcmp(category, LABELS_BY_ANOTHER))
			begin_line(s, step, message, by_itself);
		else if (!strcmp(category, REQUEST_CATEGORY))
			take_facts(s, step);
		else if (!strcmp(category, ALLOC_CATEGORY))
			take_allocation(s, step);
	}
	if (s->line.failed)
		s->error = s->error ?: &error_no_memory;
}

/* Of a goroutine that runs: in a system call or in C code it has another state. */
static void take_sample(struct spans *s, const struct trace_step *step)
{
	struct life *life = s->options.samples && map_find(&s->lives, step->arg[0])
				    ? life_of(s, step->arg[0])
				    : NULL;
	struct span span;

	if (!life || life->span.state != TRACE_RUNNING)
		return;
	span = life->span;
	span.begin = span.end = s->now;
	span.moment = SPAN_SAMPLE;
	span.stack = add_stack(s, step->arg[1]);
	span.function = filling_leaf(&s->filling, step->arg[1]);
	give_or_hold(s, life, &span);
}

static void take_switch(struct spans *s, const struct trace_step *step)
{
	if (step->op == OP_GO_SWITCH)
		change(s, step->g, TRACE_WAITING, text(s, "coroutine"), 0);
	else
		end_life(s, step->g);
	end_wait(s, step->arg[0], step->g, 0);
	change(s, step->arg[0], TRACE_RUNNING, 0, 0);
}

/* Handles recorded calls; the program's own regions are skipped. */
static void take_call(struct spans *s, const struct trace_step *step)
{
	const char *type = trace_reader_text(s->reader, step->arg[1]);
	bool begins = step->op == OP_REGION_BEGIN;
	size_t n = strlen(TRACE_CALL_PREFIX);
	struct life *life;

	if (strncmp(type, TRACE_CALL_PREFIX, n) != 0)
		return;
	life = life_of(s, step->g);
	if (!life)
		return;
	if (begins && !life->calls) {
		end_span(s, life);
		life->span.facts = (struct span_facts){0};
	}
	life->calls += begins ? 1 : life->calls ? -1 : 0;
	give_moment(s, life, begins ? SPAN_CALL : SPAN_RETURN,
		    s->options.calls ? text(s, type + n) : 0);
}

static void take(struct spans *s, const struct trace_step *step)
{
	switch (step->op) {
	case OP_GO_CREATE:
		create(s, step, TRACE_RUNNABLE);
		break;
	case OP_CPU_SAMPLE:
		take_sample(s, step);
		break;
	case OP_GO_CREATE_BLOCKED:
		create(s, step, TRACE_WAITING);
		break;
	case OP_GO_CREATE_SYSCALL:
		change(s, step->arg[0], TRACE_IN_SYSCALL, 0, 0);
		break;
	case OP_GO_START:
		change(s, step->arg[0], TRACE_RUNNING, 0, 0);
		break;
	case OP_GO_SYSCALL_END:
		change(s, step->g, TRACE_RUNNING, 0, 0);
		break;
	case OP_GO_STOP:
		change(s, step->g, TRACE_RUNNABLE, reason_of(s, step), step->arg[1]);
		break;
	case OP_GO_BLOCK:
		change(s, step->g, TRACE_WAITING, reason_of(s, step), step->arg[1]);
		break;
	case OP_GO_UNBLOCK:
		end_wait(s, step->arg[0], step->g, step->arg[2]);
		change(s, step->arg[0], TRACE_RUNNABLE, 0, 0);
		break;
	case OP_GO_SYSCALL_BEGIN:
		change(s, step->g, TRACE_IN_SYSCALL, 0, step->arg[1]);
		break;
	case OP_GO_SYSCALL_END_BLOCKED:
		change(s, step->g, TRACE_RUNNABLE, 0, 0);
		break;
	case OP_GO_DESTROY:
	case OP_GO_DESTROY_SYSCALL:
		end_life(s, step->g);
		break;
	case OP_GO_STATUS:
	case OP_GO_STATUS_STACK:
		say_status(s, step);
		break;
	case OP_GO_SWITCH:
	case OP_GO_SWITCH_DESTROY:
		take_switch(s, step);
		break;
	case OP_REGION_BEGIN:
	case OP_REGION_END:
		take_call(s, step);
		break;
	default:
		break;
	}
}

static int by_goroutine(const void *a, const void *b)
{
	const struct life *x = *(struct life *const *)a, *y = *(struct life *const *)b;

	return (x->span.g > y->span.g) - (x->span.g < y->span.g);
}

/* In the order of goroutine ids, because the order of a map differs between runs. */
static void end_all(struct spans *s)
{
	struct life **lives = calloc(s->lives.count + 1, sizeof(*lives));
	size_t count = 0;

	if (!lives)
		s->error = &error_no_memory;
	for (size_t i = 0; i < s->lives.capacity; i++) {
		struct life *life = (struct life *)(uintptr_t)s->lives.slots[i].value;

		if (s->lives.slots[i].key == MAP_NO_KEY || !life)
			continue;
		if (lives)
			lives[count++] = life;
		else
			life_destroy(s, life);
	}
	if (count)
		qsort(lives, count, sizeof(struct life *), by_goroutine);
	for (size_t i = 0; i < count; i++)
		life_destroy(s, lives[i]);
	free(lives);
	map_release(&s->lives);
}

struct error *spans_read(struct trace_reader *reader, const struct spans_options *options,
			 struct span_tables *tables, uint64_t *ret_duration)
{
	struct spans s = {.options = *options,
			  .reader = reader,
			  .filling = {.reader = reader, .tables = tables},
			  .line = STRBUF_INIT};
	struct trace_step step;
	struct error *err = NULL;
	bool more = true;

	while (!s.error && !s.filling.error) {
		err = cancel_check(options->cancel);
		if (!err)
			err = trace_reader_next(reader, &step, &more);
		if (err || !more)
			break;
		s.now = step.ns;
		if (step.op == OP_LOG) {
			take_log(&s, &step);
		} else {
			end_line(&s);
			take(&s, &step);
		}
	}
	/* After an error in the trace, the spans before it count, too. */
	end_line(&s);
	end_all(&s);
	strbuf_release(&s.line);
	filling_release(&s.filling);
	map_release(&s.messages);
	*ret_duration = s.now;
	err = err ?: s.error;
	return err ?: s.filling.error;
}

bool span_is_system(const struct span_tables *tables, const struct span *span)
{
	const char *start = intern_get(&tables->texts, span->start);

	return !strncmp(start, "runtime.", 8) && strcmp(start, "runtime.main") != 0;
}
