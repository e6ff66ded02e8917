/*
 * The labels of goroutines (runtime/pprof), each distinct set kept once and known by a small
 * number.
 *
 * Go 1.17 to 1.23: g.labels -> *map[string]string; 1.24 on: -> a slice of {key, value}, sorted. A
 * set is never changed once a goroutine has it, only replaced; so a read is right if the goroutine
 * did not run meanwhile, which the caller checks. Sources: runtime/pprof/label.go,
 * internal/runtime/pprof/label, runtime/map.go (hmap, bmap).
 */
#ifndef LABELS_LABEL_SETS_H
#define LABELS_LABEL_SETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/intern.h"
#include "base/map.h"
#include "labels/label_cache.h"
#include "target/target.h"

#define LABELS_NONE 0u
#define LABELS_TORN UINT32_MAX

/* Longer ones are cut: the address may be garbage by now. */
#define LABELS_MAX_COUNT 1000
#define LABELS_MAX_STRING 4096
#define LABELS_MAX_TEXT 65536 /* of a whole set */
/* A label that is different for each request would fill the memory of a long recording: past this
 * many sets, or bytes, new ones are not kept, and count as none. */
#define LABELS_MAX_SETS (1u << 18)
#define LABELS_MAX_BYTES (128u << 20)

struct label {
	uint32_t key; /* in label_sets.strings */
	uint32_t value;
};

struct label_set {
	struct label *labels; /* sorted by key */
	uint32_t count;
	uint32_t own; /* the set without the labels that gospect added */
};

struct label_sets {
	bool maps; /* Go 1.23 and older */
	struct intern strings;
	struct label_set *sets; /* sets[0] is the empty one */
	size_t count;
	size_t capacity;
	struct map index; /* hash of a set -> its number */
	size_t bytes;     /* of all sets and strings */
	uint64_t dropped; /* sets that were not kept */
	struct label_cache cache;
};

/* Reads `count` sets at g.labels' values, in few system calls; in one, when they were read before.
 * A pointer of 0 is LABELS_NONE; LABELS_TORN: no valid set (any more). */
struct error *label_sets_read(struct label_sets *sets, struct target *t, const uint64_t *pointers,
			      size_t count, uint32_t *ret) must_check;
/*
 * The set that was at this pointer at a moment that has passed, when these pieces of its memory
 * were copied. Missing pieces are read now, and trusted if all given pieces are unchanged;
 * LABELS_TORN when not.
 */
struct error *label_sets_read_copied(struct label_sets *sets, struct target *t, uint64_t pointer,
				     const struct target_range *pieces, size_t count,
				     uint32_t *ret) must_check;
/* A label that gospect adds. */
struct label_bytes {
	const char *key;
	const char *value;
	size_t length; /* of the value */
};

/* The set `id` with these labels added, but for keys that it has. Past the limit: `id`. */
struct error *label_sets_add(struct label_sets *sets, uint32_t id, const struct label_bytes *labels,
			     size_t count, uint32_t *ret) must_check;
/* The goroutine's own labels in the set: itself, but for one of label_sets_add(). */
uint32_t label_sets_own(const struct label_sets *sets, uint32_t id);
/* The set of this number; empty for LABELS_NONE and LABELS_TORN. */
struct label_set label_sets_get(const struct label_sets *sets, uint32_t id);
void label_sets_release(struct label_sets *sets);

#endif
