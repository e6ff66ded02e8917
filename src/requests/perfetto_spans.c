/*
 * From slices to spans. A goroutine's slices are on a lane (gotrace/perfetto_tracks.h): a shared
 * one has a slice above them that names the goroutine; one of a goroutine's own has its name. Where
 * a goroutine moves to another lane, its slice ends and begins again at the same time.
 */
#include "requests/perfetto_spans.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/cancel.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "gotrace/label_text.h"
#include "gotrace/perfetto_tracks.h"

/* MAX_REGIONS: the most open regions of a lane that are told apart. */
enum { MAX_FRAMES = 255, MAX_REGIONS = 64, MAX_FACTS = 4096 };

/* A goroutine. */
struct life {
	struct span span; /* the current one; state 0: none */
	struct span last; /* the one before, which may still learn who ended it; state 0: none */
	bool ran;         /* since it is known */
	uint64_t left;    /* the number of the list in which it is; 0: it is on a lane */
	uint64_t calls;   /* that are open */
	struct lane_track *track; /* of its states; NULL: it has left it */
};

enum track_kind { KIND_OTHER, KIND_GROUP, KIND_STATES, KIND_REGIONS, KIND_THREAD };

struct lane_track {
	enum track_kind kind;
	const char *name;   /* of its own goroutine's lane; kept */
	struct life *life;  /* whose slices it has now; NULL: nobody's */
	uint32_t depth;     /* open slices */
	uint64_t goroutine; /* that the thread runs, or that its system call belongs to */
	/* Functions of open regions, in texts: of a call, else 0. MAX_REGIONS; NULL: none yet. */
	uint32_t *regions;
};

/* Ids of goroutines that have left their lanes. */
struct ids {
	uint64_t number; /* of the list, from 1 on */
	uint64_t *items;
	size_t count;
	size_t capacity;
};

struct filling {
	const struct spans_options *options;
	struct perfetto_reader *reader;
	struct span_tables *tables;
	struct map tracks; /* number -> struct lane_track * */
	struct map lives;  /* goid -> struct life * */
	struct map stacks; /* of this generation: a text -> its stack + 1 */
	struct map states; /* likewise: a slice's name -> enum trace_status, and its reason << 3 */
	struct map texts;  /* likewise: a text -> its number */
	uint64_t generation;
	struct arena storage;
	struct ids left; /* at left_ns */
	uint64_t left_ns;
	struct ids paused; /* when the generation before ended, at paused_ns */
	uint64_t paused_ns;
	uint64_t lists; /* so far */
	uint64_t open;  /* spans */
	uint64_t now;
	uint64_t nowhere; /* a value, when there is no memory */
	struct error *error;
};

static uint32_t checked(struct filling *f, uint32_t number)
{
	if (number != INTERN_FAILED)
		return number;
	f->error = f->error ?: &error_no_memory;
	return 0;
}

/* The place of a pointer's value in a map; without memory one that nobody reads. */
static uint64_t *value_of(struct filling *f, struct map *map, const void *pointer)
{
	uint64_t *place = map_at(map, (uintptr_t)pointer);

	if (!place)
		f->error = f->error ?: &error_no_memory;
	f->nowhere = 0;
	return place ? place : &f->nowhere;
}

static uint32_t intern_new(struct filling *f, const char *t)
{
	return checked(f, intern_string(&f->tables->texts, t));
}

/* A text of the reader's is hashed once in a generation: many small events may have it. */
static uint32_t text(struct filling *f, const char *t)
{
	uint64_t *place;

	if (!t || !*t)
		return 0;
	place = value_of(f, &f->texts, t);
	if (!*place)
		*place = intern_new(f, t);
	return *place;
}

static uint32_t add_frame(struct filling *f, struct span_frame frame)
{
	return checked(f, intern_bytes(&f->tables->frames, &frame, sizeof(frame)));
}

static uint32_t add_stack(struct filling *f, const uint32_t *frames, size_t count)
{
	if (!count)
		return 0;
	return checked(f, intern_bytes(&f->tables->stacks, frames, count * sizeof(*frames)));
}

static struct lane_track *known_track(const struct filling *f, uint64_t number)
{
	const uint64_t *place = map_find(&f->tracks, number);

	return place ? (struct lane_track *)(uintptr_t)*place : NULL;
}

/* ---- stacks and states ---- */

