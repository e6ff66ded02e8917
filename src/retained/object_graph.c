#include "retained/object_graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "heapgraph/heap_roots.h"
#include "heapgraph/heap_stacks.h"

#define MAX_FROM_G 64
#define MOST_GENERAL 32
/* Further ones, where the program samples each object, say nothing new. */
#define MOST_SAMPLED (1u << 20)

/* The state of one reading. */
struct reading {
	struct object_graph *g;
	uint32_t *queue; /* a ring of numbers of spans that have objects to visit */
	size_t queue_first;
	size_t queue_count;
	uint64_t *pending;  /* a bit for each object: it is reached, and is to be visited */
	uint64_t low, high; /* of all spans */
	uint32_t source;    /* the object whose edges are being added */
	size_t first_edge;  /* of it */
	struct number_writer sources; /* those that have edges, in their order */
	uint32_t *kept;               /* objects that finalizers will be given */
	size_t kept_count;
	size_t kept_capacity;
	enum root_kind kind; /* of the roots that are being read */
	bool is_waiting;     /* they are finalizers that wait to be run */
	struct error *err;
	/* Of a goroutine: its bounds, and words of the g that lead into its stack. */
	const struct wait_goroutine *goroutine;
	uint64_t from_g[MAX_FROM_G];
	size_t from_g_count;
};

static bool bit_get(const uint64_t *bits, uint64_t i)
{
	return bits[i / 64] >> i % 64 & 1;
}

static void bit_set(uint64_t *bits, uint64_t i)
{
	bits[i / 64] |= 1ull << i % 64;
}

static void fail(struct reading *r, struct error *err)
{
	if (!r->err)
		r->err = err;
	else
		error_destroy(err);
}

/* ---- objects ---- */

static void enqueue(struct reading *r, struct object_span *span)
{
	struct object_spans *s = &r->g->spans;

	if (span->is_queued)
		return;
	span->is_queued = true;
	r->queue[(r->queue_first + r->queue_count++) % s->count] = (uint32_t)(span - s->items);
}

/* The g of a goroutine that lives. */
static bool is_g(const struct reading *r, struct heap_object o)
{
	const struct golayout_numbers *n = &r->g->lay->n;
	const uint64_t *place;

	if (o.span->object_size < (uint64_t)n->g_size ||
	    o.span->object_size > 2 * (uint64_t)n->g_size)
		return false;
	place = map_find(&r->g->waits->by_g, heap_object_address(o));
	return place && r->g->waits->goroutines[*place - 1].alive;
}

static void reach(struct reading *r, struct heap_object o)
{
	struct object_graph *g = r->g;
	uint64_t number = heap_object_number(o);

	if (object_graph_reached(g, number))
		return;
	g->reached[number / 64].bits |= 1ull << number % 64;
	g->count++;
	g->bytes += o.span->object_size;
	if (o.span->no_scan)
		return;
	bit_set(r->pending, number);
	enqueue(r, o.span);
}

/* The object that a word leads to; false: none that counts. */
static bool lead(struct reading *r, uint64_t value, struct heap_object *ret)
{
	if (!object_spans_object(&r->g->spans, value, ret)) {
		r->g->missed += value >= r->low && value < r->high &&
				!object_spans_find(&r->g->spans, value);
		return false;
	}
	return !is_g(r, *ret);
}

/* ---- edges ---- */

static void end_source(struct reading *r)
{
	struct flow_graph *f = &r->g->flow;

	if (r->source != FLOW_NONE && f->edge_count > r->first_edge)
		f->edges[f->edge_count - 1] |= FLOW_LAST;
	r->source = FLOW_NONE;
}

static void add_edge(void *arg, uint64_t slot, uint64_t value)
{
	struct reading *r = arg;
	struct flow_graph *f = &r->g->flow;
	struct heap_object o;
	uint32_t number;

	if (r->err || !lead(r, value, &o))
		return;
	number = (uint32_t)heap_object_number(o);
	reach(r, o);
	if (f->edge_count > r->first_edge && f->edges[f->edge_count - 1] == number)
		return;
	if (!flow_graph_reserve(f, f->edge_count + 1)) {
		fail(r, &error_no_memory);
		return;
	}
	if (f->edge_count == r->first_edge)
		number_writer_add(&r->sources, r->source);
	f->edges[f->edge_count++] = number;
}

