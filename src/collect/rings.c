#include "collect/rings.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

/* How far ahead of its writer a ring's memory is populated: a multiple of what was written between
 * two looks, within these limits. */
#define AHEAD_TIMES 4
#define LEAST_AHEAD_BYTES (256u << 10)
#define MOST_AHEAD_BYTES (2u << 20)
/* Limit of the populated memory of all rings, beside the most unread bytes at once. It is twice the
 * memory ahead of the writers of 64 busy rings. Beyond it a writer touches its memory itself. */
#define MOST_POPULATED (256ull << 20)
/* Together they are at most 1/ROOM_SHARE of the memory. */
#define ROOM_SHARE 4
/* Taken in one pass, which is a few milliseconds: at its priority the collector may keep all others
 * waiting. */
#define MOST_BYTES (16u << 20)

struct ring {
	struct agent_slot *slot;
	uint64_t begin; /* of its bytes, in the shared memory */
	uint64_t at;    /* bytes that were taken */
	uint64_t end;   /* bytes that are there */
	/* No record that was not there at the last look has a tick before this; and none that was
	 * not taken at the last look when all were. */
	uint64_t mark, low_water;
	uint64_t populated; /* bytes of the ring, from its beginning */
	uint64_t unread;    /* the most that was found at once */
	/* The chunk at `at`, after head_of() has read it. */
	struct agent_chunk head;
	bool has_head;
};

struct rings {
	const uint8_t *base;
	const struct agent_shared *layout;
	const struct injection *injection;
	struct ring *items;
	uint64_t room; /* limit of populated bytes of all of them */
	uint64_t unread;
	_Atomic uint64_t populated;
	_Atomic uint64_t corrupt;
};

/* A collection that is being filled. */
struct filling {
	struct backlog *backlog;
	struct block *last;
	uint64_t bytes;
};

static uint64_t machine_memory(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
}

struct error *rings_create(struct agent_shared *shared, const struct agent_shared *layout,
			   const struct injection *in, uint64_t room, struct rings **ret)
{
	_cleanup_rings_ struct rings *r = calloc(1, sizeof(*r));
	uint8_t *base = (uint8_t *)shared;

	if (!r)
		return &error_no_memory;
	r->base = base;
	r->layout = layout;
	r->injection = in;
	r->room = (room < machine_memory() ? room : machine_memory()) / ROOM_SHARE;
	r->items = calloc(layout->slots, sizeof(r->items[0]));
	if (!r->items)
		return &error_no_memory;
	for (uint32_t i = 0; i < layout->slots; i++) {
		struct ring *ring = &r->items[i];

		ring->slot = (void *)(base + layout->slots_offset + (size_t)i * AGENT_SLOT_BYTES);
		ring->begin = layout->rings_offset + (uint64_t)i * layout->ring_bytes;
	}
	*ret = take_ptr(r);
	return NULL;
}

void rings_destroy(struct rings *r)
{
	if (!r)
		return;
	free(r->items);
	free(r);
}

/* ---- looking ---- */

static uint64_t ahead_of(uint64_t written)
{
	uint64_t ahead = written * AHEAD_TIMES;

	if (ahead < LEAST_AHEAD_BYTES)
		return LEAST_AHEAD_BYTES;
	return ahead < MOST_AHEAD_BYTES ? ahead : MOST_AHEAD_BYTES;
}

/*
 * Places that were in use: as the writer says, and no more than it needed. A place is taken again
 * when what was in it was read, so there are as many as what was unread at once has begun.
 */
static uint64_t places_in_use(const struct ring *ring)
{
	uint64_t used = __atomic_load_n(&ring->slot->fresh, __ATOMIC_RELAXED);
	uint64_t needed = ring->unread / AGENT_CHUNK_BYTES + 2;

	return used < needed ? used : needed;
}

/* The limit of present memory of all rings. */
static uint64_t most_populated(const struct rings *r)
{
	uint64_t most = MOST_POPULATED + r->unread;

	return most < r->room ? most : r->room;
}

/* Populates the memory of a ring that is in use: first the part that was used before, then the part
 * behind it. */
static void populate(struct rings *r, struct ring *ring, uint64_t written)
{
	uint64_t want = places_in_use(ring) * AGENT_CHUNK_BYTES + ahead_of(written);
	uint64_t all = atomic_load(&r->populated), left = most_populated(r);

	left = left > all ? left - all : 0;
	want = want < r->layout->ring_bytes ? want : r->layout->ring_bytes;
	if (!r->injection || want <= ring->populated || !left)
		return;
	if (want - ring->populated > left)
		want = ring->populated + left;
	inject_populate(r->injection, ring->begin + ring->populated, want - ring->populated);
	atomic_fetch_add(&r->populated, want - ring->populated);
	ring->populated = want;
}

