#include "target/residence.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/door.h"
#include "target/ops.h"

/* A region of more pages than this is not looked at page by page: 4 TB. */
#define MOST_PAGES (1ull << 30)
#define READ_PAGES (64u << 10)

/* Of an entry of pagemap. */
#define PAGE_PRESENT (1ull << 63)
#define PAGE_OF_FILE (1ull << 61)
#define PAGE_EXCLUSIVE (1ull << 56)

void target_regions_release(struct target_regions *regions)
{
	for (size_t i = 0; i < regions->count; i++)
		free(regions->items[i].map.path);
	free(regions->items);
	*regions = (struct target_regions){0};
}

/* ---- smaps ---- */

static struct error *must_check add_region(struct target_regions *regions,
					   const struct target_region *region)
{
	if (!array_reserve(&regions->items, &regions->capacity, regions->count + 1)) {
		free(region->map.path);
		return &error_no_memory;
	}
	regions->items[regions->count++] = *region;
	return NULL;
}

static void take_value(struct target_region *r, const char *name, uint64_t bytes)
{
	if (!strcmp(name, "Rss"))
		r->resident = bytes;
	else if (!strcmp(name, "Swap"))
		r->swapped = bytes;
	else if (!strcmp(name, "AnonHugePages") || !strcmp(name, "ShmemPmdMapped") ||
		 !strcmp(name, "FilePmdMapped"))
		r->huge += bytes;
	else if (!strcmp(name, "Shared_Clean") || !strcmp(name, "Shared_Dirty"))
		r->shared += bytes;
	else if (!strcmp(name, "LazyFree"))
		r->lazily_free = bytes;
}

/* The head of a region begins with its address, in lower case; a value with its name, in upper. */
static struct error *must_check take_line(char *line, struct target_regions *regions)
{
	char name[64];
	unsigned long kilobytes;

	if (*line < 'A' || *line > 'Z') {
		struct target_region region = {0};
		struct error *err = target_parse_map(line, &region.map);

		return err ? err : add_region(regions, &region);
	}
	if (regions->count && sscanf(line, "%63[^:]: %lu kB", name, &kilobytes) == 2)
		take_value(&regions->items[regions->count - 1], name, (uint64_t)kilobytes << 10);
	return NULL;
}

static int open_file(const struct target *t, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", t->pid, name);
	return door_open(path, 0);
}

static struct error *must_check smaps_failed(struct target *t, int err)
{
	if (err == EACCES || err == EPERM)
		return target_denied(t->pid, true);
	return target_explain(t,
			      error_errno(ERROR_FAILED, err, "cannot read /proc/%d/smaps", t->pid));
}

static struct error *must_check read_smaps(struct target *t, struct target_regions *regions)
{
	_cleanup_fclose_ FILE *f = NULL;
	_cleanup_free_ char *line = NULL;
	size_t room = 0;
	struct error *err = NULL;
	int fd = open_file(t, "smaps");

	if (fd < 0)
		return smaps_failed(t, errno);
	f = fdopen(fd, "r");
	if (!f) {
		close(fd);
		return &error_no_memory;
	}
	while (!err && getline(&line, &room, f) > 0)
		err = take_line(line, regions);
	return err ? err : target_check(t);
}

/* ---- core files ---- */

/* What the core left out cannot be read. */
static bool holds(struct target *t, const struct target_map *map)
{
	char byte;

	return map->end > map->start && !error_dropped(target_read(t, map->start, &byte, 1));
}

static struct error *must_check read_core(struct target *t, struct target_regions *regions)
{
	_cleanup_maps_ struct target_maps maps = {0};
	struct error *err = target_maps(t, &maps);

	for (size_t i = 0; !err && i < maps.count; i++) {
		struct target_region region = {.map = maps.items[i]};

		region.map.path = strdup(maps.items[i].path);
		if (!region.map.path)
			return &error_no_memory;
		if (holds(t, &region.map))
			region.resident = region.map.end - region.map.start;
		err = add_region(regions, &region);
	}
	return err;
}

static int by_start(const void *a, const void *b)
{
	const struct target_region *x = a, *y = b;

	return (x->map.start > y->map.start) - (x->map.start < y->map.start);
}

/* A mapping that was moved or split while smaps was read is in it twice. */
static void drop_overlaps(struct target_regions *regions)
{
	size_t n = 0;

	if (regions->count)
		qsort(regions->items, regions->count, sizeof(*regions->items), by_start);
	for (size_t i = 0; i < regions->count; i++) {
		struct target_region *r = &regions->items[i];

		if (r->map.end <= r->map.start ||
		    (n && r->map.start < regions->items[n - 1].map.end))
			free(r->map.path);
		else
			regions->items[n++] = *r;
	}
	regions->count = n;
}

