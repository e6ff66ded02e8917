/*
 * Perfetto's format: tracks of slices. Each goroutine has a track that says what it does (running,
 * runnable, waiting and why), with an arrow from who woke it; each processor and each thread has
 * one that says which goroutine it runs; the collector, the heap and the program's own tasks and
 * regions have theirs.
 *
 * A packet is complete in itself, but for names, which are numbered (interned) once a generation.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "perfetto.pb-c.h"
#include "trace/event.h"
#include "trace/format.h"
#include "trace/symbols.h"

enum { MAX_FRAMES = 128, SEQUENCE = 1, STATE_CLEARED = 1, STATE_NEEDED = 2 };

/* Tracks. What has a number of its own is told apart by the highest bits. */
enum {
	TRACK_PROCESS = 1,
	TRACK_GC,
	TRACK_STW,
	TRACK_HEAP,
	TRACK_GOAL,
	TRACK_PROCS,
};
#define TRACK_KIND(n) ((uint64_t)(n) << 60)
#define TRACK_P TRACK_KIND(1)
#define TRACK_M TRACK_KIND(2)
#define TRACK_G TRACK_KIND(3)
#define TRACK_REGIONS TRACK_KIND(4)
#define TRACK_TASK TRACK_KIND(5)
#define TRACK_NUMBER ((1ull << 60) - 1)

/* What is known of a goroutine; kept while it lives. */
struct life {
	uint64_t start_pc;
	uint32_t name;   /* in names, of this generation; 0: not made yet */
	uint32_t named;  /* the generation that has this name */
	uint32_t labels; /* a text; 0: none */
	uint64_t flow;   /* that ends when it starts; 0: none */
};

struct trace_writer {
	struct trace_writer_options options;
	struct trace_symbols symbols;
	struct strbuf bytes;
	struct strbuf text;     /* a name that is being made */
	uint32_t number;        /* of the generation */
	struct intern names;    /* of this generation */
	struct map used_names;  /* in this generation */
	struct map used_tracks; /* in this generation: those that are described */
	struct map open;        /* track -> slices that are open */
	struct map lives;       /* goid -> struct life * */
	uint64_t first_ns;
	uint64_t last_ns;
	uint64_t flow;
	bool cleared; /* the generation has said that it begins anew */
	bool failed;
};

static struct error *create(const struct trace_writer_options *options, struct trace_writer **ret)
{
	struct trace_writer *w = calloc(1, sizeof(*w));

	if (!w)
		return &error_no_memory;
	w->options = *options;
	w->symbols.functions = options->functions;
	w->number = 1;
	w->bytes = w->text = (struct strbuf)STRBUF_INIT;
	*ret = w;
	return NULL;
}

static uint64_t *at(struct trace_writer *w, struct map *map, uint64_t key)
{
	static uint64_t nowhere;
	uint64_t *place = key == MAP_NO_KEY ? &nowhere : map_at(map, key);

	w->failed |= !place;
	return place ?: &nowhere;
}

static void add_packet(struct trace_writer *w, Perfetto__TracePacket *packet)
{
	_cleanup_free_ uint8_t *packed = NULL;
	size_t size;

	packet->has_trusted_packet_sequence_id = packet->has_sequence_flags = true;
	packet->trusted_packet_sequence_id = SEQUENCE;
	packet->sequence_flags = w->cleared ? STATE_NEEDED : STATE_CLEARED | STATE_NEEDED;
	w->cleared = true;
	size = perfetto__trace_packet__get_packed_size(packet);
	packed = malloc(size);
	if (!packed) {
		w->failed = true;
		return;
	}
	perfetto__trace_packet__pack(packet, packed);
	/* The file is a message of which each packet is field 1. */
	strbuf_addc(&w->bytes, 1 << 3 | 2);
	strbuf_add_uvarint(&w->bytes, size);
	strbuf_add(&w->bytes, packed, size);
	w->failed |= w->bytes.failed;
}

