/*
 * Perfetto's format: tracks of slices. Each goroutine has a track (gotrace/perfetto_tracks.h) that
 * shows what it does (running, runnable, waiting and why), with an arrow from its waker; each P and
 * each thread has a track with the goroutine that it runs. The GC, the heap, and the program's
 * tasks and regions have tracks, too.
 *
 * On a shared lane, a slice above the others names the goroutine. Slices may stay open from one
 * generation to the next. If early generations may be left out, all slices are ended and begun
 * again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "gotrace/event.h"
#include "gotrace/label_text.h"
#include "gotrace/perfetto_packets.h"
#include "gotrace/perfetto_samples.h"
#include "gotrace/perfetto_tracks.h"
#include "gotrace/trace_format.h"
#include "gotrace/trace_symbols.h"
#include "gotrace/used.h"

enum { MAX_FRAMES = 128 };

/* A goroutine of this age at the start of a generation gets a track of its own. */
#define LONG_NS 2000000000ull

/* The lowest bits of an interned event name's number: where the name comes from. */
enum name_kind { NAME_OF_TEXT, NAME_FIXED, NAME_OF_GOROUTINE, NAME_OF_REQUEST };
#define NAME(kind, number) ((uint64_t)(number) << 2 | (kind))

/* The same for the texts of arguments. */
enum value_kind { VALUE_OF_TEXT, VALUE_OF_STACK };
#define VALUE(kind, number) ((uint64_t)(number) << 1 | (kind))

enum fixed_name {
	NO_NAME,
	RUNNING,
	RUNNABLE,
	WAITING,
	SYSCALL,
	NOT_KNOWN,
	NOT_TRACED,
	CREATES,
	UNBLOCKS,
	LABELS,
	COLLECTS,
	ASSISTS,
	FIXED_NAMES
};

static const char *const fixed_names[FIXED_NAMES] = {
	[RUNNING] = "running",
	[RUNNABLE] = "runnable",
	[WAITING] = "waiting",
	[SYSCALL] = "syscall",
	[NOT_KNOWN] = "?",
	[NOT_TRACED] = "not traced",
	[CREATES] = "go",
	[UNBLOCKS] = "unblock",
	[LABELS] = "labels",
	[COLLECTS] = "GC",
	[ASSISTS] = "GC mark assist",
};

/* A goroutine's state; kept while it lives. */
struct life {
	uint64_t g;
	uint64_t number; /* unique: an id may be reused, for another function */
	uint64_t start_pc;
	uint64_t since_ns;
	uint64_t named; /* the generation that has its name */
	uint64_t flow;  /* the flow that ends when it starts; 0: none */
	uint64_t state; /* the name of the slice that is open */
	uint64_t first; /* for a goroutine whose stack still comes: the name of its state */
	struct lane *lane;
	struct life *next; /* the next free one */
	uint32_t labels;   /* a text; 0: none */
	uint32_t request;  /* slices of its regions up to its request's; 0: that is not open */
};

struct trace_writer {
	/* Used when there is no memory; then `failed` is set. */
	uint64_t nowhere;
	struct life nobody;
	struct trace_writer_options options;
	struct trace_symbols symbols;
	struct packets packets;
	struct tracks tracks;
	struct strbuf text;  /* a name or a stack that is being built */
	struct strbuf name;  /* of a goroutine */
	uint64_t generation; /* from 1 on */
	uint64_t request_count;
	struct used names;  /* texts that are names of events, in this generation */
	struct used values; /* texts that are labels */
	struct used stacks;
	struct perfetto_samples samples;
	uint32_t ids;                /* last id of those, which have their own numbers here */
	uint64_t fixed[FIXED_NAMES]; /* the generation that has this name */
	struct map lives;            /* goid -> struct life * */
	struct arena storage;        /* of lives */
	struct life *free_lives;
	struct map tasks;    /* id -> struct lane *, while they are open */
	uint64_t life_count; /* so far */
	uint64_t first_ns;
	uint64_t last_ns;
	uint64_t flow;
	uint64_t left_out; /* tasks */
	bool failed;
};

