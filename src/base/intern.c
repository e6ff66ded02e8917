#include "base/intern.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/map.h"

static bool rehash(struct intern *in, size_t bucket_count)
{
	uint32_t *buckets = calloc(bucket_count, sizeof(*buckets));

	if (!buckets)
		return false;
	free(in->buckets);
	in->buckets = buckets;
	in->bucket_count = bucket_count;
	for (size_t i = 1; i < in->count; i++) {
		struct interned *s = &in->strings[i];
		uint32_t *head = &buckets[hash_bytes(s->data, s->length) & (bucket_count - 1)];

		s->next = *head;
		*head = i;
	}
	return true;
}

static bool append(struct intern *in, const void *bytes, size_t length)
{
	char *copy;

	if (length >= UINT32_MAX || in->count >= INTERN_FAILED - 1)
		return false;
	if (!array_reserve(&in->strings, &in->capacity, in->count + 1))
		return false;
	copy = arena_copy(&in->bytes, bytes, length);
	if (!copy)
		return false;
	in->strings[in->count++] = (struct interned){copy, length, 0};
	return true;
}

uint32_t intern_find(const struct intern *in, const void *bytes, size_t length)
{
	uint32_t i;

	if (!length)
		return 0;
	if (!in->bucket_count)
		return INTERN_FAILED;
	i = in->buckets[hash_bytes(bytes, length) & (in->bucket_count - 1)];
	for (; i; i = in->strings[i].next)
		if (in->strings[i].length == length && !memcmp(in->strings[i].data, bytes, length))
			return i;
	return INTERN_FAILED;
}

uint32_t intern_bytes(struct intern *in, const void *bytes, size_t length)
{
	uint32_t *head, i;

	if (!in->count && !append(in, "", 0))
		return INTERN_FAILED;
	if (!length)
		return 0;
	if (in->count >= in->bucket_count &&
	    !rehash(in, in->bucket_count ? in->bucket_count * 2 : 256))
		return INTERN_FAILED;
	i = intern_find(in, bytes, length);
	if (i != INTERN_FAILED)
		return i;
	if (!append(in, bytes, length))
		return INTERN_FAILED;
	head = &in->buckets[hash_bytes(bytes, length) & (in->bucket_count - 1)];
	in->strings[in->count - 1].next = *head;
	*head = in->count - 1;
	return *head;
}

uint32_t intern_string(struct intern *in, const char *s)
{
	return intern_bytes(in, s, strlen(s));
}

void intern_release(struct intern *in)
{
	arena_release(&in->bytes);
	free(in->strings);
	free(in->buckets);
	*in = (struct intern){0};
}