/* The most bytes that were unread at once, in each ring and in all. */
static void note_unread(struct rings *r, struct ring *ring)
{
	uint64_t unread = ring->end - ring->at;

	if (unread <= ring->unread)
		return;
	r->unread += unread - ring->unread;
	ring->unread = unread;
}

/* A writer that claims to have written more than the ring holds is not believed. */
static void look_at(struct rings *r, struct ring *ring)
{
	uint64_t write = __atomic_load_n(&ring->slot->write, __ATOMIC_ACQUIRE), written;

	if (write < ring->end || write - ring->at > r->layout->ring_bytes) {
		atomic_fetch_add(&r->corrupt, 1);
		return;
	}
	if (write == ring->end)
		return;
	written = write - ring->end;
	ring->end = write;
	note_unread(r, ring);
	populate(r, ring, written);
}

static void look(struct rings *r, uint64_t mark, bool ended)
{
	for (uint32_t i = 0; i < r->layout->slots; i++) {
		struct ring *ring = &r->items[i];

		ring->mark = mark;
		/* Before the ring is read: a record that begins after this has a later time. */
		if (!ended && __atomic_load_n(&ring->slot->busy, __ATOMIC_ACQUIRE)) {
			uint64_t tick = __atomic_load_n(&ring->slot->tick, __ATOMIC_RELAXED);

			ring->mark = tick < mark ? tick : mark;
		}
		look_at(r, ring);
	}
}

/* ---- copying ---- */

/* Wherever the target says that the chunk is, that is in the ring. */
static uint64_t ring_at(const struct rings *r, const struct ring *ring)
{
	uint32_t chunks = r->layout->ring_bytes / AGENT_CHUNK_BYTES;
	uint32_t n = ring->at / AGENT_CHUNK_BYTES;
	uint32_t place =
		n + __atomic_load_n(&ring->slot->moved[n & (chunks - 1)], __ATOMIC_RELAXED);

	return ring->begin + (uint64_t)(place & (chunks - 1)) * AGENT_CHUNK_BYTES +
	       (ring->at & (AGENT_CHUNK_BYTES - 1));
}

/* A writer may claim bytes that it never wrote. To look at those through the mapping would take
 * memory for them, up to the size of all rings. */
static void copy_from(const struct rings *r, uint64_t at, void *to, size_t size)
{
	if (r->injection)
		inject_read(r->injection, at, to, size);
	else
		memcpy(to, r->base + at, size);
}

static bool begins_chunk(const struct ring *ring)
{
	return !(ring->at & (AGENT_CHUNK_BYTES - 1));
}

/* How much may be taken; of a chunk that has just been begun nothing, unless its head is there. */
static uint64_t bytes_in(const struct ring *ring)
{
	uint64_t n = ring->end - ring->at;

	return begins_chunk(ring) && n < sizeof(struct agent_chunk) ? 0 : n;
}

/* The head of the chunk that begins here, as it was at the first look. */
static const struct agent_chunk *head_of(const struct rings *r, struct ring *ring)
{
	if (!ring->has_head)
		copy_from(r, ring_at(r, ring), &ring->head, sizeof(ring->head));
	ring->has_head = true;
	return &ring->head;
}

/* No record that has not been taken has a tick before this. */
static uint64_t complete_to(const struct rings *r, struct ring *ring)
{
	uint64_t tick;

	if (!bytes_in(ring))
		return ring->mark;
	if (!begins_chunk(ring))
		return ring->low_water;
	tick = head_of(r, ring)->tick;
	return tick > ring->low_water ? tick : ring->low_water;
}

/* The ring of the next piece; NULL: none. When memory is short the oldest goes first, so that the
 * collection is usable. */
static struct ring *next_ring(const struct rings *r, struct ring *from, bool oldest)
{
	struct ring *best = NULL, *end = r->items + r->layout->slots;
	uint64_t least = UINT64_MAX, to;

	for (struct ring *ring = oldest ? r->items : from; ring < end; ring++) {
		if (!bytes_in(ring))
			continue;
		if (!oldest)
			return ring;
		to = complete_to(r, ring);
		if (!best || to < least) {
			best = ring;
			least = to;
		}
	}
	return best;
}

static struct block *add_block(struct filling *f)
{
	struct block *block = backlog_free(f->backlog) > 1 ? backlog_get(f->backlog) : NULL;

	if (!block)
		return NULL;
	f->last->next = block;
	f->last = block;
	return block;
}