static struct error *create(const struct trace_writer_options *options, struct trace_writer **ret)
{
	struct trace_writer *w = calloc(1, sizeof(*w));

	if (!w)
		return &error_no_memory;
	w->options = *options;
	w->symbols.functions = options->functions;
	w->symbols.c_functions = options->c_functions;
	w->generation = 1;
	w->text = w->name = (struct strbuf)STRBUF_INIT;
	w->samples = (struct perfetto_samples){&w->packets, &w->symbols, &w->options};
	packets_init(&w->packets);
	tracks_init(&w->tracks, &w->packets, options->process, options->pid);
	*ret = w;
	return NULL;
}

/* ---- names and texts ---- */

static uint64_t fixed_name(struct trace_writer *w, enum fixed_name name)
{
	const char *text = fixed_names[name];
	uint64_t number = NAME(NAME_FIXED, name);

	if (w->fixed[name] != w->generation)
		packets_intern(&w->packets, TABLE_EVENT_NAMES, number, text, strlen(text));
	w->fixed[name] = w->generation;
	return number;
}

/* False: this generation has it already. */
static bool is_new(struct trace_writer *w, struct used *used, uint32_t number)
{
	if (used_find(used, number))
		return false;
	w->failed |= !used_add(used, number, &w->ids);
	return true;
}

static uint64_t text_name(struct trace_writer *w, uint64_t text)
{
	uint64_t number = NAME(NAME_OF_TEXT, text);

	if (text == TRACE_TEXT_LOST)
		return fixed_name(w, NOT_TRACED);
	if (!texts_length(w->options.texts, text))
		return fixed_name(w, NOT_KNOWN);
	if (is_new(w, &w->names, text))
		packets_intern(&w->packets, TABLE_EVENT_NAMES, number,
			       texts_get(w->options.texts, text),
			       texts_length(w->options.texts, text));
	return number;
}

static uint64_t labels_value(struct trace_writer *w, uint32_t text)
{
	uint64_t number = VALUE(VALUE_OF_TEXT, text);

	if (!texts_length(w->options.texts, text))
		return 0;
	if (is_new(w, &w->values, text))
		packets_intern(&w->packets, TABLE_TEXTS, number, texts_get(w->options.texts, text),
			       texts_length(w->options.texts, text));
	return number;
}

static void make_stack_text(struct trace_writer *w, uint64_t number)
{
	struct trace_frame frames[MAX_FRAMES];
	struct stack stack = stacks_get(w->options.stacks, number);
	size_t max = w->options.depth < MAX_FRAMES ? w->options.depth : MAX_FRAMES, count = 0;

	w->failed |= !trace_symbols_stack(&w->symbols, &stack, frames, max, &count);
	strbuf_reset(&w->text);
	for (size_t i = 0; i < count; i++) {
		if (i)
			strbuf_addc(&w->text, '\n');
		strbuf_adds(&w->text, intern_get(&w->symbols.names, frames[i].function));
	}
	if (!count)
		strbuf_adds(&w->text, "?");
	w->failed |= w->text.failed;
}

static uint64_t stack_value(struct trace_writer *w, uint64_t number)
{
	if (!number || !w->options.depth)
		return 0;
	if (is_new(w, &w->stacks, number)) {
		make_stack_text(w, number);
		packets_intern(&w->packets, TABLE_TEXTS, VALUE(VALUE_OF_STACK, number),
			       w->text.data, w->text.length);
	}
	return VALUE(VALUE_OF_STACK, number);
}

/* ---- goroutines ---- */

static uint64_t *at(struct trace_writer *w, struct map *map, uint64_t key)
{
	uint64_t *place = map_at(map, key);

	w->nowhere = 0;
	w->failed |= !place;
	return place ?: &w->nowhere;
}

