#include "heapgraph/heap_objects.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define ARENA_BYTES ((uint64_t)HEAP_CHUNK_PAGES * HEAP_PAGE)
/* arenaBaseOffset of amd64: runtime/malloc.go. */
#define AMD64_ARENA_OFFSET 0xffff800000000000ull
/* minSizeForMallocHeader, and the bytes of spanInlineMarkBits. */
#define MAX_WITHOUT_HEADER 512u
#define INLINE_MARKS 128u
#define MIN_WITH_INLINE_MARKS 16u
#define HEADER 8u
/* The most bytes of one call, and of one piece of a span. */
#define PIECE (1u << 20)
#define PIECES HEAP_BATCH
/* Beside the bytes of objects: their bits in the runtime's arenas. */
#define BITS (PIECE / 32)
#define MORE_BITS (PIECE / 4096)
#define FIRST_IN_SPAN 22
#define FIRST_ONE_BIT 20
#define FIRST_INLINE_MARKS 26

/* Some bytes of a span, and the bits of their words. */
struct piece {
	struct object_span *span;
	uint64_t address;
	size_t size;
	const uint8_t *bytes;
	const uint8_t *bits;
	const uint8_t *no_more;
	bool ok;
};

/* An object that goes on in the next piece. */
struct progress {
	uint64_t object; /* its place in the span + 1; 0: none */
	bool wanted;
	bool stopped; /* it has no more pointers */
};

static bool says(const char *version, const char *experiment)
{
	const char *at = strstr(version, experiment);

	return at && at > version && (at[-1] == ':' || at[-1] == ',');
}

static enum heap_layout layout_of(const struct image *img, const struct golayout *lay)
{
	if (lay->minor < FIRST_ONE_BIT)
		return HEAP_TWO_BITS;
	if (lay->minor < FIRST_IN_SPAN)
		return HEAP_ONE_BIT;
	return says(img->info.version, "noallocheaders") ? HEAP_ANY_WORD : HEAP_IN_SPAN;
}

static bool has_inline_marks(const struct image *img, const struct golayout *lay)
{
	if (lay->minor < FIRST_INLINE_MARKS)
		return says(img->info.version, "greenteagc");
	return !says(img->info.version, "nogreenteagc");
}

struct error *heap_objects_open(struct target *t, const struct image *img,
				const struct golayout *lay, uint64_t mheap,
				struct heap_objects *ret)
{
	*ret = (struct heap_objects){
		.t = t,
		.lay = lay,
		.mheap = mheap,
		.layout = layout_of(img, lay),
		.has_inline_marks = has_inline_marks(img, lay),
		.arena_offset = img->machine == MACHINE_ARM64 ? 0 : AMD64_ARENA_OFFSET,
		.types = {.t = t, .minor = lay->minor},
	};
	ret->buffer = malloc(PIECE + BITS + MORE_BITS);
	return ret->buffer ? NULL : &error_no_memory;
}

void heap_objects_release(struct heap_objects *o)
{
	heap_types_release(&o->types);
	map_release(&o->arenas);
	free(o->buffer);
	*o = (struct heap_objects){0};
}

/* ---- the pointers of an object, from `from` to `to` of it, which are within the piece ---- */

static uint64_t word_of(const struct piece *p, uint64_t address)
{
	uint64_t word;

	memcpy(&word, p->bytes + (address - p->address), sizeof(word));
	return word;
}

static void visit_at(const struct piece *p, uint64_t address, const struct heap_visit *visit)
{
	uint64_t word = word_of(p, address);

	if (word)
		visit->word(visit->arg, address, word);
}

static void visit_all(const struct piece *p, uint64_t from, uint64_t to,
		      const struct heap_visit *visit)
{
	for (uint64_t at = from; at < to; at += 8)
		visit_at(p, at, visit);
}

/* False: the object has no more pointers. */
static bool visit_two_bits(const struct piece *p, uint64_t from, uint64_t to,
			   const struct heap_visit *visit)
{
	for (uint64_t at = from; at < to; at += 8) {
		uint64_t word = (at - p->address) / 8;
		uint8_t bits = p->bits[word / 4] >> word % 4;

		if (!(bits & 16))
			return false;
		if (bits & 1)
			visit_at(p, at, visit);
	}
	return true;
}

