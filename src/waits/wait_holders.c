/*
 * Finds the goroutines that hold the objects that others wait for.
 *
 * Proved: a frame that took a mutex on every path to its current instruction and did not free it
 * (lock_code.h), if no frame inside it may have freed it; a writer that has the mutex of an RWMutex
 * and waits for readers; a frame with a pending deferred WaitGroup.Done.
 *
 * Otherwise candidates: frames with a pointer to the object. A sender may also reach a channel
 * through objects on the heap, which is not searched.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "waits/lock_code.h"
#include "waits/room.h"

#define MAX_INLINED 64
/* The search of all stacks. */
#define MAX_ALL_STACKS (4ull << 30)

struct search {
	struct wait_graph *w;
	struct map wanted; /* address -> number of an object + 1 */
	struct map codes;  /* entry of a function -> its lock_code, or 1: none */
	struct map has;    /* object << 32 | goroutine -> number of a holder + 1 */
	uint64_t bytes;    /* of stacks read so far */
	size_t locks;      /* objects that are mutexes */
};

/* The goroutine whose stack is searched. */
struct subject {
	struct search *s;
	uint32_t goroutine;
	const struct wait_stack *stack;
	size_t count; /* frames */
};

static void search_close(struct search *s)
{
	for (size_t i = 0; i < s->codes.capacity; i++)
		if (s->codes.slots[i].key != MAP_NO_KEY && s->codes.slots[i].value > 1)
			lock_code_destroy((struct lock_code *)(uintptr_t)s->codes.slots[i].value);
	map_release(&s->codes);
	map_release(&s->wanted);
	map_release(&s->has);
}

static bool is_lock(enum wait_kind kind)
{
	return kind == WAIT_MUTEX || kind == WAIT_RWMUTEX;
}

static struct error *add_holder(struct search *s, struct wait_holder h)
{
	struct wait_graph *w = s->w;
	uint64_t *place = map_at(&s->has, (uint64_t)h.object << 32 | h.goroutine);

	if (!place || !h.why)
		return &error_no_memory;
	if (*place && (w->holders[*place - 1].proved || !h.proved))
		return NULL;
	if (*place) {
		w->holders[*place - 1] = h;
		return NULL;
	}
	if (!h.proved && w->objects[h.object].holder_count >= WAITS_MAX_HOLDERS)
		return NULL;
	if (!array_reserve(&w->holders, &w->holder_capacity, w->holder_count + 1))
		return &error_no_memory;
	w->objects[h.object].holder_count++;
	w->holders[w->holder_count++] = h;
	*place = w->holder_count;
	return NULL;
}

/* The line of a frame: the innermost call outside package sync, inlined calls included. */
static struct wait_place place_of_frame(const struct wait_graph *w, const struct frame *f)
{
	struct go_frame frames[MAX_INLINED];
	size_t n = pclntab_frames(&w->img->functions, f->word, frames, MAX_INLINED), k = 0;

	if (!n)
		return (struct wait_place){"", "", 0};
	while (k + 1 < n && (wait_is_package(frames[k].function, "sync") ||
			     wait_is_package(frames[k].function, "internal")))
		k++;
	return (struct wait_place){frames[k].function, frames[k].file, frames[k].line};
}

/* ---- locks, by the code of the frames ---- */

static struct error *code_of(struct search *s, const struct go_func *f,
			     const struct lock_code **ret)
{
	uint64_t *place = map_at(&s->codes, f->entry);
	struct lock_code *code = NULL;
	struct error *err;

	if (!place)
		return &error_no_memory;
	if (!*place) {
		err = lock_code_read(s->w->img, s->w->lay->minor, f, &code);
		if (err)
			return err;
		*place = code ? (uintptr_t)code : 1;
	}
	*ret = *place == 1 ? NULL : (const struct lock_code *)(uintptr_t)*place;
	return NULL;
}

/* The address of the lock that an event of this frame is about; 0: not known. */
static uint64_t address_of(const struct subject *u, const struct frame *f,
			   const struct lock_operand *o)
{
	uint64_t at;

	if (o->base == LOCK_NOWHERE)
		return 0;
	at = o->at;
	if (o->base == LOCK_SLOT && !wait_stack_word(u->stack, f->cfa + o->at, &at))
		return 0;
	at += o->plus;
	if (!o->dereferenced)
		return at;
	if (at < 4096 || at & 7 || error_dropped(target_read_u64(u->s->w->t, at, &at)))
		return 0;
	return at + o->behind;
}

