/*
 * How the Go runtime keeps pprof labels in memory, as far as they are read. From Go 1.24 on
 * g.labels points to a slice of pairs of strings, sorted by key; before, to a pointer to a map.
 * Structures alone, so that code without a C library can have them too.
 * Source: runtime/pprof/label.go and runtime/map.go (Go 1.17 to 1.23).
 */
#ifndef LABELS_GO_MEMORY_H
#define LABELS_GO_MEMORY_H

#include <stdint.h>

struct go_string {
	uint64_t data;
	uint64_t length;
};

struct go_hmap {
	uint64_t count;
	uint8_t flags;
	uint8_t b; /* it has 1 << b buckets */
	uint16_t noverflow;
	uint32_t hash0;
	uint64_t buckets;
	uint64_t oldbuckets; /* while it grows; else 0 */
};

struct go_bucket {
	uint8_t tophash[8];
	struct go_string keys[8];
	struct go_string values[8];
	uint64_t overflow;
};

/* The tophash of a slot that is empty, or was moved while the map grew, is lower. */
enum { GO_MIN_TOPHASH = 5 };

#endif