static bool visit_one_bit(const struct piece *p, uint64_t from, uint64_t to,
			  const struct heap_visit *visit)
{
	for (uint64_t at = from; at < to; at += 8) {
		uint64_t word = (at - p->address) / 8, group = word / 64;

		if (p->bits[word / 8] >> word % 8 & 1)
			visit_at(p, at, visit);
		if (word % 64 == 63 && p->no_more[group / 8] >> group % 8 & 1)
			return false;
	}
	return true;
}

static void visit_in_span(const struct heap_objects *o, const struct piece *p, uint64_t from,
			  uint64_t to, const struct heap_visit *visit)
{
	const struct object_span *span = p->span;
	uint64_t size = span->end - span->start, map = size - size / 64;

	if (o->has_inline_marks && span->object_size >= MIN_WITH_INLINE_MARKS)
		map -= INLINE_MARKS;
	for (uint64_t at = from; at < to; at += 8) {
		uint64_t word = (at - span->start) / 8;

		if (p->bytes[map + word / 8] >> word % 8 & 1)
			visit_at(p, at, visit);
	}
}

/* Values of one type from `base` on. */
static void visit_typed(const struct heap_type *type, const struct piece *p, uint64_t base,
			uint64_t from, uint64_t to, const struct heap_visit *visit)
{
	uint64_t element = base + (from - base) / type->size * type->size;

	if (!type->pointer_bytes)
		return;
	for (; element < to; element += type->size) {
		for (uint64_t i = element < from ? (from - element) / 8 : 0;
		     i < type->pointer_bytes / 8; i++) {
			uint64_t at = element + i * 8;

			if (at + 8 > to)
				return;
			if (heap_type_points(type, i))
				visit_at(p, at, visit);
		}
	}
}

/* From Go 1.22 on. `base` is where the object begins. */
static struct error *must_check visit_with_type(struct heap_objects *o, const struct piece *p,
						uint64_t base, uint64_t from, uint64_t to,
						const struct heap_visit *visit)
{
	const struct object_span *span = p->span;
	uint64_t address = span->large_type;
	const struct heap_type *type;
	struct error *err;

	if (span->size_class) {
		/* An object larger than a piece has a span of its own. */
		address = word_of(p, base);
		base += HEADER;
		from = from < base ? base : from;
		if (!address)
			return NULL;
	}
	err = heap_types_get(&o->types, address, &type);
	if (err)
		return err;
	if (type)
		visit_typed(type, p, base, from, to, visit);
	else
		visit_all(p, from, to, visit);
	return NULL;
}

static struct error *must_check visit_object(struct heap_objects *o, const struct piece *p,
					     uint64_t base, uint64_t from, uint64_t to,
					     struct progress *progress,
					     const struct heap_visit *visit)
{
	bool more = true;

	if (o->layout == HEAP_TWO_BITS)
		more = visit_two_bits(p, from, to, visit);
	else if (o->layout == HEAP_ONE_BIT)
		more = visit_one_bit(p, from, to, visit);
	else if (o->layout == HEAP_ANY_WORD)
		visit_all(p, from, to, visit);
	else if (p->span->object_size > MAX_WITHOUT_HEADER)
		return visit_with_type(o, p, base, from, to, visit);
	else
		visit_in_span(o, p, from, to, visit);
	progress->stopped = !more;
	return NULL;
}

/* ---- the objects of a piece ---- */

static struct error *must_check visit_in_piece(struct heap_objects *o, const struct piece *p,
					       uint32_t index, struct progress *progress,
					       const struct heap_choice *choice,
					       const struct heap_visit *visit)
{
	struct object_span *span = p->span;
	uint64_t base = span->start + index * span->object_size, end = p->address + p->size;
	uint64_t to = base + span->object_size < end ? base + span->object_size : end;

	if (progress->object != (uint64_t)index + 1)
		*progress = (struct progress){
			.object = (uint64_t)index + 1,
			.wanted = choice->wanted(choice->arg, (struct heap_object){span, index},
						 p->bytes + (base - p->address), to - base),
		};
	if (!progress->wanted || progress->stopped)
		return NULL;
	return visit_object(o, p, base, base < p->address ? p->address : base, to, progress, visit);
}

