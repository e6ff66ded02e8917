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

static bool write_copy(struct flow_graph *g)
{
	const char *folder;
	int file;

	if (first_bytes(g) + edge_bytes(g) < LEAST_ASIDE)
		return false;
	file = door_temporary(&folder);
	if (file < 0)
		return false;
	if (!aside_write(file, g->first, first_bytes(g)) ||
	    !aside_write(file, g->edges, edge_bytes(g))) {
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

void flow_graph_forget(const struct flow_graph *g)
{
	if (g->mapped)
		madvise(g->first, g->mapped, MADV_DONTNEED);
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
	if (!aside_read(g->file - 1, g->first, first_bytes(g), 0) ||
	    !aside_read(g->file - 1, g->edges, edge_bytes(g), first_bytes(g)))
		return error_errno(ERROR_FAILED, errno, "cannot read a temporary file");
	return NULL;
}

/* ---- ways ---- */

struct walk {
	uint64_t *visited; /* a bit for each node */
	size_t count;      /* of visited nodes */
	/* Each node, and the one before it. Nodes are visited in this order, so it is the queue,
	 * too. */
	struct number_writer ways;
	struct number_reader queue;
};

static void walk_release(struct walk *w)
{
	free(w->visited);
	number_writer_release(&w->ways);
	number_reader_release(&w->queue);
}

static bool walk_on(struct walk *w, uint32_t node, uint32_t before)
{
	if (w->visited[node / 64] >> node % 64 & 1)
		return true;
	w->visited[node / 64] |= 1ull << node % 64;
	w->count++;
	number_writer_add(&w->ways, node);
	number_writer_add(&w->ways, before);
	return !w->ways.failed;
}

static bool take(struct walk *w, uint32_t *ret)
{
	uint32_t before;

	return number_reader_next(&w->queue, &w->ways, ret) &&
	       number_reader_next(&w->queue, &w->ways, &before);
}

static struct error *must_check walk_all(const struct flow_graph *g, struct walk *w,
					 struct number_array *ret)
{
	bool ok = walk_on(w, 0, FLOW_NONE);

	for (size_t i = 0; ok && i < w->count; i++) {
		uint32_t node;
		size_t at;
		bool more;

		ok = take(w, &node);
		at = ok ? g->first[node] : FLOW_NONE;
		for (more = at != FLOW_NONE; more && ok; at++) {
			more = !(g->edges[at] & FLOW_LAST);
			ok = walk_on(w, g->edges[at] & ~FLOW_LAST, node);
		}
	}
	return ok ? number_writer_finish(&w->ways, ret) : &error_no_memory;
}

/* The order of the visits is none to look nodes up in: so once more, by node, when there is room.
 */
struct error *flow_graph_shortest(struct flow_graph *g, struct number_array *ret)
{
	_cleanup_(walk_release) struct walk w = {
		.visited = calloc(g->count / 64 + 1, sizeof(*w.visited))};
	_cleanup_number_array_ struct number_array ways = {0};
	struct error *err = w.visited ? walk_all(g, &w, &ways) : &error_no_memory;
	uint32_t *before;

	if (err)
		return err;
	flow_graph_put_aside(g);
	before = flow_numbers(g->count, 0xff);
	if (!before)
		return &error_no_memory;
	for (size_t i = 0; i < 2 * w.count; i += 2) {
		uint32_t node = number_array_pass(&ways, i);

		before[node] = ways.items[i + 1];
	}
	*ret = number_array_of(before, g->count);
	return NULL;
}
