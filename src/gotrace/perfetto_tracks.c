#include "gotrace/perfetto_tracks.h"

#include <stddef.h>
#include <string.h>

#include "base/array.h"

/* The rank of regions: below the states of their goroutine. */
#define REGIONS_BEHIND 1

static const struct {
	const char *name;
	enum packet_unit unit;
	bool ordered;
} singles[TRACK_FIRST_FREE] = {
	[TRACK_GC] = {"GC"},
	[TRACK_STW] = {"stop the world"},
	[TRACK_HEAP] = {"heap", UNIT_SIZE_BYTES},
	[TRACK_GOAL] = {"heap goal", UNIT_SIZE_BYTES},
	[TRACK_PROCS] = {"GOMAXPROCS", UNIT_COUNT},
	[TRACK_CPU] = {"CPU time", UNIT_TIME_NS},
	[TRACK_STEAL] = {"steal", UNIT_TIME_NS},
	[TRACK_THROTTLED] = {"throttled", UNIT_TIME_NS},
	[TRACK_PROCESSORS] = {"processors", UNIT_NONE, true},
	[TRACK_THREADS] = {"threads"},
	[TRACK_TASKS] = {"tasks", UNIT_NONE, true},
	[TRACK_PATHS] = {"critical paths of the slowest requests", UNIT_NONE, true},
};

void tracks_init(struct tracks *t, struct packets *packets, const char *process, uint64_t pid)
{
	*t = (struct tracks){.packets = packets,
			     .generation = 1,
			     .next_uuid = TRACK_FIRST_FREE,
			     .process = process,
			     .pid = pid,
			     .tasks = {.name = "task"},
			     .paths = {.name = "critical path"},
			     .others = {.name = "other goroutines"},
			     .text = STRBUF_INIT};
	for (unsigned int i = 0; i < TRACK_FIRST_FREE; i++)
		t->singles[i].uuid = i;
	t->tasks.track.uuid = TRACK_TASKS;
	t->paths.track.uuid = TRACK_PATHS;
	t->others.track.uuid = t->next_uuid++;
}

void tracks_release(struct tracks *t)
{
	map_release(&t->groups);
	map_release(&t->processors);
	map_release(&t->threads);
	arena_release(&t->storage);
	arena_release(&t->names);
	strbuf_release(&t->text);
}

/* Zeroed storage with the lifetime of the tracks. */
static void *keep(struct tracks *t, size_t size)
{
	size_t align = _Alignof(max_align_t);
	void *kept = arena_take(&t->storage, (size + align - 1) & ~(align - 1));

	t->failed |= !kept;
	return kept ? memset(kept, 0, size) : NULL;
}

/* ---- describing ---- */

/* False: it is described already. */
static bool is_new(const struct tracks *t, struct track *track)
{
	bool new = track->described != t->generation;

	track->described = t->generation;
	return new;
}

static void describe_process(struct tracks *t)
{
	if (is_new(t, &t->singles[TRACK_PROCESS]))
		packets_track(t->packets, &(struct packet_track){.uuid = TRACK_PROCESS,
								 .name = t->process,
								 .pid = t->pid});
}

struct track *tracks_single(struct tracks *t, unsigned int number)
{
	struct track *track = &t->singles[number];

	describe_process(t);
	if (is_new(t, track))
		packets_track(t->packets,
			      &(struct packet_track){.uuid = number,
						     .parent = TRACK_PROCESS,
						     .name = singles[number].name,
						     .unit = singles[number].unit,
						     .ordered = singles[number].ordered});
	return track;
}

static struct numbered *new_numbered(struct tracks *t)
{
	struct numbered *spare = t->spare;

	if (!spare)
		return keep(t, sizeof(*spare));
	t->spare = spare->next;
	*spare = (struct numbered){0};
	return spare;
}

/* The track of a P or thread, by its id. One that is forgotten and returns gets the same number. */
static struct track *find_numbered(struct tracks *t, struct map *map, uint64_t first, uint64_t id)
{
	uint64_t *place = map_at(map, id);

	if (place && !*place) {
		struct numbered *new = new_numbered(t);

		if (new)
			new->track.uuid = first + (id & TRACKS_ID_MASK);
		*place = (uintptr_t) new;
	}
	t->failed |= !place;
	return place && *place ? &((struct numbered *)(uintptr_t)*place)->track : &t->nowhere;
}

static struct track *describe_numbered(struct tracks *t, struct track *track, unsigned int over,
				       const char *kind, uint64_t id)
{
	if (!is_new(t, track))
		return track;
	tracks_single(t, over);
	strbuf_reset(&t->text);
	strbuf_adds(&t->text, kind);
	strbuf_addu(&t->text, id);
	packets_track(t->packets, &(struct packet_track){.uuid = track->uuid,
							 .parent = over,
							 .name = t->text.data,
							 .rank = id + 1});
	return track;
}

