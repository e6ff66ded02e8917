#include "heapgraph/heap_stacks.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

/* Of a deferred call that lies on the stack, up to the link to the next: runtime._defer. */
#define RECORD_BYTES 56
#define MAX_RECORDS 4096u
#define MAX_OBJECTS (1u << 20)
#define ARM64_FRAME_RECORD 16

/* A variable on the stack. */
struct object {
	uint64_t address;
	uint32_t size;
	bool seen;
};

struct scan {
	const struct image *img;
	const struct heap_stack *stack;
	const struct heap_stack_visit *visit;
	const uint8_t *bytes; /* from `low` on */
	uint64_t low;
	struct frames frames;
	struct object *objects;
	size_t object_count;
	size_t object_capacity;
	uint64_t *pending; /* addresses on the stack that a live word leads to */
	size_t pending_count;
	size_t pending_capacity;
	bool any_word; /* of the next frame */
	bool failed;   /* no memory */
};

static void scan_release(struct scan *s)
{
	frames_release(&s->frames);
	free(s->objects);
	free(s->pending);
}

/* ---- words ---- */

static void visit_word(struct scan *s, uint64_t address)
{
	uint64_t word;

	if (address < s->low || address % 8 || address > s->stack->hi - 8)
		return;
	memcpy(&word, s->bytes + (address - s->low), sizeof(word));
	if (!word)
		return;
	if (word < s->stack->lo || word >= s->stack->hi) {
		s->visit->visit.word(s->visit->visit.arg, address, word);
		return;
	}
	if (!array_reserve(&s->pending, &s->pending_capacity, s->pending_count + 1))
		s->failed = true;
	else
		s->pending[s->pending_count++] = word;
}

static void visit_range(struct scan *s, uint64_t from, uint64_t to)
{
	from = from < s->low ? s->low : (from + 7) & ~7ull;
	for (uint64_t at = from; at < to && at < s->stack->hi; at += 8)
		visit_word(s, at);
}

static void visit_bits(struct scan *s, uint64_t from, const struct stack_bits *bits)
{
	for (uint32_t i = 0; i < bits->count; i++) {
		uint64_t at = from + 8 * (uint64_t)i;

		if (at >= s->stack->hi)
			return;
		if (bits->bits[i / 8] >> i % 8 & 1)
			visit_word(s, at);
	}
}

/* ---- frames ---- */

/* What lies where in a frame: runtime/traceback.go. */
struct place {
	uint64_t sp;
	uint64_t locals_end; /* varp */
	uint64_t args;       /* argp */
	uint64_t min_locals;
};

static struct place place_of(const struct scan *s, const struct frame *f)
{
	bool arm64 = s->img->machine == MACHINE_ARM64;
	struct place p = {f->sp, f->cfa, f->cfa, 0};

	if (arm64) {
		p.args += 8;
		p.min_locals = 16;
	} else {
		p.locals_end -= 8; /* the return address */
	}
	/* The caller's frame pointer. */
	if (p.locals_end > p.sp)
		p.locals_end -= 8;
	return p;
}

static bool is_named(const struct go_func *f, const char *name)
{
	return !strcmp(f->name, name);
}

static void add_objects(struct scan *s, const struct stack_map *map, const struct place *p)
{
	for (size_t i = 0; i < map->object_count && s->object_count < MAX_OBJECTS; i++) {
		struct stack_object o = stack_map_object(map, i);
		uint64_t at = (o.offset < 0 ? p->locals_end : p->args) + (int64_t)o.offset;

		if (at < p->sp || at >= s->stack->hi || at < s->low)
			continue;
		if (!array_reserve(&s->objects, &s->object_capacity, s->object_count + 1)) {
			s->failed = true;
			return;
		}
		s->objects[s->object_count++] = (struct object){at, o.pointer_bytes, false};
	}
}

/* The function's arguments, when each of their words may be a pointer. */
static void visit_all_args(struct scan *s, const struct go_func *f, const struct place *p)
{
	if (f->args > 0)
		visit_range(s, p->args, p->args + (uint32_t)f->args);
	else if (f->args < 0)
		s->any_word = true; /* they lie in the caller's frame */
}

/* False: the maps do not tell. */
static bool visit_precisely(struct scan *s, const struct frame *frame, const struct go_func *f,
			    const struct place *p)
{
	uint64_t size = p->locals_end > p->sp ? p->locals_end - p->sp : 0;
	struct stack_map map;

	if (!pclntab_stack_map(f, stack_pc_address(frame->word), &map))
		return false;
	if ((size > p->min_locals && !map.has_locals) || f->args < 0 ||
	    (f->args > 0 && !map.has_args))
		return false;
	if (size > p->min_locals)
		visit_bits(s, p->locals_end - 8 * (uint64_t)map.locals.count, &map.locals);
	if (f->args > 0)
		visit_bits(s, p->args, &map.args);
	add_objects(s, &map, p);
	return true;
}

