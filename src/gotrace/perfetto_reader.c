#include "gotrace/perfetto_reader.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/cursor.h"
#include "base/map.h"
#include "gotrace/perfetto_fields.h"

/* A piece has 512 KB and a packet. */
#define MOST_PIECE (64u << 20)
/* What all pieces may unpack to, for each byte of the file; zlib reaches 1032. Slices that repeat
 * take a tenth. */
#define UNPACKED_PER_BYTE 128
#define UNPACKED_BASE (64ull << 20)
/* A century. */
#define LONGEST_NS 3155760000000000000ull
/* Names are cut: many small events may have one. */
enum { MAX_FRAMES = 255, MAX_NAME = 4096 };

/* A field of a message. */
struct field {
	unsigned int number;
	unsigned int layout;
	uint64_t value;
	struct cursor bytes;
};

/* Of this generation: maps from a number to a copy in `storage`. */
struct interned_data {
	struct map names;
	struct map functions;
	struct map files;
	struct map details; /* stacks and labels */
	struct map frames;  /* number -> struct trace_reader_frame * */
	struct map stacks;  /* number -> struct callstack * */
	struct arena storage;
};

struct callstack {
	size_t count;
	uint64_t frames[]; /* the outermost first */
};

struct perfetto_reader {
	struct cursor file;
	struct cursor piece; /* packets that were unpacked */
	uint8_t *unpacked;
	size_t unpacked_capacity;
	uint64_t unpacked_left; /* bytes that may still be unpacked */
	uint64_t generation;
	struct interned_data interned;
	uint64_t clock; /* as the last snapshot and what came since say it; 0: none came yet */
	uint64_t ns;    /* since the trace began */
	bool is_truncated;
	struct error *error;
	struct trace_reader_frame frames[MAX_FRAMES];
};

static struct error *must_check corrupt(const char *what)
{
	return error_format(ERROR_CORRUPT, "%s", what);
}

static struct error *must_check of_another_program(void)
{
	return error_format(
		ERROR_CORRUPT,
		"it is a Perfetto trace of another program; open it in ui.perfetto.dev");
}

bool perfetto_is(const void *bytes, size_t size)
{
	const uint8_t *b = bytes;
	size_t at = 1;

	if (size < 16 || b[0] != TAG(FILE_PACKET, BYTES))
		return false;
	while (at < UVARINT_MAX && b[at] & 0x80)
		at++;
	/* The two bytes of TAG(PACKET_COMPRESSED_PACKETS, BYTES). */
	return b[at + 1] == 0x92 && b[at + 2] == 0x03;
}

/* ---- messages ---- */

/* False at the end, also at one that comes too early: then `failed` is set. */
static bool next_field(struct cursor *c, struct field *ret)
{
	uint64_t tag, size;

	if (c->failed || c->at == c->end)
		return false;
	tag = cursor_uvarint(c);
	*ret = (struct field){.number = tag >> 3 <= UINT16_MAX ? tag >> 3 : 0, .layout = tag & 7};
	switch (ret->layout) {
	case NUMBER:
		ret->value = cursor_uvarint(c);
		break;
	case FIXED64:
		ret->value = cursor_u64(c);
		break;
	case FIXED32:
		ret->value = cursor_u32(c);
		break;
	case BYTES:
		size = cursor_uvarint(c);
		ret->bytes = cursor_of(c->at, 0, c->what);
		if (size <= (uint64_t)(c->end - c->at))
			ret->bytes.end = c->at + size;
		cursor_bytes(c, size);
		break;
	default:
		c->failed = true;
	}
	return !c->failed;
}

static bool is_message(const struct field *f, unsigned int number)
{
	return f->number == number && f->layout == BYTES;
}

static void fail(struct perfetto_reader *r, struct error *err)
{
	if (r->error)
		error_destroy(err);
	else
		r->error = err;
}