/* The types that large objects and those with a header have. */
static void note_type(struct reading *r, struct heap_object o, const uint8_t *bytes, size_t size)
{
	struct object_graph *g = r->g;
	uint64_t address = o.span->size_class ? 0 : o.span->large_type;
	const struct heap_type *type;
	bool is_array;
	uint32_t id;
	struct error *err;

	if (object_graph_header(g, o.span) && size >= 8)
		memcpy(&address, bytes, sizeof(address));
	if (!address)
		return;
	err = heap_types_get(&g->objects.types, address, &type);
	if (err || !type) {
		fail(r, err);
		return;
	}
	is_array = type->size * 2 <= o.span->object_size;
	id = type_table_id(g->table, is_array ? FORM_ARRAY : FORM_VALUE, address);
	if (id == TYPE_FAILED ||
	    !array_reserve(&g->typed, &g->typed_capacity, g->typed_count + 1)) {
		fail(r, &error_no_memory);
		return;
	}
	g->typed[g->typed_count++] = (struct typed_object){(uint32_t)heap_object_number(o), id};
}

static bool wanted(void *arg, struct heap_object object, const uint8_t *bytes, size_t size)
{
	struct reading *r = arg;
	uint64_t number = heap_object_number(object);

	if (!bit_get(r->pending, number))
		return false;
	r->pending[number / 64] &= ~(1ull << number % 64);
	end_source(r);
	r->source = (uint32_t)number;
	r->first_edge = r->g->flow.edge_count;
	note_type(r, object, bytes, size);
	return true;
}

static size_t dequeue(struct reading *r, struct object_span **spans)
{
	struct object_spans *s = &r->g->spans;
	size_t n = 0;

	while (r->queue_count && n < HEAP_BATCH) {
		struct object_span *span = &s->items[r->queue[r->queue_first]];

		r->queue_first = (r->queue_first + 1) % s->count;
		r->queue_count--;
		span->is_queued = false;
		if (object_span_next(span, r->pending, 0) < span->count)
			spans[n++] = span;
	}
	return n;
}

static struct error *must_check drain(struct reading *r)
{
	const struct heap_choice choice = {wanted, r, r->pending};
	const struct heap_visit visit = {add_edge, r};
	struct object_span *spans[HEAP_BATCH];
	struct error *err = NULL;

	while (r->queue_count && !err) {
		size_t n = dequeue(r, spans);

		if (r->g->stop && atomic_load(r->g->stop))
			return &error_stopped;
		err = heap_objects_visit(&r->g->objects, spans, n, &choice, &visit);
		if (!err)
			err = take_ptr(r->err);
	}
	end_source(r);
	return err;
}

/* ---- roots ---- */

static void add_root(void *arg, uint64_t slot, uint64_t value)
{
	struct reading *r = arg;
	struct root_list *l = &r->g->roots;
	struct heap_object o;
	uint32_t number;
	struct error *err;

	if (r->err || !lead(r, value, &o))
		return;
	number = (uint32_t)heap_object_number(o);
	if (r->kind == ROOT_GLOBAL)
		err = root_list_add_global(l, slot, number);
	else if (r->kind == ROOT_VARIABLE)
		err = root_list_add_variable(l, slot, number);
	else
		err = root_list_add_other(l, r->kind, r->is_waiting ? slot : 0, number);
	reach(r, o);
	if (err)
		fail(r, err);
}

static void add_static(void *arg, uint64_t slot, uint64_t value)
{
	struct reading *r = arg;

	if (!r->err && !object_spans_find(&r->g->spans, value))
		fail(r, root_list_add_static(&r->g->roots, slot, value));
}

static void begin_frame(void *arg, uint64_t word, uint64_t cfa)
{
	struct reading *r = arg;
	struct error *err = root_list_begin_frame(&r->g->roots, word, cfa);

	if (err)
		fail(r, err);
}

static void take_from_g(void *arg, uint64_t slot, uint64_t value)
{
	struct reading *r = arg;

	if (value >= r->goroutine->stack_lo && value < r->goroutine->stack_hi &&
	    r->from_g_count < MAX_FROM_G)
		r->from_g[r->from_g_count++] = value;
}