static void visit_frame(struct scan *s, size_t i)
{
	const struct frame *frame = &s->frames.items[i];
	struct place p = place_of(s, frame);
	bool any_word = s->any_word, interrupted;
	struct go_func f;

	if (!frame->cfa || frame->cfa <= frame->sp || frame->cfa > s->stack->hi)
		return;
	if (s->visit->frame)
		s->visit->frame(s->visit->visit.arg, frame->word, frame->cfa);
	s->any_word = false;
	if (!pclntab_find(&s->img->functions, stack_pc_lookup(frame->word), &f)) {
		visit_range(s, p.sp, frame->cfa);
		s->any_word = true;
		return;
	}
	/* This frame has the registers of the one that a signal interrupted. */
	interrupted = is_named(&f, "runtime.asyncPreempt") || is_named(&f, "runtime.debugCallV2") ||
		      is_named(&f, "runtime.sigpanic");
	if (any_word || interrupted || !visit_precisely(s, frame, &f, &p)) {
		visit_range(s, p.sp, frame->cfa);
		visit_all_args(s, &f, &p);
		s->any_word |= interrupted;
	}
}

/* ---- variables that live words lead to ---- */

static int compare_objects(const void *a, const void *b)
{
	const struct object *x = a, *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

static struct object *object_at(const struct scan *s, uint64_t address)
{
	size_t low = 0, high = s->object_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->objects[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &s->objects[low - 1] : NULL;
}

static void follow_pending(struct scan *s)
{
	while (s->pending_count && !s->failed) {
		uint64_t address = s->pending[--s->pending_count];
		struct object *o = object_at(s, address);

		/* Its pointers come first: an address behind them is in it all the same. */
		if (!o || o->seen)
			continue;
		o->seen = true;
		visit_range(s, o->address, o->address + o->size);
	}
}

/* Deferred calls and panics that the g leads to. Each is linked to the next. */
struct records {
	uint64_t *items;
	size_t count;
	size_t capacity;
};

static void add_record(struct scan *s, struct records *r, uint64_t address)
{
	for (size_t i = 0; i < r->count; i++)
		if (r->items[i] == address)
			return;
	if (r->count >= MAX_RECORDS || address < s->low || address >= s->stack->hi)
		return;
	if (!array_reserve(&r->items, &r->capacity, r->count + 1))
		s->failed = true;
	else
		r->items[r->count++] = address;
}

static void follow_records(struct scan *s)
{
	struct records r = {0};

	for (size_t i = 0; i < s->stack->from_g_count; i++)
		add_record(s, &r, s->stack->from_g[i]);
	for (size_t i = 0; i < r.count; i++) {
		const struct object *o = object_at(s, r.items[i]);
		size_t before = s->pending_count;

		if (o && r.items[i] - o->address < o->size) {
			visit_range(s, o->address, o->address + o->size);
		} else {
			visit_range(s, r.items[i], r.items[i] + RECORD_BYTES);
		}
		for (size_t k = before; k < s->pending_count; k++)
			add_record(s, &r, s->pending[k]);
	}
	free(r.items);
}

static void visit_frames(struct scan *s)
{
	const struct frames *frames = &s->frames;
	uint64_t end = s->stack->sp;

	for (size_t i = 0; i < frames->count; i++) {
		visit_frame(s, i);
		if (frames->items[i].cfa)
			end = frames->items[i].cfa;
	}
	if (frames->end != FRAMES_WHOLE || !frames->count)
		visit_range(s, frames->count ? end : s->stack->sp, s->stack->hi);
	if (s->object_count)
		qsort(s->objects, s->object_count, sizeof(*s->objects), compare_objects);
	if (s->visit->frame)
		s->visit->frame(s->visit->visit.arg, 0, 0);
	follow_records(s);
	follow_pending(s);
}

/* ---- reading ---- */

static struct error *must_check unwind(struct scan *s, const uint8_t *bytes, size_t below)
{
	const struct heap_stack *stack = s->stack;
	struct stack_memory memory = {.pc = stack->pc,
				      .sp = stack->sp,
				      .fp = stack->fp,
				      .lr = stack->lr,
				      .bytes = bytes + below,
				      .size = stack->hi - stack->sp,
				      .below = below,
				      .whole = true};

	return frames_unwind(&s->img->functions, s->img->machine, &memory, &s->frames);
}

struct error *heap_stack_visit(struct target *t, const struct image *img,
			       const struct heap_stack *stack, const struct heap_stack_visit *visit,
			       bool *ret_ok)
{
	__attribute__((cleanup(scan_release))) struct scan s = {.img = img,
								.stack = stack,
								.visit = visit};
	uint64_t from = stack->runs ? stack->lo : stack->sp;
	size_t below = !stack->runs && img->machine == MACHINE_ARM64 ? ARM64_FRAME_RECORD : 0;
	_cleanup_free_ uint8_t *bytes = NULL;
	struct error *err;

	*ret_ok = false;
	if (from < 4096 || from % 8 || from < stack->lo || from >= stack->hi || stack->hi % 8 ||
	    stack->hi - from > HEAP_MAX_STACK)
		return NULL;
	bytes = malloc(below + stack->hi - from);
	if (!bytes)
		return &error_no_memory;
	err = target_read(t, from - below, bytes, below + stack->hi - from);
	if (err && err->code != ERROR_FAULT)
		return err;
	if (error_dropped(err))
		return NULL;
	s.bytes = bytes + below;
	s.low = from;
	if (stack->runs) {
		if (visit->frame)
			visit->frame(visit->visit.arg, 0, 0);
		visit_range(&s, stack->lo, stack->hi);
	} else {
		err = unwind(&s, bytes, below);
		if (!err)
			visit_frames(&s);
	}
	*ret_ok = !err && !s.failed;
	return err ? err : s.failed ? &error_no_memory : NULL;
}
