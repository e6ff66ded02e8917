#include "trace/drain.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* How far before the writer a ring's memory is made: what is written between two looks. */
#define AHEAD_BYTES (2u << 20)

/* One ring. */
struct stream {
	struct agent_slot *slot;
	const uint8_t *ring;
	uint64_t at;  /* bytes that were taken */
	uint64_t end; /* bytes that are there */
	uint64_t tick;
	uint64_t thread;
	uint64_t populated; /* bytes of the ring, from its beginning */
	bool in_heap;
	struct drain_record next;
};

struct drain {
	struct agent_shared *shared;
	const struct agent_shared *layout;
	struct stream *streams;
	struct stream **heap; /* those that have a next record, the earliest first */
	size_t heap_count;
	uint64_t watermark;
	double fill;
	struct drain_stats stats;
};

/* How the numbers of a record are laid out: so many, then so many texts. */
static const struct shape {
	uint8_t numbers, texts;
} shapes[RECORDS] = {
	[RECORD_M] = {1, 0},
	[RECORD_START] = {1, 0},
	[RECORD_START_WORKER] = {2, 0},
	[RECORD_BLOCK] = {3, 0},
	[RECORD_BLOCK_PREEMPT] = {2, 0},
	[RECORD_YIELD] = {2, 0},
	[RECORD_PREEMPT] = {2, 0},
	[RECORD_EXIT] = {1, 0},
	[RECORD_UNBLOCK] = {2, 0},
	[RECORD_CREATE] = {3, 0},
	[RECORD_SYSCALL] = {2, 0},
	[RECORD_SYSCALL_EXIT] = {1, 0},
	[RECORD_SYSCALL_NO_P] = {1, 0},
	[RECORD_THREAD_ENTER] = {1, 0},
	[RECORD_THREAD_LEAVE] = {1, 0},
	[RECORD_CORO_SWITCH] = {3, 0},
	[RECORD_CORO_EXIT] = {2, 0},
	[RECORD_P_START] = {1, 0},
	[RECORD_P_STOP] = {1, 0},
	[RECORD_P_STEAL] = {1, 0},
	[RECORD_STW_BEGIN] = {3, 0},
	[RECORD_STW_END] = {1, 0},
	[RECORD_GC_BEGIN] = {2, 0},
	[RECORD_GC_END] = {1, 0},
	[RECORD_ASSIST_BEGIN] = {2, 0},
	[RECORD_ASSIST_END] = {1, 0},
	[RECORD_CALL] = {3, 0},
	[RECORD_RETURN] = {3, 0},
	[RECORD_SWEEP_BEGIN] = {2, 0},
	[RECORD_SWEEP_END] = {2, 0},
	[RECORD_TASK_BEGIN] = {4, 1},
	[RECORD_TASK_END] = {3, 0},
	[RECORD_REGION_BEGIN] = {3, 1},
	[RECORD_REGION_END] = {3, 1},
	[RECORD_LOG] = {3, 2},
	[RECORD_LABELS] = {3, 1},
	[RECORD_LABELS_AGAIN] = {2, 0},
	[RECORD_LABELS_NONE] = {1, 0},
	[RECORD_LABELS_UNREAD] = {3, 0},
};

struct error *drain_create(struct agent_shared *shared, const struct agent_shared *layout,
			   struct drain **ret)
{
	_cleanup_drain_ struct drain *d = calloc(1, sizeof(*d));

	if (!d)
		return &error_no_memory;
	d->shared = shared;
	d->layout = layout;
	d->streams = calloc(layout->slots, sizeof(d->streams[0]));
	d->heap = calloc(layout->slots, sizeof(d->heap[0]));
	if (!d->streams || !d->heap)
		return &error_no_memory;
	for (uint32_t i = 0; i < layout->slots; i++) {
		uint8_t *base = (uint8_t *)shared;

		d->streams[i].slot =
			(void *)(base + layout->slots_offset + (size_t)i * AGENT_SLOT_BYTES);
		d->streams[i].ring = base + layout->rings_offset + (size_t)i * layout->ring_bytes;
		d->streams[i].next.slot = i;
	}
	*ret = take_ptr(d);
	return NULL;
}

void drain_destroy(struct drain *d)
{
	if (!d)
		return;
	free(d->streams);
	free(d->heap);
	free(d);
}

