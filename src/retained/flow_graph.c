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

uint32_t *flow_numbers(size_t count, uint8_t fill)
{
	size_t size = (count + 1) * sizeof(uint32_t);
	uint32_t *items;

	if (size < 2 * LARGE_PAGE) {
		items = malloc(size);
	} else {
		size = (size + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
		items = aligned_alloc(LARGE_PAGE, size);
		if (items)
			madvise(items, size, MADV_HUGEPAGE);
	}
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

void flow_graph_put_aside(struct flow_graph *g)
{
	const char *folder;
	int file;

	if (g->file || g->mapped || first_bytes(g) + edge_bytes(g) < LEAST_ASIDE)
		return;
	file = door_temporary(&folder);
	if (file < 0)
		return;
	if (!write_all(file, g->first, first_bytes(g)) ||
	    !write_all(file, g->edges, edge_bytes(g))) {
		close(file);
		return;
	}
	free_arrays(g);
	g->file = file + 1;
}

struct error *flow_graph_bring_back(struct flow_graph *g)
{
	size_t size = first_bytes(g) + edge_bytes(g);
	void *at;

	if (!g->file)
		return NULL;
	at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, g->file - 1, 0);
	if (at == MAP_FAILED)
		return &error_no_memory;
	close(g->file - 1);
	g->file = 0;
	g->first = at;
	g->edges = g->first + g->count + 1;
	g->mapped = size;
	return NULL;
}

/* ---- ways ---- */

struct error *flow_graph_shortest(const struct flow_graph *g, uint32_t **ret)
{
	_cleanup_free_ uint32_t *before = flow_numbers(g->count, 0xff);
	_cleanup_free_ uint32_t *queue = malloc(((size_t)g->count + 1) * sizeof(*queue));
	uint32_t done = 0, count = 1;

	if (!before || !queue)
		return &error_no_memory;
	queue[0] = 0;
	while (done < count) {
		uint32_t node = queue[done++];
		size_t at = g->first[node];
		bool more = at != FLOW_NONE;

		for (; more; at++) {
			uint32_t to = g->edges[at] & ~FLOW_LAST;

			more = !(g->edges[at] & FLOW_LAST);
			if (!to || before[to] != FLOW_NONE)
				continue;
			before[to] = node;
			queue[count++] = to;
		}
	}
	*ret = take_ptr(before);
	return NULL;
}
