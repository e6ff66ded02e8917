#include "collect/drain.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"

/* When so many bytes wait for a thread that is said to be writing an earlier record, the thread is
 * not awaited any more: 0.5 s of the highest rate of two CPUs. Its record will appear out of order.
 */
#define MOST_HELD (128u << 20)

/* One ring. */
struct stream {
	struct piece *first, *last; /* that are still to be read; NULL: none */
	const uint8_t *at;          /* in the first */
	const uint8_t *end;
	const uint8_t *inside; /* numbers of records before this do not reach `end` */
	uint64_t skip_to;      /* bytes of the ring that are passed over */
	bool in_heap;
	struct drain_record next; /* its tick and thread are those of the place so far */
};

struct drain {
	const struct agent_shared *layout;
	struct backlog *backlog;
	struct stream *streams;
	struct stream **heap; /* those that have a next record, the earliest first */
	size_t heap_count;
	bool given; /* the next record of heap[0] */
	uint64_t watermark;
	uint64_t limit; /* records before this are complete: the watermark, or all */
	uint64_t held;  /* bytes of pieces */
	struct drain_stats stats;
};

/* How the numbers of a record are laid out: so many, then so many texts. */
static const struct shape {
	uint8_t numbers, texts;
} shapes[RECORDS] = {
#define RECORD(name, numbers, texts, ...) [RECORD_##name] = {numbers, texts},
#include "agent/records.def"
#undef RECORD
};

/* For records with numbers only: their count, plus one. */
static const uint8_t plain_numbers[UINT8_MAX + 1] = {
#define RECORD(name, numbers, texts, ...) [RECORD_##name] = (texts) ? 0 : (numbers) + 1,
#include "agent/records.def"
#undef RECORD
};

struct error *drain_create(const struct agent_shared *layout, struct backlog *backlog,
			   struct drain **ret)
{
	_cleanup_drain_ struct drain *d = calloc(1, sizeof(*d));

