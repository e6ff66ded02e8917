#include "collect/spill.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"

/* The part of a block that is written: the fields before its pieces, the pieces in use, and the
 * bytes in use. */
#define HEAD_BYTES offsetof(struct block, pieces)

void spill_init(struct spill *s, int file, uint64_t most)
{
	struct rlimit limit;

	if (file >= 0 && !getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < most)
		most = limit.rlim_cur;
	*s = (struct spill){.file = file, .most = file < 0 ? 0 : most};
}

double spill_fill(const struct spill *s)
{
	uint64_t begin = atomic_load(&s->begin);

	return (double)(__atomic_load_n(&s->end, __ATOMIC_RELAXED) - begin) / (double)s->most;
}

static size_t pieces_bytes(const struct block *block)
{
	return block->piece_count * sizeof(block->pieces[0]);
}

static size_t bytes_of(const struct block *block)
{
	return HEAD_BYTES + pieces_bytes(block) + block->used;
}

static bool write_block(struct spill *s, const struct block *block, uint64_t at)
{
	struct iovec parts[] = {{(void *)block, HEAD_BYTES + pieces_bytes(block)},
				{(void *)block->bytes, block->used}};
	ssize_t n = pwritev(s->file, parts, 2, (off_t)at);

	if (n == (ssize_t)bytes_of(block))
		return true;
	/* A part of it was written where no more fits. */
	atomic_store(&s->failed, n < 0 ? errno : ENOSPC);
	return false;
}

bool spill_write(struct spill *s, const struct block *first, uint64_t *ret_at)
{
	uint64_t size = 0, at = s->end, place;

	for (const struct block *block = first; block; block = block->next)
		size += bytes_of(block);
	if (size > s->most || atomic_load(&s->failed))
		return false;
	if (at % s->most + size > s->most)
		at += s->most - at % s->most;
	if (at + size - atomic_load(&s->begin) > s->most)
		return false;
	place = at % s->most;
	for (const struct block *block = first; block; block = block->next) {
		if (!write_block(s, block, place))
			return false;
		place += bytes_of(block);
	}
	__atomic_store_n(&s->end, at + size, __ATOMIC_RELAXED);
	*ret_at = at;
	return true;
}

/* As many bytes as were written there. */
static bool read_parts(const struct spill *s, struct iovec *parts, int count, uint64_t at)
{
	size_t size = 0;

	for (int i = 0; i < count; i++)
		size += parts[i].iov_len;
	return preadv(s->file, parts, count, (off_t)at) == (ssize_t)size;
}

static bool head_fits(const struct block *block)
{
	return block->piece_count <= BLOCK_PIECES && block->used <= BLOCK_BYTES &&
	       block->about.counter_count <= COUNTERS_MAX_EVENTS;
}

/* Locates its pieces, which are contiguous. False: they exceed the block's bytes. */
static bool find_pieces(struct block *block)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < block->piece_count; i++) {
		struct piece *piece = &block->pieces[i];

		if (piece->size > block->used - at)
			return false;
		piece->block = block;
		piece->bytes = block->bytes + at;
		at += piece->size;
	}
	return true;
}

static struct error *must_check read_block(const struct spill *s, uint64_t at, struct block **ret)
{
	_cleanup_free_ struct block *block = malloc(sizeof(*block));
	struct iovec parts[] = {{block, HEAD_BYTES}, {NULL, 0}};
	bool whole;

	if (!block)
		return &error_no_memory;
	whole = read_parts(s, parts, 1, at % s->most) && head_fits(block);
	if (whole) {
		parts[0] = (struct iovec){block->pieces, pieces_bytes(block)};
		parts[1] = (struct iovec){block->bytes, block->used};
		whole = read_parts(s, parts, 2, at % s->most + HEAD_BYTES) && find_pieces(block);
	}
	if (!whole)
		return error_errno(ERROR_FAILED, EIO,
				   "cannot read back trace records from the temporary file");
	*ret = take_ptr(block);
	return NULL;
}

struct error *spill_read(struct spill *s, uint64_t at, struct block **ret)
{
	struct block *first = NULL, **next = &first;
	struct error *err;

	do {
		err = read_block(s, at, next);
		if (err)
			break;
		at += bytes_of(*next);
		(*next)->in_heap = true;
		/* The old value said whether there is a next one. */
		next = &(*next)->next;
	} while (*next);
	if (err) {
		*next = NULL;
		for (struct block *block = first; block; block = first) {
			first = block->next;
			free(block);
		}
		return err;
	}
	atomic_store(&s->begin, at);
	*ret = first;
	return NULL;
}