struct track *tracks_processor(struct tracks *t, uint64_t id)
{
	return describe_numbered(t, find_numbered(t, &t->processors, TRACKS_FIRST_PROCESSOR, id),
				 TRACK_PROCESSORS, "P", id);
}

struct track *tracks_thread(struct tracks *t, uint64_t id)
{
	return describe_numbered(t, find_numbered(t, &t->threads, TRACKS_FIRST_THREAD, id),
				 TRACK_THREADS, "thread ", id);
}

static void describe_group(struct tracks *t, struct lane_group *group)
{
	if (group == &t->tasks || group == &t->paths) {
		tracks_single(t, group->track.uuid);
		return;
	}
	describe_process(t);
	if (is_new(t, &group->track))
		packets_track(t->packets, &(struct packet_track){.uuid = group->track.uuid,
								 .parent = TRACK_PROCESS,
								 .name = group->name,
								 .ordered = true});
}

/* "main.worker 3", or the name of the goroutine that owns the lane. */
static struct track *describe_lane(struct tracks *t, struct lane *lane, struct track *track,
				   const char *own, const char *what)
{
	uint64_t rank = 2 * lane->number;

	if (!is_new(t, track))
		return track;
	describe_group(t, lane->group);
	strbuf_reset(&t->text);
	strbuf_adds(&t->text, lane->number ? lane->group->name : own);
	if (lane->number)
		strbuf_addf(&t->text, " %lu", lane->number);
	strbuf_adds(&t->text, what);
	if (lane->number && track == &lane->regions)
		rank += REGIONS_BEHIND;
	packets_track(t->packets, &(struct packet_track){.uuid = track->uuid,
							 .parent = lane->group->track.uuid,
							 .name = t->text.data,
							 .rank = rank});
	return track;
}

struct track *tracks_states(struct tracks *t, struct lane *lane, const char *own)
{
	return describe_lane(t, lane, &lane->states, own, "");
}

struct track *tracks_regions(struct tracks *t, struct lane *lane, const char *own)
{
	return describe_lane(t, lane, &lane->regions, own, " regions");
}

/* ---- lanes ---- */

struct lane_group *tracks_group(struct tracks *t, uint64_t function, const char *name)
{
	const uint64_t *known = map_find(&t->groups, function);
	struct lane_group *group;
	uint64_t *place;

	if (known)
		return (struct lane_group *)(uintptr_t)*known;
	if (t->groups.count >= TRACKS_MOST_GROUPS)
		return &t->others;
	group = keep(t, sizeof(*group));
	place = group ? map_at(&t->groups, function) : NULL;
	if (place)
		group->name = arena_copy(&t->names, name, strlen(name));
	if (!place || !group->name) {
		t->failed = true;
		return &t->others;
	}
	*place = (uintptr_t)group;
	group->track.uuid = t->next_uuid++;
	return group;
}

static void number_lane(struct tracks *t, struct lane *lane, struct lane_group *group)
{
	*lane = (struct lane){.states.uuid = t->next_uuid,
			      .regions.uuid = t->next_uuid + 1,
			      .group = group};
	t->next_uuid += 2;
}

struct lane *tracks_take_lane(struct tracks *t, struct lane_group *group, bool own)
{
	struct lane **free = own ? &t->spare_lanes : &group->free, *lane = *free;
	bool is_free = lane;

	if (is_free)
		*free = lane->next;
	else
		lane = keep(t, sizeof(*lane));
	if (!lane)
		return NULL;
	if (own || !is_free)
		number_lane(t, lane, group);
	if (!own && !is_free)
		lane->number = ++group->lanes;
	return lane;
}

void tracks_leave_lane(struct tracks *t, struct lane *lane)
{
	struct lane **free = lane->number ? &lane->group->free : &t->spare_lanes;

	lane->next = *free;
	*free = lane;
}

/* ---- generations ---- */

static void forget_threads(struct tracks *t)
{
	for (size_t i = 0; i < t->threads.capacity;) {
		const struct map_slot *slot = &t->threads.slots[i];
		struct numbered *n = (struct numbered *)(uintptr_t)slot->value;

		if (slot->key == MAP_NO_KEY || (n && n->track.open)) {
			i++;
			continue;
		}
		/* Removing it moves another entry into its slot. */
		map_remove(&t->threads, slot->key);
		if (!n)
			continue;
		n->next = t->spare;
		t->spare = n;
	}
}

void tracks_new_generation(struct tracks *t)
{
	t->generation++;
	forget_threads(t);
}
