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

uint32_t buckets_of(struct buckets *b, const struct goroutine_record *r)
{
	struct wall_bucket want = {
		.stack = r->stack,
		.labels = r->labels,
		.status = goroutine_status(r),
		.wait_reason = goroutine_wait_reason(r),
		.creator = r->owner_creator,
	};
	size_t at;

	if (b->count >= b->index_size / 2 && !grow(b))
		return BUCKET_NONE;
	if (!array_reserve(&b->items, &b->capacity, b->count + 2))
		return BUCKET_NONE;
	b->count += !b->count;
	at = bucket_hash(&want) & (b->index_size - 1);
	for (; b->index[at]; at = (at + 1) & (b->index_size - 1)) {
		const struct wall_bucket *have = &b->items[b->index[at]];

		if (have->stack == want.stack && have->labels == want.labels &&
		    have->status == want.status && have->wait_reason == want.wait_reason &&
		    have->creator == want.creator)
			return b->index[at];
	}
	b->items[b->count] = want;
	b->index[at] = b->count;
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