/* The start function; "" when it is unknown. *ret_number is the same for equal names. */
static const char *start_function(struct trace_writer *w, uint64_t pc, uint64_t *ret_number)
{
	struct trace_frame frame;

	*ret_number = 0;
	if (pc)
		pc = pclntab_wrapped(w->options.functions, pc);
	if (!pc || !trace_symbols_function(&w->symbols, pc, &frame))
		return "";
	*ret_number = pc;
	return intern_get(&w->symbols.names, frame.function);
}

/* "G7 main.worker"; valid until the next one. */
static const char *goroutine_text(struct trace_writer *w, const struct life *life)
{
	uint64_t number;
	const char *function = start_function(w, life->start_pc, &number);

	strbuf_reset(&w->name);
	strbuf_addc(&w->name, 'G');
	strbuf_addu(&w->name, life->g);
	if (*function)
		strbuf_addc(&w->name, ' ');
	strbuf_adds(&w->name, function);
	w->failed |= w->name.failed;
	return w->name.data;
}

static uint64_t goroutine_name(struct trace_writer *w, struct life *life)
{
	uint64_t number = NAME(NAME_OF_GOROUTINE, life->number);

	if (life->named != w->generation) {
		const char *text = goroutine_text(w, life);

		packets_intern(&w->packets, TABLE_EVENT_NAMES, number, text, strlen(text));
	}
	life->named = w->generation;
	return number;
}

static struct life *new_life(struct trace_writer *w, uint64_t g)
{
	struct life *life = w->free_lives;

	if (life)
		w->free_lives = life->next;
	else
		life = (struct life *)arena_take(&w->storage, sizeof(*life));
	if (life)
		*life = (struct life){.g = g, .number = ++w->life_count, .since_ns = w->last_ns};
	w->failed |= !life;
	return life;
}

static struct life *life_of(struct trace_writer *w, uint64_t g)
{
	uint64_t *place = at(w, &w->lives, g);

	if (!*place)
		*place = (uintptr_t)new_life(w, g);
	w->nobody = (struct life){0};
	return *place ? (struct life *)(uintptr_t)*place : &w->nobody;
}

/* ---- slices ---- */

/* Details of a slice besides its name and place. */
struct details {
	uint64_t stack;
	uint64_t flow_to;
	uint32_t labels;
	enum packet_argument about;
	uint64_t id;
};

static void begin_with(struct trace_writer *w, struct track *track, uint64_t name,
		       const struct details *d)
{
	track->open++;
	packets_event(&w->packets,
		      &(struct packet_event){.ns = w->last_ns,
					     .track = track->uuid,
					     .type = PACKET_SLICE_BEGIN,
					     .name = name,
					     .stack = stack_value(w, d->stack),
					     .labels = d->labels ? labels_value(w, d->labels) : 0,
					     .about = d->about,
					     .id = d->id,
					     .flow_to = d->flow_to});
}

static void begin(struct trace_writer *w, struct track *track, uint64_t name, uint64_t stack)
{
	begin_with(w, track, name, &(struct details){.stack = stack});
}

/* Does nothing if nothing is open. */
static void end(struct trace_writer *w, struct track *track)
{
	if (!track->open)
		return;
	track->open--;
	packets_event(&w->packets, &(struct packet_event){.ns = w->last_ns,
							  .track = track->uuid,
							  .type = PACKET_SLICE_END});
}

static void end_all_of(struct trace_writer *w, struct track *track)
{
	while (track->open)
		end(w, track);
}

/* A track has one open slice at a time. */
static void replace(struct trace_writer *w, struct track *track, uint64_t name)
{
	end(w, track);
	begin(w, track, name, 0);
}

static void instant(struct trace_writer *w, const struct track *track, uint64_t name,
		    uint64_t stack)
{
	packets_event(&w->packets, &(struct packet_event){.ns = w->last_ns,
							  .track = track->uuid,
							  .type = PACKET_INSTANT,
							  .name = name,
							  .stack = stack_value(w, stack)});
}

static void count(struct trace_writer *w, unsigned int number, uint64_t value)
{
	packets_event(&w->packets,
		      &(struct packet_event){.ns = w->last_ns,
					     .track = tracks_single(&w->tracks, number)->uuid,
					     .type = PACKET_COUNTER,
					     .value = value});
}