/* A whole span. wanted() clears the bit of each object, so that this ends. */
static struct error *must_check visit_pending(struct heap_objects *o, const struct piece *p,
					      const struct heap_choice *choice,
					      const struct heap_visit *visit)
{
	const struct object_span *span = p->span;
	uint32_t i = object_span_next(span, choice->pending, 0);
	struct error *err = NULL;

	while (i < span->count && !err) {
		struct progress progress = {0};

		err = visit_in_piece(o, p, i, &progress, choice, visit);
		i = object_span_next(span, choice->pending, i + 1);
	}
	return err;
}

static bool is_whole(const struct piece *p)
{
	const struct object_span *span = p->span;

	return p->address == span->start && p->size >= (uint64_t)span->count * span->object_size;
}

static struct error *must_check visit_piece(struct heap_objects *o, const struct piece *p,
					    struct progress *progress,
					    const struct heap_choice *choice,
					    const struct heap_visit *visit)
{
	struct object_span *span = p->span;
	uint64_t first = (p->address - span->start) / span->object_size;
	uint64_t end = p->address + p->size;
	struct error *err = NULL;

	if (choice->pending && is_whole(p))
		return visit_pending(o, p, choice, visit);
	for (uint64_t i = first; i < span->count && !err; i++) {
		if (span->start + i * span->object_size >= end)
			break;
		err = visit_in_piece(o, p, (uint32_t)i, progress, choice, visit);
	}
	return err;
}

/* ---- reading ---- */

/* The heapArena of an address; 0: there is none. */
static struct error *must_check arena_of(struct heap_objects *o, uint64_t address, uint64_t *ret)
{
	uint64_t number = (address - o->arena_offset) / ARENA_BYTES, table, arena = 0;
	const uint64_t *known = map_find(&o->arenas, number);
	uint64_t *place;
	struct error *err;

	if (known) {
		*ret = *known - 1;
		return NULL;
	}
	err = target_read_u64(o->t, heap_at_arenas(&o->lay->n, o->mheap), &table);
	if (!err)
		err = target_read_u64(o->t, table + number * 8, &arena);
	if (err && err->code != ERROR_FAULT)
		return err;
	error_destroy(err);
	place = map_at(&o->arenas, number);
	if (!place)
		return &error_no_memory;
	*place = arena + 1;
	*ret = arena;
	return NULL;
}

/* What is read: pieces, each with the bits of its words. */
struct reading {
	struct piece pieces[PIECES];
	struct target_range ranges[PIECES * 3];
	bool ok[PIECES * 3];
	size_t count;
	size_t range_count;
	size_t bytes, bits, more; /* used of the buffer */
};

static uint8_t *add_range(struct reading *r, uint64_t address, size_t size, uint8_t *buffer)
{
	r->ranges[r->range_count++] = (struct target_range){address, size, buffer};
	return buffer;
}

static struct error *must_check add_piece(struct heap_objects *o, struct reading *r,
					  struct object_span *span, uint64_t address, size_t size)
{
	struct piece *p = &r->pieces[r->count++];
	uint64_t arena, in_arena = address % ARENA_BYTES;
	struct error *err;

	*p = (struct piece){.span = span, .address = address, .size = size};
	p->bytes = add_range(r, address, size, o->buffer + r->bytes);
	r->bytes += size;
	if (o->layout != HEAP_TWO_BITS && o->layout != HEAP_ONE_BIT)
		return NULL;
	err = arena_of(o, address, &arena);
	if (err)
		return err;
	p->bits = add_range(r,
			    arena_at_bitmap(&o->lay->n, arena) +
				    in_arena / (o->layout == HEAP_TWO_BITS ? 32 : 64),
			    size / (o->layout == HEAP_TWO_BITS ? 32 : 64),
			    o->buffer + PIECE + r->bits);
	r->bits += size / 32;
	if (o->layout == HEAP_TWO_BITS)
		return NULL;
	p->no_more = add_range(r, arena_at_no_more(&o->lay->n, arena) + in_arena / 4096,
			       size / 4096, o->buffer + PIECE + BITS + r->more);
	r->more += size / 4096;
	return NULL;
}

/* Reads what was added. */
static struct error *must_check read_pieces(struct heap_objects *o, struct reading *r)
{
	size_t each = r->count ? r->range_count / r->count : 0;
	struct error *err = target_read_each(o->t, r->ranges, r->range_count, r->ok);

