/*
 * Which of a target's memory is resident: by mapping (/proc/PID/smaps) and by page
 * (/proc/PID/pagemap, Documentation/admin-guide/mm/pagemap.rst).
 *
 * In a core file all that it holds counts as resident: it does not say which pages were.
 */
#ifndef TARGET_RESIDENCE_H
#define TARGET_RESIDENCE_H

#include "target/target.h"

struct target_region {
	struct target_map map;
	uint64_t resident;    /* bytes, as in Rss */
	uint64_t swapped;     /* bytes in swap */
	uint64_t huge;        /* bytes in huge pages */
	uint64_t shared;      /* resident bytes that other processes map, too */
	uint64_t lazily_free; /* resident bytes that the kernel may take when it needs memory */
};

struct target_regions {
	struct target_region *items; /* by address */
	size_t count;
	size_t capacity;
};

struct error *target_regions_read(struct target *t, struct target_regions *ret) must_check;
void target_regions_release(struct target_regions *regions);
#define _cleanup_regions_ __attribute__((cleanup(target_regions_release)))

/* One region, page by page. */
struct page_presence {
	uint64_t start;
	uint64_t end;
	uint64_t page;     /* bytes of one */
	uint64_t *bits;    /* a bit for each; NULL: not known, `resident` is spread evenly */
	uint32_t *before;  /* how many pages are present before each word of bits */
	uint64_t resident; /* bytes */
};

/*
 * Reads the pages of a region. If the kernel does not show them, *ret spreads what the region has
 * evenly, and *ret_exact is false.
 */
struct error *page_presence_read(struct target *t, const struct target_region *region,
				 struct page_presence *ret, bool *ret_exact) must_check;
void page_presence_release(struct page_presence *p);
#define _cleanup_presence_ __attribute__((cleanup(page_presence_release)))

/* How many bytes of [from, to) are resident; what lies outside the region is not. Adjacent ranges
 * add up to what the range of both has. */
uint64_t page_presence_bytes(const struct page_presence *p, uint64_t from, uint64_t to);

#endif
