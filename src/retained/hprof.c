/*
 * The heap dump format of Java's HPROF, version 1.0.2, which Eclipse MAT, VisualVM and Perfetto
 * open (JDK: src/hotspot/share/services/heapDumper.cpp).
 *
 * A Go type is a class. A value of it is an instance with one field for each word: an object where
 * the word is a pointer, else a long. Strings and arrays without pointers are arrays of bytes. All
 * other objects are arrays of references with one element for each word, null where the word is no
 * pointer: so their sizes are right. An interior pointer leads to the object that it is in.
 *
 * Readers want all names and classes before the dump itself, which is in segments at the end.
 *
 * Roots: global variables are static fields of the class `globals`; a goroutine is a thread, and
 * the functions of its variables are the frames of its stack.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "retained/retained.h"

enum record_tag {
	TAG_TEXT = 0x01,
	TAG_LOAD_CLASS = 0x02,
	TAG_FRAME = 0x04,
	TAG_TRACE = 0x05,
	TAG_SEGMENT = 0x1c,
	TAG_END = 0x2c,
};

enum dump_tag {
	DUMP_GLOBAL = 0x01,
	DUMP_STACK = 0x03,
	DUMP_CLASS_ROOT = 0x05,
	DUMP_THREAD = 0x08,
	DUMP_CLASS = 0x20,
	DUMP_INSTANCE = 0x21,
	DUMP_REFERENCES = 0x22,
	DUMP_BYTES = 0x23,
};

enum java_type { JAVA_OBJECT = 2, JAVA_BYTE = 8, JAVA_LONG = 11 };

#define SEGMENT_BYTES (16u << 20)
/* Words of a value that are fields; a larger one is an array. */
#define MOST_FIELDS 8192u
#define MOST_STATICS 60000u
/* Words of one object: what is behind them is left out. */
#define MOST_WORDS (16u << 20)
/* Identifiers that are no addresses of objects: below those of the heap, and above. */
#define FIRST_CLASS 0x1000u
#define FIRST_THREAD 0x7000000000000000ull

struct hprof_class {
	uint64_t id;
	uint64_t size;     /* bytes of the largest of its objects; 0: it has none */
	uint32_t words;    /* fields; 0: its objects are arrays */
	uint8_t *pointers; /* a bit for each field */
};

struct hprof {
	struct retained *r;
	FILE *out;
	struct strbuf segment;
	uint64_t texts;
	uint64_t classes;
	uint64_t object_class;
	uint32_t frames;
	struct hprof_class *of_type; /* by number of a type */
	/* The object that is being read. */
	struct heap_object object;
	bool is_open;
	uint64_t *words;
	size_t word_count;
	size_t word_capacity;
	struct error *err;
};

/* ---- bytes: all numbers are big-endian ---- */

static void put(struct strbuf *sb, uint64_t value, int size)
{
	uint8_t bytes[8];

	for (int i = 0; i < size; i++)
		bytes[i] = (uint8_t)(value >> 8 * (size - 1 - i));
	strbuf_add(sb, bytes, (size_t)size);
}

static void write_record(struct hprof *h, enum record_tag tag, const struct strbuf *body)
{
	struct strbuf head = STRBUF_INIT;

	put(&head, tag, 1);
	put(&head, 0, 4);
	put(&head, body->length, 4);
	if (body->failed || head.failed)
		h->err = h->err ? h->err : &error_no_memory;
	fwrite(head.data, 1, head.length, h->out);
	fwrite(body->data, 1, body->length, h->out);
	strbuf_release(&head);
}

/* Writes the parts of the dump that have been collected. */
static void end_segment(struct hprof *h)
{
	if (h->segment.length)
		write_record(h, TAG_SEGMENT, &h->segment);
	strbuf_reset(&h->segment);
}

static uint64_t write_text(struct hprof *h, const char *text)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	put(&sb, ++h->texts, 8);
	utf8_add(&sb, text, strlen(text));
	write_record(h, TAG_TEXT, &sb);
	return h->texts;
}

/* ---- classes ---- */

static uint64_t load_class(struct hprof *h, const char *name)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	uint64_t text = write_text(h, name), id = FIRST_CLASS + 8 * h->classes++;

	put(&sb, h->classes, 4);
	put(&sb, id, 8);
	put(&sb, 0, 4);
	put(&sb, text, 8);
	write_record(h, TAG_LOAD_CLASS, &sb);
	return id;
}