	for (size_t i = 0; !err && i < r->count; i++) {
		bool ok = true;

		for (size_t k = 0; k < each; k++)
			ok &= r->ok[i * each + k];
		r->pieces[i].ok = ok;
		if (!ok)
			o->unread += r->pieces[i].size;
	}
	return err;
}

static void reading_reset(struct reading *r)
{
	r->count = r->range_count = r->bytes = r->bits = r->more = 0;
}

static struct error *must_check finish(struct heap_objects *o, struct reading *r,
				       const struct heap_choice *choice,
				       const struct heap_visit *visit)
{
	struct error *err = r->count ? read_pieces(o, r) : NULL;

	for (size_t i = 0; i < r->count && !err; i++) {
		struct progress progress = {0};

		if (r->pieces[i].ok)
			err = visit_piece(o, &r->pieces[i], &progress, choice, visit);
	}
	reading_reset(r);
	return err;
}

/* A span that is larger than a piece, or lies in two arenas. */
static struct error *must_check visit_large(struct heap_objects *o, struct reading *r,
					    struct object_span *span,
					    const struct heap_choice *choice,
					    const struct heap_visit *visit)
{
	uint64_t end = span->start + span->count * span->object_size;
	struct progress progress = {0};
	struct error *err = NULL;

	end = (end + HEAP_PAGE - 1) / HEAP_PAGE * HEAP_PAGE;
	for (uint64_t at = span->start, size; at < end && !err; at += size) {
		size = end - at < PIECE ? end - at : PIECE;
		if (size > ARENA_BYTES - at % ARENA_BYTES)
			size = ARENA_BYTES - at % ARENA_BYTES;
		reading_reset(r);
		err = add_piece(o, r, span, at, size);
		if (!err)
			err = read_pieces(o, r);
		if (!err && r->pieces[0].ok)
			err = visit_piece(o, &r->pieces[0], &progress, choice, visit);
		if (progress.stopped && span->count == 1)
			break;
		if (progress.object && !progress.wanted && span->count == 1)
			break;
	}
	reading_reset(r);
	return err;
}

static bool is_large(const struct heap_objects *o, const struct object_span *span)
{
	uint64_t size = span->end - span->start;

	return size > PIECE / 4 ||
	       (o->layout < HEAP_IN_SPAN && span->start % ARENA_BYTES + size > ARENA_BYTES);
}

/* Pieces of a large span may be cut within an object that has its bitmap at the span's end. */
static bool makes_sense(const struct heap_objects *o, const struct object_span *span)
{
	if (span->no_scan || !span->object_size || !span->count)
		return false;
	return o->layout != HEAP_IN_SPAN || !is_large(o, span) ||
	       (span->object_size > MAX_WITHOUT_HEADER && !span->size_class);
}

struct error *heap_objects_visit(struct heap_objects *o, struct object_span *const *spans,
				 size_t count, const struct heap_choice *choice,
				 const struct heap_visit *visit)
{
	_cleanup_free_ struct reading *r = calloc(1, sizeof(*r));
	struct error *err = NULL;

	if (!r)
		return &error_no_memory;
	for (size_t i = 0; i < count && !err; i++) {
		struct object_span *span = spans[i];
		uint64_t size = span->end - span->start;

		if (!makes_sense(o, span))
			continue;
		if (is_large(o, span)) {
			err = finish(o, r, choice, visit);
			if (!err)
				err = visit_large(o, r, span, choice, visit);
			continue;
		}
		if (r->count == PIECES || r->bytes + size > PIECE)
			err = finish(o, r, choice, visit);
		if (!err)
			err = add_piece(o, r, span, span->start, size);
	}
	return err ? err : finish(o, r, choice, visit);
}

static bool is_that(void *arg, struct heap_object object, const uint8_t *bytes, size_t size)
{
	const struct heap_object *one = arg;

	return object.index == one->index;
}

struct error *heap_objects_visit_one(struct heap_objects *o, struct heap_object object,
				     const struct heap_visit *visit)
{
	const struct heap_choice choice = {is_that, &object};

	return heap_objects_visit(o, &object.span, 1, &choice, visit);
}
