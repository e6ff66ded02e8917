/*
 * How goroutines use their stacks. A frame's size is in the function table (pcsp): it depends on
 * the pc alone, so it is found once for each distinct stack, whatever the number of goroutines in
 * it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "footprint/division.h"

#define STACK_LIMIT (64u << 20) /* deeper ones are cut */
#define MOST_INLINED 64
#define MOST_THREADS (1u << 22)
#define RETURN_ADDRESS 8 /* amd64: the call puts it above the frame */

/* What is known of a pc: its function, and the bytes of its frame. */
struct place {
	uint32_t function; /* in use->functions */
	uint32_t bytes;
};

struct reading {
	struct parts *p;
	struct dump *dump;
	struct map functions; /* entry -> place in use->functions + 1 */
	struct map places;    /* pc -> place + 1 in items */
	struct place *items;
	size_t count;
	size_t capacity;
	struct map per_stack; /* the stack's number -> bytes of its frames + 1 */
	struct map creators;  /* name -> place in footprint's creators + 1 */
};

static void reading_release(struct reading *r)
{
	dump_destroy(r->dump);
	map_release(&r->functions);
	map_release(&r->places);
	map_release(&r->per_stack);
	map_release(&r->creators);
	free(r->items);
}

void stack_use_release(struct stack_use *use)
{
	free(use->spans);
	free(use->functions);
	free(use->threads);
	*use = (struct stack_use){0};
}

/* ---- frames ---- */

static struct error *must_check function_of(struct reading *r, const struct go_func *f,
					    uint32_t *ret)
{
	struct stack_use *use = &r->p->stacks;
	uint64_t *place = map_at(&r->functions, f->entry);

	if (!place ||
	    !array_reserve(&use->functions, &use->function_capacity, use->function_count + 1))
		return &error_no_memory;
	if (!*place) {
		use->functions[use->function_count++] =
			(struct function_frames){.entry = f->entry, .name = f->name};
		*place = use->function_count;
	}
	*ret = *place - 1;
	return NULL;
}

/* A word outside all functions has no frame that gospect knows. */
static struct error *must_check look_up(struct reading *r, uint64_t word, struct place *ret)
{
	uint64_t pc = stack_pc_lookup(word);
	struct go_func f;
	int32_t delta;

	*ret = (struct place){UINT32_MAX, 0};
	if (stack_pc_is_pseudo(word) || !pclntab_find(&r->p->img->functions, pc, &f))
		return NULL;
	delta = pclntab_sp_delta(&f, pc);
	if (delta < 0)
		return NULL;
	ret->bytes = delta + (r->p->img->machine == MACHINE_AMD64 ? RETURN_ADDRESS : 0);
	return function_of(r, &f, &ret->function);
}

static struct error *must_check place_of(struct reading *r, uint64_t word, struct place *ret)
{
	uint64_t *known = map_at(&r->places, word);
	struct error *err;

	if (!known)
		return &error_no_memory;
	if (*known) {
		*ret = r->items[*known - 1];
		return NULL;
	}
	err = look_up(r, word, ret);
	if (err)
		return err;
	if (!array_reserve(&r->items, &r->capacity, r->count + 1))
		return &error_no_memory;
	r->items[r->count++] = *ret;
	*known = r->count;
	return NULL;
}

/* Credits the functions of a stack with their frames in `count` goroutines. */
static struct error *must_check add_stack(struct reading *r, uint32_t id, uint64_t count,
					  uint64_t *ret_bytes)
{
	struct stack s = stacks_get(goroutine_set_stacks(r->dump->set), id);

	*ret_bytes = 0;
	for (uint32_t i = 0; i < s.count; i++) {
		struct place place;
		struct error *err = place_of(r, s.pcs[i], &place);

		if (err)
			return err;
		*ret_bytes += place.bytes;
		if (place.function != UINT32_MAX)
			r->p->stacks.functions[place.function].bytes += place.bytes * count;
	}
	return NULL;
}

/* First how many goroutines have each stack; then, in its place, the bytes of one. */
static struct error *must_check add_stacks(struct reading *r)
{
	const struct dump *dump = r->dump;
	struct error *err = NULL;

	for (size_t i = 0; i < dump->count; i++) {
		uint64_t *count = dump_has_stack(&dump->items[i])
					  ? map_at(&r->per_stack, dump->items[i].stack)
					  : NULL;

		if (!count && dump_has_stack(&dump->items[i]))
			return &error_no_memory;
		if (count)
			++*count;
		else
			r->p->f->unknown++;
	}
	for (size_t i = 0; !err && i < r->per_stack.capacity; i++) {
		struct map_slot *slot = &r->per_stack.slots[i];
		uint64_t bytes = 0;

		if (slot->key == MAP_NO_KEY)
			continue;
		err = add_stack(r, slot->key, slot->value, &bytes);
		slot->value = bytes;
		if (!err)
			err = cancel_check(r->p->cancel);
	}
	return err;
}

/* ---- where goroutines' stacks are ---- */

static struct error *must_check creator_of(struct reading *r, const struct dump_goroutine *g,
					   struct footprint_creator **ret)
{
	struct go_frame frames[MOST_INLINED];
	struct footprint *f = r->p->f;
	size_t n = g->go_pc ? pclntab_frames(&r->p->img->functions, g->go_pc, frames,
					     ARRAY_SIZE(frames))
			    : 0;
	uint32_t name = intern_string(&f->tree.names, n ? frames[0].function : "(unknown)");
	uint64_t *place = name == INTERN_FAILED ? NULL : map_at(&r->creators, name);

	if (!place || !array_reserve(&f->creators, &f->creator_capacity, f->creator_count + 1))
		return &error_no_memory;
	if (!*place) {
		f->creators[f->creator_count++] = (struct footprint_creator){.name = name};
		*place = f->creator_count;
	}
	*ret = &f->creators[*place - 1];
	return NULL;
}