/* Functions, a line each; "?" is a stack that is not known. */
static uint32_t parse_stack(struct filling *f, const char *stack)
{
	uint32_t frames[MAX_FRAMES];
	size_t count = 0;

	if (!strcmp(stack, "?"))
		return 0;
	while (*stack && count < MAX_FRAMES) {
		size_t length = strcspn(stack, "\n");
		struct span_frame frame = {
			.function = checked(f, intern_bytes(&f->tables->texts, stack, length))};

		frames[count++] = add_frame(f, frame);
		stack += length + (stack[length] != 0);
	}
	return add_stack(f, frames, count);
}

/* A stack is parsed once in a generation: a small slice may have a large one. */
static uint32_t stack_of(struct filling *f, const char *stack)
{
	uint64_t *place;

	if (!stack)
		return 0;
	place = value_of(f, &f->stacks, stack);
	if (!*place)
		*place = parse_stack(f, stack) + 1ull;
	return *place - 1;
}

static uint64_t parse_state(struct filling *f, const char *name)
{
	if (!strcmp(name, "running"))
		return TRACE_RUNNING;
	if (!strcmp(name, "runnable"))
		return TRACE_RUNNABLE;
	if (!strcmp(name, "syscall"))
		return TRACE_IN_SYSCALL;
	if (!strcmp(name, "waiting") || !strcmp(name, "?"))
		return TRACE_WAITING;
	return TRACE_WAITING | (uint64_t)text(f, name) << 3;
}

static void set_state(struct filling *f, struct span *span, const char *name)
{
	uint64_t *place = value_of(f, &f->states, name);

	if (!*place)
		*place = parse_state(f, name);
	span->state = (enum trace_status)(*place & 7);
	span->reason = *place >> 3;
}

/* ---- goroutines ---- */

static void give(struct filling *f, const struct span *span)
{
	if (span->state && !f->error)
		f->error = f->options->span(f->options->arg, span);
}

static void give_last(struct filling *f, struct life *life)
{
	give(f, &life->last);
	life->last.state = 0;
}

static void end_span(struct filling *f, struct life *life)
{
	if (!life->span.state)
		return;
	give_last(f, life);
	life->last = life->span;
	life->last.end = f->now;
	f->open--;
	life->span.state = 0;
	life->span.begin = f->now;
}

/* Ends the span, and begins it again. */
static void split_span(struct filling *f, struct life *life)
{
	enum trace_status state = life->span.state;

	if (!state)
		return;
	end_span(f, life);
	life->span.state = state;
	f->open++;
}

static void detach(struct life *life)
{
	if (life->track)
		life->track->life = NULL;
	life->track = NULL;
}

/* A track has one goroutine, and a goroutine one track. */
static void attach(struct lane_track *track, struct life *life)
{
	if (!life)
		return;
	detach(life);
	life->track = track;
	track->life = life;
}

static void end_life(struct filling *f, struct life *life)
{
	detach(life);
	end_span(f, life);
	give_last(f, life);
	map_remove(&f->lives, life->span.g);
	free(life);
}

static struct life *known_life(const struct filling *f, uint64_t g)
{
	const uint64_t *place = map_find(&f->lives, g);

	return place ? (struct life *)(uintptr_t)*place : NULL;
}

/* Begins a new list. Those that have not come back since they came into it have ended. */
static void end_those(struct filling *f, struct ids *ids)
{
	for (size_t i = 0; i < ids->count; i++) {
		struct life *life = known_life(f, ids->items[i]);

		if (life && life->left == ids->number)
			end_life(f, life);
	}
	ids->count = 0;
	ids->number = ++f->lists;
}

/* A goroutine that has left its lane has ended, unless it comes to another one at the same time. */
static void end_left(struct filling *f)
{
	if (f->now != f->left_ns && f->left.count)
		end_those(f, &f->left);
}

static void leave(struct filling *f, struct lane_track *track)
{
	struct ids *left = &f->left;

	track->life->left = left->number;
	if (!array_reserve(&left->items, &left->capacity, left->count + 1))
		f->error = f->error ?: &error_no_memory;
	else
		left->items[left->count++] = track->life->span.g;
	f->left_ns = f->now;
	detach(track->life);
}

/* If generations are readable alone, all slices end at the end of each, and begin again in the
 * next. */
static void check_generation(struct filling *f)
{
	uint64_t generation = perfetto_reader_generation(f->reader);
	struct ids swap = f->paused;

	if (f->generation == generation)
		return;
	f->generation = generation;
	map_release(&f->stacks);
	map_release(&f->states);
	map_release(&f->texts);
	if (f->open)
		return;
	f->paused_ns = f->now;
	f->paused = f->left;
	f->left = swap;
	end_those(f, &f->left);
}

