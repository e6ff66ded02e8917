/*
 * Reads traces in Perfetto's format that gospect wrote (gotrace/perfetto_packets.h): slices and
 * marks on tracks, and CPU samples, in the order of the file. Those of other programs are refused.
 *
 * One piece of the file is unpacked at a time, and the texts of one generation are kept. Every byte
 * is hostile: memory and time are proportional to the file's size, with a limit of how far a piece
 * may grow.
 */
#ifndef GOTRACE_PERFETTO_READER_H
#define GOTRACE_PERFETTO_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "gotrace/perfetto_packets.h"
#include "gotrace/trace_reader.h"

enum perfetto_kind { PERFETTO_TRACK, PERFETTO_EVENT, PERFETTO_SAMPLE };

struct callstack;

struct perfetto_item {
	enum perfetto_kind kind;
	uint64_t ns; /* since the trace began; of an event or a sample */
	/* Of a track and of an event: the number of the track. */
	uint64_t track;
	uint64_t parent;       /* of a track */
	const char *name;      /* of a track or an event; "": none */
	enum packet_type type; /* of an event */
	/* Texts are the same pointer for the same text of a generation. NULL: none. */
	const char *stack;
	const char *labels;
	enum packet_argument about; /* with number `id`; 0: none */
	uint64_t id;
	uint64_t flow_from;
	bool is_past; /* belongs to a path through the past, not to this time */
	/* Of a sample: its thread, and its stack, which is the same pointer for the same stack of a
	 * generation; NULL: it is not known. */
	uint64_t thread;
	const struct callstack *callstack;
};

struct perfetto_reader;

/* Whether the file is a trace in Perfetto's format; its first bytes tell. */
bool perfetto_is(const void *bytes, size_t size);

/* Keeps `bytes`. */
struct error *perfetto_reader_create(const void *bytes, size_t size,
				     struct perfetto_reader **ret) must_check;
void perfetto_reader_destroy(struct perfetto_reader *reader);

/* The next item; false in *ret_more: the end. Its texts are valid until the next generation.
 */
struct error *perfetto_reader_next(struct perfetto_reader *reader, struct perfetto_item *ret,
				   bool *ret_more) must_check;

/* The frames of a sample's stack, innermost first. Valid until the next call. */
const struct trace_reader_frame *perfetto_reader_frames(struct perfetto_reader *reader,
							const struct callstack *callstack,
							size_t *ret_count);

/* Changes when texts and stacks become invalid. */
uint64_t perfetto_reader_generation(const struct perfetto_reader *reader);
/* Whether the file ends within a piece, which was left out. */
bool perfetto_reader_is_truncated(const struct perfetto_reader *reader);

static inline void cleanup_perfetto_reader(struct perfetto_reader **reader)
{
	perfetto_reader_destroy(*reader);
}
#define _cleanup_perfetto_reader_ __attribute__((cleanup(cleanup_perfetto_reader)))

#endif
