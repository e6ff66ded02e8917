#include "annotate/describe.h"

#include <complex.h>
#include <string.h>

/* Limits for broken DWARF: the depth of a type's tree, and the values described for one word, which
 * has eight bytes. */
#define MAX_DEPTH 16
#define MAX_LEAVES 8

/* Values that lie in a word: one, or neighbours in an array. */
struct leaf {
	struct strbuf path; /* behind the variable's name: ".len", "[2]", "[8:16]" */
	const struct go_type *type;
	uint64_t at; /* in the variable */
	uint64_t count;
};

struct leaves {
	struct leaf items[MAX_LEAVES];
	size_t count;
	uint64_t from; /* the part of the variable that is looked at */
	uint64_t to;
};

static void collect(struct leaves *l, const struct go_type *type, uint64_t at, const char *path,
		    int depth);

static void add_leaf(struct leaves *l, const struct go_type *type, uint64_t at, uint64_t count,
		     const char *path)
{
	struct leaf *leaf = &l->items[l->count++];

	*leaf = (struct leaf){STRBUF_INIT, type, at, count};
	strbuf_adds(&leaf->path, path);
}

static void collect_members(struct leaves *l, const struct go_type *type, uint64_t at,
			    const char *path, int depth)
{
	for (size_t i = 0; i < type->count && l->count < MAX_LEAVES; i++) {
		const struct go_member *m = &type->members[i];
		_cleanup_strbuf_ struct strbuf inner = STRBUF_INIT;

		if (m->offset > type->size || at + m->offset >= l->to ||
		    at + m->offset + m->type->size <= l->from)
			continue;
		strbuf_addf(&inner, "%s.%s", path, m->name);
		collect(l, m->type, at + m->offset, inner.data, depth + 1);
	}
}

/* Elements smaller than a word are described together. */
static void collect_elements(struct leaves *l, const struct go_type *type, uint64_t at,
			     const char *path, int depth)
{
	uint64_t size = type->element->size;
	uint64_t first = l->from > at ? (l->from - at) / size : 0;
	uint64_t end = (l->to - at + size - 1) / size, all = type->size / size;
	bool together =
		size < 8 && type->element->kind != GO_STRUCT && type->element->kind != GO_ARRAY;
	_cleanup_strbuf_ struct strbuf inner = STRBUF_INIT;

	if (end > all)
		end = all;
	if (together && end > first + 1) {
		strbuf_addf(&inner, "%s[%lu:%lu]", path, first, end);
		add_leaf(l, type->element, at + first * size, end - first, inner.data);
		return;
	}
	for (uint64_t i = first; i < end && l->count < MAX_LEAVES; i++) {
		strbuf_reset(&inner);
		strbuf_addf(&inner, "%s[%lu]", path, i);
		collect(l, type->element, at + i * size, inner.data, depth + 1);
	}
}

static void collect(struct leaves *l, const struct go_type *type, uint64_t at, const char *path,
		    int depth)
{
	if (l->count >= MAX_LEAVES || at >= l->to || at + type->size <= l->from)
		return;
	if (depth < MAX_DEPTH && type->kind == GO_STRUCT && type->count)
		collect_members(l, type, at, path, depth);
	else if (depth < MAX_DEPTH && type->kind == GO_ARRAY && type->element->size)
		collect_elements(l, type, at, path, depth);
	else
		add_leaf(l, type, at, 1, path);
}

static int64_t sign_extend(uint64_t value, uint64_t size)
{
	unsigned int shift = 64 - 8 * size;

	return (int64_t)(value << shift) >> shift;
}

static void add_float(struct strbuf *sb, uint64_t bits, uint64_t size)
{
	uint32_t low = bits;
	double wide;
	float narrow;

	memcpy(&wide, &bits, sizeof(wide));
	memcpy(&narrow, &low, sizeof(narrow));
	if (size == sizeof(narrow))
		strbuf_addf(sb, " = %.9g", narrow);
	else
		strbuf_addf(sb, " = %.17g", wide);
}

/* `bits` are the value's own, the higher ones 0. */
static void add_value(struct strbuf *sb, const struct go_type *type, uint64_t bits)
{
	int64_t number = type->size ? sign_extend(bits, type->size) : 0;

	switch (type->kind) {
	case GO_BOOL:
		if (bits <= 1)
			strbuf_addf(sb, " = %s", bits ? "true" : "false");
		else
			strbuf_addf(sb, " = %lu", bits);
		return;
	case GO_INT:
		if (type->size < 8 || number < 0)
			strbuf_addf(sb, " = %ld", number);
		return;
	case GO_UINT:
		if (type->size < 8)
			strbuf_addf(sb, " = %lu", bits);
		return;
	case GO_FLOAT:
		if (type->size == 4 || type->size == 8)
			add_float(sb, bits, type->size);
		return;
	default:
		return;
	}
}

/* Values that this word holds in part are not printed. */
static void add_leaf_value(struct strbuf *sb, const struct leaf *leaf, int64_t at, uint64_t word)
{
	int64_t begin = (int64_t)leaf->at - at;
	uint64_t size = leaf->type->size;

	if (leaf->count != 1 || !size || size > 8 || begin < 0 || begin + size > 8)
		return;
	word >>= 8 * begin;
	add_value(sb, leaf->type, size == 8 ? word : word & ((1ull << 8 * size) - 1));
}

static void add_leaves(struct strbuf *sb, const struct variable *v, const struct leaves *l,
		       int64_t at, uint64_t word)
{
	const char *kind = v->is_argument ? "arg" : "var";
	bool first = at <= 0;

	if (first)
		strbuf_addf(sb, "%s %s %s", kind, v->name, v->type->name);
	if (first && l->count == 1 && !l->items[0].path.length) {
		add_leaf_value(sb, &l->items[0], at, word);
		return;
	}
	if (!first && !l->count)
		strbuf_addf(sb, "%s %s %s +%ld", kind, v->name, v->type->name, at);
	for (size_t i = 0; i < l->count; i++) {
		const struct leaf *leaf = &l->items[i];
		const char *path = leaf->path.data;

		if (first)
			strbuf_addf(sb, "%s%s %s", i ? ", " : " (", path + (*path == '.'),
				    leaf->type->name);
		else
			strbuf_addf(sb, "%s%s %s%s %s", i ? ", " : "", kind, v->name, path,
				    leaf->type->name);
		add_leaf_value(sb, leaf, at, word);
	}
	if (first && l->count)
		strbuf_addc(sb, ')');
}

void describe_variable(struct strbuf *sb, const struct variable *v, int64_t at, uint64_t word,
		       bool *ret_pointer)
{
	uint64_t end = v->from + v->size;
	struct leaves l = {.from = at > (int64_t)v->from ? (uint64_t)at : v->from,
			   .to = at + 8 > 0 ? (uint64_t)at + 8 : 0};

	if (l.to > end)
		l.to = end;
	if (l.from < l.to)
		collect(&l, v->type, 0, "", 0);
	add_leaves(sb, v, &l, at, word);
	if (v->inlined)
		strbuf_addf(sb, " of %s, inlined", v->inlined);
	*ret_pointer =
		l.count == 1 && l.items[0].type->kind == GO_POINTER && (int64_t)l.items[0].at == at;
	for (size_t i = 0; i < l.count; i++)
		strbuf_release(&l.items[i].path);
}
