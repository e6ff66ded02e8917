/*
 * The profiles of the last hour of one process, in a memory file of fixed size: the newest replace
 * the oldest. The process that watches writes it, and a worker that shows a part of the hour reads
 * it at the same time. Both may be taken over by the target: every number in it is hostile, and a
 * profile that is being replaced is damaged, which its checksum shows.
 */
#ifndef SERVE_SERVE_STORE_H
#define SERVE_SERVE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

/* Processes that have one. */
#define SERVE_HISTORY_MOST 64
#define SERVE_STORE_PROFILES 360
#define SERVE_STORE_BYTES (4u << 20)

struct serve_store;

struct serve_stored {
	double begin, end; /* seconds since 1970 */
};

/* A new memory file; -1: there is none. */
int serve_store_create(void);
/* NULL: it is none. */
struct serve_store *serve_store_map(int fd);
void serve_store_unmap(struct serve_store *s);

/* Drops what is too large for it. */
void serve_store_add(struct serve_store *s, const struct serve_stored *when,
		     const struct strbuf *profile);
/* How many there are, and the i-th, the oldest first; false: it is gone. */
size_t serve_store_count(const struct serve_store *s);
bool serve_store_when(const struct serve_store *s, size_t i, struct serve_stored *ret);
bool serve_store_get(const struct serve_store *s, size_t i, struct strbuf *ret);

#endif