static void add_interned(struct trace_writer *w, Perfetto__InternedData *data)
{
	Perfetto__TracePacket packet = PERFETTO__TRACE_PACKET__INIT;

	packet.interned_data = data;
	add_packet(w, &packet);
}

/* What is numbered. */
enum name_kind { NAME_EVENT, NAME_ANNOTATION, NAME_VALUE };

static uint64_t name_number(struct trace_writer *w, enum name_kind kind, const char *text,
			    bool *ret_new)
{
	uint32_t number = intern_string(&w->names, *text ? text : "?");
	uint64_t *used;

	if (number == INTERN_FAILED) {
		w->failed = true;
		return 0;
	}
	used = at(w, &w->used_names, (uint64_t)kind << 32 | number);
	*ret_new = !*used;
	*used = 1;
	return number;
}

static uint64_t event_name(struct trace_writer *w, const char *text)
{
	Perfetto__InternedData data = PERFETTO__INTERNED_DATA__INIT;
	Perfetto__EventName name = PERFETTO__EVENT_NAME__INIT, *names[] = {&name};
	bool is_new = false;
	uint64_t number = name_number(w, NAME_EVENT, text, &is_new);

	if (!is_new)
		return number;
	name.has_iid = true;
	name.iid = number;
	name.name = (char *)intern_get(&w->names, number);
	data.n_event_names = 1;
	data.event_names = names;
	add_interned(w, &data);
	return number;
}

static uint64_t annotation_text(struct trace_writer *w, const char *text)
{
	Perfetto__InternedData data = PERFETTO__INTERNED_DATA__INIT;
	Perfetto__InternedString string = PERFETTO__INTERNED_STRING__INIT, *strings[] = {&string};
	bool is_new = false;
	uint64_t number = name_number(w, NAME_VALUE, text, &is_new);

	if (!is_new)
		return number;
	string.has_iid = string.has_str = true;
	string.iid = number;
	string.str = (ProtobufCBinaryData){strlen(text), (uint8_t *)text};
	data.n_debug_annotation_string_values = 1;
	data.debug_annotation_string_values = strings;
	add_interned(w, &data);
	return number;
}

/* There are two: "stack" and "labels". */
static uint64_t annotation_name(struct trace_writer *w, const char *text)
{
	Perfetto__InternedData data = PERFETTO__INTERNED_DATA__INIT;
	Perfetto__DebugAnnotationName name = PERFETTO__DEBUG_ANNOTATION_NAME__INIT,
				      *names[] = {&name};
	bool is_new = false;
	uint64_t number = name_number(w, NAME_ANNOTATION, text, &is_new);

	if (!is_new)
		return number;
	name.has_iid = true;
	name.iid = number;
	name.name = (char *)text;
	data.n_debug_annotation_names = 1;
	data.debug_annotation_names = names;
	add_interned(w, &data);
	return number;
}

static const char *text_of(const struct trace_writer *w, uint64_t text)
{
	return text == TRACE_TEXT_LOST ? "not traced" : texts_get(w->options.texts, text);
}

static const char *make_text(struct trace_writer *w, const char *format, uint64_t number,
			     const char *name)
{
	strbuf_reset(&w->text);
	strbuf_addf(&w->text, format, (unsigned long)number, name);
	w->failed |= w->text.failed;
	return w->text.data;
}

static struct life *life_of(struct trace_writer *w, uint64_t g)
{
	static struct life nobody;
	uint64_t *place = at(w, &w->lives, g);

	if (!*place) {
		struct life *life = calloc(1, sizeof(*life));

		w->failed |= !life;
		*place = (uintptr_t)life;
	}
	return *place ? (struct life *)(uintptr_t)*place : &nobody;
}

