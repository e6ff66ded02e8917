#include "gotrace/texts.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "base/utf8.h"

/* The size of a text without its bytes. */
#define ITEM_BYTES (sizeof(struct text) + 32)
/* The least number of new texts between two sweeps. */
#define LEAST_DUE (1u << 16)
#define LEAST_DUE_BYTES (4u << 20)
/* This many new texts are worth a sweep at a good time. */
#define SOME_NEW 256
/* Bytes of forgotten texts up to which the others are not moved. */
#define LEAST_WASTE (64u << 10)

static uint32_t *bucket_of(const struct texts *t, const char *bytes, size_t length)
{
	return &t->buckets[hash_bytes(bytes, length) & (t->bucket_count - 1)];
}

static bool rehash(struct texts *t, size_t bucket_count)
{
	uint32_t *buckets = calloc(bucket_count, sizeof(*buckets));

	if (!buckets)
		return false;
	free(t->buckets);
	t->buckets = buckets;
	t->bucket_count = bucket_count;
	for (size_t i = 1; i < t->count; i++) {
		struct text *text = &t->items[i];
		uint32_t *head;

		if (!text->data)
			continue;
		head = bucket_of(t, text->data, text->length);
		text->next = *head;
		*head = i;
	}
	return true;
}

static uint32_t find(const struct texts *t, const char *bytes, size_t length)
{
	uint32_t i = t->bucket_count ? *bucket_of(t, bytes, length) : 0;

	while (i && (t->items[i].length != length || memcmp(t->items[i].data, bytes, length) != 0))
		i = t->items[i].next;
	return i;
}

/* A free number; 0: no memory. */
static uint32_t new_number(struct texts *t)
{
	uint32_t number = t->free;

	if (number) {
		t->free = t->items[number].next;
		return number;
	}
	if (!t->count)
		t->count = 1;
	if (!array_reserve(&t->items, &t->capacity, t->count + 1))
		return 0;
	return t->count++;
}

static bool is_full(const struct texts *t, size_t length)
{
	return t->used >= TEXTS_MAX || t->bytes + length + ITEM_BYTES > TEXTS_MAX_BYTES;
}

static uint32_t append(struct texts *t, const char *bytes, size_t length)
{
	uint32_t number, *head;
	char *copy;

	if (t->used >= t->bucket_count && !rehash(t, t->bucket_count ? t->bucket_count * 2 : 256))
		return TEXTS_FAILED;
	copy = arena_copy(&t->arena, bytes, length);
	number = copy ? new_number(t) : 0;
	if (!number)
		return TEXTS_FAILED;
	head = bucket_of(t, bytes, length);
	t->items[number] = (struct text){.data = copy, .length = length, .next = *head};
	*head = number;
	t->used++;
	t->bytes += length + ITEM_BYTES;
	return number;
}

static uint32_t add_valid(struct texts *t, const char *bytes, size_t length)
{
	uint32_t number = find(t, bytes, length);

	if (number)
		return number;
	if (!is_full(t, length))
		return append(t, bytes, length);
	t->refused++;
	return 0;
}

static bool is_valid(const char *bytes, size_t length)
{
	uint32_t code;
	size_t n;

	for (size_t i = 0; i < length; i += n) {
		n = utf8_decode(bytes + i, length - i, &code);
		if (!n || !code)
			return false;
	}
	return true;
}

uint32_t texts_add(struct texts *t, const char *bytes, size_t length)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	if (!length)
		return 0;
	if (is_valid(bytes, length))
		return add_valid(t, bytes, length);
	utf8_add(&sb, bytes, length);
	return sb.failed ? TEXTS_FAILED : add_valid(t, sb.data, sb.length);
}

void texts_pin(struct texts *t)
{
	for (size_t i = 1; i < t->count; i++)
		t->items[i].pinned = true;
}

bool texts_are_due(const struct texts *t)
{
	return t->used >= (t->due_used ?: LEAST_DUE) ||
	       t->bytes >= (t->due_bytes ?: LEAST_DUE_BYTES) || t->refused > t->due_refused;
}

bool texts_are_new(const struct texts *t)
{
	return t->used >= t->swept_used + SOME_NEW;
}

void texts_mark(struct texts *t, uint32_t number)
{
	if (number < t->count)
		t->items[number].marked = true;
}

static void forget(struct texts *t, uint32_t number)
{
	struct text *text = &t->items[number];
	uint32_t *link = bucket_of(t, text->data, text->length);

	while (*link != number)
		link = &t->items[*link].next;
	*link = text->next;
	t->used--;
	t->bytes -= text->length + ITEM_BYTES;
	*text = (struct text){.next = t->free};
	t->free = number;
}

static size_t living_bytes(const struct texts *t)
{
	size_t bytes = 0;

	for (size_t i = 1; i < t->count; i++)
		if (t->items[i].data)
			bytes += t->items[i].length + 1ul;
	return bytes;
}

/* Moves the remaining texts together. Without memory they stay where they are. */
static void compact(struct texts *t)
{
	size_t bytes = living_bytes(t);
	struct arena arena = {0};
	char *to;

	if (t->arena.mapped < 2 * bytes + LEAST_WASTE)
		return;
	to = arena_take(&arena, bytes + 1);
	if (!to)
		return;
	for (size_t i = 1; i < t->count; i++) {
		struct text *text = &t->items[i];

		if (!text->data)
			continue;
		text->data = memcpy(to, text->data, text->length + 1ul);
		to += text->length + 1ul;
	}
	arena_release(&t->arena);
	t->arena = arena;
}

void texts_sweep(struct texts *t)
{
	for (size_t i = 1; i < t->count; i++) {
		if (t->items[i].data && !t->items[i].marked && !t->items[i].pinned)
			forget(t, i);
		t->items[i].marked = false;
	}
	compact(t);
	t->swept_used = t->used;
	t->due_used = 2 * t->used + LEAST_DUE;
	t->due_bytes = 2 * t->bytes + LEAST_DUE_BYTES;
	t->due_refused = t->refused + LEAST_DUE;
}

void texts_release(struct texts *t)
{
	arena_release(&t->arena);
	free(t->items);
	free(t->buckets);
	*t = (struct texts){0};
}