/* Its g, and the words of that which lead into the stack. */
static struct error *must_check add_g(struct reading *r)
{
	const struct heap_visit visit = {take_from_g, r};
	struct heap_object o;
	struct error *err;

	r->from_g_count = 0;
	if (!object_spans_object(&r->g->spans, r->goroutine->g, &o))
		return NULL;
	reach(r, o);
	err = root_list_add_to_goroutine(&r->g->roots, (uint32_t)heap_object_number(o));
	return err ? err : heap_objects_visit_one(&r->g->objects, o, &visit);
}

static struct error *must_check add_goroutine(struct reading *r, uint32_t number)
{
	const struct wait_goroutine *g = &r->g->waits->goroutines[number];
	const struct heap_stack_visit visit = {{add_root, r}, begin_frame};
	struct heap_stack stack = {.lo = g->stack_lo,
				   .hi = g->stack_hi,
				   .sp = g->sp,
				   .pc = g->pc,
				   .lr = g->lr,
				   .fp = g->fp,
				   .runs = !g->has_stack};
	struct error *err = root_list_begin_goroutine(&r->g->roots, number);
	bool ok;

	r->goroutine = g;
	r->kind = ROOT_VARIABLE;
	if (!err)
		err = add_g(r);
	if (err)
		return err;
	stack.from_g = r->from_g;
	stack.from_g_count = r->from_g_count;
	err = heap_stack_visit(r->g->t, r->g->img, &stack, &visit, &ok);
	if (!err && !ok && g->stack_hi > g->stack_lo)
		r->g->unread += g->stack_hi - g->stack_lo;
	return err ? err : take_ptr(r->err);
}

static struct error *must_check add_goroutines(struct reading *r)
{
	struct error *err = NULL;

	for (size_t i = 0; i < r->g->waits->count && !err; i++) {
		if (r->g->stop && atomic_load(r->g->stop))
			return &error_stopped;
		if (r->g->waits->goroutines[i].alive)
			err = add_goroutine(r, (uint32_t)i);
	}
	return err;
}

static struct error *must_check add_registers(struct reading *r)
{
	struct target_registers registers;
	struct target_thread *threads;
	size_t count;
	struct error *err;

	if (!target_stands_still(r->g->t))
		return NULL;
	err = target_threads(r->g->t, &threads, &count);
	if (err)
		return err;
	r->kind = ROOT_REGISTERS;
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0;
		     k < MOST_GENERAL && target_registers(r->g->t, threads[i].inner, &registers);
		     k++)
			add_root(r, 0, registers.general[k]);
	free(threads);
	return take_ptr(r->err);
}

static void keep(void *arg, struct heap_object object)
{
	struct reading *r = arg;

	if (!array_reserve(&r->kept, &r->kept_capacity, r->kept_count + 1))
		fail(r, &error_no_memory);
	else
		r->kept[r->kept_count++] = (uint32_t)heap_object_number(object);
}

static void note_sampled(void *arg, struct heap_object object, uint64_t bucket)
{
	struct reading *r = arg;
	struct object_graph *g = r->g;

	if (g->sampled_count == MOST_SAMPLED)
		return;
	if (!array_reserve(&g->sampled, &g->sampled_capacity, g->sampled_count + 1))
		fail(r, &error_no_memory);
	else
		g->sampled[g->sampled_count++] =
			(struct sampled_object){(uint32_t)heap_object_number(object), bucket};
}

static struct error *must_check add_specials(struct reading *r)
{
	const struct heap_specials_visit visit = {{add_root, r}, keep, note_sampled};
	struct error *err;

	r->kind = ROOT_FINALIZER;
	err = heap_specials_visit(r->g->t, r->g->lay, &r->g->spans, &visit);
	r->is_waiting = true;
	if (!err)
		err = heap_queues_visit(r->g->t, r->g->img, &visit.visit);
	r->is_waiting = false;
	return err ? err : take_ptr(r->err);
}

/* Objects that nothing but their finalizer leads to. Others are held by what leads to them. */
static struct error *must_check add_kept(struct reading *r)
{
	struct error *err = NULL;

	for (size_t i = 0; i < r->kept_count && !err; i++) {
		struct heap_object o = object_spans_numbered(&r->g->spans, r->kept[i]);

		if (object_graph_reached(r->g, r->kept[i]) || is_g(r, o))
			continue;
		reach(r, o);
		err = root_list_add_other(&r->g->roots, ROOT_FINALIZER, 0, r->kept[i]);
	}
	return err ? err : drain(r);
}

