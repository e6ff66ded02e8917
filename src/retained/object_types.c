/* Sources: runtime/map.go (hmap, up to Go 1.23), internal/runtime/maps (Map, table: Go 1.24 on),
 * runtime/chan.go (hchan), runtime/runtime2.go (funcval, iface, eface, itab). */
#include "retained/object_types.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

enum {
	HMAP_BUCKETS = 16,
	HMAP_OLD_BUCKETS = 24,
	MAP_DIRECTORY = 16,
	MAP_DIRECTORY_LENGTH = 24,
	TABLE_GROUPS = 16,
	HCHAN_LENGTH = 8,
	HCHAN_BUFFER = 16,
	HCHAN_ELEMENT_SIZE = 24,
	LEAST_BYTES = 32, /* that the headers of all of these have */
};

/* Bits beside the number of a type, while types are found. */
#define FITS (1u << 31)
#define NUMBER (TYPE_MOST - 1)

#define MAX_DEPTH 64
#define PIECE (1u << 20)
#define LARGEST_ELEMENT (1u << 20)

/* What a word leads to, as its type says. */
struct claim {
	enum object_form form;
	uint64_t type;
	uint64_t extent; /* bytes of the value; 0: not known */
};

/* A claim waits for three numbers in memory, each of which says where the next one is. */
#define AHEAD 8u
#define STEPS 4u

struct waiting_claim {
	uint64_t value;
	struct claim claim;
};

struct typing {
	struct object_graph *g;
	struct runtime_types *types;
	struct type_table *table;
	struct equal_strings *strings;
	uint32_t *items;
	uint64_t *pending; /* a bit for each object: its parts are to be looked at */
	uint32_t *queue;   /* a ring of numbers of spans */
	size_t queue_first;
	size_t queue_count;
	struct waiting_claim claims[AHEAD * STEPS]; /* a ring */
	uint64_t claims_made, claims_taken;
	uint64_t image_start, image_end; /* where the program's own data is */
	struct error *err;
};

static void fail(struct typing *y, struct error *err)
{
	if (!y->err)
		y->err = err;
	else
		error_destroy(err);
}

static uint64_t word_at(const uint8_t *bytes, size_t at)
{
	uint64_t value;

	memcpy(&value, bytes + at, sizeof(value));
	return value;
}

static const struct runtime_type *type_of(struct typing *y, uint64_t address)
{
	const struct runtime_type *type = NULL;
	struct error *err = address ? runtime_types_get(y->types, address, &type) : NULL;

	if (err)
		fail(y, err);
	return type;
}

/* ---- an object gets its type ---- */

static void enqueue(struct typing *y, struct heap_object o)
{
	struct object_spans *s = &y->g->spans;
	struct object_span *span = o.span;
	uint64_t number = heap_object_number(o);

	y->pending[number / 64] |= 1ull << number % 64;
	if (span->is_queued)
		return;
	span->is_queued = true;
	y->queue[(y->queue_first + y->queue_count++) % s->count] = (uint32_t)(span - s->items);
}

/* Whether a value of so many bytes is given an object of this size: the smallest that it fits. */
static bool fits(uint64_t extent, const struct object_span *span)
{
	uint64_t size = span->object_size;

	if (!extent || extent > size)
		return false;
	return extent + 16 >= size || extent >= size / 8 * 7 ||
	       (!span->size_class && extent + HEAP_PAGE > size);
}

static bool counts(const struct claim *c, uint64_t offset, const struct object_span *span,
		   uint64_t header, bool *ret_fits)
{
	bool is_part = c->form != FORM_VALUE && c->form != FORM_ARRAY && c->form != FORM_STRING;

	*ret_fits = !offset && (is_part || fits(c->extent + header, span));
	if (!offset)
		return is_part || c->extent <= span->object_size;
	/* A part of a string or of an array says what the whole is. */
	return c->form == FORM_STRING || c->form == FORM_ARRAY;
}