static const char *text_of(const struct map *map, uint64_t number)
{
	const uint64_t *known = map_find(map, number);

	return known ? (const char *)(uintptr_t)*known : NULL;
}

/* ---- interned data ---- */

static void forget_texts(struct perfetto_reader *r)
{
	struct interned_data *t = &r->interned;
	struct map *maps[] = {&t->names,   &t->functions, &t->files,
			      &t->details, &t->frames,    &t->stacks};

	for (size_t i = 0; i < ARRAY_SIZE(maps); i++)
		map_release(maps[i]);
	arena_release(&t->storage);
	r->generation++;
}

static void keep(struct perfetto_reader *r, struct map *map, uint64_t number, void *kept)
{
	uint64_t *place = kept ? map_at(map, number) : NULL;

	if (place)
		*place = (uintptr_t)kept;
	else
		fail(r, &error_no_memory);
}

static void take_text(struct perfetto_reader *r, struct map *map, struct cursor entry)
{
	struct cursor text = cursor_of("", 0, "a text");
	uint64_t number = 0;
	struct field f;

	while (next_field(&entry, &f)) {
		if (f.number == INTERNED_IID)
			number = f.value;
		else if (is_message(&f, INTERNED_TEXT))
			text = f.bytes;
	}
	if (map != &r->interned.details && text.end - text.at > MAX_NAME)
		text.end = text.at + MAX_NAME;
	keep(r, map, number, arena_copy(&r->interned.storage, text.at, text.end - text.at));
}

static void take_frame(struct perfetto_reader *r, struct cursor entry)
{
	struct trace_reader_frame *frame =
		(struct trace_reader_frame *)arena_take(&r->interned.storage, sizeof(*frame));
	uint64_t number = 0;
	struct field f;

	if (frame)
		*frame = (struct trace_reader_frame){.function = "", .file = ""};
	while (frame && next_field(&entry, &f)) {
		switch (f.number) {
		case INTERNED_IID:
			number = f.value;
			break;
		case FRAME_FUNCTION_NAME_ID:
			frame->function = text_of(&r->interned.functions, f.value) ?: "";
			break;
		case FRAME_SOURCE_PATH_IID:
			frame->file = text_of(&r->interned.files, f.value) ?: "";
			break;
		case FRAME_REL_PC:
			frame->pc = f.value;
			break;
		case FRAME_LINE_NUMBER:
			frame->line = f.value;
			break;
		default:
			break;
		}
	}
	keep(r, &r->interned.frames, number, frame);
}

static void take_callstack(struct perfetto_reader *r, struct cursor entry)
{
	uint64_t number = 0, frames[MAX_FRAMES];
	struct callstack *stack;
	struct field f;
	size_t n = 0;

	while (next_field(&entry, &f)) {
		if (f.number == INTERNED_IID)
			number = f.value;
		else if (f.number == CALLSTACK_FRAME_IDS && f.layout == NUMBER && n < MAX_FRAMES)
			frames[n++] = f.value;
	}
	stack = (struct callstack *)arena_take(&r->interned.storage,
					       sizeof(*stack) + n * sizeof(*frames));
	if (stack) {
		stack->count = n;
		memcpy(stack->frames, frames, n * sizeof(*frames));
	}
	keep(r, &r->interned.stacks, number, stack);
}

static void take_interned(struct perfetto_reader *r, struct cursor data)
{
	struct interned_data *t = &r->interned;
	struct field f;

	while (!r->error && next_field(&data, &f)) {
		if (f.layout != BYTES)
			continue;
		switch (f.number) {
		case TABLE_EVENT_NAMES:
			take_text(r, &t->names, f.bytes);
			break;
		case TABLE_FUNCTION_NAMES:
			take_text(r, &t->functions, f.bytes);
			break;
		case TABLE_SOURCE_PATHS:
			take_text(r, &t->files, f.bytes);
			break;
		case TABLE_TEXTS:
			take_text(r, &t->details, f.bytes);
			break;
		case INTERNED_FRAMES:
			take_frame(r, f.bytes);
			break;
		case INTERNED_CALLSTACKS:
			take_callstack(r, f.bytes);
			break;
		default:
			break;
		}
	}
}