struct error *target_regions_read(struct target *t, struct target_regions *ret)
{
	_cleanup_regions_ struct target_regions regions = {0};
	struct error *err = t->pid ? read_smaps(t, &regions) : read_core(t, &regions);

	if (err)
		return err;
	drop_overlaps(&regions);
	*ret = regions;
	regions = (struct target_regions){0};
	return NULL;
}

/* ---- pages ---- */

void page_presence_release(struct page_presence *p)
{
	free(p->bits);
	free(p->before);
	*p = (struct page_presence){0};
}

/*
 * The page of zeros that all processes share is present where memory was read and never written; it
 * does not count in Rss. It is no file's, and not this process's alone; so are pages that a fork
 * shares, which count, and of which smaps knows.
 */
static bool counts(uint64_t entry, bool has_shared)
{
	return entry & PAGE_PRESENT && (has_shared || entry & (PAGE_OF_FILE | PAGE_EXCLUSIVE));
}

static bool read_entries(int fd, uint64_t first, uint64_t *entries, size_t count)
{
	size_t at = 0, size = count * sizeof(*entries);

	while (at < size) {
		ssize_t n = pread(fd, (char *)entries + at, size - at,
				  (off_t)(first * sizeof(*entries) + at));

		if (n <= 0)
			return false;
		at += n;
	}
	return true;
}

static bool read_pages(int fd, bool has_shared, struct page_presence *p, uint64_t *entries)
{
	uint64_t first = p->start / p->page, count = (p->end - p->start) / p->page;

	for (uint64_t i = 0; i < count; i += READ_PAGES) {
		size_t n = count - i < READ_PAGES ? count - i : READ_PAGES;

		if (!read_entries(fd, first + i, entries, n))
			return false;
		for (size_t k = 0; k < n; k++)
			if (counts(entries[k], has_shared))
				p->bits[(i + k) / 64] |= 1ull << (i + k) % 64;
	}
	return true;
}

/* Adds up the pages before each word. */
static void index_pages(struct page_presence *p, uint64_t words)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < words; i++) {
		p->before[i] = sum;
		sum += __builtin_popcountll(p->bits[i]);
	}
	p->before[words] = sum;
	p->resident = sum * p->page;
}

static struct error *must_check take_pages(int fd, const struct target_region *region,
					   struct page_presence *p, bool *ret_exact)
{
	uint64_t words = ((p->end - p->start) / p->page + 63) / 64;
	_cleanup_free_ uint64_t *entries = malloc(READ_PAGES * sizeof(*entries));

	/* One word more, so that the end of the region has a place. */
	p->bits = calloc(words + 1, sizeof(*p->bits));
	p->before = calloc(words + 2, sizeof(*p->before));
	if (!entries || !p->bits || !p->before)
		return &error_no_memory;
	*ret_exact = read_pages(fd, region->shared != 0, p, entries);
	if (*ret_exact) {
		index_pages(p, words);
		return NULL;
	}
	free(p->bits);
	p->bits = NULL;
	return NULL;
}

struct error *page_presence_read(struct target *t, const struct target_region *region,
				 struct page_presence *ret, bool *ret_exact)
{
	struct page_presence p = {.start = region->map.start,
				  .end = region->map.end,
				  .page = sysconf(_SC_PAGESIZE),
				  .resident = region->resident};
	_cleanup_close_ int fd = -1;
	struct error *err = NULL;

	*ret_exact = !t->pid;
	if (t->pid && (p.end - p.start) / p.page <= MOST_PAGES)
		fd = open_file(t, "pagemap");
	if (fd >= 0)
		err = take_pages(fd, region, &p, ret_exact);
	if (err) {
		page_presence_release(&p);
		return err;
	}
	*ret = p;
	return NULL;
}

/* Bytes that are present before this address, which is in the region. */
static uint64_t before(const struct page_presence *p, uint64_t address)
{
	uint64_t at = address - p->start, page = at / p->page, word = page / 64;
	uint64_t mask = (1ull << page % 64) - 1, count;

	if (!p->bits)
		return (uint64_t)((unsigned __int128)p->resident * at / (p->end - p->start));
	count = p->before[word] + __builtin_popcountll(p->bits[word] & mask);
	return count * p->page + (p->bits[word] >> page % 64 & 1 ? at % p->page : 0);
}

uint64_t page_presence_bytes(const struct page_presence *p, uint64_t from, uint64_t to)
{
	from = from < p->start ? p->start : from;
	to = to > p->end ? p->end : to;
	return from < to ? before(p, to) - before(p, from) : 0;
}