static void claim_object(struct typing *y, uint64_t value, const struct claim *c)
{
	struct object_graph *g = y->g;
	struct heap_object o;
	uint64_t header, offset;
	bool fit, first;
	uint32_t *item, id;

	if (!object_spans_object(&g->spans, value, &o) ||
	    !object_graph_reached(g, heap_object_number(o)))
		return;
	header = object_graph_header(g, o.span);
	offset = value - heap_object_address(o);
	offset = offset >= header ? offset - header : 0;
	item = &y->items[object_graph_rank(g, heap_object_number(o))];
	first = !(*item & NUMBER);
	/* A map knows better what its parts are than their own type. */
	if (c->form >= FORM_MAP_GROUPS && c->form <= FORM_MAP_DIRECTORY &&
	    y->table->items[*item & NUMBER].form <= FORM_ARRAY)
		*item &= ~FITS;
	if (!counts(c, offset, o.span, header, &fit) || (!first && (!fit || *item & FITS)))
		return;
	id = type_table_id(y->table, c->form, c->type);
	if (id == TYPE_FAILED) {
		fail(y, &error_no_memory);
		return;
	}
	if (id == TYPE_UNKNOWN)
		return;
	*item = id | (fit ? FITS : 0);
	if (c->form == FORM_STRING) {
		if (!offset && first)
			fail(y,
			     equal_strings_add(y->strings, value, c->extent, o.span->object_size));
	} else if (!o.span->no_scan) {
		enqueue(y, o);
	}
}

/* ---- claims wait for memory ---- */

/* The object that a claim is about may be anywhere: what is known of it is asked for in steps,
 * while other claims are made. */
static void look_ahead(struct typing *y, uint64_t value, unsigned int step)
{
	struct object_graph *g = y->g;
	struct object_span *span;
	struct heap_object o;

	if (step == 0) {
		__builtin_prefetch(object_spans_page(&g->spans, value));
	} else if (step == 1) {
		span = object_spans_find(&g->spans, value);
		__builtin_prefetch(span);
		__builtin_prefetch(span + 1);
	} else if (object_spans_object(&g->spans, value, &o)) {
		uint64_t number = heap_object_number(o);

		if (step == 2)
			__builtin_prefetch(&g->reached[number / 64]);
		else if (object_graph_reached(g, number))
			__builtin_prefetch(&y->items[object_graph_rank(g, number)], 1);
	}
}

static void take_claim(struct typing *y)
{
	const struct waiting_claim *w = &y->claims[y->claims_taken++ % ARRAY_SIZE(y->claims)];

	claim_object(y, w->value, &w->claim);
}

/* Claims have effect in the order in which they are made. */
static void claim_later(struct typing *y, uint64_t value, const struct claim *c)
{
	uint64_t made = y->claims_made;

	if (!object_spans_page(&y->g->spans, value))
		return;
	if (made - y->claims_taken == ARRAY_SIZE(y->claims))
		take_claim(y);
	y->claims[made % ARRAY_SIZE(y->claims)] = (struct waiting_claim){value, *c};
	y->claims_made++;
	for (unsigned int step = 0; step < STEPS && made - y->claims_taken >= step * AHEAD; step++)
		look_ahead(y, y->claims[(made - step * AHEAD) % ARRAY_SIZE(y->claims)].value, step);
}

static void take_claims(struct typing *y)
{
	while (y->claims_taken < y->claims_made)
		take_claim(y);
}

/* ---- values ---- */

static void walk(struct typing *y, const struct runtime_type *type, const uint8_t *bytes,
		 size_t size, int depth);

static void walk_interface(struct typing *y, bool has_methods, const uint8_t *bytes, int depth)
{
	uint64_t word = word_at(bytes, 0);
	const struct runtime_type *type;

	if (!word || !word_at(bytes, 8))
		return;
	if (has_methods)
		fail(y, runtime_types_of_itab(y->types, word, &word));
	type = type_of(y, word);
	if (type && runtime_type_is_direct(type))
		walk(y, type, bytes + 8, 8, depth + 1);
	else if (type)
		claim_later(y, word_at(bytes, 8),
			    &(struct claim){FORM_VALUE, type->address, type->size});
}

