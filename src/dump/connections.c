#include "dump/connections.h"

#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/printable.h"
#include "base/strbuf.h"

/* A goroutine that did not run since then is in the same place, with the same counter of moves. */
static bool is_same(const struct dump_goroutine *g, const struct wait_goroutine *w)
{
	return w->id == g->id && w->key == g->key && w->sp == g->sp && w->pc == g->pc;
}

struct error *connections_find(struct dump *dump, struct target *t, const struct golayout *lay,
			       const atomic_int *stop)
{
	struct wait_graph_options how = {.system = true, .connections_only = true, .stop = stop};
	struct error *err = wait_graph_take(t, dump->img, lay, &how, &dump->waits);

	for (size_t i = 0; !err && i < dump->count; i++) {
		struct dump_goroutine *g = &dump->items[i];
		const uint64_t *place = map_find(&dump->waits->by_g, g->g);
		const struct wait_goroutine *w =
			place && *place ? &dump->waits->goroutines[*place - 1] : NULL;
		const struct wait_edge *edge;

		if (!w || !w->edge_count || !is_same(g, w))
			continue;
		edge = &dump->waits->edges[w->first_edge];
		if (edge->kind == WAIT_NETWORK)
			g->connection = &dump->waits->objects[edge->object];
	}
	return err;
}

/* No bracket may stand in the header's brackets: IPv6 is written as tcpdump writes it, and a
 * bracket in a path as "?". */
static void add_address(struct strbuf *sb, const char *address)
{
	const char *end = *address == '[' ? strrchr(address, ']') : NULL;
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	if (end && end[1] == ':') {
		strbuf_add(sb, address + 1, end - address - 1);
		strbuf_addf(sb, ".%s", end + 2);
		return;
	}
	printable_adds(&text, address);
	for (size_t i = 0; i < text.length; i++)
		strbuf_addc(sb, strchr("[],", text.data[i]) ? '?' : text.data[i]);
}

void connection_add(struct strbuf *sb, const struct wait_object *c)
{
	if (c->fd < 0)
		return;
	strbuf_addf(sb, ", fd %" PRId64, c->fd);
	if (!*c->local && !*c->remote)
		return;
	strbuf_adds(sb, ", ");
	add_address(sb, c->local);
	if (!*c->remote)
		return;
	strbuf_adds(sb, *c->local ? " -> " : "-> ");
	add_address(sb, c->remote);
}