static struct error *must_check add_goroutine(struct reading *r, const struct dump_goroutine *g,
					      const struct thread_stack *stack)
{
	const uint64_t *known = dump_has_stack(g) ? map_find(&r->per_stack, g->stack) : NULL;
	const struct heap_spans *spans = &r->p->spans;
	const struct heap_span *span = heap_spans_find(spans, stack->lo);
	uint64_t size = stack->hi > stack->lo ? stack->hi - stack->lo : 0, frames;
	struct footprint_creator *creator;
	struct error *err = creator_of(r, g, &creator);

	if (err)
		return err;
	/* The stack was given back, or the memory makes no sense. */
	if (!span || span->state != SPAN_MANUAL || size > span->size - (stack->lo - span->start))
		return NULL;
	frames = known && *known < size ? *known : known ? size : 0;
	creator->goroutines++;
	creator->stack_bytes += size;
	creator->frame_bytes += frames;
	r->p->stacks.spans[span - spans->items].frames += frames;
	r->p->stacks.spans[span - spans->items].stacks += size;
	return NULL;
}

static struct error *must_check add_goroutines(struct reading *r)
{
	const struct golayout_numbers *n = &r->p->lay->n;
	size_t count = r->dump->count;
	_cleanup_free_ struct thread_stack *stacks = calloc(count + 1, sizeof(*stacks));
	_cleanup_free_ struct target_range *ranges = calloc(2 * count + 1, sizeof(*ranges));
	_cleanup_free_ bool *ok = calloc(2 * count + 1, sizeof(*ok));
	struct error *err;

	if (!stacks || !ranges || !ok)
		return &error_no_memory;
	for (size_t i = 0; i < count; i++) {
		uint64_t g = r->dump->items[i].g;

		ranges[2 * i] = (struct target_range){g_at_stack_lo(n, g), 8, &stacks[i].lo};
		ranges[2 * i + 1] = (struct target_range){g_at_stack_hi(n, g), 8, &stacks[i].hi};
	}
	err = target_read_each(r->p->t, ranges, 2 * count, ok);
	for (size_t i = 0; !err && i < count; i++)
		if (ok[2 * i] && ok[2 * i + 1])
			err = add_goroutine(r, &r->dump->items[i], &stacks[i]);
	r->p->f->goroutines = count;
	return err;
}

/* ---- the stacks of threads ---- */

static struct error *must_check add_thread_stack(struct parts *p, uint64_t g)
{
	const struct golayout_numbers *n = &p->lay->n;
	struct stack_use *use = &p->stacks;
	struct thread_stack s = {0};
	const struct heap_span *span;

	if (!g || error_dropped(target_read_u64(p->t, g_at_stack_lo(n, g), &s.lo)) ||
	    error_dropped(target_read_u64(p->t, g_at_stack_hi(n, g), &s.hi)) || s.hi <= s.lo)
		return NULL;
	span = heap_spans_find(&p->spans, s.lo);
	if (span && s.hi - s.lo <= span->size) {
		use->spans[span - p->spans.items].threads += s.hi - s.lo;
		return NULL;
	}
	if (!array_reserve(&use->threads, &use->thread_capacity, use->thread_count + 1))
		return &error_no_memory;
	use->threads[use->thread_count++] = s;
	return NULL;
}

static struct error *must_check add_threads(struct parts *p)
{
	const struct golayout_numbers *n = &p->lay->n;
	_cleanup_map_ struct map seen = {0};
	uint64_t m = 0, g;
	struct error *err = target_read_u64(p->t, p->lay->v.allm, &m);

	while (!err && m) {
		uint64_t *known = map_at(&seen, m);

		if (!known)
			return &error_no_memory;
		/* An m may be freed meanwhile: what follows it is not known then. */
		if (*known || seen.count > MOST_THREADS)
			return NULL;
		*known = 1;
		if (!error_dropped(target_read_u64(p->t, m_at_g0(n, m), &g)))
			err = add_thread_stack(p, g);
		if (!err && !error_dropped(target_read_u64(p->t, m_at_gsignal(n, m), &g)))
			err = add_thread_stack(p, g);
		if (!err && error_dropped(target_read_u64(p->t, m_at_alllink(n, m), &m)))
			return NULL;
	}
	return err && err->code == ERROR_FAULT ? NULL : err;
}

/* ---- all ---- */

static int by_stack(const void *a, const void *b)
{
	const struct footprint_creator *x = a, *y = b;

	if (x->stack_bytes != y->stack_bytes)
		return x->stack_bytes < y->stack_bytes ? 1 : -1;
	return (x->name > y->name) - (x->name < y->name);
}

struct error *stack_use_read(struct parts *p, const struct unwinding *unwind)
{
	const struct dump_options options = {.stack_limit = STACK_LIMIT,
					     .system = true,
					     .parked_only = true,
					     .unwind = *unwind,
					     .stop = p->cancel};
	struct reading r = {.p = p};
	struct error *err = dump_collect(p->t, p->img, p->lay, &options, &r.dump);

	p->stacks.spans = calloc(p->spans.count + 1, sizeof(*p->stacks.spans));
	if (!err && !p->stacks.spans)
		err = &error_no_memory;
	if (!err)
		err = add_stacks(&r);
	if (!err)
		err = add_goroutines(&r);
	if (!err)
		err = add_threads(p);
	if (!err && p->f->creator_count)
		qsort(p->f->creators, p->f->creator_count, sizeof(*p->f->creators), by_stack);
	if (!err)
		p->f->taken = r.dump->taken;
	reading_release(&r);
	return err;
}
