#include "retained/equal_strings.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

/* Read in one call: strings, and bytes of them. */
#define BATCH 1024u
#define BATCH_BYTES (1u << 20)
/* The rest of longer ones is not compared, but their length is. */
#define MOST_COMPARED (64u << 10)
/* One for so many bytes of the heap. Each takes some 100 bytes. */
#define HEAP_BYTES 8192u
#define LEAST_STRINGS (1u << 17)
#define MOST_STRINGS (1u << 20)

void equal_strings_init(struct equal_strings *s, struct target *t, uint64_t heap)
{
	uint64_t most = heap / HEAP_BYTES;

	most = most < LEAST_STRINGS ? LEAST_STRINGS : most;
	*s = (struct equal_strings){.t = t, .most = most < MOST_STRINGS ? most : MOST_STRINGS};
}

static int compare_wasted(const void *a, const void *b)
{
	const struct equal_string *x = a, *y = b;
	uint64_t wasted = equal_string_wasted(x), other = equal_string_wasted(y);

	if (wasted != other)
		return wasted < other ? 1 : -1;
	return (x->hash > y->hash) - (x->hash < y->hash);
}

static bool reindex(struct equal_strings *s)
{
	map_clear(&s->by_hash);
	for (size_t i = 0; i < s->count; i++) {
		uint64_t *place = map_at(&s->by_hash, s->items[i].hash);

		if (!place)
			return false;
		*place = i + 1;
	}
	return true;
}

static bool forget_single(struct equal_strings *s)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->count; i++)
		if (s->items[i].count > 1)
			s->items[kept++] = s->items[i];
	s->forgotten += s->count - kept;
	/* If all are there twice, the least are forgotten. */
	if (kept > s->most / 2) {
		qsort(s->items, kept, sizeof(*s->items), compare_wasted);
		s->forgotten += kept - s->most / 2;
		kept = s->most / 2;
	}
	s->count = kept;
	return reindex(s);
}

static bool count(struct equal_strings *s, const struct string_place *p, const uint8_t *bytes,
		  size_t size)
{
	uint64_t hash = hash_bytes(bytes, size) ^ hash_u64(p->length);
	uint64_t *place;

	if (s->count >= s->most && !forget_single(s))
		return false;
	place = map_at(&s->by_hash, hash);
	if (!place)
		return false;
	if (!*place) {
		if (!array_reserve(&s->items, &s->capacity, s->count + 1))
			return false;
		s->items[s->count++] = (struct equal_string){.hash = hash,
							     .length = p->length,
							     .address = p->address};
		*place = s->count;
	}
	s->items[*place - 1].count++;
	s->items[*place - 1].bytes += p->object_size;
	return true;
}

static size_t compared(const struct string_place *p)
{
	return p->length < MOST_COMPARED ? p->length : MOST_COMPARED;
}

static struct error *must_check read_waiting(struct equal_strings *s)
{
	struct target_range ranges[BATCH];
	bool ok[BATCH];
	size_t used = 0;
	struct error *err;

	for (size_t i = 0; i < s->waiting_count; i++) {
		ranges[i] = (struct target_range){s->waiting[i].address, compared(&s->waiting[i]),
						  s->buffer + used};
		used += ranges[i].size;
	}
	err = target_read_each(s->t, ranges, s->waiting_count, ok);
	for (size_t i = 0; i < s->waiting_count && !err; i++)
		if (ok[i] && !count(s, &s->waiting[i], ranges[i].buffer, ranges[i].size))
			err = &error_no_memory;
	s->waiting_count = s->waiting_bytes = 0;
	return err;
}

struct error *equal_strings_add(struct equal_strings *s, uint64_t address, uint64_t length,
				uint64_t object_size)
{
	size_t size = length < MOST_COMPARED ? length : MOST_COMPARED;
	struct error *err = NULL;

	if (!s->buffer) {
		s->buffer = malloc(BATCH_BYTES);
		s->waiting = calloc(BATCH, sizeof(*s->waiting));
		if (!s->buffer || !s->waiting)
			return &error_no_memory;
	}
	if (s->waiting_count == BATCH || s->waiting_bytes + size > BATCH_BYTES)
		err = read_waiting(s);
	s->seen++;
	s->waiting_bytes += size;
	s->waiting[s->waiting_count++] = (struct string_place){address, length, object_size};
	return err;
}

static struct error *must_check keep_text(struct equal_strings *s, struct equal_string *item)
{
	size_t size = item->length < EQUAL_SHOWN ? item->length : EQUAL_SHOWN;
	struct error *err;

	item->text = calloc(1, EQUAL_SHOWN + 1);
	if (!item->text)
		return &error_no_memory;
	err = target_read(s->t, item->address, item->text, size);
	if (err && err->code != ERROR_FAULT)
		return err;
	error_destroy(err);
	return NULL;
}

/* What is not kept takes no memory from here on. */
static struct error *must_check shrink(struct equal_strings *s)
{
	struct equal_string *items = calloc(s->count + 1, sizeof(*items));

	if (!items)
		return &error_no_memory;
	if (s->count)
		memcpy(items, s->items, s->count * sizeof(*items));
	free(s->items);
	s->items = items;
	s->capacity = s->count + 1;
	free(take_ptr(s->buffer));
	free(take_ptr(s->waiting));
	return NULL;
}

struct error *equal_strings_finish(struct equal_strings *s, size_t most)
{
	struct error *err = s->waiting_count ? read_waiting(s) : NULL;
	size_t kept = 0;

	for (size_t i = 0; i < s->count; i++)
		if (s->items[i].count > 1)
			s->items[kept++] = s->items[i];
	s->count = kept;
	if (kept)
		qsort(s->items, kept, sizeof(*s->items), compare_wasted);
	s->count = kept < most ? kept : most;
	map_release(&s->by_hash);
	if (!err)
		err = shrink(s);
	for (size_t i = 0; i < s->count && !err; i++)
		err = keep_text(s, &s->items[i]);
	return err;
}

void equal_strings_release(struct equal_strings *s)
{
	for (size_t i = 0; i < s->count; i++)
		free(s->items[i].text);
	free(s->items);
	map_release(&s->by_hash);
	free(s->waiting);
	free(s->buffer);
	*s = (struct equal_strings){0};
}
