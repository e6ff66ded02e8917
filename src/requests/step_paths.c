#include "requests/step_paths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "gotrace/label_text.h"
#include "requests/critical_path.h"

/* MOST_PATHS: in a generation. MOST_SPANS: take 12 MB. */
enum { MOST_PATHS = 10, MOST_SEGMENTS = 1000, MOST_SPANS = 1 << 18, MAX_NAME = 160 };

struct open_request {
	uint64_t begin;
	uint32_t calls; /* open ones, of it and inside it; 0: there is no request */
	bool named;     /* by its method and path; else by its function */
	char name[MAX_NAME];
};

/* A goroutine and its current span, whose texts are numbers in `reasons`. */
struct life {
	struct span span;
	struct open_request *request; /* NULL: it has had none */
	struct life *next;            /* the next free one */
};

struct ended {
	uint64_t g;
	uint64_t begin;
	uint64_t end;
	char name[MAX_NAME];
};

struct step_paths {
	struct step_paths_options options;
	struct trace_sink next;
	struct map lives;  /* goid -> struct life * */
	struct life *free; /* of goroutines that have ended: as many may come as go */
	struct history history;
	struct intern reasons; /* texts of the trace may go while they are needed here */
	struct intern starts;  /* the bytes of start_pc, a number of which is a span's start */
	size_t open;           /* requests */
	uint64_t known_ns;     /* the history is complete from here on */
	struct ended slowest[MOST_PATHS];
	size_t slowest_count;
	/* When goroutines woke others, one after the other, since the history begins. */
	uint64_t *wakes;
	size_t wake_count;
	size_t wake_capacity;
	uint64_t wakes_before; /* that are not in `wakes` any more */
	uint64_t now;
	bool failed; /* no memory */
};

struct step_paths *step_paths_create(const struct step_paths_options *options)
{
	struct step_paths *p = calloc(1, sizeof(*p));

	if (p)
		p->options = *options;
	return p;
}

static struct life *known(const struct step_paths *p, uint64_t g)
{
	const uint64_t *place = map_find(&p->lives, g);

	return place ? (struct life *)(uintptr_t)*place : NULL;
}

/* Free, or new. */
static struct life *take_life(struct step_paths *p)
{
	struct life *life = p->free;

	if (!life)
		return calloc(1, sizeof(*life));
	p->free = life->next;
	return life;
}

/* NULL: no memory, or no goroutine. */
static struct life *life_of(struct step_paths *p, uint64_t g)
{
	bool is_one = g && g < TRACE_HELPER_GOID;
	uint64_t *place = is_one ? map_at(&p->lives, g) : NULL;
	struct life *life;

	p->failed |= is_one && !place;
	if (!place || *place)
		return place ? (struct life *)(uintptr_t)*place : NULL;
	life = take_life(p);
	p->failed |= !life;
	if (!life)
		map_remove(&p->lives, g);
	else
		*place = (uintptr_t)life;
	if (life)
		life->span = (struct span){.g = g, .begin = p->now};
	return life;
}

static uint32_t number_of(struct step_paths *p, struct intern *in, const void *bytes, size_t length)
{
	uint32_t number = intern_bytes(in, bytes, length);

	p->failed |= number == INTERN_FAILED;
	return number == INTERN_FAILED ? 0 : number;
}

/* ---- what goroutines do ---- */

/* Whether what happens is needed for a path. */
static bool is_kept(const struct step_paths *p)
{
	return p->open || p->slowest_count;
}

/* Forgets those before this time. */
static void forget_wakes(struct step_paths *p, uint64_t before)
{
	size_t gone = 0;

	while (gone < p->wake_count && p->wakes[gone] < before)
		gone++;
	p->wake_count -= gone;
	p->wakes_before += gone;
	if (gone)
		memmove(p->wakes, p->wakes + gone, p->wake_count * sizeof(*p->wakes));
}

static void add_wake(struct step_paths *p, const struct trace_step *step)
{
	if (!step->g)
		return;
	if (!is_kept(p) || !array_reserve(&p->wakes, &p->wake_capacity, p->wake_count + 1)) {
		p->wakes_before += p->wake_count + 1;
		p->wake_count = 0;
		return;
	}
	p->wakes[p->wake_count++] = p->now;
}