/* What comes before the fields of a class. */
static void begin_class(struct hprof *h, uint64_t id, uint64_t bytes)
{
	put(&h->segment, DUMP_CLASS, 1);
	put(&h->segment, id, 8);
	put(&h->segment, 0, 4);
	put(&h->segment, id == h->object_class ? 0 : h->object_class, 8);
	for (int i = 0; i < 5; i++)
		put(&h->segment, 0, 8);
	put(&h->segment, bytes, 4);
	put(&h->segment, 0, 2);
}

static void plain_class(struct hprof *h, uint64_t id)
{
	begin_class(h, id, 0);
	put(&h->segment, 0, 2);
	put(&h->segment, 0, 2);
}

/* Whether the word at this offset of a value is a pointer that the collector follows. */
static bool is_pointer(struct hprof *h, const struct runtime_type *type, uint64_t offset)
{
	const struct runtime_type *part;
	uint64_t in_part;
	struct error *err = runtime_types_part(&h->r->types, type, offset, &part, &in_part);

	if (err || !part) {
		h->err = h->err ? h->err : err;
		return false;
	}
	if (part->kind == KIND_INTERFACE)
		return in_part == 8;
	return !in_part && part->kind >= KIND_CHAN && part->pointer_bytes;
}

/* ".header.next" of a field, without the first point; "word 3" of what has no name. */
static void field_name(struct hprof *h, const struct runtime_type *type, uint32_t word,
		       struct strbuf *ret)
{
	struct error *err = retained_add_fields(h->r, type->address, (uint64_t)word * 8, ret);

	if (err)
		h->err = h->err ? h->err : err;
	if (!ret->length)
		strbuf_addf(ret, ".word %u", word);
}

/* The names of all fields come before the class, as records of their own. */
static void class_with_fields(struct hprof *h, struct hprof_class *c,
			      const struct runtime_type *type)
{
	_cleanup_free_ uint64_t *names = calloc(c->words, sizeof(*names));

	if (!names) {
		h->err = &error_no_memory;
		return;
	}
	for (uint32_t i = 0; i < c->words; i++) {
		_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;

		if (is_pointer(h, type, (uint64_t)i * 8))
			c->pointers[i / 8] |= 1 << i % 8;
		field_name(h, type, i, &name);
		names[i] = write_text(h, name.data + 1);
	}
	begin_class(h, c->id, (uint64_t)c->words * 8);
	put(&h->segment, 0, 2);
	put(&h->segment, c->words, 2);
	for (uint32_t i = 0; i < c->words; i++) {
		put(&h->segment, names[i], 8);
		put(&h->segment, c->pointers[i / 8] >> i % 8 & 1 ? JAVA_OBJECT : JAVA_LONG, 1);
	}
}

static void make_class(struct hprof *h, uint32_t number)
{
	const struct object_type *o = &h->r->table.items[number];
	struct hprof_class *c = &h->of_type[number];
	const struct runtime_type *type = NULL;
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	const char *text = holder_tree_type(&h->r->holders, number);

	if (o->form == FORM_VALUE && c->size / 8 <= MOST_FIELDS)
		h->err = runtime_types_get(&h->r->types, o->type, &type);
	if (h->err)
		return;
	/* "[]T" is an array of T in Java's words; any other object is one of its own type. Readers
	 * take each class whose name begins with a bracket for an array. */
	strbuf_addf(&name,
		    !type          ? "[L%s;"
		    : *text == '[' ? "(%s)"
				   : "%s",
		    o->form == FORM_ARRAY ? text + 2 : text);
	c->id = load_class(h, name.data);
	if (!type) {
		plain_class(h, c->id);
		return;
	}
	c->words = (uint32_t)(c->size / 8);
	c->pointers = calloc(1, c->words / 8 + 1);
	if (c->pointers)
		class_with_fields(h, c, type);
	else
		h->err = &error_no_memory;
}

static void take_size(void *arg, uint32_t rank, const struct object_span *span, uint32_t index)
{
	struct hprof *h = arg;
	struct hprof_class *c = &h->of_type[h->r->object_types.items[rank]];
	uint64_t size = span->object_size - object_graph_header(&h->r->graph, span);

	c->size = size > c->size ? size : c->size;
}

static void make_classes(struct hprof *h)
{
	object_graph_each(&h->r->graph, take_size, h);
	for (uint32_t i = 0; i < h->r->table.count && !h->err; i++)
		if (h->of_type[i].size)
			make_class(h, i);
}

/* ---- objects ---- */

static uint64_t id_of(struct hprof *h, uint64_t value)
{
	struct object_graph *g = &h->r->graph;
	struct heap_object o;

	if (!object_spans_object(&g->spans, value, &o) ||
	    !object_graph_reached(g, heap_object_number(o)))
		return 0;
	return heap_object_address(o);
}