/* A frame of a function that takes or frees locks. */
struct lock_frame {
	const struct lock_code *code;
	uint64_t *addresses;
	size_t frame;
	int in_progress; /* the line of the call that waits for the lock; 0: none */
	bool in_lock;    /* that call is one of a lock's functions */
};

struct lock_frames {
	struct lock_frame items[WAITS_MAX_FRAMES];
	size_t count; /* innermost first */
};

static void lock_frames_release(struct lock_frames *l)
{
	for (size_t i = 0; i < l->count; i++)
		free(l->items[i].addresses);
}

static int line_of_frame(const struct wait_graph *w, const struct frame *f)
{
	struct go_frame frames[MAX_INLINED];
	size_t n = pclntab_frames(&w->img->functions, f->word, frames, MAX_INLINED);

	return n ? frames[n - 1].line : 0;
}

static bool is_of_lock(const char *function)
{
	if (!strncmp(function, "internal/", 9))
		function += 9;
	return !strncmp(function, "sync.(*Mutex).", 14) ||
	       !strncmp(function, "sync.(*RWMutex).", 16);
}

static struct error *list_lock_frames(const struct subject *u, struct lock_frames *ret)
{
	const struct wait_graph *w = u->s->w;
	bool outside = false; /* of package sync, once a frame was */
	bool in_lock = false;
	struct error *err = NULL;
	struct go_func f;

	for (size_t i = 0; !err && i < u->count; i++) {
		const struct frame *frame = &u->stack->frames.items[i];
		struct lock_frame *l = &ret->items[ret->count];
		bool first = !outside;

		if (!pclntab_find(&w->img->functions, stack_pc_lookup(frame->word), &f))
			continue;
		in_lock |= !outside && is_of_lock(f.name);
		if (!outside &&
		    (wait_is_package(f.name, "runtime") || wait_is_package(f.name, "sync") ||
		     wait_is_package(f.name, "internal")))
			continue;
		outside = true;
		*l = (struct lock_frame){.frame = i, .in_lock = first && in_lock};
		err = code_of(u->s, &f, &l->code);
		if (err || !l->code)
			continue;
		l->addresses = calloc(l->code->event_count, sizeof(*l->addresses));
		if (!l->addresses)
			return &error_no_memory;
		ret->count++;
		l->in_progress = first ? line_of_frame(w, frame) : 0;
		for (size_t k = 0; k < l->code->event_count; k++)
			l->addresses[k] = address_of(u, frame, &l->code->events[k].operand);
	}
	return err;
}

/* sync.(*Cond).Wait frees L, and takes it again before it returns. */
static bool is_freed_by_cond(const struct wait_graph *w, const struct wait_goroutine *g,
			     uint64_t lock)
{
	for (uint32_t i = 0; i < g->edge_count; i++) {
		const struct wait_edge *e = &w->edges[g->first_edge + i];

		if (e->kind == WAIT_COND && w->objects[e->object].lock == lock)
			return true;
	}
	return false;
}

/* In sync.(*Cond).Wait, but not asleep; or in a Wait of an unknown Cond. */
static bool is_in_unknown_cond(const struct subject *u)
{
	const struct wait_graph *w = u->s->w;
	const struct wait_goroutine *g = &w->goroutines[u->goroutine];
	struct go_func f;

	for (uint32_t i = 0; i < g->edge_count; i++)
		if (w->edges[g->first_edge + i].kind == WAIT_COND)
			return !w->objects[w->edges[g->first_edge + i].object].lock;
	for (size_t i = 0; i < u->count; i++)
		if (pclntab_find(&w->img->functions,
				 stack_pc_lookup(u->stack->frames.items[i].word), &f) &&
		    !strcmp(f.name, "sync.(*Cond).Wait"))
			return true;
	return false;
}

/* Whether the goroutine itself waits for this object. */
static bool waits_for(const struct wait_graph *w, const struct wait_goroutine *g, uint32_t object)
{
	for (uint32_t i = 0; i < g->edge_count; i++)
		if (w->edges[g->first_edge + i].object == object)
			return true;
	return false;
}

