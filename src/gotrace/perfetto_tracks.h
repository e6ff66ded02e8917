/*
 * The Perfetto track of a goroutine, a task, a P or a thread.
 *
 * Goroutines are grouped by the function that they began in. Within a group they share lanes: a
 * goroutine takes a free one. So there are as many lanes as there were goroutines at once, even for
 * ten thousand short ones. A goroutine that is older than the trace, or lives for seconds, gets a
 * track of its own. Tasks share lanes likewise.
 *
 * A lane has two tracks: what its goroutine does, and, with the next number, its regions and logs.
 * The numbers of tracks are never reused. A generation describes the tracks that it uses.
 */
#ifndef GOTRACE_PERFETTO_TRACKS_H
#define GOTRACE_PERFETTO_TRACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "gotrace/perfetto_packets.h"

/* Tracks that exist once. */
enum {
	TRACK_PROCESS = 1,
	TRACK_GC,
	TRACK_STW,
	TRACK_HEAP,
	TRACK_GOAL,
	TRACK_PROCS,
	TRACK_CPU,
	TRACK_STEAL,
	TRACK_THROTTLED,
	TRACK_PROCESSORS, /* parents of other tracks */
	TRACK_THREADS,
	TRACK_TASKS,
	TRACK_PATHS,
	TRACK_FIRST_FREE,
};

/* The most groups; a program has fewer start functions. Functions beyond that share one group. */
#define TRACKS_MOST_GROUPS 4096

/* Tracks whose numbers are made from ids; those of lanes count up from TRACK_FIRST_FREE. */
#define TRACKS_ID_MASK ((1ull << 48) - 1)
#define TRACKS_FIRST_PROCESSOR (1ull << 50)
#define TRACKS_FIRST_THREAD (2ull << 50)
static inline uint64_t tracks_number_of_thread(uint64_t id)
{
	return TRACKS_FIRST_THREAD + (id & TRACKS_ID_MASK);
}
/* The track of the states on a lane, by that of its regions. */
static inline uint64_t tracks_number_of_states(uint64_t regions)
{
	return regions - 1;
}

struct track {
	uint64_t uuid;
	uint64_t described; /* the last generation that has described it */
	uint32_t open;      /* number of open slices */
};

/* The tracks of a P or a thread. */
struct numbered {
	struct track track;
	struct numbered *next; /* the next spare one */
};

struct lane_group;

struct lane {
	struct track states; /* states of its goroutine; or a task */
	struct track regions;
	struct lane_group *group;
	struct lane *next; /* the next free one */
	uint64_t number;   /* in its group, from 1 on; 0: it belongs to one goroutine alone */
};

struct lane_group {
	struct track track;
	const char *name; /* a function */
	uint64_t lanes;
	struct lane *free;
};

struct tracks {
	struct track nowhere; /* used when there is no memory; then `failed` is set */
	struct packets *packets;
	uint64_t generation; /* from 1 on */
	uint64_t next_uuid;
	const char *process;
	uint64_t pid;
	struct track singles[TRACK_FIRST_FREE]; /* by number */
	struct lane_group tasks;
	struct lane_group paths;  /* critical paths of requests */
	struct lane_group others; /* of functions past the limit */
	struct map groups;        /* function, in the names of a writer's symbols -> group */
	struct map processors;    /* id -> struct numbered * */
	struct map threads;       /* likewise */
	struct arena storage;     /* of groups, lanes and tracks */
	struct arena names;       /* of groups */
	struct lane *spare_lanes; /* lanes of single goroutines that have ended */
	struct numbered *spare;   /* those of threads that have ended */
	struct strbuf text;
	bool failed; /* no memory */
};

void tracks_init(struct tracks *t, struct packets *packets, const char *process, uint64_t pid);
void tracks_release(struct tracks *t);
/* Nothing counts as described any more. Forgets idle threads, because a program may make threads
 * without end.
 */
void tracks_new_generation(struct tracks *t);

/* These two describe the track if needed. */
struct track *tracks_single(struct tracks *t, unsigned int number);
struct track *tracks_processor(struct tracks *t, uint64_t id);
struct track *tracks_thread(struct tracks *t, uint64_t id);
/* `own`: the name of the goroutine, if the track is its own. */
struct track *tracks_states(struct tracks *t, struct lane *lane, const char *own);
struct track *tracks_regions(struct tracks *t, struct lane *lane, const char *own);

/* The group of goroutines with this start function: its number and name. */
struct lane_group *tracks_group(struct tracks *t, uint64_t function, const char *name);
/* A free lane for a goroutine or, in `tasks`, a task. `own`: one that is never shared. NULL: no
 * memory. */
struct lane *tracks_take_lane(struct tracks *t, struct lane_group *group, bool own);
void tracks_leave_lane(struct tracks *t, struct lane *lane);

#endif
