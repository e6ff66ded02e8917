#include "gotrace/perfetto_packets.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "gotrace/perfetto_fields.h"

/* Events that come in no order at all take up to 3 times as many bytes as in Go's format. With
 * zlib's fastest level they take 3.6 times as many, in two thirds of the time. */
#define COMPRESSION 5
/* Bytes compressed at once. */
#define PIECE_BYTES (512u << 10)
/* Usually at most a quarter of it remains. */
#define USUAL_RATIO 4
/* An event without its length. */
#define MAX_EVENT 160

/* What viewers take for the frequency of samples. */
#define SAMPLES_A_SECOND 100

/* A message that is being built, known to fit. */
struct message {
	uint8_t bytes[MAX_EVENT];
	size_t size;
};

static void put(struct message *m, unsigned int field, uint64_t value)
{
	m->size += uvarint_put(m->bytes + m->size, TAG(field, NUMBER));
	m->size += uvarint_put(m->bytes + m->size, value);
}

static void put_fixed(struct message *m, unsigned int field, uint64_t value)
{
	m->size += uvarint_put(m->bytes + m->size, TAG(field, FIXED64));
	for (unsigned int i = 0; i < 8; i++)
		m->bytes[m->size++] = value >> 8 * i;
}

/* Puts one message into another. */
static void put_message(struct message *m, unsigned int field, const struct message *inner)
{
	m->size += uvarint_put(m->bytes + m->size, TAG(field, BYTES));
	m->size += uvarint_put(m->bytes + m->size, inner->size);
	memcpy(m->bytes + m->size, inner->bytes, inner->size);
	m->size += inner->size;
}

static size_t number_size(uint64_t value)
{
	size_t size = 1;

	while (value >>= 7)
		size++;
	return size;
}

/* The size of a field of bytes. */
static size_t bytes_size(unsigned int field, size_t size)
{
	return number_size(TAG(field, BYTES)) + number_size(size) + size;
}

static void begin_bytes(struct strbuf *to, unsigned int field, size_t size)
{
	strbuf_add_uvarint(to, TAG(field, BYTES));
	strbuf_add_uvarint(to, size);
}

static void add_bytes(struct strbuf *to, unsigned int field, const void *bytes, size_t size)
{
	begin_bytes(to, field, size);
	strbuf_add(to, bytes, size);
}

/* ---- compressing ---- */

static void compress_into(struct packets *p, uint8_t *to, size_t room)
{
	z_stream *z = p->deflate;
	struct message head = {.size = 0};
	size_t size;

	deflateReset(z);
	z->next_in = (uint8_t *)p->raw.data;
	z->avail_in = p->raw.length;
	z->next_out = to;
	z->avail_out = room;
	if (deflate(z, Z_FINISH) != Z_STREAM_END) {
		p->failed = true;
		return;
	}
	size = room - z->avail_out;
	/* The head is before it, in room for the longest head. */
	head.size += uvarint_put(head.bytes, TAG(FILE_PACKET, BYTES));
	head.size +=
		uvarint_put(head.bytes + head.size, bytes_size(PACKET_COMPRESSED_PACKETS, size));
	head.size += uvarint_put(head.bytes + head.size, TAG(PACKET_COMPRESSED_PACKETS, BYTES));
	head.size += uvarint_put(head.bytes + head.size, size);
	memmove(to - 2 * UVARINT_MAX - 3 + head.size, to, size);
	memcpy(to - 2 * UVARINT_MAX - 3, head.bytes, head.size);
	p->packed.length += head.size + size;
}

static void compress_raw(struct packets *p)
{
	size_t head = 2 * UVARINT_MAX + 3, room;
	char *to;

	if (!p->raw.length || p->failed)
		return;
	room = deflateBound(p->deflate, p->raw.length);
	to = strbuf_reserve(&p->packed, head + room);
	p->failed |= !to || p->raw.failed;
	if (!p->failed)
		compress_into(p, (uint8_t *)to + head, room);
	strbuf_reset(&p->raw);
}