static struct error *must_check read_all(struct reading *r)
{
	const struct heap_visit visit = {add_root, r}, statics = {add_static, r};
	struct object_graph *g = r->g;
	struct error *err = heap_globals_visit(g->t, g->img, g->lay, &statics);

	root_list_sort_statics(&g->roots);
	r->kind = ROOT_GLOBAL;
	if (!err)
		err = heap_globals_visit(g->t, g->img, g->lay, &visit);
	if (!err)
		err = take_ptr(r->err);
	if (!err)
		err = add_specials(r);
	if (!err)
		err = add_registers(r);
	if (!err)
		err = add_goroutines(r);
	if (!err)
		err = drain(r);
	if (!err)
		err = add_kept(r);
	g->unread += g->objects.unread;
	return err;
}

/* ---- nodes ---- */

static void make_ranks(struct object_graph *g)
{
	size_t words = g->spans.objects / 64 + 1;
	uint32_t sum = 0;

	for (size_t i = 0; i < words; i++) {
		g->reached[i].before = sum;
		sum += (uint32_t)__builtin_popcountll(g->reached[i].bits);
	}
}

/* Objects become nodes. */
static void name_nodes(struct object_graph *g, const struct number_array *sources)
{
	struct flow_graph *f = &g->flow;
	uint32_t first = object_graph_first_node(g);

	for (size_t at = 0, source = 0; at < f->edge_count; source++) {
		uint32_t object = number_array_pass(sources, source), edge;

		f->first[first + object_graph_rank(g, object)] = (uint32_t)at;
		do {
			edge = f->edges[at];
			f->edges[at++] = (first + object_graph_rank(g, edge & ~FLOW_LAST)) |
					 (edge & FLOW_LAST);
		} while (!(edge & FLOW_LAST));
	}
}

static int compare_edges(const void *a, const void *b)
{
	const struct root_edge *x = a, *y = b;

	return x->root != y->root ? (x->root > y->root) - (x->root < y->root)
				  : (x->object > y->object) - (x->object < y->object);
}

/* An edge of the last node that has some. */
static void append(struct flow_graph *f, uint32_t from, uint32_t to)
{
	if (f->first[from] == FLOW_NONE)
		f->first[from] = (uint32_t)f->edge_count;
	else
		f->edges[f->edge_count - 1] &= ~FLOW_LAST;
	f->edges[f->edge_count++] = to | FLOW_LAST;
}

static void add_roots(struct object_graph *g)
{
	const struct root_list *l = &g->roots;
	uint32_t first = object_graph_first_node(g);
	size_t next = 0;

	for (size_t i = 0; i < l->count; i++)
		if (!l->items[i].parent)
			append(&g->flow, 0, (uint32_t)i + 1);
	for (size_t i = 0; i < l->count; i++) {
		for (; next < l->edge_count && l->edges[next].root == i; next++)
			append(&g->flow, (uint32_t)i + 1,
			       first + object_graph_rank(g, l->edges[next].object));
		/* The roots of a goroutine follow it. */
		for (size_t k = i + 1; l->items[i].kind == ROOT_GOROUTINE && k < l->count &&
				       l->items[k].parent == i + 1;
		     k++)
			append(&g->flow, (uint32_t)i + 1, (uint32_t)k + 1);
	}
}

static struct error *must_check make_nodes(struct object_graph *g, struct number_writer *sources)
{
	_cleanup_number_array_ struct number_array read = {0};
	struct flow_graph *f = &g->flow;
	struct root_list *l = &g->roots;
	uint64_t count = (uint64_t)g->count + l->count + 1;
	struct error *err = number_writer_finish(sources, &read);

	if (err)
		return err;
	if (count > FLOW_MOST_NODES)
		return error_format(ERROR_UNSUPPORTED,
				    "the heap has more objects than gospect supports (%u)",
				    FLOW_MOST_NODES);
	make_ranks(g);
	f->count = (uint32_t)count;
	f->first = flow_numbers(count, 0xff);
	if (!f->first || !flow_graph_reserve(f, f->edge_count + l->count + l->edge_count + 1))
		return &error_no_memory;
	name_nodes(g, &read);
	if (l->edge_count)
		qsort(l->edges, l->edge_count, sizeof(*l->edges), compare_edges);
	add_roots(g);
	flow_graph_put_aside(f);
	return NULL;
}