static struct error *report_lock(const struct subject *u, uint32_t object, size_t frame, int line,
				 bool reads, unsigned int known)
{
	const struct wait_graph *w = u->s->w;
	bool proved = known == LOCK_IS_TAKEN && !is_in_unknown_cond(u);
	struct wait_holder h = {.object = object,
				.goroutine = u->goroutine,
				.proved = proved,
				.reads = reads,
				.place = place_of_frame(w, &u->stack->frames.items[frame])};

	h.why = wait_keep(u->s->w,
			  proved ? "%s took it in line %d and has not released it"
				 : "%s may have taken it in line %d",
			  h.place.function, line);
	return add_holder(u->s, h);
}

/* The possible states of a lock after all frames, from the outermost inwards. */
static struct error *follow(const struct subject *u, const struct lock_frames *l, uint32_t object,
			    bool reads)
{
	const struct wait_graph *w = u->s->w;
	const struct wait_goroutine *g = &w->goroutines[u->goroutine];
	uint64_t lock = w->objects[object].address;
	unsigned int known = LOCK_IS_FREE;
	size_t frame = 0;
	int line = 0;
	bool own = waits_for(w, g, object);
	struct error *err = NULL;

	for (size_t i = l->count; !err && i-- > 0;) {
		const struct lock_frame *f = &l->items[i];
		unsigned int before = known;
		struct lock_question q = {
			.lock = lock,
			.reads = reads,
			.addresses = f->addresses,
			.return_address = stack_pc_address(u->stack->frames.items[f->frame].word),
			/* Also of one that has been woken up and has not taken it yet. */
			.in_progress = own || f->in_lock ? f->in_progress : 0,
			.before = known,
		};

		err = lock_code_ask(f->code, &q, &known);
		if (err || !(known & LOCK_IS_TAKEN) || before & LOCK_IS_TAKEN)
			continue;
		frame = f->frame;
		for (size_t k = 0; k < f->code->event_count; k++)
			if (f->addresses[k] == lock && f->code->events[k].action != LOCK_FREES &&
			    (!q.in_progress || f->code->events[k].line != q.in_progress))
				line = f->code->events[k].line;
	}
	if (err || !(known & LOCK_IS_TAKEN) || is_freed_by_cond(w, g, lock))
		return err;
	return report_lock(u, object, frame, line, reads, known);
}

/* The locks that some frame may have taken. */
static struct error *look_at_locks(const struct subject *u)
{
	_cleanup_(lock_frames_release) struct lock_frames l = {.count = 0};
	struct error *err = list_lock_frames(u, &l);

	for (size_t i = 0; !err && i < l.count; i++) {
		for (size_t k = 0; !err && k < l.items[i].code->event_count; k++) {
			const struct lock_event *e = &l.items[i].code->events[k];
			const uint64_t *object = map_find(&u->s->wanted, l.items[i].addresses[k]);

			if (object && (e->action == LOCK_TAKES || e->action == LOCK_TRIES) &&
			    is_lock(u->s->w->objects[*object - 1].kind))
				err = follow(u, &l, *object - 1, e->reads);
		}
	}
	return err;
}

/* ---- pointers in frames ---- */

/* Whether a deferred call is pending: the byte with a bit for each of them is not 0. */
static bool has_deferred(const struct subject *u, const struct frame *f, const struct go_func *func)
{
	/* The frame pointer lies above the variables, on amd64 the return address too:
	 * runtime/stkframe.go. */
	uint64_t top = f->cfa - (u->s->w->img->machine == MACHINE_AMD64 ? 16 : 8), offset, at, word;

	if (!pclntab_defer_bits(func, &offset) || offset > f->cfa - f->sp)
		return false;
	at = top - offset;
	return wait_stack_word(u->stack, at & ~7ull, &word) && (word >> 8 * (at & 7) & 0xff);
}

/* A closure on the stack, {function, object}, whose function does this. */
static struct error *is_closure(const struct subject *u, uint64_t at, enum lock_action action,
				bool *ret_reads, bool *ret)
{
	const struct lock_code *code = NULL;
	struct error *err = NULL;
	struct go_func f;
	uint64_t entry;

	*ret = false;
	if (!wait_stack_word(u->stack, at - 8, &entry) ||
	    !pclntab_find(&u->s->w->img->functions, entry, &f) || f.entry != entry)
		return NULL;
	err = code_of(u->s, &f, &code);
	for (size_t i = 0; code && i < code->event_count; i++) {
		*ret |= code->events[i].action == action;
		*ret_reads |= code->events[i].action == action && code->events[i].reads;
	}
	return err;
}

