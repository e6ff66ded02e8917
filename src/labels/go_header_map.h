/*
 * How the Go runtime keeps a map[string][]string, such as the header of a request. Structures
 * alone, so that code without a C library can have them too.
 * Sources: runtime/map.go (Go 1.17 to 1.23: hmap, bmap), internal/runtime/maps (from 1.24 on: Map,
 * table, group).
 */
#ifndef LABELS_GO_HEADER_MAP_H
#define LABELS_GO_HEADER_MAP_H

#include "labels/go_memory.h"

enum go_map_kind {
	MAP_OF_BUCKETS,      /* up to Go 1.23 */
	MAP_OF_GROUPS,       /* from 1.24 on: of pairs of a key and a value */
	MAP_OF_SPLIT_GROUPS, /* of keys, then of values: GOEXPERIMENT=mapsplitgroup */
};

/* internal/abi.MapGroupSlots, and the bit of a control byte whose slot has nothing. */
enum { GO_MAP_SLOTS = 8, GO_MAP_NO_KEY = 0x80 };

struct go_slice {
	uint64_t items;
	uint64_t length;
	uint64_t capacity;
};

/* Up to Go 1.23; in a struct go_hmap. */
struct header_bucket {
	uint8_t tophash[GO_MAP_SLOTS];
	struct go_string keys[GO_MAP_SLOTS];
	struct go_slice values[GO_MAP_SLOTS];
	uint64_t overflow;
};

struct header_pair {
	struct go_string key;
	struct go_slice value;
};

/* From Go 1.24 on. */
struct header_group {
	uint8_t control[GO_MAP_SLOTS];
	struct header_pair pairs[GO_MAP_SLOTS];
};

struct split_header_group {
	uint8_t control[GO_MAP_SLOTS];
	struct go_string keys[GO_MAP_SLOTS];
	struct go_slice values[GO_MAP_SLOTS];
};

struct go_map {
	uint64_t used, seed;
	uint64_t directory; /* a group, if `length` is 0; else pointers to tables */
	uint64_t length;
};

struct go_table {
	uint16_t used, capacity, growth_left;
	uint8_t depth;
	uint64_t index;
	uint64_t groups;
	uint64_t mask; /* one less than there are groups */
};

#endif