/* ---- goroutines ---- */

static void take_lane(struct trace_writer *w, struct life *life, bool own)
{
	uint64_t function;
	const char *name = start_function(w, life->start_pc, &function);
	struct lane_group *group = tracks_group(&w->tracks, function, *name ? name : "goroutines");

	life->lane = tracks_take_lane(&w->tracks, group, own);
}

static struct track *states_of(struct trace_writer *w, struct life *life)
{
	struct track *track;

	if (!life->lane)
		take_lane(w, life, false);
	if (!life->lane)
		return &w->tracks.nowhere;
	track = &life->lane->states;
	if (track->described != w->tracks.generation)
		tracks_states(&w->tracks, life->lane, goroutine_text(w, life));
	if (!track->open && life->lane->number)
		begin_with(w, track, goroutine_name(w, life),
			   &(struct details){.about = ARGUMENT_GOROUTINE, .id = life->g});
	return track;
}

static struct track *regions_of(struct trace_writer *w, struct life *life)
{
	if (!life->lane)
		take_lane(w, life, false);
	if (!life->lane)
		return &w->tracks.nowhere;
	if (life->lane->regions.described == w->tracks.generation)
		return &life->lane->regions;
	return tracks_regions(&w->tracks, life->lane, goroutine_text(w, life));
}

/* Changes the goroutine's state. */
static void change(struct trace_writer *w, struct life *life, uint64_t state, uint64_t stack,
		   uint64_t flow_to)
{
	struct track *track = states_of(w, life);

	if (life->state)
		end(w, track);
	life->state = state;
	begin_with(w, track, state,
		   &(struct details){.stack = stack, .labels = life->labels, .flow_to = flow_to});
}

/* Gives its lane to another goroutine. */
static void leave_lane(struct trace_writer *w, struct life *life)
{
	if (!life->lane)
		return;
	end_all_of(w, &life->lane->regions);
	life->request = 0;
	end_all_of(w, &life->lane->states);
	tracks_leave_lane(&w->tracks, life->lane);
	life->lane = NULL;
	life->state = 0;
}

/* Later slices have the labels among their details; a mark shows the time of the change. */
static void label(struct trace_writer *w, const struct trace_step *step)
{
	struct life *life = life_of(w, step->arg[0]);
	uint64_t value = step->arg[1] ? labels_value(w, step->arg[1]) : 0;

	life->labels = step->arg[1];
	packets_event(&w->packets, &(struct packet_event){.ns = w->last_ns,
							  .track = states_of(w, life)->uuid,
							  .type = PACKET_INSTANT,
							  .name = fixed_name(w, LABELS),
							  .labels = value});
}

/* The slice that began with the trace gets the name and the stack of the wait. */
static void park(struct trace_writer *w, const struct trace_step *step)
{
	struct life *life = life_of(w, step->arg[0]);
	uint64_t name = step->arg[1] ? text_name(w, step->arg[1]) : life->first;

	if (!life->state)
		change(w, life, name, step->arg[3], 0);
}

/* The goroutine runs on a thread and its P. */
static void occupy(struct trace_writer *w, const struct trace_step *step, struct life *life)
{
	uint64_t name = goroutine_name(w, life);

	replace(w, tracks_thread(&w->tracks, step->m), name);
	if (step->p != TRACE_NO_P)
		replace(w, tracks_processor(&w->tracks, step->p), name);
}

static void vacate(struct trace_writer *w, const struct trace_step *step)
{
	end(w, tracks_thread(&w->tracks, step->m));
	if (step->p != TRACE_NO_P)
		end(w, tracks_processor(&w->tracks, step->p));
}

static void start(struct trace_writer *w, const struct trace_step *step)
{
	struct life *life = life_of(w, step->arg[0]);

	change(w, life, fixed_name(w, RUNNING), 0, life->flow);
	life->flow = 0;
	occupy(w, step, life);
}

