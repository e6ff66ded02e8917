/* The counters of the wall-clock sampler. For the files of this room alone. */
#ifndef SAMPLE_BUCKETS_H
#define SAMPLE_BUCKETS_H

#include "sample/bucket.h"

/* No bucket: not counted. */
#define BUCKET_NONE 0u

/* A program may have new stacks and labels all the time. Past this number, new buckets have no
 * labels and no creator; past twice the number, they have no stack either. 60 MB, and 40 more for
 * the error of each. */
#define BUCKETS_MOST (1u << 18)

struct buckets {
	struct wall_bucket *items; /* items[0] is BUCKET_NONE */
	size_t count;
	size_t capacity;
	uint32_t *index;
	size_t index_size; /* a power of two */
	uint64_t crowded;  /* times that a needed bucket did not exist */
};

/* Empties it. Keeps the memory and the count of missing buckets. */
void buckets_clear(struct buckets *b);
/* The bucket of the record; a less specific one when there are too many; BUCKET_NONE: no memory. */
uint32_t buckets_of(struct buckets *b, const struct goroutine_record *r);
void buckets_release(struct buckets *b);

#endif