static uint32_t type_number(const struct hprof *h, struct heap_object o)
{
	return h->r->object_types.items[object_graph_rank(&h->r->graph, heap_object_number(o))];
}

static void put_instance(struct hprof *h, uint64_t id, const struct hprof_class *c)
{
	put(&h->segment, DUMP_INSTANCE, 1);
	put(&h->segment, id, 8);
	put(&h->segment, 0, 4);
	put(&h->segment, c->id, 8);
	put(&h->segment, (uint64_t)c->words * 8, 4);
	for (uint32_t i = 0; i < c->words; i++) {
		uint64_t word = i < h->word_count ? h->words[i] : 0;

		put(&h->segment, c->pointers[i / 8] >> i % 8 & 1 ? id_of(h, word) : word, 8);
	}
}

static void put_references(struct hprof *h, uint64_t id, const struct hprof_class *c)
{
	put(&h->segment, DUMP_REFERENCES, 1);
	put(&h->segment, id, 8);
	put(&h->segment, 0, 4);
	put(&h->segment, h->word_count, 4);
	put(&h->segment, c->id, 8);
	for (size_t i = 0; i < h->word_count; i++)
		put(&h->segment, id_of(h, h->words[i]), 8);
}

static void end_object(struct hprof *h)
{
	const struct hprof_class *c;

	if (!h->is_open || h->err)
		return;
	h->is_open = false;
	c = &h->of_type[type_number(h, h->object)];
	if (c->words)
		put_instance(h, heap_object_address(h->object), c);
	else
		put_references(h, heap_object_address(h->object), c);
	if (h->segment.length > SEGMENT_BYTES)
		end_segment(h);
}

/* A value keeps its numbers; of an array, references alone are taken. */
static bool begin_object(void *arg, struct heap_object object, const uint8_t *bytes, size_t size)
{
	struct hprof *h = arg;
	uint64_t header = object_graph_header(&h->r->graph, object.span);
	uint64_t words = (object.span->object_size - header) / 8;

	end_object(h);
	if (h->err || !object_graph_reached(&h->r->graph, heap_object_number(object)))
		return false;
	words = words < MOST_WORDS ? words : MOST_WORDS;
	if (!array_reserve(&h->words, &h->word_capacity, words + 1)) {
		h->err = &error_no_memory;
		return false;
	}
	h->object = object;
	h->is_open = true;
	h->word_count = words;
	memset(h->words, 0, words * 8);
	if (words <= MOST_FIELDS && size >= object.span->object_size &&
	    h->r->table.items[type_number(h, object)].form == FORM_VALUE)
		memcpy(h->words, bytes + header, words * 8);
	return true;
}

static void take_word(void *arg, uint64_t slot, uint64_t value)
{
	struct hprof *h = arg;
	uint64_t base =
		heap_object_address(h->object) + object_graph_header(&h->r->graph, h->object.span);

	if (h->is_open && slot >= base && (slot - base) / 8 < h->word_count)
		h->words[(slot - base) / 8] = value;
}

static void put_bytes(struct hprof *h, uint64_t id, const uint8_t *bytes, size_t size)
{
	put(&h->segment, DUMP_BYTES, 1);
	put(&h->segment, id, 8);
	put(&h->segment, 0, 4);
	put(&h->segment, size, 4);
	put(&h->segment, JAVA_BYTE, 1);
	strbuf_add(&h->segment, bytes, size);
	if (h->segment.length > SEGMENT_BYTES)
		end_segment(h);
}

/* An object without pointers: a value, or an array of bytes. */
static void put_without_pointers(struct hprof *h, struct heap_object o, const uint8_t *bytes)
{
	enum object_form form = h->r->table.items[type_number(h, o)].form;

	if (form != FORM_VALUE || o.span->object_size / 8 > MOST_FIELDS) {
		put_bytes(h, heap_object_address(o), bytes, o.span->object_size);
		return;
	}
	begin_object(h, o, bytes, o.span->object_size);
	end_object(h);
}

static void read_without_pointers(struct hprof *h, struct object_span *span)
{
	size_t size = (size_t)span->count * span->object_size;
	_cleanup_free_ uint8_t *bytes = NULL;
	struct error *err;

	if (size > (uint64_t)MOST_WORDS * 8)
		size = (size_t)MOST_WORDS * 8;
	bytes = calloc(1, size + 1);
	if (!bytes) {
		h->err = &error_no_memory;
		return;
	}
	err = target_read(h->r->graph.t, span->start, bytes, size);
	if (err && err->code != ERROR_FAULT) {
		h->err = err;
		return;
	}
	error_destroy(err);
	for (uint32_t i = 0; i < span->count && !h->err; i++) {
		struct heap_object o = {span, i};

		if (!object_graph_reached(&h->r->graph, heap_object_number(o)))
			continue;
		if (span->object_size > size)
			put_bytes(h, heap_object_address(o), bytes, size);
		else
			put_without_pointers(h, o, bytes + i * span->object_size);
	}
}

