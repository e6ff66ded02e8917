/* `perf record -z`: one zstd stream in pieces, which are the bodies of records; the records in it
 * cross the ends of pieces. */
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/cleanup.h"
#include "perfdata/perf_read.h"

/* A hostile file of a few KB could ask for any amount; recordings are packed 3 to 50 to 1. */
#define MAX_UNPACKED ((size_t)2 << 30)
#define UNPACKED_BASE ((size_t)64 << 20)
#define UNPACKED_PER_BYTE 256

struct perf_unpacker {
	ZSTD_DCtx *zstd;
	uint8_t *bytes;
	size_t size;
	size_t capacity;
	size_t most;
	bool ended; /* broken, or too large: what came is used */
	bool too_large;
};

struct perf_unpacker *perf_unpacker_create(size_t file_size)
{
	struct perf_unpacker *u = calloc(1, sizeof(*u));

	if (!u)
		return NULL;
	u->most = UNPACKED_BASE + UNPACKED_PER_BYTE * file_size;
	u->most = u->most < MAX_UNPACKED ? u->most : MAX_UNPACKED;
	return u;
}

static bool make_room(struct perf_unpacker *u)
{
	size_t capacity = u->capacity ? u->capacity * 2 : 1 << 20;
	uint8_t *bytes;

	if (u->size < u->capacity)
		return true;
	bytes = realloc(u->bytes, capacity);
	if (!bytes)
		return false;
	u->bytes = bytes;
	u->capacity = capacity;
	return true;
}

struct error *perf_unpack(struct perf_unpacker *u, struct bytes packed)
{
	ZSTD_inBuffer in = {packed.data, packed.size, 0};
	bool is_full = false;

	if (!u->zstd)
		u->zstd = ZSTD_createDCtx();
	if (!u->zstd)
		return &error_no_memory;
	while (!u->ended && (in.pos < in.size || is_full)) {
		ZSTD_outBuffer out = {0};

		if (!make_room(u))
			return &error_no_memory;
		out = (ZSTD_outBuffer){u->bytes, u->capacity, u->size};
		u->ended = ZSTD_isError(ZSTD_decompressStream(u->zstd, &out, &in));
		u->size = out.pos;
		is_full = out.pos == out.size;
		u->too_large = u->size >= u->most;
		u->ended |= u->too_large;
	}
	return NULL;
}

uint8_t *perf_unpacked(struct perf_unpacker *u, size_t *ret_size, bool *ret_too_large)
{
	uint8_t *bytes;

	if (!u)
		return NULL;
	bytes = u->bytes;
	*ret_size = u->size;
	*ret_too_large = u->too_large;
	ZSTD_freeDCtx(u->zstd);
	free(u);
	return bytes;
}