/* ---- packets ---- */

/* Time passes, unless that cannot be true. */
static void pass(struct perfetto_reader *r, uint64_t ns)
{
	if (ns > LONGEST_NS || r->ns > LONGEST_NS)
		return;
	r->ns += ns;
	r->clock += ns;
}

static void set_clock(struct perfetto_reader *r, uint64_t ns)
{
	if (r->clock && ns > r->clock)
		pass(r, ns - r->clock);
	r->clock = ns;
}

static void take_clocks(struct perfetto_reader *r, struct cursor snapshot)
{
	struct field f, of_clock;

	while (next_field(&snapshot, &f)) {
		uint64_t id = 0, ns = 0;

		while (is_message(&f, SNAPSHOT_CLOCKS) && next_field(&f.bytes, &of_clock)) {
			if (of_clock.number == CLOCK_ID)
				id = of_clock.value;
			else if (of_clock.number == CLOCK_TIMESTAMP)
				ns = of_clock.value;
		}
		if (id == CLOCK_OURS)
			set_clock(r, ns);
	}
}

static void take_annotation(struct perfetto_reader *r, struct cursor annotation,
			    struct perfetto_item *ret)
{
	uint64_t number = 0, value = 0, text = 0;
	struct field f;

	while (next_field(&annotation, &f)) {
		if (f.number == ANNOTATION_NAME_IID)
			number = f.value;
		else if (f.number == ANNOTATION_UINT_VALUE)
			value = f.value;
		else if (f.number == ANNOTATION_STRING_VALUE_IID)
			text = f.value;
	}
	switch (number) {
	case ARGUMENT_STACK:
		ret->stack = text_of(&r->interned.details, text);
		break;
	case ARGUMENT_LABELS:
		ret->labels = text_of(&r->interned.details, text);
		break;
	case ARGUMENT_GOROUTINE:
	case ARGUMENT_TASK:
		ret->about = (enum packet_argument)number;
		ret->id = value;
		break;
	default:
		break;
	}
}

static void take_event(struct perfetto_reader *r, struct cursor event, struct perfetto_item *ret)
{
	struct field f;

	ret->kind = PERFETTO_EVENT;
	while (next_field(&event, &f)) {
		switch (f.number) {
		case EVENT_DEBUG_ANNOTATIONS:
			if (f.layout == BYTES)
				take_annotation(r, f.bytes, ret);
			break;
		case EVENT_TYPE:
			ret->type = f.value <= PACKET_COUNTER ? (enum packet_type)f.value : 0;
			break;
		case EVENT_NAME_IID:
			ret->name = text_of(&r->interned.names, f.value) ?: "";
			break;
		case EVENT_TRACK_UUID:
			ret->track = f.value;
			break;
		case EVENT_FLOW_IDS:
			ret->flow_from = f.value;
			break;
		default:
			break;
		}
	}
}

static void take_sample(struct perfetto_reader *r, struct cursor sample, struct perfetto_item *ret)
{
	struct field f;

	ret->kind = PERFETTO_SAMPLE;
	while (next_field(&sample, &f)) {
		if (f.number == SAMPLE_TID)
			ret->thread = f.value;
		else if (f.number == SAMPLE_CALLSTACK_IID)
			ret->callstack = (const void *)text_of(&r->interned.stacks, f.value);
	}
}

const struct trace_reader_frame *
perfetto_reader_frames(struct perfetto_reader *r, const struct callstack *stack, size_t *ret_count)
{
	size_t count = 0;

	for (size_t i = stack->count; i-- > 0;) {
		const void *frame = text_of(&r->interned.frames, stack->frames[i]);

		if (frame)
			memcpy(&r->frames[count++], frame, sizeof(*r->frames));
	}
	*ret_count = count;
	return r->frames;
}