/* Whether a frame, or one inside it, frees locks otherwise than by its deferred calls. */
static struct error *frees_by_hand(const struct subject *u, const struct frame *frame, bool *ret)
{
	struct error *err = NULL;

	*ret = is_in_unknown_cond(u);
	for (size_t i = 0; !err && i < u->count; i++) {
		const struct frame *inner = &u->stack->frames.items[i];
		const struct lock_code *code = NULL;
		struct go_func f;

		if (pclntab_find(&u->s->w->img->functions, stack_pc_lookup(inner->word), &f) &&
		    !wait_is_package(f.name, "runtime"))
			err = code_of(u->s, &f, &code);
		*ret |= lock_code_has(code, LOCK_FREES);
		if (inner == frame)
			break;
	}
	return err;
}

/*
 * A pending deferred Unlock or Done of the object, in a closure of the frame. A deferred Unlock is
 * of a lock that the function has, unless it, or what it called, freed it for a while.
 */
static struct error *is_deferred(const struct subject *u, const struct frame *frame,
				 const struct go_func *f, uint64_t at, const struct wait_object *o,
				 bool *ret_reads, bool *ret)
{
	enum lock_action action = is_lock(o->kind) ? LOCK_FREES : LOCK_DONE;
	bool by_hand = false;
	struct error *err;

	*ret = false;
	if (!is_lock(o->kind) && o->kind != WAIT_WAITGROUP)
		return NULL;
	err = is_closure(u, at, action, ret_reads, ret);
	if (err || !*ret)
		return err;
	*ret = has_deferred(u, frame, f);
	if (*ret && is_lock(o->kind))
		err = frees_by_hand(u, frame, &by_hand);
	*ret &= !by_hand;
	return err;
}

/* The function that runs the argument of WaitGroup.Go (from Go 1.25 on), and then calls Done. */
static bool is_group_frame(const struct go_func *f)
{
	return !strcmp(f->name, "sync.(*WaitGroup).Go.func1");
}

static struct error *report_pointer(const struct subject *u, const struct frame *frame,
				    const struct go_func *f, uint64_t at, uint32_t object)
{
	struct wait_graph *w = u->s->w;
	const struct wait_object *o = &w->objects[object];
	struct wait_holder h = {.object = object,
				.goroutine = u->goroutine,
				.place = place_of_frame(w, frame)};
	bool deferred = false;
	struct error *err = is_deferred(u, frame, f, at, o, &h.reads, &deferred);

	if (err ||
	    (is_lock(o->kind) && is_freed_by_cond(w, &w->goroutines[u->goroutine], o->address)))
		return err;
	h.proved = deferred || (o->kind == WAIT_WAITGROUP && is_group_frame(f));
	if (h.proved)
		h.why = wait_keep(w, "%s has a deferred %s", h.place.function,
				  is_lock(o->kind) ? "Unlock" : "Done");
	else
		h.why = wait_keep(w, "%s has a pointer to it", h.place.function);
	return add_holder(u->s, h);
}

static struct error *look_at_frame(const struct subject *u, const struct frame *frame)
{
	const struct wait_graph *w = u->s->w;
	const struct wait_goroutine *g = &w->goroutines[u->goroutine];
	struct error *err = NULL;
	struct go_func f;

	/* Frames of the runtime have pointers to what the goroutine waits for. Frames of package
	 * time have pointers that an earlier call left there. */
	if (!pclntab_find(&w->img->functions, stack_pc_lookup(frame->word), &f) ||
	    wait_is_package(f.name, "runtime") || wait_is_package(f.name, "time") ||
	    (wait_is_package(f.name, "sync") && !is_group_frame(&f) &&
	     strcmp(f.name, "sync.(*Once).doSlow")) ||
	    wait_is_package(f.name, "internal"))
		return NULL;
	for (uint64_t at = frame->sp; !err && at < frame->cfa; at += 8) {
		const uint64_t *object;
		uint64_t word;

		if (!wait_stack_word(u->stack, at, &word) || word < 4096)
			continue;
		object = map_find(&u->s->wanted, word);
		if (!object || waits_for(w, g, *object - 1))
			continue;
		err = report_pointer(u, frame, &f, at, *object - 1);
	}
	return err;
}

/* A writer that waits for the readers of an RWMutex holds its mutex. */
static struct error *add_pending_writers(struct search *s)
{
	struct wait_graph *w = s->w;
	struct error *err = NULL;