static void walk_slice(struct typing *y, const struct runtime_type *slice, const uint8_t *bytes)
{
	const struct runtime_type *element = type_of(y, slice->element);
	uint64_t capacity = word_at(bytes, 16), extent;

	if (!element || __builtin_mul_overflow(element->size, capacity, &extent))
		return;
	claim_later(y, word_at(bytes, 0), &(struct claim){FORM_ARRAY, element->address, extent});
}

static void walk_fields(struct typing *y, const struct runtime_type *type, const uint8_t *bytes,
			size_t size, int depth)
{
	for (size_t i = 0; i < type->field_count && !y->err; i++) {
		const struct runtime_field *f = &type->fields[i];
		const struct runtime_type *field;
		uint64_t end;

		if (f->offset >= type->pointer_bytes || f->offset >= size)
			return;
		field = type_of(y, f->type);
		end = i + 1 < type->field_count ? type->fields[i + 1].offset : type->size;
		/* Fields that overlap would make the work of nested ones multiply. */
		if (field && field->size <= end - f->offset)
			walk(y, field, bytes + f->offset, size - f->offset, depth + 1);
	}
}

static void walk_elements(struct typing *y, const struct runtime_type *element,
			  const uint8_t *bytes, size_t size, int depth)
{
	if (!element || !element->pointer_bytes || !element->size)
		return;
	for (size_t at = 0; at + element->size <= size && !y->err; at += element->size)
		walk(y, element, bytes + at, element->size, depth + 1);
}

static void walk_pointer(struct typing *y, const struct runtime_type *type, uint64_t word)
{
	const struct runtime_type *element = type_of(y, type->element);

	if (element)
		claim_later(y, word, &(struct claim){FORM_VALUE, element->address, element->size});
}

/* Follows the pointers of a value. */
static void walk(struct typing *y, const struct runtime_type *type, const uint8_t *bytes,
		 size_t size, int depth)
{
	if (!type->pointer_bytes || type->size > size || depth > MAX_DEPTH || y->err)
		return;
	switch (type->kind) {
	case KIND_POINTER:
		walk_pointer(y, type, word_at(bytes, 0));
		break;
	case KIND_SLICE:
		walk_slice(y, type, bytes);
		break;
	case KIND_STRING:
		claim_later(y, word_at(bytes, 0),
			    &(struct claim){FORM_STRING, 0, word_at(bytes, 8)});
		break;
	case KIND_INTERFACE:
		walk_interface(y, type->has_methods, bytes, depth);
		break;
	case KIND_MAP:
		claim_later(y, word_at(bytes, 0), &(struct claim){FORM_MAP, type->address, 0});
		break;
	case KIND_CHAN:
		claim_later(y, word_at(bytes, 0), &(struct claim){FORM_CHAN, type->address, 0});
		break;
	case KIND_FUNC:
		claim_later(y, word_at(bytes, 0), &(struct claim){FORM_CLOSURE, 0, 0});
		break;
	case KIND_STRUCT:
		walk_fields(y, type, bytes, size, depth);
		break;
	case KIND_ARRAY:
		walk_elements(y, type_of(y, type->element), bytes, type->size, depth);
		break;
	default:
		break;
	}
}

/* ---- objects ---- */

/* Go 1.24 and later have groups, whose first field is named so. */
static bool has_groups(const struct runtime_type *group)
{
	return group && group->field_count && !strcmp(group->fields[0].name, "ctrl");
}