static struct error *must_check write_objects(struct hprof *h)
{
	const struct heap_choice choice = {begin_object, h};
	const struct heap_visit visit = {take_word, h};
	struct object_graph *g = &h->r->graph;
	struct error *err = NULL;

	for (size_t i = 0; i < g->spans.count && !err; i++) {
		struct object_span *span = &g->spans.items[i];

		if (!span->object_size)
			continue;
		if (span->no_scan)
			read_without_pointers(h, span);
		else
			err = heap_objects_visit(&g->objects, &span, 1, &choice, &visit);
		end_object(h);
		if (!err)
			err = take_ptr(h->err);
		if (!err && g->stop && atomic_load(g->stop))
			err = &error_stopped;
	}
	return err;
}

/* ---- roots ---- */

static uint64_t object_id(struct hprof *h, uint32_t object)
{
	return heap_object_address(object_spans_numbered(&h->r->graph.spans, object));
}

/* Variables as static fields of one class; more than a class can have are in another one. */
static size_t write_globals(struct hprof *h, size_t first)
{
	const struct root_list *l = &h->r->graph.roots;
	_cleanup_strbuf_ struct strbuf fields = STRBUF_INIT;
	uint64_t id;
	size_t count = 0, i;

	id = load_class(h, "globals");
	for (i = first; i < l->edge_count && count < MOST_STATICS; i++) {
		const struct root *root = &l->items[l->edges[i].root];
		_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;

		if (root->kind != ROOT_GLOBAL)
			continue;
		if (root->name)
			strbuf_adds(&name, root->name);
		else
			strbuf_addf(&name, "0x%llx", (unsigned long long)root->address);
		put(&fields, write_text(h, name.data), 8);
		put(&fields, JAVA_OBJECT, 1);
		put(&fields, object_id(h, l->edges[i].object), 8);
		count++;
	}
	begin_class(h, id, 0);
	put(&h->segment, count, 2);
	strbuf_add(&h->segment, fields.data, fields.length);
	put(&h->segment, 0, 2);
	put(&h->segment, DUMP_CLASS_ROOT, 1);
	put(&h->segment, id, 8);
	return i;
}

/* The frames of a goroutine's stack: the functions of the variables that lead to objects. */
static void write_frames(struct hprof *h, size_t goroutine, uint32_t serial)
{
	const struct root_list *l = &h->r->graph.roots;
	_cleanup_strbuf_ struct strbuf ids = STRBUF_INIT, trace = STRBUF_INIT;
	const char *last = NULL;

	for (size_t i = goroutine + 1; i < l->count && l->items[i].parent == goroutine + 1; i++) {
		const char *function = l->items[i].function ? l->items[i].function : "?";
		_cleanup_strbuf_ struct strbuf frame = STRBUF_INIT;
		uint64_t name;

		if (last && !strcmp(last, function))
			continue;
		last = function;
		name = write_text(h, function);
		put(&frame, ++h->frames, 8);
		put(&frame, name, 8);
		put(&frame, name, 8);
		put(&frame, name, 8);
		put(&frame, 1, 4);
		put(&frame, 0, 4);
		write_record(h, TAG_FRAME, &frame);
		put(&ids, h->frames, 8);
	}
	put(&trace, serial, 4);
	put(&trace, serial, 4);
	put(&trace, ids.length / 8, 4);
	strbuf_add(&trace, ids.data, ids.length);
	write_record(h, TAG_TRACE, &trace);
}

/* Edges are in the order of their roots, and the roots of a goroutine follow it. */
static size_t put_goroutine(struct hprof *h, size_t goroutine, uint32_t serial, size_t edge)
{
	const struct root_list *l = &h->r->graph.roots;
	const char *last = NULL;
	uint32_t frame = UINT32_MAX;
	size_t node = SIZE_MAX;

	put(&h->segment, DUMP_THREAD, 1);
	put(&h->segment, FIRST_THREAD + 8 * (uint64_t)serial, 8);
	put(&h->segment, serial, 4);
	put(&h->segment, serial, 4);
	for (; edge < l->edge_count; edge++) {
		const struct root *root = &l->items[l->edges[edge].root];
		const char *function = root->function ? root->function : "?";

		if (l->edges[edge].root != goroutine && root->parent != goroutine + 1)
			break;
		if (root->parent && node != l->edges[edge].root) {
			frame += !last || strcmp(last, function);
			last = function;
			node = l->edges[edge].root;
		}
		put(&h->segment, DUMP_STACK, 1);
		put(&h->segment, object_id(h, l->edges[edge].object), 8);
		put(&h->segment, serial, 4);
		put(&h->segment, root->parent ? frame : UINT32_MAX, 4);
	}
	return edge;
}

