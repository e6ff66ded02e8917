/*
 * Sets of labels that the agent might not read (RECORD_LABELS_UNREAD), read when its records are
 * collected: when they are decoded, which may be a minute later, the goroutine has others.
 */
#ifndef COLLECT_UNREAD_H
#define COLLECT_UNREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "golayout/golayout.h"
#include "labels/label_sets.h"
#include "target/target.h"

struct piece;

/* The labels of a goroutine, as in RECORD_LABELS. */
struct unread_set {
	struct unread_set *next;
	uint64_t goid;
	uint64_t labels; /* g.labels */
	size_t size;
	uint8_t bytes[];
};

struct unread {
	struct target *t;
	const struct golayout *lay;
	struct label_sets sets;
	uint32_t slots;
	uint64_t *seen; /* of each slot: how many it had, as the agent counts them */
};

/* Keeps its arguments; false: no memory. */
bool unread_init(struct unread *u, struct target *t, const struct golayout *lay, uint32_t slots);
void unread_deinit(struct unread *u);

/* A slot has had so many so far: true when that is news. */
bool unread_is_new(struct unread *u, uint32_t slot, uint64_t count);
/* Adds the sets that a piece of its ring mentions to *list, as far as they can be read; 16 MB in
 * all lists. Returns how many sets the piece has, of which it reads UNREAD_MOST. */
#define UNREAD_MOST 256
size_t unread_read(struct unread *u, const struct piece *p, struct unread_set **list);

/* For any thread. */
void unread_free(struct unread_set *set);
void unread_release(struct unread_set *list);

#endif
