#include "sample/buckets.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

static uint64_t bucket_hash(const struct wall_bucket *b)
{
	return hash_u64(hash_u64((uint64_t)b->stack << 32 | b->labels) +
			((uint64_t)b->creator << 16) + b->status * 256 + b->wait_reason);
}

static bool grow(struct buckets *b)
{
	size_t size = b->index_size ? b->index_size * 2 : 1024;
	uint32_t *index = calloc(size, sizeof(*index));

	if (!index)
		return false;
	for (size_t i = 1; i < b->count; i++) {
		size_t at = bucket_hash(&b->items[i]) & (size - 1);

		while (index[at])
			at = (at + 1) & (size - 1);
		index[at] = i;
	}
	free(b->index);
	b->index = index;
	b->index_size = size;
	return true;
}

static bool is_same(const struct wall_bucket *a, const struct wall_bucket *b)
{
	return a->stack == b->stack && a->labels == b->labels && a->status == b->status &&
	       a->wait_reason == b->wait_reason && a->creator == b->creator;
}

/* Its index entry, or the free entry where it belongs. */
static uint32_t *place_of(struct buckets *b, const struct wall_bucket *want)
{
	size_t at = bucket_hash(want) & (b->index_size - 1);

	while (b->index[at] && !is_same(&b->items[b->index[at]], want))
		at = (at + 1) & (b->index_size - 1);
	return &b->index[at];
}

static uint32_t *place_within(struct buckets *b, struct wall_bucket *want)
{
	uint32_t *place = place_of(b, want);

	if (*place || b->count < BUCKETS_MOST)
		return place;
	b->crowded++;
	want->labels = LABELS_NONE;
	want->creator = 0;
	place = place_of(b, want);
	if (*place || b->count < 2 * BUCKETS_MOST)
		return place;
	want->stack = STACK_NONE;
	return place_of(b, want);
}

uint32_t buckets_of(struct buckets *b, const struct goroutine_record *r)
{
	struct wall_bucket want = {
		.stack = r->stack,
		.labels = r->labels,
		.status = goroutine_status(r),
		.wait_reason = goroutine_wait_reason(r),
		.creator = r->owner_creator,
	};
	uint32_t *place;

	if (b->count >= b->index_size / 2 && !grow(b))
		return BUCKET_NONE;
	if (!array_reserve(&b->items, &b->capacity, b->count + 2))
		return BUCKET_NONE;
	b->count += !b->count;
	place = place_within(b, &want);
	if (*place)
		return *place;
	b->items[b->count] = want;
	*place = b->count;
	return b->count++;
}

void buckets_clear(struct buckets *b)
{
	if (b->index)
		memset(b->index, 0, b->index_size * sizeof(*b->index));
	b->count = 0;
}

void buckets_release(struct buckets *b)
{
	free(b->items);
	free(b->index);
	*b = (struct buckets){0};
}