static uint32_t make_goroutine_name(struct trace_writer *w, uint64_t g, uint64_t pc)
{
	struct trace_frame frame;
	const char *function = "";
	uint32_t name;

	if (pc)
		pc = pclntab_wrapped(w->options.functions, pc);
	if (pc && trace_symbols_function(&w->symbols, pc, &frame))
		function = intern_get(&w->symbols.names, frame.function);
	name = intern_string(&w->names,
			     make_text(w, *function ? "G%lu %s" : "G%lu%s", g, function));
	if (name != INTERN_FAILED)
		return name;
	w->failed = true;
	return 0;
}

static const char *goroutine_name(struct trace_writer *w, uint64_t g)
{
	struct life *life = life_of(w, g);

	if (life->named != w->number) {
		life->name = make_goroutine_name(w, g, life->start_pc);
		life->named = w->number;
	}
	return intern_get(&w->names, life->name);
}

struct track {
	uint64_t uuid;
	uint64_t parent; /* 0: none */
	const char *name;
	Perfetto__CounterDescriptor__Unit unit; /* of a counter */
	bool counts;
};

static void describe(struct trace_writer *w, const struct track *track)
{
	Perfetto__TracePacket packet = PERFETTO__TRACE_PACKET__INIT;
	Perfetto__TrackDescriptor d = PERFETTO__TRACK_DESCRIPTOR__INIT;
	Perfetto__CounterDescriptor counter = PERFETTO__COUNTER_DESCRIPTOR__INIT;
	Perfetto__ProcessDescriptor process = PERFETTO__PROCESS_DESCRIPTOR__INIT;

	d.has_uuid = true;
	d.uuid = track->uuid;
	d.has_parent_uuid = track->parent;
	d.parent_uuid = track->parent;
	if (track->uuid == TRACK_PROCESS) {
		process.has_pid = true;
		process.pid = w->options.pid;
		process.process_name = (char *)track->name;
		d.process = &process;
	} else {
		d.name = (char *)track->name;
	}
	counter.has_unit = true;
	counter.unit = track->unit;
	d.counter = track->counts ? &counter : NULL;
	packet.track_descriptor = &d;
	add_packet(w, &packet);
}

static bool is_described(struct trace_writer *w, uint64_t uuid)
{
	uint64_t *used = at(w, &w->used_tracks, uuid);
	bool was = *used;

	*used = 1;
	return was;
}

static uint64_t use_track(struct trace_writer *w, struct track track)
{
	if (!is_described(w, TRACK_PROCESS))
		describe(w, &(struct track){TRACK_PROCESS, 0, w->options.process, 0, false});
	if (!is_described(w, track.uuid)) {
		track.parent = TRACK_PROCESS;
		describe(w, &track);
	}
	return track.uuid;
}

static uint64_t g_track(struct trace_writer *w, uint64_t g)
{
	uint64_t uuid = TRACK_G | (g & TRACK_NUMBER);
	const uint64_t *used = map_find(&w->used_tracks, uuid);

	return used && *used ? uuid
			     : use_track(w, (struct track){uuid, .name = goroutine_name(w, g)});
}

static uint64_t numbered_track(struct trace_writer *w, uint64_t kind, uint64_t number,
			       const char *format)
{
	uint64_t uuid = kind | (number & TRACK_NUMBER);

	return use_track(w, (struct track){uuid, .name = make_text(w, format, number, "")});
}

static void add_event(struct trace_writer *w, uint64_t ns, Perfetto__TrackEvent *event)
{
	Perfetto__TracePacket packet = PERFETTO__TRACE_PACKET__INIT;

	packet.has_timestamp = true;
	packet.timestamp = ns;
	packet.track_event = event;
	add_packet(w, &packet);
}

static void add_stack_text(struct trace_writer *w, uint64_t number)
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
	w->failed |= w->text.failed;
}