/* Between two packets. */
static void end_packet(struct packets *p)
{
	if (p->raw.length >= PIECE_BYTES)
		compress_raw(p);
	p->failed |= p->raw.failed;
}

static void add_packet(struct packets *p, const struct message *packet)
{
	add_bytes(&p->raw, FILE_PACKET, packet->bytes, packet->size);
	end_packet(p);
}

/* ---- packets ---- */

static void put_clock(struct message *m, unsigned int id, uint64_t ns, bool incremental)
{
	struct message clock = {.size = 0};

	put(&clock, CLOCK_ID, id);
	put(&clock, CLOCK_TIMESTAMP, ns);
	if (incremental)
		put(&clock, CLOCK_IS_INCREMENTAL, 1);
	put_message(m, SNAPSHOT_CLOCKS, &clock);
}

static void set_clock(struct packets *p, uint64_t ns)
{
	struct message packet = {.size = 0}, snapshot = {.size = 0};

	put_clock(&snapshot, CLOCK_TRACE, ns, false);
	put_clock(&snapshot, CLOCK_OURS, ns, true);
	put(&packet, PACKET_SEQUENCE_ID, SEQUENCE);
	put_message(&packet, PACKET_CLOCK_SNAPSHOT, &snapshot);
	add_packet(p, &packet);
	p->last_ns = ns;
}

void packets_begin(struct packets *p, uint64_t ns)
{
	static const char *const names[] = {[ARGUMENT_STACK] = "stack",
					    [ARGUMENT_LABELS] = "labels",
					    [ARGUMENT_GOROUTINE] = "goroutine",
					    [ARGUMENT_TASK] = "task"};
	struct message packet = {.size = 0}, defaults = {.size = 0};
	struct message perf = {.size = 0}, timebase = {.size = 0};

	put(&timebase, TIMEBASE_FREQUENCY, SAMPLES_A_SECOND);
	put(&timebase, TIMEBASE_COUNTER, SW_CPU_CLOCK);
	put_message(&perf, PERF_DEFAULTS_TIMEBASE, &timebase);
	put_message(&defaults, DEFAULTS_PERF_SAMPLE, &perf);
	put(&defaults, DEFAULTS_TIMESTAMP_CLOCK_ID, CLOCK_OURS);
	put(&packet, PACKET_SEQUENCE_ID, SEQUENCE);
	put(&packet, PACKET_SEQUENCE_FLAGS, STATE_CLEARED);
	put_message(&packet, PACKET_DEFAULTS, &defaults);
	add_packet(p, &packet);
	set_clock(p, ns);
	for (unsigned int i = ARGUMENT_STACK; i <= ARGUMENT_TASK; i++)
		packets_intern(p, TABLE_ARGUMENT_NAMES, i, names[i], strlen(names[i]));
}

static void put_argument(struct message *m, enum packet_argument name, unsigned int field,
			 uint64_t value)
{
	struct message annotation = {.size = 0};

	put(&annotation, ANNOTATION_NAME_IID, name);
	put(&annotation, field, value);
	put_message(m, EVENT_DEBUG_ANNOTATIONS, &annotation);
}

static void put_event(struct message *m, const struct packet_event *ev)
{
	if (ev->stack)
		put_argument(m, ARGUMENT_STACK, ANNOTATION_STRING_VALUE_IID, ev->stack);
	if (ev->labels)
		put_argument(m, ARGUMENT_LABELS, ANNOTATION_STRING_VALUE_IID, ev->labels);
	if (ev->about)
		put_argument(m, ev->about, ANNOTATION_UINT_VALUE, ev->id);
	put(m, EVENT_TYPE, ev->type);
	if (ev->name)
		put(m, EVENT_NAME_IID, ev->name);
	put(m, EVENT_TRACK_UUID, ev->track);
	if (ev->type == PACKET_COUNTER)
		put(m, EVENT_COUNTER_VALUE, ev->value);
	if (ev->flow_from)
		put_fixed(m, EVENT_FLOW_IDS, ev->flow_from);
	if (ev->flow_to)
		put_fixed(m, EVENT_TERMINATING_FLOW_IDS, ev->flow_to);
}

