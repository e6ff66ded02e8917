#include "perfdata/process_table.h"

#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/array.h"
#include "base/cursor.h"
#include "base/utf8.h"

/* A hostile file could copy its mappings by forks without end. */
#define MAX_MAPS (1u << 20)
#define MAX_PATH 4096

static void process_destroy(struct recorded_process *p)
{
	if (!p)
		return;
	running_unwinder_destroy(p->unwinder);
	stacks_destroy(p->stacks);
	modules_close(p->modules);
	free(p->maps);
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

/* A process that from now on has this id. */
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
	t->items[t->count++] = p;
	*place = t->count;
	return p;
}

struct recorded_process *process_table_get(struct process_table *t, uint32_t pid)
{
	const uint64_t *place = map_find(&t->by_pid, pid);

	return place ? t->items[*place - 1] : add(t, pid);
}

static bool add_map(struct process_table *t, struct recorded_process *p,
		    const struct recorded_map *map)
{
	if (t->map_count >= MAX_MAPS) {
		t->too_many = true;
		return true;
	}
	if (!array_reserve(&p->maps, &p->map_capacity, p->map_count + 1))
		return false;
	p->maps[p->map_count] = *map;
	p->maps[p->map_count++].taken = false;
	p->maps_changed = true;
	t->map_count++;
	return true;
}

/* What lay there before is gone. */
static void forget_below(struct process_table *t, struct recorded_process *p,
			 const struct recorded_map *map)
{
	size_t kept = 0;

	for (size_t i = 0; i < p->map_count; i++)
		if (p->maps[i].end <= map->start || p->maps[i].start >= map->end)
			p->maps[kept++] = p->maps[i];
	t->map_count -= p->map_count - kept;
	p->map_count = kept;
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
	/* The kernel's own have no process. */
	if (c.failed || !is_code || pid == UINT32_MAX || map.end <= map.start)
		return NULL;
	map.path = keep(t, (const char *)c.at, c.end - c.at);
	p = process_table_get(t, pid);
	if (!p || !map.path)
		return &error_no_memory;
	if (strlen(map.path) >= MAX_PATH)
		return NULL;
	forget_below(t, p, &map);
	return add_map(t, p, &map) ? NULL : &error_no_memory;
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

static struct error *take_fork(struct process_table *t, const struct perf_record *record)
{
	struct cursor c = cursor_of(record->body, record->size, "a fork");
	uint32_t pid = cursor_u32(&c), parent_pid = cursor_u32(&c);
	struct recorded_process *parent, *child;

	if (c.failed || pid == parent_pid || pid == UINT32_MAX || parent_pid == UINT32_MAX)
		return NULL;
	parent = process_table_get(t, parent_pid);
	child = parent ? add(t, pid) : NULL;
	if (!child)
		return &error_no_memory;
	child->comm = parent->comm;
	for (size_t i = 0; i < parent->map_count; i++)
		if (!add_map(t, child, &parent->maps[i]))
			return &error_no_memory;
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
	}
	return NULL;
}