static void wake(struct trace_writer *w, const struct trace_step *step, enum fixed_name how,
		 uint64_t stack)
{
	struct life *life = life_of(w, step->arg[0]);

	change(w, life, fixed_name(w, RUNNABLE), 0, 0);
	if (!step->g)
		return;
	life->flow = ++w->flow;
	packets_event(&w->packets,
		      &(struct packet_event){.ns = w->last_ns,
					     .track = states_of(w, life_of(w, step->g))->uuid,
					     .type = PACKET_INSTANT,
					     .name = fixed_name(w, how),
					     .stack = stack_value(w, stack),
					     .about = ARGUMENT_GOROUTINE,
					     .id = life->g,
					     .flow_from = life->flow});
}

static void leave(struct trace_writer *w, const struct trace_step *step, uint64_t state)
{
	vacate(w, step);
	change(w, life_of(w, step->g), state, step->arg[1], 0);
}

static void die(struct trace_writer *w, const struct trace_step *step)
{
	struct life *life = life_of(w, step->g);

	vacate(w, step);
	if (!life->g)
		return;
	leave_lane(w, life);
	map_remove(&w->lives, life->g);
	life->next = w->free_lives;
	w->free_lives = life;
}

static void enter_syscall(struct trace_writer *w, const struct trace_step *step)
{
	uint64_t name = fixed_name(w, SYSCALL);

	change(w, life_of(w, step->g), name, step->arg[1], 0);
	vacate(w, step);
	begin(w, tracks_thread(&w->tracks, step->m), name, 0);
	if (step->p != TRACE_NO_P)
		begin(w, tracks_processor(&w->tracks, step->p), name, 0);
}

static void create_goroutine(struct trace_writer *w, const struct trace_step *step)
{
	struct life *life = life_of(w, step->arg[0]);

	life->start_pc = step->arg[1];
	wake(w, step, CREATES, step->arg[2]);
}

/* The name of a state that may be from the previous generation. */
static uint64_t state_again(struct trace_writer *w, uint64_t state)
{
	uint64_t number = state >> 2;

	return (state & 3) == NAME_FIXED ? fixed_name(w, number) : text_name(w, number);
}

/* Moves the goroutine to a track of its own, in the same state. */
static void move(struct trace_writer *w, struct life *life)
{
	uint64_t state = life->state;

	if (life->lane)
		leave_lane(w, life);
	take_lane(w, life, true);
	if (state)
		change(w, life, state_again(w, state), 0, 0);
}

static void emit_goroutine(struct trace_writer *w, const struct trace_step *step)
{
	static const enum fixed_name states[] = {
		[TRACE_RUNNABLE] = RUNNABLE,
		[TRACE_RUNNING] = RUNNING,
		[TRACE_IN_SYSCALL] = SYSCALL,
		[TRACE_WAITING] = WAITING,
	};
	struct life *life = life_of(w, step->arg[0]);
	const struct lane *lane = life->lane;

	if (step->arg[2] > TRACE_WAITING)
		return;
	life->start_pc = step->arg[3];
	if (!lane || (lane->number && !lane->regions.open && w->last_ns - life->since_ns > LONG_NS))
		move(w, life);
	if (life->state)
		return;
	life->first = fixed_name(w, states[step->arg[2]] ?: NOT_KNOWN);
	if (step->stack)
		return; /* OP_PARKED follows and has more */
	change(w, life, life->first, 0, 0);
	if (step->arg[2] == TRACE_RUNNING)
		occupy(w, step, life);
}