static void take_track(struct perfetto_reader *r, struct cursor descriptor,
		       struct perfetto_item *ret)
{
	struct field f;
	const char *name;

	ret->kind = PERFETTO_TRACK;
	while (next_field(&descriptor, &f)) {
		if (f.number == TRACK_UUID)
			ret->track = f.value;
		else if (f.number == TRACK_PARENT_UUID)
			ret->parent = f.value;
		if (!is_message(&f, TRACK_NAME))
			continue;
		name = arena_copy(&r->interned.storage, f.bytes.at, f.bytes.end - f.bytes.at);
		if (!name)
			fail(r, &error_no_memory);
		ret->name = name ? name : "";
	}
}

/* The fields of a packet that are needed; each at most once. */
struct packet_parts {
	uint64_t timestamp;
	uint64_t sequence;
	bool is_past;
	struct field body; /* what it has; number 0: nothing of interest */
};

static struct error *must_check take_parts(struct cursor *packet, struct packet_parts *ret)
{
	struct field f;

	*ret = (struct packet_parts){.sequence = 0};
	while (next_field(packet, &f)) {
		switch (f.number) {
		case PACKET_TIMESTAMP:
			ret->timestamp = f.value;
			break;
		case PACKET_SEQUENCE_ID:
			ret->sequence = f.value;
			break;
		case PACKET_TIMESTAMP_CLOCK_ID:
			ret->is_past = f.value != CLOCK_OURS;
			break;
		case PACKET_CLOCK_SNAPSHOT:
		case PACKET_TRACK_EVENT:
		case PACKET_INTERNED_DATA:
		case PACKET_TRACK_DESCRIPTOR:
		case PACKET_PERF_SAMPLE:
			if (f.layout == BYTES)
				ret->body = f;
			break;
		case PACKET_SEQUENCE_FLAGS:
			if (f.value & STATE_CLEARED)
				ret->body = f;
			break;
		default:
			break;
		}
	}
	if (!packet->failed && ret->sequence == SEQUENCE)
		return NULL;
	return packet->failed ? corrupt("one of its packets is invalid") : of_another_program();
}

/* Moves the clock to the packet's time. */
static void take_time(struct perfetto_reader *r, const struct packet_parts *p,
		      struct perfetto_item *ret)
{
	ret->is_past = p->is_past;
	if (!p->is_past)
		pass(r, p->timestamp);
	ret->ns = r->ns;
}

/* *ret_is: the packet is an item. */
static struct error *must_check take_packet(struct perfetto_reader *r, struct cursor packet,
					    struct perfetto_item *ret, bool *ret_is)
{
	struct packet_parts p;
	struct error *err = take_parts(&packet, &p);

	*ret = (struct perfetto_item){.name = ""};
	*ret_is = false;
	if (err)
		return err;
	switch (p.body.number) {
	case PACKET_SEQUENCE_FLAGS:
		forget_texts(r);
		return NULL;
	case PACKET_CLOCK_SNAPSHOT:
		take_clocks(r, p.body.bytes);
		return NULL;
	case PACKET_INTERNED_DATA:
		take_interned(r, p.body.bytes);
		return NULL;
	case PACKET_TRACK_EVENT:
		take_time(r, &p, ret);
		take_event(r, p.body.bytes, ret);
		break;
	case PACKET_PERF_SAMPLE:
		take_time(r, &p, ret);
		take_sample(r, p.body.bytes, ret);
		break;
	case PACKET_TRACK_DESCRIPTOR:
		take_track(r, p.body.bytes, ret);
		break;
	default:
		return NULL;
	}
	*ret_is = true;
	return NULL;
}

/* ---- pieces ---- */

static struct error *must_check grow(struct perfetto_reader *r, z_stream *z)
{
	size_t capacity = r->unpacked_capacity ? 2 * r->unpacked_capacity : 1 << 20;
	size_t used = r->unpacked_capacity - z->avail_out;
	uint8_t *grown;

