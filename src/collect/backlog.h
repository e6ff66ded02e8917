/*
 * Records that were fetched from the target's rings and are not yet decoded. One thread fills it,
 * another takes from it, and neither ever waits for the other: the decoding thread has a low
 * priority, may get no CPU for seconds, and so must hold no lock.
 *
 * Its memory is a fixed number of blocks, which go round. A collection is what was taken in one
 * look at all rings: some blocks, the first of which says what it is about. A block has pieces of
 * rings, each of one chunk.
 *
 * When half of the memory is in use, a third thread writes what comes to a file (collect/spill.h),
 * so the filling thread waits for no disk. Collections come out in the order in which they went in.
 */
#ifndef COLLECT_BACKLOG_H
#define COLLECT_BACKLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "collect/block.h"

struct backlog;

/* A backlog of that many blocks, whose memory is taken when they are used. */
struct error *backlog_create(size_t blocks, struct backlog **ret) must_check;
/* From now on it has this file, too, for so many bytes; the descriptor stays the caller's. Nothing
 * was put into it so far. */
struct error *backlog_use_file(struct backlog *b, int file, uint64_t most) must_check;
void backlog_destroy(struct backlog *b);

/* For all threads: how near it is to having no room, from 0 to 1; the bytes that wait to be taken;
 * and how long ago that was collected which was taken last, 0 when nothing waits. */
double backlog_fill(const struct backlog *b);
uint64_t backlog_bytes(const struct backlog *b);
uint64_t backlog_age(const struct backlog *b);
/* The errno of the failed write after which the file is not used any more; 0: no failure, or no
 * file. */
int backlog_file_failed(const struct backlog *b);

/* ---- for the thread that fills it ---- */

/* How many blocks there are to get. */
size_t backlog_free(struct backlog *b);
/* An empty one; NULL: none is free. */
struct block *backlog_get(struct backlog *b);
/* The thread that takes waits for another collection. */
bool backlog_is_awaited(const struct backlog *b);
/* A whole collection, by its first block. */
void backlog_put(struct backlog *b, struct block *first);
/* Gives memory that was of use in worse times back to the system, some at a time. */
void backlog_trim(struct backlog *b);

/* ---- for the thread that takes from it ---- */

/* Waits until there is a collection, but only for so long, and less when a signal arrives. */
void backlog_wait(struct backlog *b, uint64_t ns);
/* The oldest collection; NULL: none, or it is being written to the file. */
struct error *backlog_take(struct backlog *b, struct block **ret) must_check;
/* One block is not needed any more. */
void backlog_release(struct backlog *b, struct block *block);

static inline void cleanup_backlog(struct backlog **b)
{
	backlog_destroy(*b);
}
#define _cleanup_backlog_ __attribute__((cleanup(cleanup_backlog)))

#endif
