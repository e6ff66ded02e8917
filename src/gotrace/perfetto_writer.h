/*
 * The state of the writer of Perfetto's format, for the files that make its packets:
 *
 * - perfetto.c: the writer; which file a step goes to, and generations
 * - perfetto_goroutines.c: what each goroutine does, and its thread and P
 * - perfetto_regions.c: requests, regions, logs and tasks
 * - perfetto_runtime.c: the GC, Ps, the heap and counters
 * - perfetto_samples.c: CPU samples
 * - perfetto_paths.c: critical paths of requests
 * - perfetto_slices.c: slices and marks on tracks
 * - perfetto_names.c: the names and texts of these
 */
#ifndef GOTRACE_PERFETTO_WRITER_H
#define GOTRACE_PERFETTO_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "gotrace/perfetto_packets.h"
#include "gotrace/perfetto_samples.h"
#include "gotrace/perfetto_tracks.h"
#include "gotrace/trace_format.h"
#include "gotrace/trace_symbols.h"
#include "gotrace/used.h"

/* Names that need no text of the trace. */
enum perfetto_name {
	NAME_NONE,
	NAME_RUNNING,
	NAME_RUNNABLE,
	NAME_WAITING,
	NAME_SYSCALL,
	NAME_NOT_KNOWN,
	NAME_NOT_TRACED,
	NAME_CREATES,
	NAME_UNBLOCKS,
	NAME_LABELS,
	NAME_COLLECTS,
	NAME_ASSISTS,
	PERFETTO_NAMES
};

/* A goroutine's state; kept while it lives. */
struct life {
	uint64_t g;
	uint64_t number; /* unique: an id may be reused, for another function */
	uint64_t start_pc;
	uint64_t since_ns;
	uint64_t named; /* the generation that has its name */
	uint64_t flow;  /* the flow that ends when it starts; 0: none */
	uint64_t state; /* the name of the slice that is open */
	uint64_t first; /* for a goroutine whose stack still comes: the name of its state */
	uint64_t again; /* the name of the state that the next generation begins again; 0: none */
	uint64_t stack; /* of its slice */
	struct lane *lane;
	struct life *next; /* the next free one */
	uint32_t labels;   /* a text; 0: none */
	uint32_t request;  /* slices of its regions up to its request's; 0: that is not open */
};

/* A lane of critical paths. */
struct path_lane {
	struct lane *lane;
	uint64_t end; /* of its last path */
};

struct trace_writer {
	/* Used when there is no memory; then `failed` is set. */
	uint64_t nowhere;
	struct life nobody;
	struct trace_writer_options options;
	struct trace_symbols symbols;
	struct packets packets;
	struct tracks tracks;
	struct strbuf text;     /* a name or a stack that is being built */
	struct strbuf name;     /* of a goroutine */
	uint64_t generation;    /* from 1 on */
	uint64_t request_count; /* that have a name, and segments of paths */
	struct used names;      /* texts that are names of events, in this generation */
	struct used values;     /* texts that are labels */
	struct used stacks;
	struct perfetto_samples samples;
	uint32_t ids;                   /* last id of those, which have their own numbers here */
	uint64_t fixed[PERFETTO_NAMES]; /* the generation that has this name */
	struct map lives;               /* goid -> struct life * */
	struct arena storage;           /* of lives */
	struct life *free_lives;
	struct map tasks;    /* id -> struct lane *, while they are open */
	uint64_t life_count; /* so far */
	uint64_t first_ns;
	uint64_t last_ns;
	uint64_t wakes; /* so far; the number of each is that of its flow (gotrace/trace_path.h) */
	struct path_lane *path_lanes;
	size_t path_lane_count;
	size_t path_lane_capacity;
	uint64_t left_out; /* tasks */
	bool failed;
};

/* The value at a key of a map, which is added; with no memory a place that nobody reads. */
static inline uint64_t *perfetto_at(struct trace_writer *w, struct map *map, uint64_t key)
{
	uint64_t *place = map_at(map, key);

	w->nowhere = 0;
	w->failed |= !place;
	return place ?: &w->nowhere;
}

#endif
