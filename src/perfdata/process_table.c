#include "perfdata/process_table.h"

#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/cursor.h"
#include "base/utf8.h"

#define MAX_PATH 4096
/* Limits for a hostile file, in which forks copy mappings without end. */
#define MAX_MAPS (1u << 20)
#define MAX_MAP_COPIES (32u << 20)

static void process_destroy(struct recorded_process *p)
{
	if (!p)
		return;
	running_unwinder_destroy(p->unwinder);
	stacks_destroy(p->stacks);
	modules_close(p->modules);
	map_list_release(p->maps);
	free(p);
}

void process_table_release(struct process_table *t)
{
	for (size_t i = 0; i < t->count; i++)
		process_destroy(t->items[i]);
	free(t->items);
	map_release(&t->by_pid);
	intern_release(&t->strings);
	*t = (struct process_table){0};
}

static const char *keep(struct process_table *t, const char *text, size_t size)
{
	uint32_t id = utf8_intern(&t->strings, text, strnlen(text, size));

	return id == INTERN_FAILED ? NULL : intern_get(&t->strings, id);
}

/* A process that has this id from now on. */
static struct recorded_process *add(struct process_table *t, uint32_t pid)
{
	struct recorded_process *p;
	uint64_t *place = map_at(&t->by_pid, pid);

	if (!place || !array_reserve(&t->items, &t->capacity, t->count + 1))
		return NULL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->pid = pid;
	p->number = t->count;
	p->comm = "";
	p->threads = 1;
	t->items[t->count++] = p;
	*place = t->count;
	return p;
}

struct recorded_process *process_table_get(struct process_table *t, uint32_t pid)
{
	const uint64_t *place = map_find(&t->by_pid, pid);

	return place ? t->items[*place - 1] : add(t, pid);
}

static bool is_file(const char *path)
{
	return path[0] == '/' && path[1] != '/';
}

static struct error *add_map(struct process_table *t, struct recorded_process *p,
			     const struct recorded_map *map)
{
	size_t live = p->maps ? p->maps->live : 0;
	bool shared = p->maps && p->maps->users > 1;

	if (live >= MAP_LIST_MOST || t->map_count + (shared ? live : 0) >= MAX_MAPS ||
	    t->map_copies + (shared ? live : 0) > MAX_MAP_COPIES) {
		t->maps_left_out++;
		return NULL;
	}
	if (!map_list_add(&p->maps, map, &p->maps_seen))
		return &error_no_memory;
	t->map_copies += shared ? live : 0;
	t->map_count += p->maps->live - (shared ? 0 : live);
	if (!p->file && is_file(map->path))
		p->file = map->path;
	return NULL;
}

static struct error *take_map(struct process_table *t, const struct perf_record *record)
{
	struct cursor c = cursor_of(record->body, record->size, "a mapping");
	bool is_new = record->type == PERF_RECORD_MMAP2;
	bool is_code = !(record->misc & PERF_RECORD_MISC_MMAP_DATA);
	uint32_t pid = cursor_u32(&c);
	struct recorded_map map = {0};
	struct recorded_process *p;
	uint64_t size;

	cursor_u32(&c);
	map.start = cursor_u64(&c);
	size = cursor_u64(&c);
	map.end = map.start + size;
	map.offset = cursor_u64(&c);
	if (is_new) {
		cursor_bytes(&c, 24);
		is_code = cursor_u32(&c) & PROT_EXEC;
		cursor_u32(&c);
	}
	/* Mappings of the kernel have no process. */
	if (c.failed || !is_code || pid == UINT32_MAX || map.end <= map.start)
		return NULL;
	map.path = keep(t, (const char *)c.at, c.end - c.at);
	p = process_table_get(t, pid);
	if (!p || !map.path)
		return &error_no_memory;
	if (strlen(map.path) >= MAX_PATH)
		return NULL;
	return add_map(t, p, &map);
}

/* Names a thread; that of the first thread is the process's. exec begins a new one. */
static struct error *take_comm(struct process_table *t, const struct perf_record *record)
{
	struct cursor c = cursor_of(record->body, record->size, "a name");
	uint32_t pid = cursor_u32(&c), tid = cursor_u32(&c);
	struct recorded_process *p;
	const char *name;

	if (c.failed || pid == UINT32_MAX)
		return NULL;
	name = keep(t, (const char *)c.at, c.end - c.at);
	p = record->misc & PERF_RECORD_MISC_COMM_EXEC ? add(t, pid) : process_table_get(t, pid);
	if (!p || !name)
		return &error_no_memory;
	if (pid == tid || !*p->comm)
		p->comm = name;
	return NULL;
}

/* Adds a new process, or a new thread of one. */
static struct error *take_fork(struct process_table *t, const struct perf_record *record)
{
	struct cursor c = cursor_of(record->body, record->size, "a fork");
	uint32_t pid = cursor_u32(&c), parent_pid = cursor_u32(&c);
	struct recorded_process *parent, *child;

	if (c.failed || pid == UINT32_MAX || parent_pid == UINT32_MAX)
		return NULL;
	parent = process_table_get(t, parent_pid);
	if (parent && pid == parent_pid) {
		parent->threads++;
		return NULL;
	}
	child = parent ? add(t, pid) : NULL;
	if (!child)
		return &error_no_memory;
	child->comm = parent->comm;
	child->maps = map_list_share(parent->maps);
	child->file = parent->file;
	return NULL;
}

/* A process ends with its last thread; mappings of a process without samples are not needed. */
static struct error *take_exit(struct process_table *t, const struct perf_record *record)
{
	struct cursor c = cursor_of(record->body, record->size, "an exit");
	uint32_t pid = cursor_u32(&c);
	const uint64_t *place = c.failed ? NULL : map_find(&t->by_pid, pid);
	struct recorded_process *p = place ? t->items[*place - 1] : NULL;

	if (!p || !p->threads || --p->threads || p->met)
		return NULL;
	if (p->maps && p->maps->users == 1)
		t->map_count -= p->maps->live;
	map_list_release(take_ptr(p->maps));
	p->maps_seen = 0;
	return NULL;
}

struct error *process_table_take(struct process_table *t, const struct perf_record *record)
{
	switch (record->type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		return take_map(t, record);
	case PERF_RECORD_COMM:
		return take_comm(t, record);
	case PERF_RECORD_FORK:
		return take_fork(t, record);
	case PERF_RECORD_EXIT:
		return take_exit(t, record);
	}
	return NULL;
}