/* A slice, which ends with end(), or an instant. */
struct mark {
	uint64_t track;
	Perfetto__TrackEvent__Type type;
	const char *name;
	uint64_t stack;     /* 0: none */
	uint64_t flow_from; /* an arrow begins here; 0: none */
	uint64_t flow_to;   /* and ends here */
	uint32_t labels;    /* a text; 0: none */
};

static void annotate(struct trace_writer *w, const char *name, const char *text,
		     Perfetto__DebugAnnotation *ret)
{
	*ret = (Perfetto__DebugAnnotation)PERFETTO__DEBUG_ANNOTATION__INIT;
	ret->has_name_iid = ret->has_string_value_iid = true;
	ret->name_iid = annotation_name(w, name);
	ret->string_value_iid = annotation_text(w, text);
}

static void add_mark(struct trace_writer *w, uint64_t ns, const struct mark *mark)
{
	Perfetto__TrackEvent event = PERFETTO__TRACK_EVENT__INIT;
	Perfetto__DebugAnnotation items[2], *annotations[] = {&items[0], &items[1]};

	event.has_type = event.has_track_uuid = event.has_name_iid = true;
	event.type = mark->type;
	event.track_uuid = mark->track;
	event.name_iid = event_name(w, mark->name);
	event.debug_annotations = annotations;
	if (mark->stack && w->options.depth) {
		add_stack_text(w, mark->stack);
		annotate(w, "stack", w->text.data, &items[event.n_debug_annotations++]);
	}
	if (mark->labels)
		annotate(w, "labels", text_of(w, mark->labels),
			 &items[event.n_debug_annotations++]);
	event.n_flow_ids = mark->flow_from ? 1 : 0;
	event.flow_ids = (uint64_t *)&mark->flow_from;
	event.n_terminating_flow_ids = mark->flow_to ? 1 : 0;
	event.terminating_flow_ids = (uint64_t *)&mark->flow_to;
	add_event(w, ns, &event);
}

static void begin_labelled(struct trace_writer *w, uint64_t ns, uint64_t track, const char *name,
			   uint64_t stack, uint64_t flow_to, uint32_t labels)
{
	++*at(w, &w->open, track);
	add_mark(w, ns,
		 &(struct mark){track, PERFETTO__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN, name, stack,
				0, flow_to, labels});
}

static void begin(struct trace_writer *w, uint64_t ns, uint64_t track, const char *name,
		  uint64_t stack, uint64_t flow_to)
{
	begin_labelled(w, ns, track, name, stack, flow_to, 0);
}

static bool is_open(const struct trace_writer *w, uint64_t track)
{
	const uint64_t *open = map_find(&w->open, track);

	return open && *open;
}

/* Nothing where nothing is open. */
static void end(struct trace_writer *w, uint64_t ns, uint64_t track)
{
	Perfetto__TrackEvent event = PERFETTO__TRACK_EVENT__INIT;

	if (!is_open(w, track))
		return;
	if (!--*at(w, &w->open, track))
		map_remove(&w->open, track);
	event.has_type = event.has_track_uuid = true;
	event.type = PERFETTO__TRACK_EVENT__TYPE__TYPE_SLICE_END;
	event.track_uuid = track;
	add_event(w, ns, &event);
}

static void instant(struct trace_writer *w, uint64_t ns, uint64_t track, const char *name,
		    uint64_t stack, uint64_t flow_from)
{
	add_mark(w, ns,
		 &(struct mark){track, PERFETTO__TRACK_EVENT__TYPE__TYPE_INSTANT, name, stack,
				flow_from, 0, 0});
}

static void count(struct trace_writer *w, uint64_t ns, uint64_t uuid, const char *name,
		  Perfetto__CounterDescriptor__Unit unit, uint64_t value)
{
	Perfetto__TrackEvent event = PERFETTO__TRACK_EVENT__INIT;

	event.has_type = event.has_track_uuid = event.has_counter_value = true;
	event.type = PERFETTO__TRACK_EVENT__TYPE__TYPE_COUNTER;
	event.track_uuid = use_track(w, (struct track){uuid, 0, name, unit, true});
	event.counter_value = value;
	add_event(w, ns, &event);
}

