/* Packets that claim to be of a Perfetto trace, and files that claim to be one: their reader, and
 * the spans and requests that `report` makes of them. */
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "base/cursor.h"
#include "fuzz.h"
#include "gotrace/perfetto_fields.h"
#include "made_trace.h"
#include "requests/inferred_spans.h"
#include "requests/perfetto_spans.h"
#include "requests/requests.h"
#include "requests/summary.h"

/* The first byte of an input. Nothing grows in bytes that are compressed. */
enum { IS_FILE, IS_PACKETS };

struct report {
	struct span_tables tables;
	struct summary summary;
	struct requests by_label, by_function;
	struct inferred_spans inferred;
};

static struct error *take_span(void *arg, const struct span *span)
{
	struct report *r = arg;
	struct error *err;

	fuzz_require(span->begin <= span->end && span->g);
	err = inferred_spans_add(&r->inferred, &r->tables, span);
	if (err || span->moment)
		return err;
	err = summary_add(&r->summary, span);
	return err ? err : requests_add(&r->by_label, &r->tables, span);
}

static void read_file(const uint8_t *data, size_t size)
{
	_cleanup_perfetto_reader_ struct perfetto_reader *reader = NULL;
	struct report r = {.by_label = {.key = "k", .per = "p"}};
	const struct spans_options options = {.span = take_span,
					      .arg = &r,
					      .calls = true,
					      .samples = true};
	uint64_t duration = 0;
	regex_t root;

	fuzz_require(!regcomp(&root, "^main", REG_EXTENDED | REG_NOSUB));
	r.inferred = (struct inferred_spans){.root = &root, .requests = &r.by_function};
	fuzz_require(!perfetto_reader_create(data, size, &reader));
	error_destroy(perfetto_spans_read(reader, &options, &r.tables, &duration));
	fuzz_require(!inferred_spans_complete(&r.inferred));
	summary_complete(&r.summary);
	fuzz_require(!requests_complete(&r.by_label, duration));
	fuzz_require(!requests_complete(&r.by_function, duration));
	fuzz_accepted += r.summary.count;
	summary_release(&r.summary);
	inferred_spans_release(&r.inferred);
	requests_release(&r.by_label);
	requests_release(&r.by_function);
	span_tables_release(&r.tables);
	regfree(&root);
}

static void add_bytes(struct strbuf *to, unsigned int field, const void *bytes, size_t size)
{
	strbuf_add_uvarint(to, TAG(field, BYTES));
	strbuf_add_uvarint(to, size);
	strbuf_add(to, bytes, size);
}

/* A file with one piece: these packets. */
static void pack(const uint8_t *packets, size_t size, struct strbuf *file)
{
	_cleanup_strbuf_ struct strbuf packet = STRBUF_INIT;
	uLongf packed_size = compressBound(size);
	_cleanup_free_ uint8_t *packed = malloc(packed_size);

	fuzz_require(packed && compress2(packed, &packed_size, packets, size, 0) == Z_OK);
	add_bytes(&packet, PACKET_COMPRESSED_PACKETS, packed, packed_size);
	add_bytes(file, FILE_PACKET, packet.data, packet.length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_strbuf_ struct strbuf file = STRBUF_INIT;

	if (!size)
		return 0;
	if (data[0] == IS_FILE && perfetto_is(data + 1, size - 1))
		read_file(data + 1, size - 1);
	if (data[0] != IS_PACKETS)
		return 0;
	pack(data + 1, size - 1, &file);
	read_file((const uint8_t *)file.data, file.length);
	return 0;
}

/* ---- seeds ---- */

/* The packets of each piece: the inverse of pack(). */
static void unpack(struct cursor file, struct strbuf *packets)
{
	while (file.at < file.end) {
		fuzz_require(cursor_uvarint(&file) == TAG(FILE_PACKET, BYTES));
		cursor_uvarint(&file);
		fuzz_require(cursor_uvarint(&file) == TAG(PACKET_COMPRESSED_PACKETS, BYTES));

		size_t size = cursor_uvarint(&file);
		const uint8_t *packed = cursor_bytes(&file, size);
		uLongf room = 4 << 20;
		char *to = strbuf_reserve(packets, room);

		fuzz_require(packed && to &&
			     uncompress((uint8_t *)to, &room, packed, size) == Z_OK);
		packets->length += room;
	}
}

struct emitting {
	fuzz_emit *emit;
	void *arg;
};

/* As a file, and as its packets. */
static void emit_both(void *arg, const struct strbuf *file)
{
	_cleanup_strbuf_ struct strbuf as_file = STRBUF_INIT, as_packets = STRBUF_INIT;
	const struct emitting *e = arg;

	strbuf_addc(&as_file, IS_FILE);
	strbuf_add(&as_file, file->data, file->length);
	e->emit(e->arg, as_file.data, as_file.length);
	strbuf_addc(&as_packets, IS_PACKETS);
	unpack(cursor_of(file->data, file->length, "a seed"), &as_packets);
	e->emit(e->arg, as_packets.data, as_packets.length);
}

void fuzz_seeds(fuzz_emit *emit, void *arg)
{
	made_traces(&trace_format_perfetto, emit_both, &(struct emitting){emit, arg});
}