static void read_map(struct typing *y, uint64_t map, const uint8_t *bytes)
{
	const struct runtime_type *type = type_of(y, map);
	const struct claim groups = {FORM_MAP_GROUPS, map, 0};

	if (!type)
		return;
	if (!has_groups(type_of(y, type->group))) {
		claim_later(y, word_at(bytes, HMAP_BUCKETS), &groups);
		claim_later(y, word_at(bytes, HMAP_OLD_BUCKETS), &groups);
	} else if (!word_at(bytes, MAP_DIRECTORY_LENGTH)) {
		claim_later(y, word_at(bytes, MAP_DIRECTORY), &groups);
	} else {
		claim_later(y, word_at(bytes, MAP_DIRECTORY),
			    &(struct claim){FORM_MAP_DIRECTORY, map, 0});
	}
}

static void read_groups(struct typing *y, uint64_t map, const uint8_t *bytes, size_t size)
{
	const struct runtime_type *type = type_of(y, map);
	const struct runtime_type *group = type ? type_of(y, type->group) : NULL;

	walk_elements(y, group, bytes, size, 0);
	if (!group || has_groups(group) || group->size < 16)
		return;
	/* A bucket ends with the address of the next one. */
	for (size_t at = 0; at + group->size <= size; at += group->size)
		claim_later(y, word_at(bytes, at + group->size - 8),
			    &(struct claim){FORM_MAP_GROUPS, map, 0});
}

static void read_directory(struct typing *y, uint64_t map, const uint8_t *bytes, size_t size)
{
	for (size_t at = 0; at + 8 <= size && !y->err; at += 8)
		claim_later(y, word_at(bytes, at), &(struct claim){FORM_MAP_TABLE, map, 0});
}

static void read_chan(struct typing *y, uint64_t chan, const uint8_t *bytes)
{
	const struct runtime_type *type = type_of(y, chan);
	uint64_t extent;

	if (type && !__builtin_mul_overflow(word_at(bytes, HCHAN_LENGTH),
					    word_at(bytes, HCHAN_ELEMENT_SIZE) & 0xffff, &extent))
		claim_later(y, word_at(bytes, HCHAN_BUFFER),
			    &(struct claim){FORM_ARRAY, type->element, extent});
}

/* Words of which nothing is known: two that are an interface show that by themselves. */
static void read_unknown(struct typing *y, const uint8_t *bytes, size_t size)
{
	for (size_t at = 0; at + 16 <= size && !y->err; at += 8) {
		uint64_t word = word_at(bytes, at);
		bool is_type;

		if (word < y->image_start || word >= y->image_end || word % 8)
			continue;
		is_type = runtime_types_holds(y->types, word);
		if (is_type && type_of(y, word) && type_of(y, word)->name)
			walk_interface(y, false, bytes + at, 0);
		walk_interface(y, true, bytes + at, 0);
	}
}

static uint32_t read_closure(struct typing *y, const uint8_t *bytes, size_t size)
{
	struct go_func f;
	uint32_t id =
		type_table_id(y->table, FORM_CLOSURE,
			      pclntab_find(&y->g->img->functions, word_at(bytes, 0), &f) ? f.entry
											 : 0);

	read_unknown(y, bytes + 8, size - 8);
	return id;
}

/* The parts of the object, of which `size` bytes are there. */
static void read_object(struct typing *y, uint32_t *item, const uint8_t *bytes, size_t size)
{
	struct object_type o = y->table->items[*item & NUMBER];
	const struct runtime_type *type;
	uint32_t id;

	if (size < LEAST_BYTES && o.form >= FORM_MAP && o.form != FORM_CLOSURE &&
	    o.form != FORM_MAP_DIRECTORY && o.form != FORM_MAP_GROUPS)
		return;
	switch (o.form) {
	case FORM_VALUE:
		type = type_of(y, o.type);
		if (type)
			walk(y, type, bytes, size, 0);
		break;
	case FORM_ARRAY:
		walk_elements(y, type_of(y, o.type), bytes, size, 0);
		break;
	case FORM_MAP:
		read_map(y, o.type, bytes);
		break;
	case FORM_MAP_GROUPS:
		read_groups(y, o.type, bytes, size);
		break;
	case FORM_MAP_TABLE:
		claim_later(y, word_at(bytes, TABLE_GROUPS),
			    &(struct claim){FORM_MAP_GROUPS, o.type, 0});
		break;
	case FORM_MAP_DIRECTORY:
		read_directory(y, o.type, bytes, size);
		break;
	case FORM_CHAN:
		read_chan(y, o.type, bytes);
		break;
	case FORM_CLOSURE:
		id = read_closure(y, bytes, size);
		if (id == TYPE_FAILED)
			fail(y, &error_no_memory);
		else if (id)
			*item = id | (*item & ~NUMBER);
		break;
	default:
		read_unknown(y, bytes, size);
		break;
	}
}