static void schedule(struct trace_writer *w, const struct trace_step *step)
{
	switch (step->op) {
	case OP_GO_CREATE:
		create_goroutine(w, step);
		break;
	case OP_GO_UNBLOCK:
		wake(w, step, UNBLOCKS, step->arg[2]);
		break;
	case OP_GO_STATUS:
		emit_goroutine(w, step);
		break;
	case OP_GO_START:
		start(w, step);
		break;
	case OP_GO_STOP:
		leave(w, step, fixed_name(w, RUNNABLE));
		break;
	case OP_GO_BLOCK:
		leave(w, step, text_name(w, step->arg[0]));
		break;
	case OP_GO_DESTROY:
	case OP_GO_DESTROY_SYSCALL:
		die(w, step);
		break;
	case OP_GO_CREATE_SYSCALL:
		change(w, life_of(w, step->arg[0]), fixed_name(w, SYSCALL), 0, 0);
		break;
	case OP_GO_SYSCALL_BEGIN:
		enter_syscall(w, step);
		break;
	case OP_GO_SYSCALL_END:
		change(w, life_of(w, step->g), fixed_name(w, RUNNING), 0, 0);
		occupy(w, step, life_of(w, step->g));
		break;
	case OP_GO_SYSCALL_END_BLOCKED:
		end(w, tracks_thread(&w->tracks, step->m));
		change(w, life_of(w, step->g), fixed_name(w, RUNNABLE), 0, 0);
		break;
	default:
		break;
	}
}

/* ---- the program's own events, and the GC ---- */

/* A slice within the handler's, with the name of its request: "GET /users/7". False: the log does
 * not have it. */
static bool name_request(struct trace_writer *w, struct life *life, struct track *track,
			 const struct trace_step *step)
{
	_cleanup_strbuf_ struct strbuf value = STRBUF_INIT;
	const char *line = texts_get(w->options.texts, step->arg[2]);
	uint64_t number = NAME(NAME_OF_REQUEST, ++w->request_count);

	if (!track->open ||
	    strcmp(texts_get(w->options.texts, step->arg[1]), REQUEST_CATEGORY) != 0 ||
	    !label_text_find(line, "method", &value))
		return false;
	/* HTTP/2 has two handlers, one within the other. */
	if (life->request)
		return true;
	strbuf_reset(&w->text);
	strbuf_adds(&w->text, value.data);
	if (label_text_find(line, "path", &value)) {
		strbuf_addc(&w->text, ' ');
		strbuf_adds(&w->text, value.data);
	}
	w->failed |= w->text.failed || value.failed;
	packets_intern(&w->packets, TABLE_EVENT_NAMES, number, w->text.data, w->text.length);
	begin_with(w, track, number, &(struct details){.labels = step->arg[2]});
	life->request = track->open;
	return true;
}

static void regions(struct trace_writer *w, const struct trace_step *step)
{
	struct life *life = life_of(w, step->g);
	struct track *track = regions_of(w, life);

	if (step->op == OP_REGION_BEGIN) {
		begin(w, track, text_name(w, step->arg[1]), step->arg[2]);
	} else if (step->op == OP_REGION_END) {
		if (life->request && life->request == track->open) {
			life->request = 0;
			end(w, track);
		}
		end(w, track);
	} else if (!name_request(w, life, track, step)) {
		instant(w, track, text_name(w, step->arg[2]), step->arg[3]);
	}
}

static void begin_task(struct trace_writer *w, const struct trace_step *step)
{
	struct lane *lane;
	uint64_t *place;

	if (w->tasks.count >= TRACE_MOST_TASKS) {
		w->left_out++;
		return;
	}
	place = at(w, &w->tasks, step->arg[0]);
	lane = *place ? NULL : tracks_take_lane(&w->tracks, &w->tracks.tasks, false);
	if (!lane)
		return;
	*place = (uintptr_t)lane;
	begin_with(w, tracks_states(&w->tracks, lane, ""), text_name(w, step->arg[2]),
		   &(struct details){.stack = step->arg[3],
				     .about = ARGUMENT_TASK,
				     .id = step->arg[0]});
}

static void end_task(struct trace_writer *w, uint64_t id)
{
	const uint64_t *place = map_find(&w->tasks, id);
	struct lane *lane = place ? (struct lane *)(uintptr_t)*place : NULL;

	if (!lane)
		return;
	end(w, tracks_states(&w->tracks, lane, ""));
	tracks_leave_lane(&w->tracks, lane);
	map_remove(&w->tasks, id);
}

