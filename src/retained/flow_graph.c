#include "retained/flow_graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door.h"

#define FIRST_ROOM 1024u
#define LARGE_PAGE (2u << 20)
/* A graph of fewer bytes stays in memory. */
#define LEAST_ASIDE (8u << 20)
#define MOST_WRITTEN (1u << 30)

uint32_t *flow_room(size_t count)
{
	size_t size = (count + 1) * sizeof(uint32_t);
	uint32_t *items;

	if (size < 2 * LARGE_PAGE)
		return malloc(size);
	size = (size + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
	items = aligned_alloc(LARGE_PAGE, size);
	if (items)
		madvise(items, size, MADV_HUGEPAGE);
	return items;
}

uint32_t *flow_numbers(size_t count, uint8_t fill)
{
	uint32_t *items = flow_room(count);

	if (items)
		memset(items, fill, (count + 1) * sizeof(*items));
	return items;
}

bool flow_graph_reserve(struct flow_graph *g, size_t edges)
{
	size_t room = g->edge_capacity + g->edge_capacity / 4;
	uint32_t *items;

	if (edges <= g->edge_capacity)
		return true;
	if (edges > FLOW_MOST_EDGES)
		return false;
	room = room < edges ? edges + FIRST_ROOM : room;
	items = realloc(g->edges, room * sizeof(*items));
	if (!items)
		return false;
	g->edges = items;
	g->edge_capacity = room;
	return true;
}

static void free_arrays(struct flow_graph *g)
{
	if (g->mapped) {
		munmap(g->first, g->mapped);
	} else {
		free(g->first);
		free(g->edges);
	}
	g->first = g->edges = NULL;
	g->mapped = 0;
	g->edge_capacity = 0;
}

void flow_graph_release(struct flow_graph *g)
{
	free_arrays(g);
	if (g->file)
		close(g->file - 1);
	*g = (struct flow_graph){0};
}

/* ---- aside ---- */

static size_t first_bytes(const struct flow_graph *g)
{
	return ((size_t)g->count + 1) * sizeof(*g->first);
}

static size_t edge_bytes(const struct flow_graph *g)
{
	return g->edge_count * sizeof(*g->edges);
}

static bool write_all(int file, const void *bytes, size_t size)
{
	const uint8_t *at = bytes;

	while (size) {
		ssize_t n = write(file, at, size < MOST_WRITTEN ? size : MOST_WRITTEN);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += n;
		size -= (size_t)n;
	}
	return true;
}

static bool read_all(int file, void *bytes, size_t size, size_t from)
{
	uint8_t *at = bytes;

	while (size) {
		ssize_t n = pread(file, at, size < MOST_WRITTEN ? size : MOST_WRITTEN, (off_t)from);

		if (n < 0 && errno == EINTR)
			continue;
		if (!n)
			errno = EIO;
		if (n <= 0)
			return false;
		at += n;
		from += (size_t)n;
		size -= (size_t)n;
	}
	return true;
}

static bool write_copy(struct flow_graph *g)
{
	const char *folder;
	int file;

	if (first_bytes(g) + edge_bytes(g) < LEAST_ASIDE)
		return false;
	file = door_temporary(&folder);
	if (file < 0)
		return false;
	if (!write_all(file, g->first, first_bytes(g)) ||
	    !write_all(file, g->edges, edge_bytes(g))) {
		close(file);
		return false;
	}
	g->file = file + 1;
	return true;
}

void flow_graph_put_aside(struct flow_graph *g)
{
	if (g->file || write_copy(g))
		free_arrays(g);
}

struct error *flow_graph_map(struct flow_graph *g)
{
	size_t size = first_bytes(g) + edge_bytes(g);
	void *at;

	if (!g->file || g->first)
		return NULL;
	at = mmap(NULL, size, PROT_READ, MAP_PRIVATE, g->file - 1, 0);
	if (at == MAP_FAILED)
		return &error_no_memory;
	madvise(at, size, MADV_RANDOM);
	g->first = at;
	g->edges = g->first + g->count + 1;
	g->mapped = size;
	return NULL;
}

struct error *flow_graph_load(struct flow_graph *g)
{
	if (!g->file || (g->first && !g->mapped))
		return NULL;
	free_arrays(g);
	g->first = flow_room(g->count);
	g->edges = flow_room(g->edge_count);
	g->edge_capacity = g->edge_count;
	if (!g->first || !g->edges)
		return &error_no_memory;
	if (!read_all(g->file - 1, g->first, first_bytes(g), 0) ||
	    !read_all(g->file - 1, g->edges, edge_bytes(g), first_bytes(g)))
		return error_errno(ERROR_FAILED, errno, "cannot read a temporary file");
	return NULL;
}

/* ---- numbers ---- */

struct number_array number_array_of(uint32_t *items, size_t count)
{
	size_t size = (count + 1) * sizeof(*items);
	struct number_array ret = {.items = items};
	const char *folder;
	void *at = MAP_FAILED;
	int file;

	if (!items || size < LEAST_ASIDE)
		return ret;
	file = door_temporary(&folder);
	if (file < 0)
		return ret;
	if (write_all(file, items, size))
		at = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
	close(file);
	if (at == MAP_FAILED)
		return ret;
	free(items);
	return (struct number_array){.items = at, .mapped = size};
}

void number_array_release(struct number_array *a)
{
	if (a->mapped)
		munmap((void *)a->items, a->mapped);
	else
		free((void *)a->items);
	*a = (struct number_array){0};
}

void number_array_forget(const struct number_array *a)
{
	if (a->mapped)
		madvise((void *)a->items, a->mapped, MADV_DONTNEED);
}

/* ---- ways ---- */

/* Nodes that are to be visited: a ring, which is rarely large. */
struct ring {
	uint32_t *items;
	size_t first, count, room; /* room: a power of two */
};

static bool ring_add(struct ring *q, uint32_t node)
{
	if (q->count == q->room) {
		size_t room = q->room ? q->room * 2 : FIRST_ROOM;
		uint32_t *items = realloc(q->items, room * sizeof(*items));

		if (!items)
			return false;
		/* What was before the first comes after the last. */
		memcpy(items + q->room, items, q->first * sizeof(*items));
		q->items = items;
		q->room = room;
	}
	q->items[(q->first + q->count++) & (q->room - 1)] = node;
	return true;
}

static uint32_t ring_take(struct ring *q)
{
	uint32_t node = q->items[q->first];

	q->first = (q->first + 1) & (q->room - 1);
	q->count--;
	return node;
}

static void ring_release(struct ring *q)
{
	free(q->items);
}

struct error *flow_graph_shortest(const struct flow_graph *g, uint32_t **ret)
{
	_cleanup_free_ uint32_t *before = flow_numbers(g->count, 0xff);
	_cleanup_(ring_release) struct ring queue = {0};
	bool ok = before && ring_add(&queue, 0);

	while (ok && queue.count) {
		uint32_t node = ring_take(&queue);
		size_t at = g->first[node];
		bool more = at != FLOW_NONE;

		for (; more && ok; at++) {
			uint32_t to = g->edges[at] & ~FLOW_LAST;

			more = !(g->edges[at] & FLOW_LAST);
			if (!to || before[to] != FLOW_NONE)
				continue;
			before[to] = node;
			ok = ring_add(&queue, to);
		}
	}
	if (!ok)
		return &error_no_memory;
	*ret = take_ptr(before);
	return NULL;
}
