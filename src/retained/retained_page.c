/* The page: a treemap of the holders, in one HTML file that needs no network. Its data is a JSON
 * object, in which no string can end the script element (profile/json_text.h). */
#include <inttypes.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "profile/json_text.h"
#include "retained/holders_page.h"
#include "retained/retained.h"

/* A holder is on the page if it holds so much of all; and so many are. */
#define LEAST_SHARE 5000u
#define MOST_SHOWN 5000u
#define MOST_DEPTH 64
/* What refers to the objects of a holder. */
#define MOST_REFERRERS 12u

struct referrer {
	uint32_t holder; /* that they refer to */
	uint32_t name;   /* of their type; a root's holder with FLOW_LAST */
	uint64_t count;
};

struct page {
	struct retained *r;
	FILE *out;
	bool *is_shown; /* by holder */
	struct referrer *referrers;
	size_t referrer_count;
};

/* ---- what refers to what ---- */

static void choose_shown(struct page *p)
{
	const struct holder_tree *tree = &p->r->holders;
	uint64_t least = p->r->graph.bytes / LEAST_SHARE;
	size_t shown = 0;

	p->is_shown[0] = true;
	for (size_t i = 1; i < tree->count && shown < MOST_SHOWN; i++) {
		p->is_shown[i] = p->is_shown[tree->items[i].parent] && tree->items[i].retained &&
				 tree->items[i].retained >= least;
		shown += p->is_shown[i];
	}
}

static uint32_t name_of(const struct page *p, uint32_t node)
{
	const struct retained *r = p->r;
	uint32_t first = object_graph_first_node(&r->graph);

	return node < first ? r->root_holders[node] | FLOW_LAST
			    : r->holders.type_names[r->object_types.items[node - first]];
}

static struct error *must_check count_referrers(struct page *p, struct map *counts)
{
	const struct flow_graph *g = &p->r->graph.flow;
	const struct holder_tree *tree = &p->r->holders;
	_cleanup_free_ uint32_t *numbers = NULL;
	struct error *err = dominators_numbers(&p->r->dominators, g->count, &numbers);

	for (uint32_t node = 1; !err && node < g->count; node++) {
		size_t at = g->first[node];
		bool more = at != FLOW_NONE;

		for (; more; at++) {
			uint32_t to = numbers[g->edges[at] & ~FLOW_LAST];
			uint32_t holder = to == FLOW_NONE ? 0 : tree->of.items[to];
			uint64_t *place;

			more = !(g->edges[at] & FLOW_LAST);
			if (!p->is_shown[holder] || tree->items[holder].kind != HOLDER_OBJECTS)
				continue;
			place = map_at(counts, (uint64_t)holder << 32 | name_of(p, node));
			if (!place)
				return &error_no_memory;
			(*place)++;
		}
	}
	return err;
}

static int compare_referrers(const void *a, const void *b)
{
	const struct referrer *x = a, *y = b;

	if (x->holder != y->holder)
		return x->holder < y->holder ? -1 : 1;
	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return (x->name > y->name) - (x->name < y->name);
}

static struct error *must_check find_referrers(struct page *p)
{
	_cleanup_map_ struct map counts = {0};
	struct error *err = count_referrers(p, &counts);

	if (err)
		return err;
	p->referrers = calloc(counts.count + 1, sizeof(*p->referrers));
	if (!p->referrers)
		return &error_no_memory;
	for (size_t i = 0; i < counts.capacity; i++)
		if (counts.slots[i].key != MAP_NO_KEY)
			p->referrers[p->referrer_count++] =
				(struct referrer){(uint32_t)(counts.slots[i].key >> 32),
						  (uint32_t)counts.slots[i].key,
						  counts.slots[i].value};
	if (p->referrer_count)
		qsort(p->referrers, p->referrer_count, sizeof(*p->referrers), compare_referrers);
	return NULL;
}

/* ---- the tree ---- */

static struct error *must_check write_name(const struct page *p, uint32_t holder)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;

	retained_add_holder(p->r, holder, &name);
	return name.failed ? &error_no_memory
			   : json_text_write(holder ? name.data : "held objects", p->out);
}

static struct error *must_check write_referrers(const struct page *p, uint32_t holder)
{
	size_t low = 0, high = p->referrer_count;
	struct error *err = NULL;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (p->referrers[middle].holder < holder)
			low = middle + 1;
		else
			high = middle;
	}
	fputs(",\"referrers\":[", p->out);
	for (size_t i = low; i < p->referrer_count && p->referrers[i].holder == holder &&
			     i < low + MOST_REFERRERS && !err;
	     i++) {
		const struct referrer *f = &p->referrers[i];

		fputs(i > low ? ",[" : "[", p->out);
		if (f->name & FLOW_LAST)
			err = write_name(p, f->name & ~FLOW_LAST);
		else
			err = json_text_write(intern_get(&p->r->holders.names, f->name), p->out);
		fprintf(p->out, ",%" PRIu64 "]", f->count);
	}
	fputc(']', p->out);
	return err;
}

static void write_others(const struct page *p, uint64_t bytes, bool is_first)
{
	if (bytes)
		fprintf(p->out, "%s{\"name\":\"(others)\",\"bytes\":%" PRIu64 ",\"children\":[]}",
			is_first ? "" : ",", bytes);
}

/* Its own objects are a part beside its children. */
static struct error *must_check write_holder(const struct page *p, uint32_t holder, int depth)
{
	const struct holder *h = &p->r->holders.items[holder];
	uint64_t others = h->retained;
	bool is_first = true, has_children = false;
	struct error *err = write_name(p, holder);

	fprintf(p->out, ",\"bytes\":%" PRIu64 ",\"own\":%" PRIu64 ",\"count\":%" PRIu64,
		h->retained, h->bytes, h->count);
	if (!err)
		err = write_referrers(p, holder);
	fputs(",\"children\":[", p->out);
	for (uint32_t i = h->first; i != HOLDER_NONE && depth < MOST_DEPTH && !err;
	     i = p->r->holders.items[i].next) {
		if (!p->is_shown[i])
			continue;
		has_children = true;
		fputs(is_first ? "\n{\"name\":" : ",\n{\"name\":", p->out);
		err = write_holder(p, i, depth + 1);
		fputc('}', p->out);
		is_first = false;
		others -= p->r->holders.items[i].retained;
	}
	if (has_children)
		write_others(p, others, is_first);
	fputc(']', p->out);
	return err;
}

static struct error *must_check write_data(struct page *p)
{
	struct error *err;

	fprintf(p->out, "{\"process\":{\"pid\":%d,\"exe\":", p->r->pid);
	err = json_text_write(p->r->command, p->out);
	fputs("},\n\"tree\":{\"name\":", p->out);
	if (!err)
		err = write_holder(p, 0, 0);
	fputs("},\n", p->out);
	return err ? err : retained_write_tables(p->r, p->out);
}

struct error *retained_write_page(struct retained *r, FILE *out)
{
	struct page p = {.r = r, .out = out};
	struct error *err;

	p.is_shown = calloc(r->holders.count + 1, sizeof(*p.is_shown));
	if (!p.is_shown)
		return &error_no_memory;
	choose_shown(&p);
	err = find_referrers(&p);
	fwrite(holders_before_data, 1, holders_before_data_size, out);
	if (!err)
		err = write_data(&p);
	fwrite(holders_after_data, 1, holders_after_data_size, out);
	free(p.is_shown);
	free(p.referrers);
	return err;
}
