/*
 * The Perfetto track of a goroutine, a task, a P or a thread.
 *
 * Goroutines are grouped by the function that they began in. Within a group they share lanes: a
 * goroutine takes a free one, so that ten thousand that came one after the other are one line, and
 * as many lines as there were at once. One that was there before the trace, or is there after
 * seconds, gets a track of its own. Tasks share lanes likewise.
 *
 * A lane has two tracks: what its goroutine does, and its regions and logs. The numbers of tracks
 * are given once and never again. A generation describes those that it uses.
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

/* Tracks that there are once. */
enum {
	TRACK_PROCESS = 1,
	TRACK_GC,
	TRACK_STW,
	TRACK_HEAP,
	TRACK_GOAL,
	TRACK_PROCS,
	TRACK_PROCESSORS, /* those that are over others */
	TRACK_THREADS,
	TRACK_TASKS,
	TRACK_FIRST_FREE,
};

/* More functions than goroutines of a program begin in: those past them are one group. */
#define TRACKS_MOST_GROUPS 4096

struct track {
	uint64_t uuid;
	uint64_t described; /* the generation that has described it last */
	uint32_t open;      /* slices */
};

/* The tracks of a P or a thread. */
struct numbered {
	struct track track;
	struct numbered *next; /* that is spare */
};

struct lane_group;

struct lane {
	struct track states; /* states of its goroutine; or a task */
	struct track regions;
	struct lane_group *group;
	struct lane *next; /* that is free */
	uint64_t number;   /* in its group, from 1 on; 0: it is a goroutine's own */
};

struct lane_group {
	struct track track;
	const char *name; /* a function's */
	uint64_t lanes;
	struct lane *free;
};

struct tracks {
	struct track nowhere; /* where there is no memory for one; then `failed` is set */
	struct packets *packets;
	uint64_t generation; /* from 1 on */
	uint64_t next_uuid;
	const char *process;
	uint64_t pid;
	struct track singles[TRACK_FIRST_FREE]; /* by their numbers */
	struct lane_group tasks;
	struct lane_group others; /* of functions past the limit */
	struct map groups;        /* function, in the names of a writer's symbols -> group */
	struct map processors;    /* id -> struct numbered * */
	struct map threads;       /* likewise */
	struct arena storage;     /* of groups, lanes and tracks */
	struct arena names;       /* of groups */
	struct lane *spare_lanes; /* goroutines' own, of those that have ended */
	struct numbered *spare;   /* of threads that are no more */
	struct strbuf text;
	bool failed; /* no memory */
};

void tracks_init(struct tracks *t, struct packets *packets, const char *process, uint64_t pid);
void tracks_release(struct tracks *t);
/* Nothing is described any more. Threads that do nothing are forgotten: others may come for ever.
 */
void tracks_new_generation(struct tracks *t);

/* Each describes its track where that is needed. */
struct track *tracks_single(struct tracks *t, unsigned int number);
struct track *tracks_processor(struct tracks *t, uint64_t id);
struct track *tracks_thread(struct tracks *t, uint64_t id);
/* `own`: the name of the goroutine, which is that of its own track. */
struct track *tracks_states(struct tracks *t, struct lane *lane, const char *own);
struct track *tracks_regions(struct tracks *t, struct lane *lane, const char *own);

/* That of goroutines that begin in this function: its number and name. */
struct lane_group *tracks_group(struct tracks *t, uint64_t function, const char *name);
/* A lane that is free by now, for a goroutine or, in `tasks`, a task; or, `own`, one that no other
 * will have. NULL: no memory. */
struct lane *tracks_take_lane(struct tracks *t, struct lane_group *group, bool own);
void tracks_leave_lane(struct tracks *t, struct lane *lane);

#endif