	for (size_t i = 0; !err && i < w->object_count; i++) {
		const struct wait_object *o = &w->objects[i];

		for (size_t k = 0; !err && o->kind == WAIT_RWMUTEX && k < o->waiter_count; k++) {
			const struct wait_edge *e = &w->edges[o->waiters[k]];
			const struct wait_goroutine *g = &w->goroutines[e->goroutine];

			if (e->side != WAIT_WRITE || !e->is_pending)
				continue;
			err = add_holder(
				s, (struct wait_holder){
					   .object = i,
					   .goroutine = e->goroutine,
					   .proved = true,
					   .why = "it is the next writer, and waits for readers",
					   .place = g->place});
		}
	}
	return err;
}

static struct error *look_at(struct search *s, uint32_t i)
{
	struct wait_graph *w = s->w;
	_cleanup_wait_stack_ struct wait_stack stack = {0};
	struct subject u = {s, i, &stack, 0};
	bool ok;
	struct error *err = wait_stack_read(w, &w->goroutines[i], WAITS_MAX_STACK, &stack, &ok);

	if (err || !ok)
		return err;
	s->bytes += stack.size;
	w->truncated |= stack.frames.count > WAITS_MAX_FRAMES;
	u.count = stack.frames.count < WAITS_MAX_FRAMES ? stack.frames.count : WAITS_MAX_FRAMES;
	if (s->locks)
		err = look_at_locks(&u);
	for (size_t k = 0; !err && k < u.count; k++)
		err = look_at_frame(&u, &stack.frames.items[k]);
	return err;
}

static struct error *want_objects(struct search *s)
{
	struct wait_graph *w = s->w;

	for (size_t i = 0; i < w->object_count; i++) {
		const struct wait_object *o = &w->objects[i];
		uint64_t *place;

		if (!o->address || !o->known ||
		    (!is_lock(o->kind) && o->kind != WAIT_WAITGROUP && o->kind != WAIT_COND &&
		     o->kind != WAIT_CHANNEL))
			continue;
		s->locks += is_lock(o->kind);
		place = map_at(&s->wanted, o->address);
		if (!place)
			return &error_no_memory;
		/* A mutex is the first member of an RWMutex. */
		if (!*place || o->kind == WAIT_RWMUTEX)
			*place = i + 1;
	}
	return NULL;
}

static int compare_holders(const void *a, const void *b, void *arg)
{
	const struct wait_graph *w = arg;
	const struct wait_holder *x = a, *y = b;

	if (x->object != y->object)
		return x->object < y->object ? -1 : 1;
	if (x->proved != y->proved)
		return x->proved ? -1 : 1;
	return w->goroutines[x->goroutine].id < w->goroutines[y->goroutine].id ? -1 : 1;
}

/* With a proved holder, candidates are dropped, except for a WaitGroup or readers: these may have
 * several holders. */
static void settle(struct wait_graph *w)
{
	size_t n = 0;

	if (!w->holder_count)
		return;
	qsort_r(w->holders, w->holder_count, sizeof(*w->holders), compare_holders, w);
	for (size_t i = 0; i < w->object_count; i++)
		w->objects[i].holder_count = 0;
	for (size_t i = 0; i < w->holder_count; i++) {
		struct wait_object *o = &w->objects[w->holders[i].object];

		if (!o->holder_count)
			o->holders = &w->holders[n];
		if (!w->holders[i].proved && o->holder_count && o->holders[0].proved &&
		    is_lock(o->kind))
			continue;
		/* An unlocked lock is about to be taken by a waiter. */
		if (is_lock(o->kind) && !o->locked && !o->writer)
			continue;
		w->holders[n++] = w->holders[i];
		o->holder_count++;
	}
	w->holder_count = n;
}

struct error *wait_graph_find_holders(struct wait_graph *w)
{
	_cleanup_(search_close) struct search s = {.w = w};
	struct error *err = want_objects(&s);

	if (!err)
		err = add_pending_writers(&s);
	for (size_t i = 0; !err && s.wanted.count && i < w->count; i++) {
		const struct wait_goroutine *g = &w->goroutines[i];

		if (w->options.stop && atomic_load(w->options.stop))
			return &error_stopped;
		if (!g->alive || g->changed || (g->system && !w->options.system))
			continue;
		if (s.bytes > MAX_ALL_STACKS) {
			w->truncated = true;
			break;
		}
		err = look_at(&s, i);
	}
	if (!err)
		settle(w);
	return err;
}