/* What a goroutine does from now on. */
static void change(struct trace_writer *w, uint64_t ns, uint64_t g, const char *state,
		   uint64_t stack, uint64_t flow_to)
{
	uint64_t track = g_track(w, g);

	end(w, ns, track);
	begin_labelled(w, ns, track, state, stack, flow_to, life_of(w, g)->labels);
}

/* What it does from now on has them among its details; the moment has its own mark. */
static void label(struct trace_writer *w, const struct trace_step *step)
{
	uint64_t g = step->arg[0];

	life_of(w, g)->labels = step->arg[1];
	add_mark(w, step->ns,
		 &(struct mark){g_track(w, g), PERFETTO__TRACK_EVENT__TYPE__TYPE_INSTANT, "labels",
				0, 0, 0, step->arg[1]});
}

static uint64_t p_track(struct trace_writer *w, uint32_t p)
{
	return numbered_track(w, TRACK_P, p, "P%lu%s");
}

static uint64_t m_track(struct trace_writer *w, uint64_t m)
{
	return numbered_track(w, TRACK_M, m, "thread %lu%s");
}

/* The goroutine runs on a thread and its processor. */
static void occupy(struct trace_writer *w, const struct trace_step *step, uint64_t g)
{
	uint64_t p = step->p == TRACE_NO_P ? 0 : p_track(w, step->p), m = m_track(w, step->m);

	end(w, step->ns, m);
	begin(w, step->ns, m, goroutine_name(w, g), 0, 0);
	if (!p)
		return;
	end(w, step->ns, p);
	begin(w, step->ns, p, goroutine_name(w, g), 0, 0);
}

static void vacate(struct trace_writer *w, const struct trace_step *step)
{
	end(w, step->ns, m_track(w, step->m));
	if (step->p != TRACE_NO_P)
		end(w, step->ns, p_track(w, step->p));
}

static void start(struct trace_writer *w, const struct trace_step *step)
{
	struct life *life = life_of(w, step->arg[0]);

	change(w, step->ns, step->arg[0], "running", 0, life->flow);
	life->flow = 0;
	occupy(w, step, step->arg[0]);
}

static void wake(struct trace_writer *w, const struct trace_step *step, const char *how,
		 uint64_t stack)
{
	uint64_t g = step->arg[0];
	char name[64];

	change(w, step->ns, g, "runnable", 0, 0);
	if (!step->g)
		return;
	life_of(w, g)->flow = ++w->flow;
	snprintf(name, sizeof(name), "%s G%lu", how, (unsigned long)g);
	instant(w, step->ns, g_track(w, step->g), name, stack, w->flow);
}

static void leave(struct trace_writer *w, const struct trace_step *step, const char *state)
{
	vacate(w, step);
	change(w, step->ns, step->g, state, step->arg[1], 0);
}

static void end_slices(struct trace_writer *w, uint64_t ns, uint64_t track)
{
	while (is_open(w, track))
		end(w, ns, track);
}

static void die(struct trace_writer *w, const struct trace_step *step)
{
	uint64_t *life = at(w, &w->lives, step->g);

	vacate(w, step);
	end_slices(w, step->ns, TRACK_REGIONS | (step->g & TRACK_NUMBER));
	end(w, step->ns, g_track(w, step->g));
	free((void *)(uintptr_t)*life);
	map_remove(&w->lives, step->g);
}

static void enter_syscall(struct trace_writer *w, const struct trace_step *step)
{
	change(w, step->ns, step->g, "syscall", step->arg[1], 0);
	vacate(w, step);
	begin(w, step->ns, m_track(w, step->m), "syscall", 0, 0);
	if (step->p != TRACE_NO_P)
		begin(w, step->ns, p_track(w, step->p), "syscall", 0, 0);
}

