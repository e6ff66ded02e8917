#include "heapgraph/heap_roots.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

#define MAX_MODULES 1024u
#define MAX_GLOBALS (1ull << 36)
#define PIECE (1u << 20)
#define MAX_SPECIALS (1u << 24)
#define ROUND 4096u
#define SHORTEST_SPECIAL 32u
#define MAX_MODULEDATA 65536

/* ---- global variables ---- */

static void visit_masked(const uint8_t *bytes, const uint8_t *mask, uint64_t address, size_t words,
			 const struct heap_visit *visit)
{
	for (size_t i = 0; i < words; i++) {
		uint64_t word;

		if (!(mask[i / 8] >> i % 8 & 1))
			continue;
		memcpy(&word, bytes + i * 8, sizeof(word));
		if (word)
			visit->word(visit->arg, address + i * 8, word);
	}
}

/* [start, end), with a bit for each word. */
static struct error *must_check visit_section(struct target *t, uint64_t start, uint64_t end,
					      uint64_t mask, int32_t bits,
					      const struct heap_visit *visit)
{
	_cleanup_free_ uint8_t *bytes = malloc(PIECE + PIECE / 64);
	struct error *err = NULL;

	if (!bytes)
		return &error_no_memory;
	if (end <= start || end - start > MAX_GLOBALS || bits <= 0 || !mask)
		return NULL;
	if (end - start > (uint64_t)bits * 8)
		end = start + (uint64_t)bits * 8;
	for (uint64_t at = start; at < end && !err; at += PIECE) {
		size_t size = end - at < PIECE ? end - at : PIECE;
		struct target_range ranges[] = {{at, size & ~7ull, bytes},
						{mask + (at - start) / 64, (size / 8 + 7) / 8,
						 bytes + PIECE}};
		bool ok[2];

		err = target_read_each(t, ranges, ARRAY_SIZE(ranges), ok);
		if (!err && ok[0] && ok[1])
			visit_masked(bytes, bytes + PIECE, at, size / 8, visit);
	}
	return err;
}

static struct error *must_check visit_module(struct target *t, const struct golayout *lay,
					     uint64_t address, const struct heap_visit *visit,
					     uint64_t *ret_next)
{
	size_t size = (size_t)lay->n.moduledata_size;
	_cleanup_free_ uint8_t *bytes = calloc(1, size + 64);
	struct moduledata_view v = {&lay->n, bytes};
	int32_t bits;
	uint64_t mask;
	struct error *err;

	*ret_next = 0;
	if (!bytes || size > MAX_MODULEDATA)
		return &error_no_memory;
	err = target_read(t, address, bytes, size);
	if (err)
		return err;
	mask = moduledata_view_mask(v, false, &bits);
	err = visit_section(t, moduledata_view_data(v), moduledata_view_edata(v), mask, bits,
			    visit);
	if (err)
		return err;
	mask = moduledata_view_mask(v, true, &bits);
	*ret_next = moduledata_view_next(v);
	return visit_section(t, moduledata_view_bss(v), moduledata_view_ebss(v), mask, bits, visit);
}

struct error *heap_globals_visit(struct target *t, const struct image *img,
				 const struct golayout *lay, const struct heap_visit *visit)
{
	uint64_t at = img->moduledata;
	struct error *err = NULL;

	for (size_t i = 0; at && i < MAX_MODULES && !err; i++)
		err = visit_module(t, lay, at, visit, &at);
	return err;
}

/* ---- finalizers and the like ---- */

struct special {
	uint64_t address;
	struct object_span *span;
};

struct specials {
	struct target *t;
	const struct golayout *lay;
	const struct heap_specials_visit *visit;
	struct special *items;
	size_t count;
	size_t capacity;
};

static struct error *must_check add_special(struct specials *s, uint64_t address,
					    struct object_span *span)
{
	if (!address || address % 8)
		return NULL;
	if (!array_reserve(&s->items, &s->capacity, s->count + 1))
		return &error_no_memory;
	s->items[s->count++] = (struct special){address, span};
	return NULL;
}

/* All words behind the header are visited: those that are no pointers lead to no object. */
static void take_special(struct specials *s, const struct special *special, const uint8_t *bytes)
{
	const struct heap_visit *visit = &s->visit->visit;
	struct special_view v = {&s->lay->n, bytes};
	size_t header = s->lay->n.special_kind < 16 ? 16 : 24;
	int32_t kind = special_view_kind(v);
	struct object_span *span = special->span;
	uint64_t index = special_view_offset(v) / span->object_size, word;
	struct heap_object object = {span, (uint32_t)index};

	if (kind == s->lay->n.special_profile) {
		memcpy(&word, bytes + header, sizeof(word));
		if (s->visit->sampled && index < span->count)
			s->visit->sampled(visit->arg, object, word);
		return;
	}
	for (size_t at = header; at < GOLAYOUT_SPECIAL_BYTES; at += 8) {
		memcpy(&word, bytes + at, sizeof(word));
		if (word)
			visit->word(visit->arg, special->address + at, word);
	}
	if (kind == s->lay->n.special_finalizer && index < span->count)
		s->visit->kept(visit->arg, object);
}

/* Replaces some specials by those that follow them in their lists. */
static struct error *must_check step(struct specials *s, size_t first, size_t count)
{
	uint8_t(*bytes)[GOLAYOUT_SPECIAL_BYTES] = calloc(count, sizeof(*bytes));
	struct target_range *ranges = calloc(count, sizeof(*ranges));
	bool *ok = calloc(count, sizeof(*ok));
	struct error *err = bytes && ranges && ok ? NULL : &error_no_memory;
	uint64_t next;

	for (size_t i = 0; i < count && !err; i++)
		ranges[i] = (struct target_range){s->items[first + i].address, sizeof(*bytes),
						  bytes[i]};
	if (!err)
		err = target_read_each(s->t, ranges, count, ok);
	for (size_t i = 0; i < count && !err; i++) {
		struct special *special = &s->items[first + i];

		/* The shortest are read where memory ends behind them. */
		if (!ok[i])
			ok[i] = !error_dropped(
				target_read(s->t, special->address, bytes[i], SHORTEST_SPECIAL));
		if (ok[i])
			take_special(s, special, bytes[i]);
		next = special_view_next((struct special_view){&s->lay->n, bytes[i]});
		special->address = ok[i] && next % 8 == 0 ? next : 0;
	}
	free(bytes);
	free(ranges);
	free(ok);
	return err;
}

/* Those that have a next one move to the front. */
static void drop_ended(struct specials *s)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->count; i++)
		if (s->items[i].address)
			s->items[kept++] = s->items[i];
	s->count = kept;
}

struct error *heap_specials_visit(struct target *t, const struct golayout *lay,
				  struct object_spans *spans,
				  const struct heap_specials_visit *visit)
{
	struct specials s = {.t = t, .lay = lay, .visit = visit};
	struct error *err = NULL;
	size_t seen = 0;

	for (size_t i = 0; i < spans->count && !err; i++)
		if (spans->items[i].object_size)
			err = add_special(&s, spans->items[i].specials, &spans->items[i]);
	while (s.count && seen < MAX_SPECIALS && !err) {
		for (size_t i = 0; i < s.count && !err; i += ROUND)
			err = step(&s, i, s.count - i < ROUND ? s.count - i : ROUND);
		seen += s.count;
		drop_ended(&s);
	}
	free(s.items);
	return err;
}