static void write_goroutines(struct hprof *h, const struct hprof_class *thread)
{
	const struct root_list *l = &h->r->graph.roots;
	uint32_t serial = 0;
	size_t edge = 0;

	for (size_t i = 0; i < l->count; i++) {
		while (edge < l->edge_count && l->edges[edge].root < i)
			edge++;
		if (l->items[i].kind != ROOT_GOROUTINE)
			continue;
		write_frames(h, i, ++serial);
		edge = put_goroutine(h, i, serial, edge);
		h->words[0] = h->r->graph.waits->goroutines[l->items[i].goroutine].id;
		put_instance(h, FIRST_THREAD + 8 * (uint64_t)serial, thread);
	}
}

static void write_others(struct hprof *h)
{
	const struct root_list *l = &h->r->graph.roots;

	for (size_t i = 0; i < l->edge_count; i++) {
		enum root_kind kind = l->items[l->edges[i].root].kind;

		if (kind != ROOT_FINALIZER && kind != ROOT_REGISTERS)
			continue;
		put(&h->segment, DUMP_GLOBAL, 1);
		put(&h->segment, object_id(h, l->edges[i].object), 8);
		put(&h->segment, 0, 8);
	}
}

/* A class whose objects have one field. */
static uint64_t class_with_field(struct hprof *h, const char *name, const char *field,
				 enum java_type type)
{
	uint64_t text = write_text(h, field), id = load_class(h, name);

	begin_class(h, id, 8);
	put(&h->segment, 0, 2);
	put(&h->segment, 1, 2);
	put(&h->segment, text, 8);
	put(&h->segment, type, 1);
	return id;
}

static void write_roots(struct hprof *h)
{
	uint8_t none = 0;
	struct hprof_class thread = {.words = 1, .pointers = &none};

	for (size_t i = 0; i < h->r->graph.roots.edge_count;)
		i = write_globals(h, i);
	thread.id = class_with_field(h, "goroutine", "goid", JAVA_LONG);
	h->word_count = 1;
	write_goroutines(h, &thread);
	write_others(h);
}

/* ---- all ---- */

/* Readers look for these. */
static void write_java_classes(struct hprof *h)
{
	static const char *const names[] = {"java/lang/Object", "java/lang/Class",
					    "java/lang/ClassLoader", "java/lang/String", "[B"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		uint64_t id = load_class(h, names[i]);

		h->object_class = i ? h->object_class : id;
		plain_class(h, id);
	}
}

static void write_head(struct hprof *h)
{
	static const char format[] = "JAVA PROFILE 1.0.2";
	_cleanup_strbuf_ struct strbuf head = STRBUF_INIT;

	strbuf_add(&head, format, sizeof(format));
	put(&head, 8, 4);
	put(&head, clock_read(CLOCK_REALTIME) / 1000000, 8);
	fwrite(head.data, 1, head.length, h->out);
}

struct error *retained_write_hprof(struct retained *r, FILE *out)
{
	struct hprof h = {.r = r, .out = out, .segment = STRBUF_INIT};
	_cleanup_strbuf_ struct strbuf none = STRBUF_INIT, trace = STRBUF_INIT;
	struct error *err;

	h.of_type = calloc(r->table.count + 1, sizeof(*h.of_type));
	if (!h.of_type || !array_reserve(&h.words, &h.word_capacity, 1)) {
		free(h.of_type);
		return &error_no_memory;
	}
	write_head(&h);
	write_java_classes(&h);
	make_classes(&h);
	/* The stack of what has none. */
	put(&trace, 0, 4);
	put(&trace, 0, 4);
	put(&trace, 0, 4);
	write_record(&h, TAG_TRACE, &trace);
	if (!h.err)
		write_roots(&h);
	err = take_ptr(h.err);
	if (!err)
		err = write_objects(&h);
	end_segment(&h);
	write_record(&h, TAG_END, &none);
	for (size_t i = 0; i < r->table.count; i++)
		free(h.of_type[i].pointers);
	free(h.of_type);
	free(h.words);
	strbuf_release(&h.segment);
	return err ? err : h.err;
}
