#include "gotrace/perfetto_goroutines.h"

#include "gotrace/event.h"
#include "gotrace/perfetto_names.h"
#include "gotrace/perfetto_slices.h"

/* A goroutine of this age at the start of a generation gets a track of its own. */
#define LONG_NS 2000000000ull

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

struct life *perfetto_life(struct trace_writer *w, uint64_t g)
{
	uint64_t *place = perfetto_at(w, &w->lives, g);

	if (!*place)
		*place = (uintptr_t)new_life(w, g);
	w->nobody = (struct life){0};
	return *place ? (struct life *)(uintptr_t)*place : &w->nobody;
}

static void take_lane(struct trace_writer *w, struct life *life, bool own)
{
	uint64_t function;
	const char *name = perfetto_start_function(w, life->start_pc, &function);
	struct lane_group *group = tracks_group(&w->tracks, function, *name ? name : "goroutines");

	life->lane = tracks_take_lane(&w->tracks, group, own);
}

struct track *perfetto_states(struct trace_writer *w, struct life *life)
{
	struct track *track;

	if (!life->lane)
		take_lane(w, life, false);
	if (!life->lane)
		return &w->tracks.nowhere;
	track = &life->lane->states;
	if (track->described != w->tracks.generation)
		tracks_states(&w->tracks, life->lane, perfetto_goroutine_text(w, life));
	if (!track->open && life->lane->number)
		perfetto_begin_with(w, track, perfetto_goroutine_name(w, life),
				    &(struct slice_details){.about = ARGUMENT_GOROUTINE,
							    .id = life->g});
	return track;
}

struct track *perfetto_regions(struct trace_writer *w, struct life *life)
{
	if (!life->lane)
		take_lane(w, life, false);
	if (!life->lane)
		return &w->tracks.nowhere;
	if (life->lane->regions.described == w->tracks.generation)
		return &life->lane->regions;
	return tracks_regions(&w->tracks, life->lane, perfetto_goroutine_text(w, life));
}

/* Changes the goroutine's state. */
static void change(struct trace_writer *w, struct life *life, uint64_t state, uint64_t stack,
		   uint64_t flow_to)
{
	struct track *track = perfetto_states(w, life);

	if (life->state)
		perfetto_end(w, track);
	life->state = state;
	life->stack = stack;
	life->again = 0;
	perfetto_begin_with(w, track, state,
			    &(struct slice_details){.stack = stack,
						    .labels = life->labels,
						    .flow_to = flow_to});
}

/* Gives its lane to another goroutine. */
static void leave_lane(struct trace_writer *w, struct life *life)
{
	if (!life->lane)
		return;
	perfetto_end_all(w, &life->lane->regions);
	life->request = 0;
	perfetto_end_all(w, &life->lane->states);
	tracks_leave_lane(&w->tracks, life->lane);
	life->lane = NULL;
	life->state = 0;
}

void perfetto_write_labels(struct trace_writer *w, const struct trace_step *step)
{
	struct life *life = perfetto_life(w, step->arg[0]);
	uint64_t value = step->arg[1] ? perfetto_labels(w, step->arg[1]) : 0;

	life->labels = step->arg[1];
	packets_event(&w->packets,
		      &(struct packet_event){.ns = w->last_ns,
					     .track = perfetto_states(w, life)->uuid,
					     .type = PACKET_INSTANT,
					     .name = perfetto_fixed_name(w, NAME_LABELS),
					     .labels = value});
}

void perfetto_write_parked(struct trace_writer *w, const struct trace_step *step)
{
	struct life *life = perfetto_life(w, step->arg[0]);
	uint64_t name = step->arg[1] ? perfetto_text_name(w, step->arg[1]) : life->first;

	if (!life->state)
		change(w, life, name, step->arg[3], 0);
}

/* The goroutine runs on a thread and its P. */
static void occupy(struct trace_writer *w, const struct trace_step *step, struct life *life)
{
	uint64_t name = perfetto_goroutine_name(w, life);

	perfetto_replace(w, tracks_thread(&w->tracks, step->m), name);
	if (step->p != TRACE_NO_P)
		perfetto_replace(w, tracks_processor(&w->tracks, step->p), name);
}

static void vacate(struct trace_writer *w, const struct trace_step *step)
{
	perfetto_end(w, tracks_thread(&w->tracks, step->m));
	if (step->p != TRACE_NO_P)
		perfetto_end(w, tracks_processor(&w->tracks, step->p));
}

static void start(struct trace_writer *w, const struct trace_step *step)
{
	struct life *life = perfetto_life(w, step->arg[0]);

	change(w, life, perfetto_fixed_name(w, NAME_RUNNING), 0, life->flow);
	life->flow = 0;
	occupy(w, step, life);
}