static void say_goroutine(struct trace_writer *w, const struct trace_step *step)
{
	static const char *const states[] = {
		[TRACE_RUNNABLE] = "runnable",
		[TRACE_RUNNING] = "running",
		[TRACE_IN_SYSCALL] = "syscall",
		[TRACE_WAITING] = "waiting",
	};
	uint64_t g = step->arg[0];

	life_of(w, g)->start_pc = step->arg[3];
	if (is_open(w, TRACK_G | (g & TRACK_NUMBER)) || step->arg[2] > TRACE_WAITING)
		return;
	change(w, step->ns, g, states[step->arg[2]] ?: "?", 0, 0);
	if (step->arg[2] == TRACE_RUNNING)
		occupy(w, step, g);
}

static void schedule(struct trace_writer *w, const struct trace_step *step)
{
	switch (step->op) {
	case OP_GO_CREATE:
		life_of(w, step->arg[0])->start_pc = step->arg[1];
		wake(w, step, "go", step->arg[2]);
		break;
	case OP_GO_UNBLOCK:
		wake(w, step, "unblock", step->arg[2]);
		break;
	case OP_GO_STATUS:
		say_goroutine(w, step);
		break;
	case OP_GO_START:
		start(w, step);
		break;
	case OP_GO_STOP:
		leave(w, step, "runnable");
		break;
	case OP_GO_BLOCK:
		leave(w, step, text_of(w, step->arg[0]));
		break;
	case OP_GO_DESTROY:
	case OP_GO_DESTROY_SYSCALL:
		die(w, step);
		break;
	case OP_GO_CREATE_SYSCALL:
		change(w, step->ns, step->arg[0], "syscall", 0, 0);
		break;
	case OP_GO_SYSCALL_BEGIN:
		enter_syscall(w, step);
		break;
	case OP_GO_SYSCALL_END:
		change(w, step->ns, step->g, "running", 0, 0);
		occupy(w, step, step->g);
		break;
	case OP_GO_SYSCALL_END_BLOCKED:
		end(w, step->ns, m_track(w, step->m));
		change(w, step->ns, step->g, "runnable", 0, 0);
		break;
	default:
		break;
	}
}

static void regions(struct trace_writer *w, const struct trace_step *step)
{
	uint64_t track = numbered_track(w, TRACK_REGIONS, step->g, "G%lu regions%s");

	if (step->op == OP_REGION_BEGIN)
		begin(w, step->ns, track, text_of(w, step->arg[1]), step->arg[2], 0);
	else if (step->op == OP_REGION_END)
		end(w, step->ns, track);
	else
		instant(w, step->ns, track, text_of(w, step->arg[2]), step->arg[3], 0);
}

static void program(struct trace_writer *w, const struct trace_step *step)
{
	switch (step->op) {
	case OP_PROC_STOP:
		end(w, step->ns, p_track(w, step->p));
		break;
	case OP_PROC_STEAL:
		end(w, step->ns, p_track(w, step->arg[0]));
		break;
	case OP_PROCS_CHANGE:
		count(w, step->ns, TRACK_PROCS, "GOMAXPROCS",
		      PERFETTO__COUNTER_DESCRIPTOR__UNIT__UNIT_COUNT, step->arg[0]);
		break;
	case OP_HEAP_ALLOC:
		count(w, step->ns, TRACK_HEAP, "heap",
		      PERFETTO__COUNTER_DESCRIPTOR__UNIT__UNIT_SIZE_BYTES, step->arg[0]);
		break;
	case OP_HEAP_GOAL:
		count(w, step->ns, TRACK_GOAL, "heap goal",
		      PERFETTO__COUNTER_DESCRIPTOR__UNIT__UNIT_SIZE_BYTES, step->arg[0]);
		break;
	case OP_TASK_BEGIN:
		begin(w, step->ns, numbered_track(w, TRACK_TASK, step->arg[0], "task %lu%s"),
		      text_of(w, step->arg[2]), step->arg[3], 0);
		break;
	case OP_TASK_END:
		end(w, step->ns, TRACK_TASK | (step->arg[0] & TRACK_NUMBER));
		break;
	default:
		break;
	}
}