void packets_event(struct packets *p, const struct packet_event *ev)
{
	struct message packet = {.size = 0}, event = {.size = 0};

	put_event(&event, ev);
	put(&packet, PACKET_TIMESTAMP, ev->is_past ? ev->ns : ev->ns - p->last_ns);
	put(&packet, PACKET_SEQUENCE_ID, SEQUENCE);
	put(&packet, PACKET_SEQUENCE_FLAGS, STATE_NEEDED);
	put_message(&packet, PACKET_TRACK_EVENT, &event);
	if (ev->is_past)
		put(&packet, PACKET_TIMESTAMP_CLOCK_ID, CLOCK_TRACE);
	else
		p->last_ns = ev->ns;
	add_packet(p, &packet);
}

void packets_intern(struct packets *p, enum packet_table table, uint64_t number, const char *text,
		    size_t length)
{
	struct message head = {.size = 0}, entry = {.size = 0};
	size_t entry_size, data_size;

	put(&head, PACKET_SEQUENCE_ID, SEQUENCE);
	put(&head, PACKET_SEQUENCE_FLAGS, STATE_NEEDED);
	put(&entry, INTERNED_IID, number);
	entry_size = entry.size + bytes_size(INTERNED_TEXT, length);
	data_size = bytes_size(table, entry_size);
	begin_bytes(&p->raw, FILE_PACKET, head.size + bytes_size(PACKET_INTERNED_DATA, data_size));
	strbuf_add(&p->raw, head.bytes, head.size);
	begin_bytes(&p->raw, PACKET_INTERNED_DATA, data_size);
	begin_bytes(&p->raw, table, entry_size);
	strbuf_add(&p->raw, entry.bytes, entry.size);
	add_bytes(&p->raw, INTERNED_TEXT, text, length);
	end_packet(p);
}

/* A packet with one entry of a table. */
static void intern_entry(struct packets *p, unsigned int table, const void *entry, size_t size)
{
	struct message head = {.size = 0};
	size_t data_size = bytes_size(table, size);

	put(&head, PACKET_SEQUENCE_ID, SEQUENCE);
	put(&head, PACKET_SEQUENCE_FLAGS, STATE_NEEDED);
	begin_bytes(&p->raw, FILE_PACKET, head.size + bytes_size(PACKET_INTERNED_DATA, data_size));
	strbuf_add(&p->raw, head.bytes, head.size);
	begin_bytes(&p->raw, PACKET_INTERNED_DATA, data_size);
	add_bytes(&p->raw, table, entry, size);
	end_packet(p);
}

void packets_mapping(struct packets *p, uint64_t number, uint64_t path)
{
	struct message entry = {.size = 0};

	put(&entry, INTERNED_IID, number);
	put(&entry, MAPPING_PATH_STRING_IDS, path);
	intern_entry(p, INTERNED_MAPPINGS, entry.bytes, entry.size);
}

void packets_frame(struct packets *p, const struct packet_frame *frame)
{
	struct message entry = {.size = 0};

	put(&entry, INTERNED_IID, frame->number);
	put(&entry, FRAME_FUNCTION_NAME_ID, frame->function);
	put(&entry, FRAME_MAPPING_ID, frame->mapping);
	put(&entry, FRAME_REL_PC, frame->pc);
	put(&entry, FRAME_SOURCE_PATH_IID, frame->file);
	put(&entry, FRAME_LINE_NUMBER, frame->line);
	intern_entry(p, INTERNED_FRAMES, entry.bytes, entry.size);
}

void packets_callstack(struct packets *p, uint64_t number, const uint64_t *frames, size_t count)
{
	_cleanup_strbuf_ struct strbuf entry = STRBUF_INIT;

	strbuf_add_uvarint(&entry, TAG(INTERNED_IID, NUMBER));
	strbuf_add_uvarint(&entry, number);
	for (size_t i = 0; i < count; i++) {
		strbuf_add_uvarint(&entry, TAG(CALLSTACK_FRAME_IDS, NUMBER));
		strbuf_add_uvarint(&entry, frames[i]);
	}
	p->failed |= entry.failed;
	intern_entry(p, INTERNED_CALLSTACKS, entry.data, entry.length);
}