/* The size of what repeats in such an object; 0: nothing does. */
static uint64_t element_size(struct typing *y, struct object_type o)
{
	const struct runtime_type *type = type_of(y, o.type);

	if (o.form == FORM_MAP_DIRECTORY)
		return 8;
	if (o.form == FORM_MAP_GROUPS && type)
		type = type_of(y, type->group);
	else if (o.form != FORM_ARRAY)
		return 0;
	return type ? type->size : 0;
}

/* The rest of an array of which the first `done` bytes were read. */
static void read_rest(struct typing *y, uint32_t *item, struct heap_object object, size_t done)
{
	uint64_t header = object_graph_header(y->g, object.span);
	uint64_t size = object.span->object_size - header;
	uint64_t element = element_size(y, y->table->items[*item & NUMBER]);
	_cleanup_free_ uint8_t *bytes = malloc(PIECE);
	uint64_t piece;

	if (!element || element > LARGEST_ELEMENT || done <= header)
		return;
	if (!bytes) {
		fail(y, &error_no_memory);
		return;
	}
	piece = PIECE / element * element;
	for (uint64_t at = (done - header) / element * element; at < size && !y->err; at += piece) {
		uint64_t n = size - at < piece ? size - at : piece;
		struct error *err =
			target_read(y->g->t, heap_object_address(object) + header + at, bytes, n);

		if (err && err->code != ERROR_FAULT)
			fail(y, err);
		else if (!error_dropped(err))
			read_object(y, item, bytes, n);
	}
}

static bool wanted(void *arg, struct heap_object object, const uint8_t *bytes, size_t size)
{
	struct typing *y = arg;
	uint64_t number = heap_object_number(object);
	uint64_t header = object_graph_header(y->g, object.span);
	uint32_t *item;

	if (y->pending[number / 64] >> number % 64 & 1)
		y->pending[number / 64] &= ~(1ull << number % 64);
	else
		return false;
	if (y->err || size <= header)
		return false;
	item = &y->items[object_graph_rank(y->g, number)];
	read_object(y, item, bytes + header, size - header);
	if (size < object.span->object_size)
		read_rest(y, item, object, size);
	return false;
}

static void no_word(void *arg, uint64_t slot, uint64_t value)
{
}

static struct error *must_check drain(struct typing *y)
{
	const struct heap_choice choice = {wanted, y, y->pending};
	const struct heap_visit visit = {no_word, y};
	struct object_spans *s = &y->g->spans;
	struct object_span *spans[HEAP_BATCH];
	struct error *err = take_ptr(y->err);

	while (y->queue_count && !err) {
		size_t n = 0;

		for (; y->queue_count && n < HEAP_BATCH; y->queue_count--) {
			struct object_span *span = &s->items[y->queue[y->queue_first]];

			y->queue_first = (y->queue_first + 1) % s->count;
			span->is_queued = false;
			if (object_span_next(span, y->pending, 0) < span->count)
				spans[n++] = span;
		}
		if (y->g->stop && atomic_load(y->g->stop))
			return &error_stopped;
		err = heap_objects_visit(&y->g->objects, spans, n, &choice, &visit);
		take_claims(y);
		if (!err)
			err = take_ptr(y->err);
	}
	return err;
}

/* ---- all ---- */