static void wake(struct trace_writer *w, const struct trace_step *step, enum perfetto_name how,
		 uint64_t stack)
{
	struct life *life = perfetto_life(w, step->arg[0]);

	change(w, life, perfetto_fixed_name(w, NAME_RUNNABLE), 0, 0);
	if (!step->g)
		return;
	life->flow = ++w->wakes;
	packets_event(&w->packets,
		      &(struct packet_event){.ns = w->last_ns,
					     .track = perfetto_states(w, perfetto_life(w, step->g))
							      ->uuid,
					     .type = PACKET_INSTANT,
					     .name = perfetto_fixed_name(w, how),
					     .stack = perfetto_stack(w, stack),
					     .about = ARGUMENT_GOROUTINE,
					     .id = life->g,
					     .flow_from = life->flow});
}

static void leave(struct trace_writer *w, const struct trace_step *step, uint64_t state)
{
	vacate(w, step);
	change(w, perfetto_life(w, step->g), state, step->arg[1], 0);
}

static void die(struct trace_writer *w, const struct trace_step *step)
{
	struct life *life = perfetto_life(w, step->g);

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
	uint64_t name = perfetto_fixed_name(w, NAME_SYSCALL);

	change(w, perfetto_life(w, step->g), name, step->arg[1], 0);
	vacate(w, step);
	perfetto_begin(w, tracks_thread(&w->tracks, step->m), name, 0);
	if (step->p != TRACE_NO_P)
		perfetto_begin(w, tracks_processor(&w->tracks, step->p), name, 0);
}

static void create_goroutine(struct trace_writer *w, const struct trace_step *step)
{
	struct life *life = perfetto_life(w, step->arg[0]);

	life->start_pc = step->arg[1];
	wake(w, step, NAME_CREATES, step->arg[2]);
}

/* Moves the goroutine to a track of its own, in the same state. */
static void move(struct trace_writer *w, struct life *life)
{
	uint64_t state = life->state;

	if (life->lane)
		leave_lane(w, life);
	take_lane(w, life, true);
	if (state)
		change(w, life, perfetto_name_again(w, state), life->stack, 0);
}

static void emit_goroutine(struct trace_writer *w, const struct trace_step *step)
{
	static const enum perfetto_name states[] = {
		[TRACE_RUNNABLE] = NAME_RUNNABLE,
		[TRACE_RUNNING] = NAME_RUNNING,
		[TRACE_IN_SYSCALL] = NAME_SYSCALL,
		[TRACE_WAITING] = NAME_WAITING,
	};
	struct life *life = perfetto_life(w, step->arg[0]);
	const struct lane *lane = life->lane;

	if (step->arg[2] > TRACE_WAITING)
		return;
	life->start_pc = step->arg[3];
	if (!lane || (lane->number && !lane->regions.open && w->last_ns - life->since_ns > LONG_NS))
		move(w, life);
	if (life->state)
		return;
	life->first = perfetto_fixed_name(w, states[step->arg[2]] ?: NAME_NOT_KNOWN);
	if (life->again)
		life->first = perfetto_name_again(w, life->again);
	else if (step->stack)
		return; /* OP_PARKED follows and has more */
	change(w, life, life->first, life->again ? life->stack : 0, 0);
	if (step->arg[2] == TRACE_RUNNING)
		occupy(w, step, life);
}

void perfetto_write_schedule(struct trace_writer *w, const struct trace_step *step)
{
	switch (step->op) {
	case OP_GO_CREATE:
		create_goroutine(w, step);
		break;
	case OP_GO_UNBLOCK:
		wake(w, step, NAME_UNBLOCKS, step->arg[2]);
		break;
	case OP_GO_STATUS:
		emit_goroutine(w, step);
		break;
	case OP_GO_START:
		start(w, step);
		break;
	case OP_GO_STOP:
		leave(w, step, perfetto_fixed_name(w, NAME_RUNNABLE));
		break;
	case OP_GO_BLOCK:
		leave(w, step, perfetto_text_name(w, step->arg[0]));
		break;
	case OP_GO_DESTROY:
	case OP_GO_DESTROY_SYSCALL:
		die(w, step);
		break;
	case OP_GO_CREATE_SYSCALL:
		change(w, perfetto_life(w, step->arg[0]), perfetto_fixed_name(w, NAME_SYSCALL), 0,
		       0);
		break;
	case OP_GO_SYSCALL_BEGIN:
		enter_syscall(w, step);
		break;
	case OP_GO_SYSCALL_END:
		change(w, perfetto_life(w, step->g), perfetto_fixed_name(w, NAME_RUNNING), 0, 0);
		occupy(w, step, perfetto_life(w, step->g));
		break;
	case OP_GO_SYSCALL_END_BLOCKED:
		perfetto_end(w, tracks_thread(&w->tracks, step->m));
		change(w, perfetto_life(w, step->g), perfetto_fixed_name(w, NAME_RUNNABLE), 0, 0);
		break;
	default:
		break;
	}
}