void packets_sample(struct packets *p, const struct packet_sample *sample)
{
	struct message packet = {.size = 0}, perf = {.size = 0};

	put(&perf, SAMPLE_CPU, 0); /* not known */
	put(&perf, SAMPLE_PID, sample->pid);
	put(&perf, SAMPLE_TID, sample->tid);
	put(&perf, SAMPLE_CALLSTACK_IID, sample->stack);
	put(&perf, SAMPLE_CPU_MODE, MODE_USER);
	put(&packet, PACKET_TIMESTAMP, sample->ns - p->last_ns);
	put(&packet, PACKET_SEQUENCE_ID, SEQUENCE);
	put(&packet, PACKET_SEQUENCE_FLAGS, STATE_NEEDED);
	put_message(&packet, PACKET_PERF_SAMPLE, &perf);
	p->last_ns = sample->ns;
	add_packet(p, &packet);
}

static void add_process(struct strbuf *to, const struct packet_track *track)
{
	struct message pid = {.size = 0};

	put(&pid, PROCESS_PID, track->pid);
	begin_bytes(to, TRACK_PROCESS, pid.size + bytes_size(PROCESS_NAME, strlen(track->name)));
	strbuf_add(to, pid.bytes, pid.size);
	add_bytes(to, PROCESS_NAME, track->name, strlen(track->name));
}

static void add_descriptor(struct strbuf *to, const struct packet_track *track)
{
	struct message m = {.size = 0}, counter = {.size = 0};

	put(&m, TRACK_UUID, track->uuid);
	if (track->parent)
		put(&m, TRACK_PARENT_UUID, track->parent);
	put(&counter, COUNTER_UNIT, track->unit);
	if (track->unit)
		put_message(&m, TRACK_COUNTER, &counter);
	if (track->ordered)
		put(&m, TRACK_CHILD_ORDERING, ORDERED_BY_RANK);
	if (track->rank)
		put(&m, TRACK_SIBLING_ORDER_RANK, track->rank);
	strbuf_add(to, m.bytes, m.size);
	if (track->pid)
		add_process(to, track);
	else
		add_bytes(to, TRACK_NAME, track->name, strlen(track->name));
}

void packets_track(struct packets *p, const struct packet_track *track)
{
	_cleanup_strbuf_ struct strbuf descriptor = STRBUF_INIT;
	struct message head = {.size = 0};

	add_descriptor(&descriptor, track);
	put(&head, PACKET_SEQUENCE_ID, SEQUENCE);
	begin_bytes(&p->raw, FILE_PACKET,
		    head.size + bytes_size(PACKET_TRACK_DESCRIPTOR, descriptor.length));
	strbuf_add(&p->raw, head.bytes, head.size);
	add_bytes(&p->raw, PACKET_TRACK_DESCRIPTOR, descriptor.data, descriptor.length);
	p->failed |= descriptor.failed;
	end_packet(p);
}

void packets_complete(struct packets *p)
{
	compress_raw(p);
}

void packets_reset(struct packets *p)
{
	strbuf_reset(&p->raw);
	strbuf_reset(&p->packed);
}

size_t packets_size(const struct packets *p)
{
	return p->packed.length + p->raw.length / USUAL_RATIO;
}

void packets_init(struct packets *p)
{
	*p = (struct packets){.raw = STRBUF_INIT, .packed = STRBUF_INIT};
	p->deflate = calloc(1, sizeof(*p->deflate));
	p->failed = !p->deflate || deflateInit(p->deflate, COMPRESSION) != Z_OK;
}

void packets_release(struct packets *p)
{
	if (p->deflate)
		deflateEnd(p->deflate);
	free(p->deflate);
	strbuf_release(&p->raw);
	strbuf_release(&p->packed);
}