/* "G7 main.worker"; the rest may be missing. */
static uint64_t parse_goroutine(const char *name, const char **ret_start)
{
	char *end = "";
	uint64_t g = *name == 'G' ? strtoull(name + 1, &end, 10) : 0;

	*ret_start = *end == ' ' ? end + 1 : "";
	return g < TRACE_HELPER_GOID ? g : 0;
}

static void begin_life(struct filling *f, struct life *life, uint64_t g, const char *start,
		       uint64_t begin)
{
	*life = (struct life){.span = {.g = g,
				       .begin = begin,
				       .start = *start ? text(f, start) : 0,
				       .stack = *start ? stack_of(f, start) : 0}};
}

/* Nothing was between its spans, or only the end of a generation. */
static bool is_continued(const struct filling *f, const struct life *life)
{
	uint64_t ended = life->span.begin;

	return life->span.state || ended == f->now || ended == f->paused_ns;
}

/* On a lane of its own, the end of a goroutine is seen when its id comes again: that of a thread of
 * C does. */
static void continue_life(struct filling *f, struct life *life, const char *start)
{
	life->left = 0;
	if (is_continued(f, life))
		return;
	give_last(f, life);
	detach(life);
	begin_life(f, life, life->span.g, start, f->now);
}

static struct life *life_named(struct filling *f, const char *name, bool since_start)
{
	const char *start;
	uint64_t g = parse_goroutine(name, &start), *place = g ? map_at(&f->lives, g) : NULL;
	struct life *life;

	if (!place) {
		f->error = f->error ?: (g ? &error_no_memory : NULL);
		return NULL;
	}
	life = (struct life *)(uintptr_t)*place;
	if (life) {
		continue_life(f, life, start);
		return life;
	}
	life = calloc(1, sizeof(*life));
	f->error = f->error ?: (life ? NULL : &error_no_memory);
	if (!life)
		return NULL;
	begin_life(f, life, g, start, since_start ? 0 : f->now);
	*place = (uintptr_t)life;
	return life;
}

/* A slice that goes on, on another lane or in another generation, is one span. */
static bool goes_on(const struct life *life, const struct span *next)
{
	const struct span *last = &life->last;

	return last->state && last->state == next->state && last->reason == next->reason;
}

static void begin_state(struct filling *f, struct life *life, const struct perfetto_item *item)
{
	struct span *span = &life->span;
	uint32_t stack = stack_of(f, item->stack);

	set_state(f, span, item->name);
	span->stack = stack ? stack : span->stack;
	span->labels = text(f, item->labels);
	span->ended = (struct span_by){0};
	f->open += span->state != 0;
	life->ran |= span->state == TRACE_RUNNING;
	if (goes_on(life, span)) {
		*span = life->last;
		life->last.state = 0;
	} else if (life->last.state == TRACE_WAITING && span->state == TRACE_RUNNABLE) {
		/* By a timer or the network poller, unless a goroutine says that it did it. */
		life->last.ended.is_known = true;
	}
}

static void begin_slice(struct filling *f, struct lane_track *track,
			const struct perfetto_item *item)
{
	track->depth++;
	if (!track->life && item->about == ARGUMENT_GOROUTINE) {
		attach(track, life_named(f, item->name, false));
		return;
	}
	/* It has had this lane from the beginning. */
	if (!track->life && track->depth == 1)
		attach(track, life_named(f, track->name, true));
	if (track->life && !track->life->span.state)
		begin_state(f, track->life, item);
}

static void end_slice(struct filling *f, struct lane_track *track)
{
	struct life *life = track->life;

	track->depth -= track->depth > 0;
	if (life && life->span.state)
		end_span(f, life);
	else if (life)
		leave(f, track);
}

/* ---- marks ---- */

static void wake(struct filling *f, const struct lane_track *track,
		 const struct perfetto_item *item)
{
	struct life *woken = known_life(f, item->id);
	struct span_by by = {.is_known = true,
			     .goroutine = track->life ? track->life->span.g : 0,
			     .stack = stack_of(f, item->stack)};

	if (!woken || woken->span.state != TRACE_RUNNABLE)
		return;
	if (woken->last.state == TRACE_WAITING)
		woken->last.ended = by;
	else if (!strcmp(item->name, "go"))
		woken->span.created = by;
}

/* A goroutine that has not run yet has had its labels from the beginning. */
static void set_labels(struct filling *f, struct life *life, const char *labels)
{
	uint32_t number = text(f, labels);

	if (life->span.labels == number)
		return;
	if (life->ran)
		split_span(f, life);
	else
		life->last.labels = number;
	life->span.labels = number;
}

