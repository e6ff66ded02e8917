/*
 * The bytes of Perfetto's format: a part of protos/perfetto/trace of
 * https://github.com/google/perfetto. The file is a message whose field 1, repeated, is a packet.
 * All packets are of one sequence:
 *
 * - Names and texts are interned: defined once a generation, by a number that is then used.
 * - The time of a packet is that since the packet before it, in ns: a clock of the sequence's own,
 *   which each generation sets. A packet about the past has the time of the trace's clock.
 * - Packets are gathered up to 512 KB and compressed (zlib) into one packet that holds them: slices
 *   that repeat take a tenth. Readers of Perfetto files read that.
 *
 * The code is written by hand: there are few kinds of packets, and millions of each. No packet
 * allocates memory.
 */
#ifndef GOTRACE_PERFETTO_PACKETS_H
#define GOTRACE_PERFETTO_PACKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

struct z_stream_s;

struct packets {
	struct strbuf raw;    /* not compressed yet */
	struct strbuf packed; /* the current generation, compressed */
	struct z_stream_s *deflate;
	uint64_t last_ns; /* the base of the next time */
	bool failed;      /* no memory */
};

/* Interned numbers of the names of event arguments. */
enum packet_argument { ARGUMENT_STACK = 1, ARGUMENT_LABELS, ARGUMENT_GOROUTINE, ARGUMENT_TASK };

enum packet_type {
	PACKET_SLICE_BEGIN = 1,
	PACKET_SLICE_END = 2,
	PACKET_INSTANT = 3,
	PACKET_COUNTER = 4,
};

struct packet_event {
	uint64_t ns;
	uint64_t track;
	enum packet_type type;
	uint64_t name;  /* its number among event names; 0: none, as at an end */
	uint64_t stack; /* of number `id`: ARGUMENT_GOROUTINE, ARGUMENT_TASK; 0: none */
	uint64_t labels;
	enum packet_argument about; /* ARGUMENT_GOROUTINE or ARGUMENT_TASK, with number `id`; 0:
				     * none */
	uint64_t id;
	uint64_t flow_from; /* an arrow begins here; 0: none */
	uint64_t flow_to;   /* and ends here */
	uint64_t value;     /* of a counter */
	bool is_past;       /* `ns` may be before that of other packets */
};

enum packet_unit { UNIT_NONE = 0, UNIT_TIME_NS = 1, UNIT_COUNT = 2, UNIT_SIZE_BYTES = 3 };

struct packet_track {
	uint64_t uuid;
	uint64_t parent; /* 0: none */
	const char *name;
	uint64_t pid; /* 0: the track is not that of a process */
	enum packet_unit unit;
	bool ordered;  /* its children are shown by their rank */
	uint64_t rank; /* 0: none */
};

/* Interned data: field numbers of InternedData. */
enum packet_table {
	TABLE_EVENT_NAMES = 2,
	TABLE_ARGUMENT_NAMES = 3,
	TABLE_FUNCTION_NAMES = 5,
	TABLE_MAPPING_PATHS = 17,
	TABLE_SOURCE_PATHS = 18,
	TABLE_TEXTS = 29,
};

/* A frame of a stack; its texts and its mapping are interned. */
struct packet_frame {
	uint64_t number;
	uint64_t function;
	uint64_t file;
	uint64_t mapping;
	uint64_t pc;
	uint32_t line;
};

/* A CPU sample. */
struct packet_sample {
	uint64_t ns;
	uint64_t pid;
	uint64_t tid;
	uint64_t stack;
};

/* Begins a generation, which can be read without those before it. */
void packets_begin(struct packets *p, uint64_t ns);
void packets_event(struct packets *p, const struct packet_event *ev);
void packets_intern(struct packets *p, enum packet_table table, uint64_t number, const char *text,
		    size_t length);
void packets_mapping(struct packets *p, uint64_t number, uint64_t path);
void packets_frame(struct packets *p, const struct packet_frame *frame);
/* Frames by their numbers, the outermost first. */
void packets_callstack(struct packets *p, uint64_t number, const uint64_t *frames, size_t count);
void packets_sample(struct packets *p, const struct packet_sample *sample);
void packets_track(struct packets *p, const struct packet_track *track);
/* Moves all of the generation into `packed`. */
void packets_complete(struct packets *p);
/* Empties it and keeps the memory. */
void packets_reset(struct packets *p);

/* The approximate number of bytes so far. */
size_t packets_size(const struct packets *p);

void packets_init(struct packets *p);
void packets_release(struct packets *p);

#endif