/* Those that are a time. */
static void count_kernel(struct trace_writer *w, const struct trace_step *step)
{
	static const unsigned int tracks[TRACE_COUNTERS] = {
		[TRACE_COUNTER_CPU] = TRACK_CPU,
		[TRACE_COUNTER_STEAL] = TRACK_STEAL,
		[TRACE_COUNTER_THROTTLED] = TRACK_THROTTLED,
	};

	if (tracks[step->arg[0]])
		count(w, tracks[step->arg[0]], step->arg[1]);
}

static void program(struct trace_writer *w, const struct trace_step *step)
{
	switch (step->op) {
	case OP_PROC_STOP:
		end(w, tracks_processor(&w->tracks, step->p));
		break;
	case OP_PROC_STEAL:
		end(w, tracks_processor(&w->tracks, step->arg[0]));
		break;
	case OP_PROCS_CHANGE:
		count(w, TRACK_PROCS, step->arg[0]);
		break;
	case OP_COUNTER:
		count_kernel(w, step);
		break;
	case OP_HEAP_ALLOC:
		count(w, TRACK_HEAP, step->arg[0]);
		break;
	case OP_HEAP_GOAL:
		count(w, TRACK_GOAL, step->arg[0]);
		break;
	case OP_TASK_BEGIN:
		begin_task(w, step);
		break;
	case OP_TASK_END:
		end_task(w, step->arg[0]);
		break;
	default:
		break;
	}
}

static void collect(struct trace_writer *w, const struct trace_step *step)
{
	struct track *gc = tracks_single(&w->tracks, TRACK_GC);
	struct track *stw = tracks_single(&w->tracks, TRACK_STW);

	switch (step->op) {
	case OP_GC_BEGIN:
	case OP_GC_ACTIVE:
		if (!gc->open)
			begin(w, gc, fixed_name(w, COLLECTS),
			      step->op == OP_GC_BEGIN ? step->arg[1] : 0);
		break;
	case OP_GC_END:
		end(w, gc);
		break;
	case OP_STW_BEGIN:
		begin(w, stw, text_name(w, step->arg[0]), step->arg[1]);
		break;
	default:
		end(w, stw);
		break;
	}
}

static void assist(struct trace_writer *w, const struct trace_step *step)
{
	struct track *track = states_of(w, life_of(w, step->g));

	if (step->op == OP_ASSIST_BEGIN)
		instant(w, track, fixed_name(w, ASSISTS), step->arg[0]);
	else
		instant(w, track, text_name(w, step->arg[0]), 0);
}

/* ---- generations ---- */

static bool has_failed(const struct trace_writer *w)
{
	return w->failed || w->packets.failed || w->tracks.failed || w->samples.failed;
}

static struct error *write_step(void *arg, const struct trace_step *step)
{
	struct trace_writer *w = arg;

	w->last_ns = step->ns;
	if (!w->first_ns) {
		w->first_ns = step->ns;
		packets_begin(&w->packets, step->ns);
	}
	if (step->op >= OP_GO_CREATE && step->op <= OP_GO_STATUS)
		schedule(w, step);
	else if (step->op >= OP_STW_BEGIN && step->op <= OP_GC_END)
		collect(w, step);
	else if (step->op >= OP_REGION_BEGIN && step->op <= OP_LOG)
		regions(w, step);
	else if (step->op == OP_ASSIST_BEGIN || step->op == OP_GO_LABEL)
		assist(w, step);
	else if (step->op == OP_LABELS)
		label(w, step);
	else if (step->op == OP_PARKED)
		park(w, step);
	else if (step->op == OP_CPU_SAMPLE)
		perfetto_samples_add(&w->samples, step);
	else
		program(w, step);
	return has_failed(w) ? &error_no_memory : NULL;
}

/* Visits in the order of keys, so that the same steps make the same bytes. */
static void each(struct trace_writer *w, const struct map *map,
		 void (*visit)(struct trace_writer *w, void *item))
{
	_cleanup_free_ uint64_t *keys = map_sorted_keys(map);
	size_t count = map->count;

	w->failed |= count && !keys;
	for (size_t i = 0; keys && i < count; i++) {
		void *item = (void *)(uintptr_t)*map_find(map, keys[i]);

		if (item)
			visit(w, item);
	}
}

