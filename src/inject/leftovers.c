#include "inject/leftovers.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "inject/places.h"
#include "inject/status.h"

pid_t leftovers_tracer(const struct leftovers *l)
{
	pid_t pid = (pid_t)l->head.tracer;

	if (!l->has_head || pid <= 0 || process_is_dead(pid) ||
	    process_start(pid) != l->head.tracer_start)
		return 0;
	return pid;
}

bool leftovers_none(const struct leftovers *l)
{
	return !l->range_count && !l->descriptor_count;
}

bool leftovers_kept_page_alone(const struct leftovers *l)
{
	return l->range_count == 1 && !l->descriptor_count && l->has_head && !l->head.tracer &&
	       l->ranges[0].size == l->head.stub_bytes;
}

static struct error *must_check add_range(struct leftovers *l, uint64_t address, uint64_t size)
{
	if (!array_reserve(&l->ranges, &l->range_capacity, l->range_count + 1))
		return &error_no_memory;
	l->ranges[l->range_count++] = (struct leftover_range){address, size};
	return NULL;
}

/* What it says is the target's to change: no more is believed than has room. */
static bool read_head(struct target *t, const struct target_map *map, struct code_head *ret)
{
	size_t fixed = offsetof(struct code_head, places);

	memset(ret, 0, sizeof(*ret));
	if (error_dropped(target_read(t, map->start, ret, fixed)) || ret->magic != CODE_MAGIC ||
	    ret->version != CODE_VERSION || ret->code != map->start ||
	    ret->place_count > CODE_MAX_PLACES || ret->stub_bytes > CODE_MAX_STUB_BYTES ||
	    ret->stub_bytes % CODE_PAGE_BYTES || code_head_bytes(ret) > ret->stub_bytes)
		return false;
	return !error_dropped(
		target_read(t, map->start + fixed, ret->places, code_head_bytes(ret) - fixed));
}

static void look_at_head(struct target *t, const struct target_map *map, struct leftovers *l)
{
	struct places now;

	l->has_head = read_head(t, map, &l->head);
	if (!l->has_head || error_dropped(places_read(t, &l->head, &now)))
		return;
	for (unsigned int i = 0; i < l->head.place_count; i++)
		l->patched |= places_is_jump(&now, &l->head, i);
}

/* The page behind the agent that children forget: it has no name, but it lies in our mapping. */
static bool is_control(const struct leftovers *l, const struct target_map *map)
{
	return l->has_head && !map->path[0] && map->start == l->head.control &&
	       map->end == map->start + CODE_PAGE_BYTES;
}

static bool has_name(const char *path, const char *name)
{
	const char *prefix = "/memfd:";
	size_t n = strlen(prefix);

	return !strncmp(path, prefix, n) && !strncmp(path + n, name, strlen(name));
}

/* What the head says is there, and is not, may be the target's own by now. */
static void forget_unmapped(struct leftovers *l, bool has_control, bool has_data)
{
	if (!has_control)
		l->head.control = 0;
	if (!has_data)
		l->head.slots = l->head.spare_slots = 0;
}

static struct error *must_check look_at_maps(struct target *t, struct leftovers *l)
{
	_cleanup_maps_ struct target_maps maps = {0};
	bool has_control = false, has_data = false;
	struct error *err = target_maps(t, &maps);

	for (size_t i = 0; !err && i < maps.count; i++) {
		const struct target_map *map = &maps.items[i];
		bool code = has_name(map->path, CODE_NAME), data = has_name(map->path, DATA_NAME);
		bool control = is_control(l, map);

		if (code && map->offset == 0)
			look_at_head(t, map, l);
		if (code || data || control)
			err = add_range(l, map->start, map->end - map->start);
		has_control |= control;
		has_data |= data;
	}
	forget_unmapped(l, has_control, has_data);
	return err;
}

static struct error *must_check look_at_descriptors(struct target *t, struct leftovers *l)
{
	struct error *err = NULL;
	struct dirent *entry;
	char path[64], to[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", target_pid(t));
	dir = opendir(path);
	while (dir && !err && (entry = readdir(dir))) {
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, to, sizeof(to) - 1);

		if (n <= 0)
			continue;
		to[n] = '\0';
		if (!has_name(to, "gospect-"))
			continue;
		if (!array_reserve(&l->descriptors, &l->descriptor_capacity,
				   l->descriptor_count + 1))
			err = &error_no_memory;
		else
			l->descriptors[l->descriptor_count++] = atoi(entry->d_name);
	}
	if (dir)
		closedir(dir);
	return err;
}

struct error *leftovers_find(struct target *t, struct leftovers *ret)
{
	struct leftovers l = {0};
	struct error *err = look_at_maps(t, &l);

	if (!err)
		err = look_at_descriptors(t, &l);
	if (err) {
		leftovers_release(&l);
		return err;
	}
	*ret = l;
	return NULL;
}

void leftovers_release(struct leftovers *l)
{
	free(l->ranges);
	free(l->descriptors);
	*l = (struct leftovers){0};
}