/* The next bytes: the decoder must see the same ones as we did, so they are copied once. */
static void take_bytes(const struct rings *r, struct ring *ring, uint8_t *to, size_t size)
{
	size_t n = 0;

	if (begins_chunk(ring)) {
		memcpy(to, head_of(r, ring), sizeof(ring->head));
		n = sizeof(ring->head);
	}
	copy_from(r, ring_at(r, ring) + n, to + n, size - n);
	ring->at += size;
	ring->has_head = false;
}

/* The rest of a chunk; false: there is no room. */
static bool copy_piece(struct rings *r, struct filling *f, struct ring *ring)
{
	uint64_t chunk_left = AGENT_CHUNK_BYTES - (ring->at & (AGENT_CHUNK_BYTES - 1));
	uint64_t size = bytes_in(ring);
	struct block *block = f->last;
	struct piece *piece;

	size = size < chunk_left ? size : chunk_left;
	if (block->piece_count == BLOCK_PIECES || block->used + size > BLOCK_BYTES)
		block = add_block(f);
	if (!block)
		return false;
	piece = &block->pieces[block->piece_count++];
	*piece = (struct piece){.block = block,
				.bytes = block->bytes + block->used,
				.at = ring->at,
				.size = size,
				.slot = ring - r->items};
	take_bytes(r, ring, block->bytes + block->used, size);
	block->used += size;
	f->bytes += size;
	return true;
}

/* Whether it could be that not everything fits: of two blocks more than one's worth is used; or
 * that it is too much for one look. */
static bool is_scarce(const struct rings *r, struct backlog *b, uint64_t most)
{
	uint64_t blocks = 2 + r->layout->slots / BLOCK_PIECES, bytes = 0;

	for (uint32_t i = 0; i < r->layout->slots; i++)
		bytes += bytes_in(&r->items[i]);
	blocks += 2 * bytes / BLOCK_BYTES;
	return blocks > backlog_free(b) || bytes > most;
}

static void copy_all(struct rings *r, struct backlog *b, struct block *first)
{
	struct filling f = {.backlog = b, .last = first};
	struct ring *ring = r->items;
	bool scarce = is_scarce(r, b, MOST_BYTES);

	while (f.bytes < MOST_BYTES && (ring = next_ring(r, ring, scarce)) &&
	       copy_piece(r, &f, ring))
		;
	for (uint32_t i = 0; i < r->layout->slots; i++)
		__atomic_store_n(&r->items[i].slot->read, r->items[i].at, __ATOMIC_RELEASE);
}

/* Up to where all rings are complete; *ret_all: nothing was left. */
static uint64_t find_watermark(struct rings *r, bool *ret_all)
{
	uint64_t watermark = UINT64_MAX;

	*ret_all = true;
	for (uint32_t i = 0; i < r->layout->slots; i++) {
		struct ring *ring = &r->items[i];
		uint64_t to = complete_to(r, ring);

		watermark = to < watermark ? to : watermark;
		if (bytes_in(ring))
			*ret_all = false;
		else
			ring->low_water = ring->mark;
	}
	return watermark;
}

bool rings_collect(struct rings *r, struct backlog *b, struct block *first, uint64_t now,
		   uint64_t margin, bool ended)
{
	uint64_t mark = ended ? UINT64_MAX : now - margin;
	bool is_only = !backlog_free(b), stuck = is_only && backlog_is_awaited(b), all;

	look(r, mark, ended);
	if (!is_only)
		copy_all(r, b, first);
	first->about.watermark = find_watermark(r, &all);
	if (stuck)
		first->about.watermark = mark;
	return all;
}

uint64_t rings_waiting(const struct rings *r)
{
	uint64_t most = 0;

	for (uint32_t i = 0; i < r->layout->slots; i++) {
		const struct ring *ring = &r->items[i];
		uint64_t write = __atomic_load_n(&ring->slot->write, __ATOMIC_RELAXED);
		uint64_t n = write - ring->at;

		if (n > most && n <= r->layout->ring_bytes)
			most = n;
	}
	return most;
}

static uint64_t counted(const uint64_t *count)
{
	return __atomic_load_n(count, __ATOMIC_RELAXED);
}

uint64_t rings_unread(const struct rings *r, uint32_t slot)
{
	return counted(&r->items[slot].slot->labels_unread);
}

void rings_stats(const struct rings *r, struct rings_stats *ret)
{
	*ret = (struct rings_stats){.corrupt = atomic_load(&r->corrupt),
				    .populated = atomic_load(&r->populated)};
	for (uint32_t i = 0; i < r->layout->slots; i++) {
		const struct agent_slot *slot = r->items[i].slot;

		ret->lost += counted(&slot->lost_all);
		ret->stacks_lost += counted(&slot->stacks_lost);
		ret->labels_unread += counted(&slot->labels_unread);
	}
}
