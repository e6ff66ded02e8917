/* The counters of the wall-clock sampler. For the files of this room alone. */
#ifndef SAMPLE_BUCKETS_H
#define SAMPLE_BUCKETS_H

#include "sample/bucket.h"

/* No bucket: not counted. */
#define BUCKET_NONE 0u

/* A recording may go on for ever, and a program have new stacks and labels all the time: past so
 * many, a new one is counted without its labels and its creator, and past twice as many without its
 * stack. 60 MB, and 40 more for the error of each. */
#define BUCKETS_MOST (1u << 18)

struct buckets {
	struct wall_bucket *items; /* items[0] is BUCKET_NONE */
	size_t count;
	size_t capacity;
	uint32_t *index;
	size_t index_size; /* a power of two */
	uint64_t crowded;  /* times that one was wanted which is not kept */
};

/* Empties it; keeps the memory, and the record of crowded buckets. */
void buckets_clear(struct buckets *b);
/* The bucket for the record, or for less of it when there are too many; BUCKET_NONE: no memory. */
uint32_t buckets_of(struct buckets *b, const struct goroutine_record *r);
void buckets_release(struct buckets *b);

#endif