	if (!d)
		return &error_no_memory;
	d->layout = layout;
	d->backlog = backlog;
	d->streams = calloc(layout->slots, sizeof(d->streams[0]));
	d->heap = calloc(layout->slots, sizeof(d->heap[0]));
	if (!d->streams || !d->heap)
		return &error_no_memory;
	for (uint32_t i = 0; i < layout->slots; i++)
		d->streams[i].next.slot = i;
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

/* The rest of a piece. */
struct span {
	const uint8_t *at, *end;
	bool bad;
};

static uint64_t long_number(struct span *s)
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

/* Numbers take so many bytes at most, all those of a record. */
#define NUMBERS_BYTES ((1 + RECORD_MAX_NUMBERS) * UVARINT_MAX)

/*
 * The number at *at, of which all bytes that it may have are there. Nearly all have up to three:
 * the agent gives times and stacks three, and most goids two, whatever they are. False: it does not
 * end.
 */
static inline bool whole_number(const uint8_t **at, uint64_t *ret)
{
	uint32_t four;
	uint64_t value = 0;

	memcpy(&four, *at, 4);
	if (!(four & 0x80)) {
		*at += 1;
		*ret = four & 0x7f;
		return true;
	}
	if (!(four & 0x8000)) {
		*at += 2;
		*ret = (four & 0x7f) | (four >> 1 & 0x7f << 7);
		return true;
	}
	if (!(four & 0x800000)) {
		*at += 3;
		*ret = (four & 0x7f) | (four >> 1 & 0x7f << 7) | (four >> 2 & 0x7f << 14);
		return true;
	}
	for (unsigned int shift = 0; shift < 70; shift += 7) {
		uint8_t byte = *(*at)++;

		value |= (uint64_t)(byte & 0x7f) << (shift & 63);
		*ret = value;
		if (byte < 0x80)
			return true;
	}
	return false;
}

static inline uint64_t next_number(struct span *s)
{
	uint64_t value = 0;

	if (s->end - s->at < UVARINT_MAX)
		return long_number(s);
	s->bad |= !whole_number(&s->at, &value);
	return value;
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

/* Skips the rest of the chunk, also in later pieces. */
static void skip_chunk(struct stream *s)
{
	s->at = s->end;
	s->skip_to = chunk_end(s->first->at);
}

/* Records are next in the piece, and not the chunk's head. */
static void begin_records(struct stream *s)
{
	s->inside = s->end - s->at > NUMBERS_BYTES ? s->end - NUMBERS_BYTES : s->at;
}

/* True: the chunk reports a loss, which is the next record. */
static __attribute__((noinline)) bool begin_chunk(struct drain *d, struct stream *s)
{
	struct agent_chunk chunk;

	if ((size_t)(s->end - s->at) < sizeof(chunk)) {
		d->stats.corrupt++;
		skip_chunk(s);
		return false;
	}
	memcpy(&chunk, s->at, sizeof(chunk));
	s->at += sizeof(chunk);
	s->next.tick = chunk.tick;
	s->next.thread = chunk.thread;
	begin_records(s);
	if (!chunk.lost)
		return false;
	s->next.kind = RECORD_LOST;
	s->next.numbers[0] = chunk.lost;
	return true;
}

static void read_record(struct stream *s, struct span *span, unsigned int kind)
{
	const struct shape *shape = &shapes[kind];

	s->next.tick += next_number(span);
	s->next.kind = kind;
	for (unsigned int i = 0; i < shape->numbers; i++)
		s->next.numbers[i] = next_number(span);
	for (unsigned int i = 0; i < shape->texts; i++)
		s->next.texts[i] = next_text(span);
}

/* Up to the next record of the piece, whatever it is; false at its end. */
static __attribute__((noinline)) bool next_of_any(struct drain *d, struct stream *s)
{
	struct span span = {s->at, s->end, false};

	while (span.at < span.end) {
		unsigned int kind = *span.at++;

		if (kind == RECORD_M) {
			s->next.thread = next_number(&span);
		} else if (kind > RECORD_M && kind < RECORDS) {
			read_record(s, &span, kind);
			if (span.bad)
				break;
			s->at = span.at;
			return true;
		} else {
			span.bad = kind != RECORD_NONE;
			break;
		}
	}
	d->stats.corrupt += span.bad;
	if (span.bad || span.at < span.end)
		skip_chunk(s);
	s->at = s->end;
	return false;
}

/* A record of numbers, and not one of the piece's last, as most are: no byte is asked for its
 * place. False: it is another. */
static inline bool next_inside(struct stream *s)
{
	const uint8_t *at = s->at;
	unsigned int kind, end;
	uint64_t since;

	if (at >= s->inside)
		return false;
	kind = *at++;
	end = plain_numbers[kind];
	if (!end || !whole_number(&at, &since))
		return false;
	for (unsigned int i = 0; i + 1 < end; i++)
		if (!whole_number(&at, &s->next.numbers[i]))
			return false;
	s->next.tick += since;
	s->next.kind = kind;
	s->at = at;
	return true;
}

static bool next_in_piece(struct drain *d, struct stream *s)
{
	return next_inside(s) || next_of_any(d, s);
}

static bool begins_chunk(const struct piece *p)
{
	return !(p->at & (AGENT_CHUNK_BYTES - 1));
}

size_t drain_find(const struct piece *p, enum agent_record kind,
		  uint64_t (*ret)[RECORD_MAX_NUMBERS], size_t most)
{
	struct piece piece = *p;
	struct stream s = {.first = &piece, .at = p->bytes, .end = p->bytes + p->size};
	struct drain nobody = {0};
	size_t count = 0;

	if (begins_chunk(p))
		begin_chunk(&nobody, &s);
	else
		begin_records(&s);
	while (count < most && s.at < s.end && next_in_piece(&nobody, &s))
		if (s.next.kind == kind)
			memcpy(ret[count++], s.next.numbers, sizeof(ret[0]));
	return count;
}

/* The piece that is the first now. */
static void begin_piece(struct stream *s)
{
	const struct piece *p = s->first;

	s->at = s->end = s->inside = NULL;
	if (!p)
		return;
	s->end = p->bytes + p->size;
	s->at = p->at < s->skip_to ? s->end : p->bytes;
	if (!begins_chunk(p))
		begin_records(s);
}

static void end_piece(struct drain *d, struct stream *s)
{
	struct piece *p = s->first;
	struct block *block = p->block;

	s->first = p->next;
	begin_piece(s);
	d->stats.bytes += p->size;
	d->held -= p->size;
	if (!--block->left)
		backlog_release(d->backlog, block);
}

/* To its next record; false: it has none so far. */
static __attribute__((noinline)) bool advance(struct drain *d, struct stream *s)
{
	bool found = false;

	while (!found && s->first) {
		if (s->at == s->end)
			end_piece(d, s);
		else if (s->at == s->first->bytes && begins_chunk(s->first))
			found = begin_chunk(d, s);
		else
			found = next_in_piece(d, s);
	}
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

/* Skips the record that was delivered last: its user is done with it. */
static void pass_given(struct drain *d)
{
	struct stream *s = d->heap[0];

	if (!d->given)
		return;
	d->given = false;
	if (next_inside(s) || advance(d, s)) {
		sift_down(d, 0);
		return;
	}
	s->in_heap = false;
	d->heap[0] = d->heap[--d->heap_count];
	if (d->heap_count)
		sift_down(d, 0);
}

static void add_piece(struct drain *d, struct piece *p)
{
	struct stream *s = &d->streams[p->slot];

	p->next = NULL;
	d->held += p->size;
	if (s->first) {
		s->last->next = p;
		s->last = p;
		return;
	}
	s->first = s->last = p;
	begin_piece(s);
}

static void add_block(struct drain *d, struct block *block)
{
	block->left = block->piece_count;
	for (uint32_t i = 0; i < block->piece_count; i++)
		add_piece(d, &block->pieces[i]);
	if (!block->left)
		backlog_release(d->backlog, block);
}

void drain_add(struct drain *d, struct block *first)
{
	uint64_t watermark = first->about.watermark;

	pass_given(d);
	for (struct block *block = first, *next; block; block = next) {
		next = block->next;
		add_block(d, block);
	}
	for (uint32_t i = 0; i < d->layout->slots; i++) {
		struct stream *s = &d->streams[i];

		if (!s->in_heap && s->first && advance(d, s))
			add(d, s);
	}
	if (watermark > d->watermark)
		d->watermark = watermark;
	d->limit = d->held > MOST_HELD ? UINT64_MAX : d->watermark;
}

const struct drain_record *drain_next(struct drain *d)
{
	pass_given(d);
	if (!d->heap_count || d->heap[0]->next.tick >= d->limit)
		return NULL;
	d->stats.records++;
	d->given = true;
	return &d->heap[0]->next;
}

uint64_t drain_watermark(const struct drain *d)
{
	return d->watermark;
}

void drain_stats(const struct drain *d, struct drain_stats *ret)
{
	*ret = d->stats;
}