static void end_life(struct trace_writer *w, void *item)
{
	struct life *life = item;

	if (!life->lane)
		return;
	end_all_of(w, &life->lane->regions);
	end_all_of(w, &life->lane->states);
	life->request = 0;
	life->state = 0;
}

static void end_numbered(struct trace_writer *w, void *item)
{
	end_all_of(w, &((struct numbered *)item)->track);
}

static void leave_task(struct trace_writer *w, void *item)
{
	struct lane *lane = item;

	end_all_of(w, &lane->states);
	tracks_leave_lane(&w->tracks, lane);
}

/* Ends all slices except tasks. The next generation, if any, begins them again. */
static void end_all(struct trace_writer *w)
{
	each(w, &w->lives, end_life);
	each(w, &w->tracks.processors, end_numbered);
	each(w, &w->tracks.threads, end_numbered);
	end_all_of(w, tracks_single(&w->tracks, TRACK_GC));
	end_all_of(w, tracks_single(&w->tracks, TRACK_STW));
	each(w, &w->tasks, leave_task);
	map_release(&w->tasks);
}

static void forget_generation(struct trace_writer *w)
{
	packets_reset(&w->packets);
	tracks_new_generation(&w->tracks);
	used_clear(&w->names);
	used_clear(&w->values);
	used_clear(&w->stacks);
	perfetto_samples_new_generation(&w->samples);
	w->ids = 0;
	trace_symbols_trim(&w->symbols);
	w->first_ns = 0;
	w->generation++;
}

static struct error *finish(struct trace_writer *w)
{
	struct error *err;

	if (!w->first_ns)
		return NULL;
	if (w->options.separate)
		end_all(w);
	packets_complete(&w->packets);
	if (has_failed(w))
		return &error_no_memory;
	err = w->options.generation(w->options.arg, w->packets.packed.data,
				    w->packets.packed.length, w->first_ns);
	forget_generation(w);
	return err;
}

static struct error *next_generation(void *arg)
{
	return finish(arg);
}

static struct trace_sink sink(struct trace_writer *w)
{
	return (struct trace_sink){.step = write_step,
				   .generation = next_generation,
				   .arg = w,
				   .separate = w->options.separate};
}

static void mark(const struct used *used, struct texts *texts)
{
	for (size_t i = 0; i < used->count; i++)
		texts_mark(texts, used->numbers[i]);
}

/* Within a generation a number has one text. */
static void mark_texts(const struct trace_writer *w, struct texts *texts)
{
	mark(&w->names, texts);
	mark(&w->values, texts);
	for (size_t i = 0; i < w->lives.capacity; i++) {
		const struct life *life = (const struct life *)(uintptr_t)w->lives.slots[i].value;

		if (w->lives.slots[i].key == MAP_NO_KEY || !life)
			continue;
		texts_mark(texts, life->labels);
		if (life->state && (life->state & 3) == NAME_OF_TEXT)
			texts_mark(texts, life->state >> 2);
	}
}

static size_t size(const struct trace_writer *w)
{
	return packets_size(&w->packets);
}

static uint64_t left_out(const struct trace_writer *w)
{
	return w->left_out;
}

static void destroy(struct trace_writer *w)
{
	if (!w)
		return;
	map_release(&w->lives);
	map_release(&w->tasks);
	arena_release(&w->storage);
	tracks_release(&w->tracks);
	packets_release(&w->packets);
	used_release(&w->names);
	used_release(&w->values);
	used_release(&w->stacks);
	perfetto_samples_release(&w->samples);
	strbuf_release(&w->text);
	strbuf_release(&w->name);
	trace_symbols_release(&w->symbols);
	free(w);
}

const struct trace_format trace_format_perfetto = {
	.name = "perfetto",
	.suffix = ".pftrace",
	.header = "",
	.create = create,
	.sink = sink,
	.size = size,
	.mark_texts = mark_texts,
	.left_out = left_out,
	.finish = finish,
	.destroy = destroy,
};