/* ---- one ring ---- */

/* The bytes that are left of the record's chunk, as far as they are written. */
struct span {
	const uint8_t *at, *end;
	bool bad;
};

static uint64_t next_number(struct span *s)
{
	uint64_t value = 0;

	for (unsigned int shift = 0; shift < 70 && s->at < s->end; shift += 7) {
		uint8_t byte = *s->at++;

		value |= (uint64_t)(byte & 0x7f) << (shift & 63);
		if (byte < 0x80)
			return value;
	}
	s->bad = true;
	return 0;
}

static struct drain_text next_text(struct span *s)
{
	uint64_t length = next_number(s);
	struct drain_text text = {s->at, length};

	if (length > (uint64_t)(s->end - s->at)) {
		s->bad = true;
		return (struct drain_text){0};
	}
	s->at += length;
	return text;
}

static uint64_t chunk_end(uint64_t at)
{
	return (at | (AGENT_CHUNK_BYTES - 1)) + 1;
}

static const uint8_t *ring_at(const struct drain *d, const struct stream *s, uint64_t at)
{
	return s->ring + (at & (d->layout->ring_bytes - 1));
}

/* true when the chunk tells of a loss, which is then the next record. */
static bool begin_chunk(const struct drain *d, struct stream *s)
{
	struct agent_chunk chunk;

	memcpy(&chunk, ring_at(d, s, s->at), sizeof(chunk));
	s->at += sizeof(chunk);
	s->tick = chunk.tick;
	s->thread = chunk.thread;
	if (!chunk.lost)
		return false;
	s->next.kind = RECORD_LOST;
	s->next.numbers[0] = chunk.lost;
	return true;
}

static void read_record(struct stream *s, struct span *span, unsigned int kind)
{
	const struct shape *shape = &shapes[kind];

	s->tick += next_number(span);
	s->next.kind = kind;
	for (unsigned int i = 0; i < shape->numbers; i++)
		s->next.numbers[i] = next_number(span);
	for (unsigned int i = 0; i < shape->texts; i++)
		s->next.texts[i] = next_text(span);
}

/* Up to the next record of the chunk; false at its end, or when no more is written yet. */
static bool next_in_chunk(struct drain *d, struct stream *s)
{
	uint64_t limit = chunk_end(s->at) < s->end ? chunk_end(s->at) : s->end;
	const uint8_t *start = ring_at(d, s, s->at);
	struct span span = {start, start + (limit - s->at), false};

	while (span.at < span.end) {
		unsigned int kind = *span.at++;

		if (kind == RECORD_M) {
			s->thread = next_number(&span);
		} else if (kind > RECORD_M && kind < RECORDS) {
			read_record(s, &span, kind);
			if (span.bad)
				break;
			s->at += span.at - start;
			return true;
		} else {
			span.bad = kind != RECORD_NONE;
			limit = chunk_end(s->at);
			break;
		}
	}
	d->stats.corrupt += span.bad;
	s->at = span.bad ? chunk_end(s->at) : limit;
	return false;
}

static bool advance(struct drain *d, struct stream *s)
{
	bool found = false;

	while (!found && s->at < s->end) {
		if (!(s->at & (AGENT_CHUNK_BYTES - 1))) {
			if (s->end - s->at < sizeof(struct agent_chunk))
				return false;
			found = begin_chunk(d, s);
		} else {
			found = next_in_chunk(d, s);
		}
	}
	s->next.tick = s->tick;
	s->next.thread = s->thread;
	return found;
}

/* ---- all rings ---- */

static bool is_before(const struct stream *a, const struct stream *b)
{
	return a->next.tick < b->next.tick;
}

static void sift_down(struct drain *d, size_t i)
{
	struct stream *s = d->heap[i];

	for (;;) {
		size_t child = 2 * i + 1;

		if (child + 1 < d->heap_count && is_before(d->heap[child + 1], d->heap[child]))
			child++;
		if (child >= d->heap_count || !is_before(d->heap[child], s))
			break;
		d->heap[i] = d->heap[child];
		i = child;
	}
	d->heap[i] = s;
}

static void add(struct drain *d, struct stream *s)
{
	size_t i = d->heap_count++;

	s->in_heap = true;
	for (; i && is_before(s, d->heap[(i - 1) / 2]); i = (i - 1) / 2)
		d->heap[i] = d->heap[(i - 1) / 2];
	d->heap[i] = s;
}