/* The number of the one at this time; 0: there is none. */
static uint64_t wake_at(const struct step_paths *p, uint64_t ns)
{
	size_t low = 0, high = p->wake_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (p->wakes[middle] < ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low < p->wake_count && p->wakes[low] == ns ? p->wakes_before + low + 1 : 0;
}

static void end_span(struct step_paths *p, struct life *life)
{
	life->span.end = p->now;
	if (is_kept(p) && life->span.state && life->span.begin < p->now)
		p->failed |= history_add(&p->history, &life->span) != NULL;
	life->span.begin = p->now;
}

static void change(struct step_paths *p, uint64_t g, enum trace_status state, uint32_t stack)
{
	struct life *life = life_of(p, g);

	if (!life)
		return;
	end_span(p, life);
	life->span.state = state;
	life->span.reason = 0;
	life->span.stack = stack;
	life->span.ended = (struct span_by){0};
}

static void set_start(struct step_paths *p, struct life *life, uint64_t pc)
{
	if (pc)
		life->span.start = number_of(p, &p->starts, &pc, sizeof(pc));
}

static void create(struct step_paths *p, const struct trace_step *step, enum trace_status state)
{
	struct life *life = life_of(p, step->arg[0]);

	if (!life)
		return;
	life->span.state = state;
	life->span.begin = p->now;
	set_start(p, life, step->op == OP_GO_CREATE ? step->arg[1] : 0);
	if (step->g < TRACE_HELPER_GOID)
		life->span.created = (struct span_by){true, step->arg[2], step->g};
}

static void say_status(struct step_paths *p, const struct trace_step *step)
{
	struct life *life = known(p, step->arg[0]) ? NULL : life_of(p, step->arg[0]);

	if (!life || step->arg[2] > TRACE_WAITING)
		return;
	life->span.state = step->arg[2];
	life->span.begin = 0;
	life->span.stack = step->stack;
	set_start(p, life, step->arg[3]);
}

static void block(struct step_paths *p, const struct trace_step *step)
{
	const char *reason = texts_get(p->options.texts, step->arg[0]);
	struct life *life;

	change(p, step->g, TRACE_WAITING, step->arg[1]);
	life = known(p, step->g);
	if (life)
		life->span.reason = number_of(p, &p->reasons, reason, strlen(reason));
}

static void unblock(struct step_paths *p, const struct trace_step *step)
{
	struct life *life = known(p, step->arg[0]);

	if (life && life->span.state == TRACE_WAITING && step->g < TRACE_HELPER_GOID)
		life->span.ended = (struct span_by){true, step->arg[2], step->g};
	change(p, step->arg[0], TRACE_RUNNABLE, 0);
}

static void end_life(struct step_paths *p, uint64_t g)
{
	struct life *life = known(p, g);

	if (!life)
		return;
	end_span(p, life);
	if (life->request) {
		p->open -= life->request->calls > 0;
		life->request->calls = 0;
	}
	life->next = p->free;
	p->free = life;
	map_remove(&p->lives, g);
}

/* ---- requests ---- */

/* The function of a call; NULL: it is another region. */
static const char *call_of(const struct step_paths *p, uint32_t text)
{
	const char *name = texts_get(p->options.texts, text);
	size_t n = strlen(TRACE_CALL_PREFIX);

	return strncmp(name, TRACE_CALL_PREFIX, n) ? NULL : name + n;
}

static void begin_call(struct step_paths *p, const struct trace_step *step)
{
	const char *function = call_of(p, step->arg[1]);
	struct life *life = function ? life_of(p, step->g) : NULL;
	struct open_request *r;

	if (!life)
		return;
	r = life->request ?: calloc(1, sizeof(*r));
	p->failed |= !r;
	life->request = r;
	if (!r || r->calls++)
		return;
	p->open++;
	r->begin = p->now;
	r->named = false;
	snprintf(r->name, sizeof(r->name), "%s", function);
}

/* Its place among the slowest; they are in the order of their times. */
static void remember(struct step_paths *p, uint64_t g, const struct open_request *r)
{
	struct ended *at = p->slowest + p->slowest_count;

	while (at > p->slowest && at[-1].end - at[-1].begin < p->now - r->begin)
		at--;
	if (at == p->slowest + MOST_PATHS)
		return;
	p->slowest_count += p->slowest_count < MOST_PATHS;
	memmove(at + 1, at, (p->slowest + p->slowest_count - 1 - at) * sizeof(*at));
	*at = (struct ended){.g = g, .begin = r->begin, .end = p->now};
	memcpy(at->name, r->name, sizeof(at->name));
}

static void end_call(struct step_paths *p, const struct trace_step *step)
{
	struct life *life = call_of(p, step->arg[1]) ? known(p, step->g) : NULL;
	struct open_request *r = life ? life->request : NULL;

	if (!r || !r->calls || --r->calls)
		return;
	p->open--;
	if (r->begin >= p->known_ns)
		remember(p, step->g, r);
}

static void name_request(struct step_paths *p, const struct trace_step *step)
{
	_cleanup_strbuf_ struct strbuf method = STRBUF_INIT, path = STRBUF_INIT;
	const char *category = texts_get(p->options.texts, step->arg[1]);
	const char *line = texts_get(p->options.texts, step->arg[2]);
	struct life *life = strcmp(category, REQUEST_CATEGORY) ? NULL : known(p, step->g);
	struct open_request *r = life ? life->request : NULL;

	if (!r || !r->calls || r->named || !label_text_find(line, "method", &method))
		return;
	label_text_find(line, "path", &path);
	r->named = true;
	snprintf(r->name, sizeof(r->name), "%s%s%s", method.data, path.length ? " " : "",
		 path.data);
}

/* ---- paths ---- */

static uint64_t start_pc(const struct step_paths *p, uint32_t start)
{
	uint64_t pc = 0;

	if (start && start < p->starts.count)
		memcpy(&pc, p->starts.strings[start].data, sizeof(pc));
	return pc;
}

/* Of a path with too many segments, the shortest are left out. */
static void give_path(struct step_paths *p, const struct ended *e, const struct critical_path *path)
{
	_cleanup_free_ struct trace_path_segment *segments =
		calloc(path->count + 1, sizeof(*segments));
	struct trace_path given = {e->name, e->g, e->begin, e->end, segments, 0};
	uint64_t least = path->count <= MOST_SEGMENTS ? 0 : (e->end - e->begin) / MOST_SEGMENTS + 1;

	p->failed |= !segments;
	for (size_t i = 0; segments && i < path->count; i++) {
		const struct path_segment *s = &path->segments[i];
		bool is_woken = i && s[-1].g != s->g && s[-1].depth > s->depth;

		if (s->end - s->begin < least)
			continue;
		segments[given.count++] = (struct trace_path_segment){
			.begin = s->begin,
			.end = s->end,
			.g = s->g,
			.start_pc = start_pc(p, s->start),
			.state = s->state,
			.reason =
				s->state == TRACE_WAITING ? intern_get(&p->reasons, s->reason) : "",
			.stack = s->stack,
			.wake = is_woken ? wake_at(p, s->begin) : 0,
		};
	}
	if (segments)
		p->options.path(p->options.arg, &given);
}

static void find_path(struct step_paths *p, const struct ended *e)
{
	struct critical_path path = {0};

	if (e->begin >= p->known_ns)
		p->failed |= critical_path_find(&p->history, e->g, e->begin, e->end, &path) != NULL;
	if (path.count)
		give_path(p, e, &path);
	critical_path_release(&path);
}

static int by_begin(const void *a, const void *b)
{
	const struct ended *x = a, *y = b;

	return (x->begin > y->begin) - (x->begin < y->begin);
}

/* A goroutine that woke another may still run: the span has to end. */
static void end_running(struct step_paths *p)
{
	for (size_t i = 0; i < p->lives.capacity; i++) {
		struct life *life = (struct life *)(uintptr_t)p->lives.slots[i].value;

		if (p->lives.slots[i].key != MAP_NO_KEY && life &&
		    life->span.state == TRACE_RUNNING)
			end_span(p, life);
	}
}

/* What is needed of the past: since the oldest open request. */
static void forget(struct step_paths *p)
{
	uint64_t oldest = p->now;

	for (size_t i = 0; i < p->lives.capacity && p->open; i++) {
		const struct life *life = (const struct life *)(uintptr_t)p->lives.slots[i].value;

		if (p->lives.slots[i].key != MAP_NO_KEY && life && life->request &&
		    life->request->calls && life->request->begin < oldest)
			oldest = life->request->begin;
	}
	history_forget(&p->history, oldest);
	forget_wakes(p, oldest);
}

static void find_paths(struct step_paths *p)
{
	if (p->slowest_count) {
		end_running(p);
		qsort(p->slowest, p->slowest_count, sizeof(*p->slowest), by_begin);
	}
	for (size_t i = 0; i < p->slowest_count; i++)
		find_path(p, &p->slowest[i]);
	p->slowest_count = 0;
	if (p->history.spans)
		forget(p);
}

struct error *step_paths_complete(struct step_paths *p)
{
	find_paths(p);
	return p->failed ? &error_no_memory : NULL;
}

/* There is no room. If one long request needs it all, it has no path. */
static void make_room(struct step_paths *p)
{
	find_paths(p);
	if (p->history.spans < MOST_SPANS / 2)
		return;
	history_release(&p->history);
	p->history = (struct history){0};
	forget_wakes(p, p->now);
	p->known_ns = p->now;
}

/* ---- steps ---- */

static void see_goroutine(struct step_paths *p, const struct trace_step *step)
{
	if (step->op == OP_GO_CREATE || step->op == OP_GO_UNBLOCK)
		add_wake(p, step);
	switch (step->op) {
	case OP_GO_CREATE:
		create(p, step, TRACE_RUNNABLE);
		break;
	case OP_GO_CREATE_SYSCALL:
		create(p, step, TRACE_IN_SYSCALL);
		break;
	case OP_GO_STATUS:
		say_status(p, step);
		break;
	case OP_GO_START:
		change(p, step->arg[0], TRACE_RUNNING, 0);
		break;
	case OP_GO_STOP:
		change(p, step->g, TRACE_RUNNABLE, step->arg[1]);
		break;
	case OP_GO_SYSCALL_END_BLOCKED:
		change(p, step->g, TRACE_RUNNABLE, 0);
		break;
	case OP_GO_BLOCK:
		block(p, step);
		break;
	case OP_GO_UNBLOCK:
		unblock(p, step);
		break;
	case OP_GO_SYSCALL_BEGIN:
		change(p, step->g, TRACE_IN_SYSCALL, step->arg[1]);
		break;
	case OP_GO_SYSCALL_END:
		change(p, step->g, TRACE_RUNNING, 0);
		break;
	case OP_GO_DESTROY:
	case OP_GO_DESTROY_SYSCALL:
		end_life(p, step->g);
		break;
	default:
		break;
	}
}

static struct error *take_step(void *arg, const struct trace_step *step)
{
	struct step_paths *p = arg;

	p->now = step->ns;
	if (p->history.spans >= MOST_SPANS)
		make_room(p);
	if (step->op == OP_REGION_BEGIN)
		begin_call(p, step);
	else if (step->op == OP_REGION_END)
		end_call(p, step);
	else if (step->op == OP_LOG)
		name_request(p, step);
	else
		see_goroutine(p, step);
	return p->failed ? &error_no_memory : p->next.step(p->next.arg, step);
}

static struct error *begin_generation(void *arg)
{
	struct step_paths *p = arg;
	struct error *err = step_paths_complete(p);

	return err ? err : p->next.generation(p->next.arg);
}

struct trace_sink step_paths_sink(struct step_paths *p, const struct trace_sink *next)
{
	p->next = *next;
	return (struct trace_sink){.step = take_step,
				   .generation = begin_generation,
				   .arg = p,
				   .separate = next->separate,
				   .logs_run = next->logs_run};
}

void step_paths_destroy(struct step_paths *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->lives.capacity; i++) {
		struct life *life = (struct life *)(uintptr_t)p->lives.slots[i].value;

		if (p->lives.slots[i].key == MAP_NO_KEY || !life)
			continue;
		free(life->request);
		free(life);
	}
	for (struct life *life = p->free, *next; life; life = next) {
		next = life->next;
		free(life->request);
		free(life);
	}
	map_release(&p->lives);
	history_release(&p->history);
	intern_release(&p->reasons);
	intern_release(&p->starts);
	free(p->wakes);
	free(p);
}