/* ---- reading ---- */

static struct error *must_check open_heap(struct object_graph *g, struct runtime_types *types,
					  struct type_table *table)
{
	const struct wait_graph_options how = {.system = true, .stop = g->stop};
	struct memory_variables variables;
	struct error *err = memory_variables_find(g->img, g->lay, &variables);

	if (!err)
		err = wait_graph_open(g->t, g->img, g->lay, &how, &g->waits);
	if (!err)
		err = wait_graph_look(g->waits);
	if (!err)
		err = root_list_open(g->t, g->img, types, table, &g->roots);
	if (!err)
		err = object_spans_read(g->t, g->lay, &variables, g->stop, &g->spans);
	if (!err)
		err = heap_objects_open(g->t, g->img, g->lay, variables.heap, &g->objects);
	if (!err && g->spans.objects >= FLOW_MOST_NODES)
		err = error_format(
			ERROR_UNSUPPORTED,
			"the spans of the heap have room for more objects than gospect supports (%u)",
			FLOW_MOST_NODES);
	return err;
}

static struct error *must_check open_reading(struct reading *r)
{
	struct object_graph *g = r->g;
	const struct object_spans *s = &g->spans;

	g->reached = calloc(s->objects / 64 + 1, sizeof(*g->reached));
	r->pending = calloc(s->objects / 64 + 1, sizeof(uint64_t));
	r->queue = calloc(s->count + 1, sizeof(uint32_t));
	r->source = FLOW_NONE;
	r->low = s->count ? s->items[0].start : 0;
	r->high = s->count && !target_stands_still(g->t) ? s->items[s->count - 1].end : 0;
	return g->reached && r->pending && r->queue ? NULL : &error_no_memory;
}

static void reading_release(struct reading *r)
{
	error_destroy(r->err);
	free(r->queue);
	free(r->pending);
	free(r->kept);
	number_writer_release(&r->sources);
}

struct error *object_graph_read(struct target *t, const struct image *img,
				const struct golayout *lay, struct runtime_types *types,
				struct type_table *table,
				const struct object_graph_options *options,
				struct object_graph *ret)
{
	_cleanup_object_graph_ struct object_graph g = {.t = t,
							.img = img,
							.lay = lay,
							.stop = options->stop,
							.table = table};
	_cleanup_(reading_release) struct reading r = {.g = &g};
	struct error *err = open_heap(&g, types, table);

	if (!err)
		err = open_reading(&r);
	if (!err)
		err = read_all(&r);
	if (!err)
		err = make_nodes(&g, &r.sources);
	if (err)
		return err;
	*ret = g;
	g = (struct object_graph){0};
	return NULL;
}

void object_graph_release(struct object_graph *g)
{
	wait_graph_destroy(g->waits);
	object_spans_release(&g->spans);
	heap_objects_release(&g->objects);
	root_list_release(&g->roots);
	free(g->reached);
	free(g->typed);
	free(g->sampled);
	flow_graph_release(&g->flow);
	*g = (struct object_graph){0};
}

/* ---- questions ---- */

struct heap_object object_graph_ranked(struct object_graph *g, uint32_t rank)
{
	size_t low = 0, high = g->spans.objects / 64 + 1;
	uint64_t bits;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (g->reached[middle].before <= rank)
			low = middle;
		else
			high = middle;
	}
	bits = g->reached[low].bits;
	for (uint32_t i = g->reached[low].before; i < rank; i++)
		bits &= bits - 1;
	return object_spans_numbered(&g->spans, low * 64 + (uint64_t)__builtin_ctzll(bits));
}

void object_graph_each(struct object_graph *g,
		       void (*visit)(void *arg, uint32_t rank, const struct object_span *span,
				     uint32_t index),
		       void *arg)
{
	uint32_t rank = 0;

	for (size_t i = 0; i < g->spans.count; i++) {
		const struct object_span *span = &g->spans.items[i];

		for (uint32_t k = 0; k < span->count; k++)
			if (object_graph_reached(g, span->first + k))
				visit(arg, rank++, span, k);
	}
}