	if (r->unpacked_capacity == MOST_PIECE)
		return corrupt("one of its pieces is too large when unpacked");
	grown = realloc(r->unpacked, capacity);
	if (!grown)
		return &error_no_memory;
	r->unpacked = grown;
	r->unpacked_capacity = capacity;
	z->next_out = grown + used;
	z->avail_out = capacity - used;
	return NULL;
}

static struct error *must_check inflate_all(struct perfetto_reader *r, z_stream *z)
{
	struct error *err = NULL;
	int status = Z_OK;

	z->next_out = r->unpacked;
	z->avail_out = r->unpacked_capacity;
	while (!err && status == Z_OK) {
		if (!z->avail_out)
			err = grow(r, z);
		if (!err)
			status = inflate(z, Z_NO_FLUSH);
	}
	if (!err && status != Z_STREAM_END)
		err = corrupt("one of its pieces cannot be unpacked");
	return err;
}

static struct error *must_check unpack(struct perfetto_reader *r, struct cursor packed)
{
	z_stream z = {.next_in = (void *)packed.at, .avail_in = packed.end - packed.at};
	struct error *err;
	size_t size;

	if (packed.end - packed.at > MOST_PIECE)
		return corrupt("one of its pieces is too large");
	if (inflateInit(&z) != Z_OK)
		return &error_no_memory;
	err = inflate_all(r, &z);
	size = r->unpacked_capacity - z.avail_out;
	inflateEnd(&z);
	if (err)
		return err;
	if (size > r->unpacked_left)
		return corrupt("it is too large when unpacked");
	r->unpacked_left -= size;
	r->piece = cursor_of(r->unpacked, size, "a piece of the trace");
	return NULL;
}

/* A packet of the file has packets that are packed. */
static struct error *must_check next_piece(struct perfetto_reader *r, bool *ret_more)
{
	struct field packet, f;

	*ret_more = next_field(&r->file, &packet);
	r->is_truncated |= r->file.failed;
	if (!*ret_more)
		return NULL;
	if (!is_message(&packet, FILE_PACKET))
		return corrupt("it is not a Perfetto trace");
	while (next_field(&packet.bytes, &f))
		if (is_message(&f, PACKET_COMPRESSED_PACKETS))
			return unpack(r, f.bytes);
	return of_another_program();
}

struct error *perfetto_reader_next(struct perfetto_reader *r, struct perfetto_item *ret,
				   bool *ret_more)
{
	struct error *err = NULL;
	struct field packet;
	bool is = false;

	*ret_more = true;
	while (!err && !is && *ret_more) {
		if (!next_field(&r->piece, &packet))
			err = r->piece.failed ? corrupt("one of its packets is invalid")
					      : next_piece(r, ret_more);
		else if (is_message(&packet, FILE_PACKET))
			err = take_packet(r, packet.bytes, ret, &is);
		if (r->error && !err) {
			err = r->error;
			r->error = NULL;
		}
	}
	return err;
}

struct error *perfetto_reader_create(const void *bytes, size_t size, struct perfetto_reader **ret)
{
	struct perfetto_reader *r = calloc(1, sizeof(*r));

	if (!r)
		return &error_no_memory;
	r->file = cursor_of(bytes, size, "the trace");
	r->piece = cursor_of("", 0, "the trace");
	r->unpacked_left = UNPACKED_BASE + UNPACKED_PER_BYTE * (uint64_t)size;
	*ret = r;
	return NULL;
}

void perfetto_reader_destroy(struct perfetto_reader *r)
{
	if (!r)
		return;
	forget_texts(r);
	error_destroy(r->error);
	free(r->unpacked);
	free(r);
}

uint64_t perfetto_reader_generation(const struct perfetto_reader *r)
{
	return r->generation;
}

bool perfetto_reader_is_truncated(const struct perfetto_reader *r)
{
	return r->is_truncated;
}