static void take_mark(struct filling *f, struct lane_track *track, const struct perfetto_item *item)
{
	if (item->about == ARGUMENT_GOROUTINE && item->flow_from)
		wake(f, track, item);
	else if (track->life && !strcmp(item->name, "labels"))
		set_labels(f, track->life, item->labels);
}

/* ---- regions ---- */

static void give_moment(struct filling *f, struct life *life, enum span_moment moment,
			uint32_t function)
{
	struct span span;

	if (!f->options->calls || !life->span.state)
		return;
	split_span(f, life);
	give_last(f, life);
	span = life->span;
	span.end = f->now;
	span.moment = moment;
	span.function = function;
	give(f, &span);
}

static void take_fact(struct filling *f, struct life *life, const char *line)
{
	struct span_facts *facts = &life->span.facts;
	_cleanup_strbuf_ struct strbuf value = STRBUF_INIT;

	if (strnlen(line, MAX_FACTS) == MAX_FACTS)
		return;
	if (label_text_find(line, "method", &value))
		facts->request = text(f, line);
	else if (label_text_find(line, "route", &value))
		facts->route = intern_new(f, value.data);
	else if (label_text_find(line, "status", &value))
		facts->status = facts->status ?: intern_new(f, value.data);
	else
		return;
	f->error = f->error ?: (value.failed ? &error_no_memory : NULL);
	give_moment(f, life, SPAN_FACTS, 0);
}

static void begin_call(struct filling *f, struct life *life, uint32_t function)
{
	if (!life->calls++) {
		split_span(f, life);
		life->span.facts = (struct span_facts){0};
	}
	give_moment(f, life, SPAN_CALL, function);
}

/* The program's own regions are skipped. */
static void begin_region(struct filling *f, struct lane_track *track, struct life *life,
			 const struct perfetto_item *item)
{
	size_t n = strlen(TRACE_CALL_PREFIX);
	bool is_call = !strncmp(item->name, TRACE_CALL_PREFIX, n);
	uint32_t function = is_call ? text(f, item->name + n) : 0;

	if (!track->regions)
		track->regions =
			(uint32_t *)arena_take(&f->storage, MAX_REGIONS * sizeof(uint32_t));
	if (track->regions && track->depth < MAX_REGIONS)
		track->regions[track->depth] = function;
	f->error = f->error ?: (track->regions ? NULL : &error_no_memory);
	track->depth++;
	if (!life)
		return;
	if (is_call)
		begin_call(f, life, function);
	else if (item->labels)
		take_fact(f, life, item->labels);
}

static void end_region(struct filling *f, struct lane_track *track, struct life *life)
{
	uint32_t function = 0;

	if (!track->depth)
		return;
	if (--track->depth < MAX_REGIONS && track->regions)
		function = track->regions[track->depth];
	if (!life || !function)
		return;
	life->calls -= life->calls > 0;
	give_moment(f, life, SPAN_RETURN, function);
}

static void take_region(struct filling *f, struct lane_track *track,
			const struct perfetto_item *item)
{
	const struct lane_track *states = known_track(f, tracks_number_of_states(item->track));
	struct life *life = states ? states->life : NULL;

	if (item->type == PACKET_SLICE_BEGIN)
		begin_region(f, track, life, item);
	else if (item->type == PACKET_SLICE_END)
		end_region(f, track, life);
	else if (life && life->calls)
		take_fact(f, life, item->name);
}

/* ---- threads ---- */

/* A system call belongs to the goroutine that ran before it. */
static void take_thread(struct lane_track *track, const struct perfetto_item *item)
{
	const char *start;

	if (item->type == PACKET_SLICE_BEGIN && strcmp(item->name, "syscall"))
		track->goroutine = parse_goroutine(item->name, &start);
}

static uint32_t make_callstack(struct filling *f, const struct callstack *callstack)
{
	uint32_t frames[MAX_FRAMES];
	size_t count;
	const struct trace_reader_frame *from =
		perfetto_reader_frames(f->reader, callstack, &count);

	for (size_t i = 0; i < count; i++)
		frames[i] = add_frame(f, (struct span_frame){text(f, from[i].function),
							     text(f, from[i].file), from[i].line});
	return add_stack(f, frames, count);
}

static uint32_t callstack_of(struct filling *f, const struct callstack *callstack)
{
	uint64_t *place;

	if (!callstack)
		return 0;
	place = value_of(f, &f->stacks, callstack);
	if (!*place)
		*place = make_callstack(f, callstack) + 1ull;
	return *place - 1;
}

