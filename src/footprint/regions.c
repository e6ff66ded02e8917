/*
 * Each region's resident bytes go to the runtime's spans and tables that are in it, by page. What
 * is left is of the region's own kind: a file, a library, the C heap.
 */
#include <string.h>

#include "base/cancel.h"
#include "footprint/division.h"
#include "golayout/view.h"

/* glibc's arenas beside the first: each is reserved in so many bytes, at a multiple of that. */
#define MALLOC_ARENA (64ull << 20)

static bool begins(const char *s, const char *with)
{
	return !strncmp(s, with, strlen(with));
}

/* "libc.so.6", "ld-linux-x86-64.so.2", "/usr/lib/x.so": by its name, or it has code. */
static bool is_library(const struct target_map *map)
{
	const char *name = strrchr(map->path, '/');
	const char *at = name ? strstr(name, ".so") : NULL;

	return *map->path == '/' && (map->executable || (at && (!at[3] || at[3] == '.')));
}

static bool is_program(const struct parts *p, const struct target_map *map)
{
	return *map->path && !strcmp(map->path, target_exe_name(p->t));
}

/* ---- by page ---- */

/* The first that ends behind the address. */
static size_t first_span(const struct heap_spans *spans, uint64_t address)
{
	size_t lo = 0, hi = spans->count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (spans->items[mid].start + spans->items[mid].size <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static size_t first_range(const struct runtime_memory *m, uint64_t address)
{
	size_t lo = 0, hi = m->range_count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (m->ranges[mid].end <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool has_runtime_memory(const struct parts *p, const struct target_map *map)
{
	size_t i = first_range(&p->memory, map->start), k = first_span(&p->spans, map->start);

	return (i < p->memory.range_count && p->memory.ranges[i].start < map->end) ||
	       (k < p->spans.count && p->spans.items[k].start < map->end);
}

/* Returns the bytes that the spans in [from, to) have. */
static uint64_t divide_spans(struct parts *p, const struct page_presence *pages, uint64_t from,
			     uint64_t to)
{
	const struct heap_spans *spans = &p->spans;
	uint64_t sum = 0;

	for (size_t i = first_span(spans, from); i < spans->count; i++) {
		const struct heap_span *s = &spans->items[i];
		uint64_t start = s->start < from ? from : s->start, end = s->start + s->size, bytes;

		if (start >= to)
			break;
		bytes = page_presence_bytes(pages, start, end < to ? end : to);
		p->resident[i] += bytes;
		sum += bytes;
	}
	return sum;
}

/* Returns the bytes of the runtime's in this region. */
static uint64_t divide_pages(struct parts *p, const struct page_presence *pages)
{
	const struct runtime_memory *m = &p->memory;
	uint64_t sum = 0;

	for (size_t i = first_range(m, pages->start); i < m->range_count; i++) {
		const struct memory_range *r = &m->ranges[i];
		uint64_t start = r->start < pages->start ? pages->start : r->start;
		uint64_t end = r->end < pages->end ? r->end : pages->end, bytes;

		if (start >= end)
			break;
		bytes = page_presence_bytes(pages, start, end);
		sum += bytes;
		if (r->kind == MEMORY_ARENA)
			bytes -= divide_spans(p, pages, start, end);
		p->kinds[r->kind] += bytes;
	}
	return sum;
}

/* ---- by region ---- */

static bool has_thread_stack(const struct parts *p, const struct target_map *map)
{
	for (size_t i = 0; i < p->stacks.thread_count; i++) {
		uint64_t top = p->stacks.threads[i].hi - 1;

		if (top >= map->start && top < map->end)
			return true;
	}
	return false;
}

static bool is_malloc_arena(const struct parts *p, size_t i)
{
	const struct target_region *r = &p->regions.items[i], *next = r + 1;

	return i + 1 < p->regions.count && r->map.start % MALLOC_ARENA == 0 &&
	       next->map.start == r->map.end && !next->map.readable && !next->map.writable &&
	       next->map.end == r->map.start + MALLOC_ARENA;
}

/* Where an anonymous region belongs; the second is the name below it, or NULL. */
static const char *anonymous_part(const struct parts *p, size_t i, const char **ret_name)
{
	const struct target_region *r = &p->regions.items[i], *before = i ? r - 1 : NULL;
	bool adjoins = before && before->map.end == r->map.start;

	*ret_name = NULL;
	if (r->map.start < p->bss_end && r->map.end > p->bss)
		*ret_name = "uninitialized data (.bss)";
	else if (adjoins && is_program(p, &before->map))
		*ret_name = "data (.data)";
	if (*ret_name)
		return "program";
	if (has_thread_stack(p, &r->map))
		return "stacks of threads";
	if (is_malloc_arena(p, i))
		return "C heap (malloc)";
	if (adjoins && is_library(&before->map)) {
		*ret_name = before->map.path;
		return "libraries";
	}
	*ret_name = "without a name";
	return "other anonymous memory";
}

static const char *program_part(const struct target_map *map)
{
	return map->executable ? "code (.text)"
	       : map->writable ? "data (.data)"
			       : "read-only data and function table";
}

/* The node of a region; below one there are always names, or never. */
static const char *region_part(const struct parts *p, size_t i, const char **ret_name)
{
	const struct target_map *map = &p->regions.items[i].map;

	*ret_name = NULL;
	if (!*map->path)
		return anonymous_part(p, i, ret_name);
	if (is_program(p, map)) {
		*ret_name = program_part(map);
		return "program";
	}
	if (!strcmp(map->path, "[heap]"))
		return "C heap (malloc)";
	if (begins(map->path, "[stack"))
		return "stacks of threads";
	/* From Go 1.25 on, the runtime names its memory where the kernel permits it. */
	*ret_name = map->path;
	if (begins(map->path, "[anon: Go: "))
		return "Go runtime";
	if (begins(map->path, "[anon"))
		return "other anonymous memory";
	if (*map->path == '[')
		return "kernel";
	if (begins(map->path, "/dev/shm/") || begins(map->path, "/memfd:") ||
	    begins(map->path, "/SYSV") || begins(map->path, "/dev/zero"))
		return "shared memory";
	return is_library(map) ? "libraries" : "mapped files";
}

static struct error *must_check add_rest(struct parts *p, size_t i, uint64_t bytes)
{
	struct memory_tree *tree = &p->f->tree;
	const char *name, *part = region_part(p, i, &name);
	uint32_t node = name ? memory_tree_child(tree, TREE_ROOT, part) : TREE_ROOT;

	if (node == TREE_NONE || !memory_tree_add(tree, node, name ?: part, bytes))
		return &error_no_memory;
	return NULL;
}

static struct error *must_check divide_region(struct parts *p, size_t i)
{
	const struct target_region *r = &p->regions.items[i];
	_cleanup_presence_ struct page_presence pages = {0};
	bool is_exact = true;
	uint64_t of_runtime;
	struct error *err;

	p->f->swapped += r->swapped;
	p->f->huge += r->huge;
	p->f->lazily_free += r->lazily_free;
	if (!r->resident)
		return NULL;
	if (!has_runtime_memory(p, &r->map))
		return add_rest(p, i, r->resident);
	err = page_presence_read(p->t, r, &pages, &is_exact);
	if (err)
		return err;
	p->f->is_exact &= is_exact;
	of_runtime = divide_pages(p, &pages);
	return add_rest(p, i, pages.resident - of_runtime);
}

static struct error *must_check read_bss(struct parts *p)
{
	const struct golayout_numbers *n = &p->lay->n;
	struct error *err =
		target_read_u64(p->t, moduledata_at_bss(n, p->img->moduledata), &p->bss);

	if (!err)
		err = target_read_u64(p->t, moduledata_at_bss_end(n, p->img->moduledata),
				      &p->bss_end);
	return err;
}

struct error *regions_divide(struct parts *p)
{
	struct error *err = read_bss(p);

	for (size_t i = 0; !err && i < p->regions.count; i++) {
		err = divide_region(p, i);
		if (!err)
			err = cancel_check(p->cancel);
	}
	return err;
}