static void start_with(struct typing *y, uint32_t object, uint32_t id, bool is_certain)
{
	struct heap_object o = object_spans_numbered(&y->g->spans, object);
	uint32_t *item = &y->items[object_graph_rank(y->g, object)];

	if (!id || (*item & NUMBER && (*item & FITS || !is_certain)))
		return;
	*item = id | (is_certain ? FITS : 0);
	if (!o.span->no_scan)
		enqueue(y, o);
}

/* Of a value that a variable leads to, the size shows whether it fits. */
static void start_with_root(struct typing *y, const struct root_edge *e)
{
	struct heap_object o = object_spans_numbered(&y->g->spans, e->object);
	const struct object_type *type = &y->table->items[e->type];
	const struct runtime_type *value;
	uint64_t extent;

	if (type->form != FORM_VALUE) {
		start_with(y, e->object, e->type, type->form >= FORM_MAP);
		return;
	}
	value = type_of(y, type->type);
	extent = value ? value->size + object_graph_header(y->g, o.span) : UINT64_MAX;
	if (extent <= o.span->object_size)
		start_with(y, e->object, e->type, fits(extent, o.span));
}

static void start(struct typing *y)
{
	const struct object_graph *g = y->g;

	for (size_t i = 0; i < g->typed_count; i++)
		start_with(y, g->typed[i].object, g->typed[i].type, true);
	for (size_t i = 0; i < g->roots.edge_count && !y->err; i++) {
		const struct root_edge *e = &g->roots.edges[i];

		if (e->type)
			start_with_root(y, e);
	}
}

static void try_unknown(void *arg, uint32_t rank, const struct object_span *span, uint32_t index)
{
	struct typing *y = arg;

	if (y->items[rank] & NUMBER || span->no_scan)
		return;
	enqueue(y, (struct heap_object){&y->g->spans.items[span - y->g->spans.items], index});
}

static void name_unknown(void *arg, uint32_t rank, const struct object_span *span, uint32_t index)
{
	struct typing *y = arg;
	uint32_t id = y->items[rank] & NUMBER;

	if (!id)
		id = type_table_id(y->table, FORM_UNKNOWN, span->object_size << 1 | span->no_scan);
	if (id == TYPE_FAILED)
		fail(y, &error_no_memory);
	y->items[rank] = id;
}

static void find_image(struct typing *y)
{
	const struct elf_segment *segments;
	size_t count = elf_file_segments(y->g->img->elf, &segments);

	y->image_start = UINT64_MAX;
	for (size_t i = 0; i < count; i++) {
		uint64_t start = segments[i].address + y->g->img->bias;

		if (start < y->image_start)
			y->image_start = start;
		if (start + segments[i].memory_size > y->image_end)
			y->image_end = start + segments[i].memory_size;
	}
}

struct error *object_types_find(struct object_graph *g, struct runtime_types *types,
				struct equal_strings *strings, uint32_t **ret)
{
	_cleanup_free_ uint32_t *items = flow_numbers(g->count, 0);
	_cleanup_free_ uint32_t *queue = calloc(g->spans.count + 1, sizeof(*queue));
	_cleanup_free_ uint64_t *pending = calloc(g->spans.objects / 64 + 1, sizeof(*pending));
	struct typing y = {.g = g,
			   .types = types,
			   .table = g->table,
			   .strings = strings,
			   .items = items,
			   .pending = pending,
			   .queue = queue};
	struct error *err;

	if (!items || !queue || !pending || type_table_id(g->table, FORM_UNKNOWN, 0) == TYPE_FAILED)
		return &error_no_memory;
	find_image(&y);
	start(&y);
	err = drain(&y);
	if (err)
		return err;
	object_graph_each(g, try_unknown, &y);
	err = drain(&y);
	if (err)
		return err;
	object_graph_each(g, name_unknown, &y);
	if (y.err)
		return y.err;
	*ret = take_ptr(items);
	return NULL;
}