static void collect(struct trace_writer *w, const struct trace_step *step)
{
	uint64_t gc = use_track(w, (struct track){TRACK_GC, .name = "GC"});
	uint64_t stw = use_track(w, (struct track){TRACK_STW, .name = "stop the world"});

	switch (step->op) {
	case OP_GC_BEGIN:
	case OP_GC_ACTIVE:
		if (!is_open(w, gc))
			begin(w, step->ns, gc, "GC", step->op == OP_GC_BEGIN ? step->arg[1] : 0, 0);
		break;
	case OP_GC_END:
		end(w, step->ns, gc);
		break;
	case OP_STW_BEGIN:
		begin(w, step->ns, stw, text_of(w, step->arg[0]), step->arg[1], 0);
		break;
	default:
		end(w, step->ns, stw);
		break;
	}
}

static void assist(struct trace_writer *w, const struct trace_step *step)
{
	if (step->op == OP_ASSIST_BEGIN)
		instant(w, step->ns, g_track(w, step->g), "GC mark assist", step->arg[0], 0);
	else if (step->op == OP_GO_LABEL)
		instant(w, step->ns, g_track(w, step->g), text_of(w, step->arg[0]), 0, 0);
}

static struct error *write_step(void *arg, const struct trace_step *step)
{
	struct trace_writer *w = arg;

	if (!w->first_ns)
		w->first_ns = step->ns;
	w->last_ns = step->ns;
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
	else
		program(w, step);
	return w->failed ? &error_no_memory : NULL;
}

/* The next generation begins them again, if it is there. A track that has no slice any more leaves
 * its place to another. */
static void end_all(struct trace_writer *w)
{
	_cleanup_free_ uint64_t *tracks = map_sorted_keys(&w->open);
	size_t count = w->open.count;

	w->failed |= count && !tracks;
	for (size_t i = 0; tracks && i < count; i++)
		while (is_open(w, tracks[i]))
			end(w, w->last_ns, tracks[i]);
}

static void forget_generation(struct trace_writer *w)
{
	strbuf_reset(&w->bytes);
	map_release(&w->used_names);
	map_release(&w->used_tracks);
	intern_release(&w->names);
	trace_symbols_trim(&w->symbols);
	w->first_ns = 0;
	w->cleared = false;
	w->number++;
}

/* Slices stay open from one generation to the next, when each follows the one before. */
static struct error *finish(struct trace_writer *w)
{
	struct error *err;

	if (!w->first_ns)
		return NULL;
	if (w->options.separate)
		end_all(w);
	if (w->failed)
		return &error_no_memory;
	err = w->options.generation(w->options.arg, w->bytes.data, w->bytes.length, w->first_ns);
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

static void mark_texts(const struct trace_writer *w, struct texts *texts)
{
	for (size_t i = 0; i < w->lives.capacity; i++)
		if (w->lives.slots[i].key != MAP_NO_KEY)
			texts_mark(texts,
				   ((struct life *)(uintptr_t)w->lives.slots[i].value)->labels);
}

static size_t size(const struct trace_writer *w)
{
	return w->bytes.length;
}

static void destroy(struct trace_writer *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < w->lives.capacity; i++)
		if (w->lives.slots[i].key != MAP_NO_KEY)
			free((void *)(uintptr_t)w->lives.slots[i].value);
	map_release(&w->lives);
	map_release(&w->open);
	map_release(&w->used_names);
	map_release(&w->used_tracks);
	intern_release(&w->names);
	strbuf_release(&w->bytes);
	strbuf_release(&w->text);
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
	.finish = finish,
	.destroy = destroy,
};