static void take_sample(struct filling *f, const struct perfetto_item *item)
{
	const struct lane_track *thread = known_track(f, tracks_number_of_thread(item->thread));
	struct life *life = thread ? known_life(f, thread->goroutine) : NULL;
	uint32_t stack = callstack_of(f, item->callstack);
	struct span span;
	size_t count;

	if (!life || !f->options->samples || life->span.state != TRACE_RUNNING || !stack)
		return;
	give_last(f, life);
	span = life->span;
	span.begin = span.end = f->now;
	span.moment = SPAN_SAMPLE;
	span.stack = stack;
	span.function = span_frame(f->tables, *span_stack(f->tables, stack, &count)).function;
	give(f, &span);
}

/* ---- tracks ---- */

static enum track_kind kind_of(const struct filling *f, const struct perfetto_item *item)
{
	static const char regions[] = " regions";
	size_t length = strlen(item->name), n = strlen(regions);
	const struct lane_track *parent = known_track(f, item->parent);

	if (item->parent == TRACK_THREADS)
		return KIND_THREAD;
	if (item->parent == TRACK_PROCESS && item->track >= TRACK_FIRST_FREE)
		return KIND_GROUP;
	if (!parent || parent->kind != KIND_GROUP)
		return KIND_OTHER;
	return length > n && !strcmp(item->name + length - n, regions) ? KIND_REGIONS : KIND_STATES;
}

static void take_track(struct filling *f, const struct perfetto_item *item)
{
	struct lane_track *track;
	uint64_t *place;

	if (known_track(f, item->track))
		return;
	track = (struct lane_track *)arena_take(&f->storage, sizeof(*track));
	place = track ? map_at(&f->tracks, item->track) : NULL;
	if (place) {
		*track = (struct lane_track){.kind = kind_of(f, item),
					     .name = arena_copy(&f->storage, item->name,
								strlen(item->name))};
		*place = track->name ? (uintptr_t)track : 0;
	}
	f->error = f->error ?: (place && *place ? NULL : &error_no_memory);
}

static void take_event(struct filling *f, const struct perfetto_item *item)
{
	struct lane_track *track = known_track(f, item->track);

	if (!track || item->is_past)
		return;
	if (track->kind == KIND_REGIONS)
		take_region(f, track, item);
	else if (track->kind == KIND_THREAD)
		take_thread(track, item);
	if (track->kind != KIND_STATES)
		return;
	if (item->type == PACKET_SLICE_BEGIN)
		begin_slice(f, track, item);
	else if (item->type == PACKET_SLICE_END)
		end_slice(f, track);
	else if (item->type == PACKET_INSTANT)
		take_mark(f, track, item);
}

static void take(struct filling *f, const struct perfetto_item *item)
{
	check_generation(f);
	if (item->kind == PERFETTO_TRACK) {
		take_track(f, item);
		return;
	}
	f->now = item->is_past ? f->now : item->ns;
	end_left(f);
	if (item->kind == PERFETTO_SAMPLE)
		take_sample(f, item);
	else
		take_event(f, item);
}

/* In the order of goroutine ids, because the order of a map differs between runs. */
static void end_all(struct filling *f)
{
	size_t count = f->lives.count;
	uint64_t *ids = map_sorted_keys(&f->lives);

	f->error = f->error ?: (count && !ids ? &error_no_memory : NULL);
	for (size_t i = 0; ids && i < count; i++)
		end_life(f, known_life(f, ids[i]));
	free(ids);
}

static void filling_free(struct filling *f)
{
	map_release(&f->lives);
	map_release(&f->tracks);
	map_release(&f->stacks);
	map_release(&f->states);
	map_release(&f->texts);
	free(f->left.items);
	free(f->paused.items);
	arena_release(&f->storage);
}

struct error *perfetto_spans_read(struct perfetto_reader *reader,
				  const struct spans_options *options, struct span_tables *tables,
				  uint64_t *ret_duration)
{
	struct filling f = {.options = options,
			    .reader = reader,
			    .tables = tables,
			    .left.number = 1,
			    .paused.number = 2,
			    .lists = 2};
	struct perfetto_item item;
	struct error *err = NULL;
	bool more = true;

	while (!f.error) {
		err = cancel_check(options->cancel);
		if (!err)
			err = perfetto_reader_next(reader, &item, &more);
		if (err || !more)
			break;
		take(&f, &item);
	}
	/* After an error in the trace, the spans before it count, too. */
	end_all(&f);
	filling_free(&f);
	*ret_duration = f.now;
	return err ?: f.error;
}