/* Of a ring in use, what will be written next is charged to us, not to the target and its cgroup;
 * once around, all of it is there. */
static void populate(const struct drain *d, struct stream *s)
{
	uint64_t want = s->end + AHEAD_BYTES;

	want = want < d->layout->ring_bytes ? want : d->layout->ring_bytes;
	if (!s->end || want <= s->populated)
		return;
	madvise((void *)(s->ring + s->populated), want - s->populated, MADV_POPULATE_WRITE);
	s->populated = want;
}

/* What was taken may be written over; what is there now may be taken. A writer who says that he
 * wrote more than the ring holds is not believed. */
static void collect(struct drain *d, struct stream *s)
{
	uint64_t write = __atomic_load_n(&s->slot->write, __ATOMIC_ACQUIRE);
	/* The record that waits in the heap has no texts that are in use any more, but its place is
	 * not given back before it was taken. */
	uint64_t free_to = s->in_heap ? s->at & ~(AGENT_CHUNK_BYTES - 1ull) : s->at;
	double fill;

	__atomic_store_n(&s->slot->read, free_to, __ATOMIC_RELEASE);
	if (write <= s->at)
		return;
	if (write < s->end || write - s->at > d->layout->ring_bytes) {
		d->stats.corrupt++;
		return;
	}
	s->end = write;
	populate(d, s);
	fill = (double)(write - s->at) / d->layout->ring_bytes;
	if (fill > d->fill)
		d->fill = fill;
	if (!s->in_heap && advance(d, s))
		add(d, s);
}

void drain_collect(struct drain *d, uint64_t now, uint64_t margin, bool ended)
{
	uint64_t mark = ended ? UINT64_MAX : now - margin;

	d->fill = 0;
	for (uint32_t i = 0; i < d->layout->slots; i++) {
		struct stream *s = &d->streams[i];

		/* Before the ring is looked at: who begins after this has a later time. */
		if (!ended && __atomic_load_n(&s->slot->busy, __ATOMIC_ACQUIRE)) {
			uint64_t tick = __atomic_load_n(&s->slot->tick, __ATOMIC_RELAXED);

			mark = tick < mark ? tick : mark;
		}
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		collect(d, s);
	}
	if (mark > d->watermark)
		d->watermark = mark;
}

bool drain_next(struct drain *d, struct drain_record *ret)
{
	struct stream *s;

	if (!d->heap_count || d->heap[0]->next.tick >= d->watermark)
		return false;
	s = d->heap[0];
	*ret = s->next;
	d->stats.records++;
	if (advance(d, s)) {
		sift_down(d, 0);
		return true;
	}
	s->in_heap = false;
	d->heap[0] = d->heap[--d->heap_count];
	if (d->heap_count)
		sift_down(d, 0);
	return true;
}

uint64_t drain_watermark(const struct drain *d)
{
	return d->watermark;
}

double drain_fill(const struct drain *d)
{
	return d->fill;
}

void drain_stats(const struct drain *d, struct drain_stats *ret)
{
	*ret = d->stats;
	for (uint32_t i = 0; i < d->layout->slots; i++) {
		const struct agent_slot *slot = d->streams[i].slot;

		ret->lost += slot->lost_all;
		ret->stacks_lost += slot->stacks_lost;
		ret->labels_unread += slot->labels_unread;
		ret->bytes += d->streams[i].at;
	}
}

bool drain_stack(const struct drain *d, uint64_t number, const uint64_t **ret_words,
		 size_t *ret_count)
{
	const uint8_t *base = (const uint8_t *)d->shared;
	const struct agent_stack *table = (const void *)(base + d->layout->table_offset);
	const uint64_t *arena = (const void *)(base + d->layout->arena_offset);
	uint64_t offset, count;

	if (!number || number > AGENT_TABLE_SLOTS)
		return false;
	offset = __atomic_load_n(&table[number - 1].offset, __ATOMIC_ACQUIRE);
	if (!offset || offset > d->layout->arena_words)
		return false;
	count = arena[offset - 1];
	if (!count || count > AGENT_MAX_DEPTH + 8 || count > d->layout->arena_words - offset)
		return false;
	*ret_words = &arena[offset];
	*ret_count = count;
	return true;
}
