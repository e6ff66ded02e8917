#include "dump/show_value.h"

#include <string.h>

#include "base/printable.h"

/* Of a string, and of a slice's elements. */
#define CONTENT_BYTES 64
/* Of the text of a variable; where it is passed, "..." follows. */
#define TEXT_BYTES 512
#define MAX_DEPTH 4
#define MAX_ITEMS 64

struct shower {
	struct strbuf *sb;
	size_t end; /* of the text */
	const struct value_reader *r;
	const struct value_bytes *bytes;
};

static void show(struct shower *s, const struct go_type *type, uint64_t at, int depth);

bool value_read(const struct value_reader *r, uint64_t address, void *to, size_t size)
{
	uint64_t at = address - r->stack->sp;

	if (address >= r->stack->sp && size <= r->stack->size && at <= r->stack->size - size) {
		memcpy(to, r->stack->bytes + at, size);
		return true;
	}
	return address >= 4096 && address + size > address &&
	       !error_dropped(target_read(r->t, address, to, size));
}

static bool is_full(const struct shower *s)
{
	return s->sb->length >= s->end;
}

/* Up to eight bytes of the variable. */
static bool word_at(const struct shower *s, uint64_t at, uint64_t size, uint64_t *ret)
{
	*ret = 0;
	if (size > sizeof(*ret) || size > s->bytes->size || at > s->bytes->size - size)
		return false;
	for (uint64_t i = 0; i < size; i++)
		if (!s->bytes->known[at + i])
			return false;
	memcpy(ret, s->bytes->data + at, size);
	return true;
}

/* ---- single values ---- */

static void show_float(struct shower *s, uint64_t bits, uint64_t size)
{
	uint32_t low = bits;
	double wide;
	float narrow;

	memcpy(&wide, &bits, sizeof(wide));
	memcpy(&narrow, &low, sizeof(narrow));
	if (size == sizeof(narrow))
		strbuf_addf(s->sb, "%.9g", narrow);
	else
		strbuf_addf(s->sb, "%.17g", wide);
}

static void show_number(struct shower *s, const struct go_type *type, uint64_t bits)
{
	unsigned int unused = type->size && type->size < 8 ? 64 - 8 * type->size : 0;

	if (type->kind == GO_BOOL && bits <= 1)
		strbuf_adds(s->sb, bits ? "true" : "false");
	else if (type->kind == GO_INT)
		strbuf_addf(s->sb, "%ld", (int64_t)(bits << unused) >> unused);
	else if (type->kind == GO_FLOAT)
		show_float(s, bits, type->size);
	else
		strbuf_addf(s->sb, "%lu", bits);
}

static void show_complex(struct shower *s, const struct go_type *type, uint64_t at)
{
	uint64_t half = type->size / 2, real, imaginary;

	if (!word_at(s, at, half, &real) || !word_at(s, at + half, half, &imaginary)) {
		strbuf_addc(s->sb, '?');
		return;
	}
	strbuf_addc(s->sb, '(');
	show_float(s, real, half);
	strbuf_adds(s->sb, " + ");
	show_float(s, imaginary, half);
	strbuf_adds(s->sb, "i)");
}

/* Text in quotes, as Go writes it. */
static void show_quoted(struct shower *s, const uint8_t *bytes, size_t size)
{
	const char *text = (const char *)bytes;
	size_t run = 0;

	strbuf_addc(s->sb, '"');
	for (size_t i = 0; i < size; i++) {
		if (text[i] != '"' && text[i] != '\\')
			continue;
		printable_add(s->sb, text + run, i - run);
		strbuf_addf(s->sb, "\\%c", text[i]);
		run = i + 1;
	}
	printable_add(s->sb, text + run, size - run);
	strbuf_addc(s->sb, '"');
}

/* The first bytes of a text; those of a character that is cut are left out. */
static void show_text(struct shower *s, uint64_t address, uint64_t length)
{
	uint8_t bytes[CONTENT_BYTES];
	size_t size = length < sizeof(bytes) ? length : sizeof(bytes), cut = size;

	if (length && !value_read(s->r, address, bytes, size)) {
		strbuf_addf(s->sb, "? (0x%lx, %lu bytes)", address, length);
		return;
	}
	while (length > size && cut && size - cut < 4 && (bytes[cut - 1] & 0xc0) == 0x80)
		cut--;
	if (length > size && cut && (bytes[cut - 1] & 0xc0) == 0xc0)
		size = cut - 1;
	show_quoted(s, bytes, size);
	if (length > size)
		strbuf_addf(s->sb, "... (%lu bytes)", length);
}

/* ---- pointers ---- */

static bool begins(const char *name, const char *with)
{
	return !strncmp(name, with, strlen(with));
}

/* runtime.hmap.count and internal/runtime/maps.Map.used come first; runtime.hchan begins with how
 * many elements it has and how many it has room for. */
static void show_lengths(struct shower *s, uint64_t address, bool is_channel)
{
	uint64_t words[2];

	if (!value_read(s->r, address, words, is_channel ? 16 : 8))
		return;
	strbuf_addf(s->sb, " len %lu", words[0]);
	if (is_channel)
		strbuf_addf(s->sb, " cap %lu", words[1]);
}

/* A function value points to a closure, which begins with the address of the code. */
static bool show_function(struct shower *s, uint64_t closure)
{
	struct go_func f;
	uint64_t code;

	if (!value_read(s->r, closure, &code, sizeof(code)) ||
	    !pclntab_find(&s->r->img->functions, code, &f) || f.entry != code)
		return false;
	printable_adds(s->sb, f.name);
	return true;
}

static void show_pointer(struct shower *s, const struct go_type *type, uint64_t address)
{
	const struct go_type *to = variables_pointee(s->r->variables, type);
	bool is_channel = to && begins(to->name, "hchan<");

	if (!address) {
		strbuf_adds(s->sb, "nil");
		return;
	}
	if (!to && strcmp(type->name, "unsafe.Pointer") && show_function(s, address))
		return;
	strbuf_addf(s->sb, "0x%lx", address);
	if (is_channel || (to && (begins(to->name, "hash<") || begins(to->name, "map<"))))
		show_lengths(s, address, is_channel);
}

/* ---- structures that the language knows ---- */

static bool has_members(const struct go_type *type, const char *first, const char *second)
{
	return type->kind == GO_STRUCT && type->count >= 2 &&
	       !strcmp(type->members[0].name, first) && !strcmp(type->members[1].name, second);
}

static void show_interface(struct shower *s, const struct go_type *type, uint64_t at)
{
	bool is_empty = !strcmp(type->members[0].name, "_type");
	uint64_t tab, data, dynamic;

	if (!word_at(s, at, 8, &tab) || !word_at(s, at + 8, 8, &data)) {
		strbuf_addc(s->sb, '?');
		return;
	}
	if (!tab) {
		strbuf_adds(s->sb, "nil");
		return;
	}
	dynamic = tab;
	if ((!is_empty && !value_read(s->r, tab + 8, &dynamic, sizeof(dynamic))) ||
	    !type_names_add(&s->r->names, dynamic, s->sb))
		strbuf_addc(s->sb, '?');
	strbuf_addf(s->sb, "(0x%lx)", data);
}

/* The elements that are in these bytes. */
static void show_elements(struct shower *s, const struct value_bytes *bytes,
			  const struct go_type *element, uint64_t count, int depth)
{
	struct shower inner = *s;
	uint64_t fit = element->size ? bytes->size / element->size : 0;

	inner.bytes = bytes;
	if (fit > MAX_ITEMS)
		fit = MAX_ITEMS;
	strbuf_addc(s->sb, '[');
	for (uint64_t i = 0; i < count; i++) {
		strbuf_adds(s->sb, i ? ", " : "");
		if (i >= fit || is_full(s)) {
			strbuf_adds(s->sb, "...");
			break;
		}
		show(&inner, element, i * element->size, depth + 1);
	}
	strbuf_addc(s->sb, ']');
}

static void show_slice(struct shower *s, const struct go_type *type, uint64_t at, int depth)
{
	const struct go_type *element = variables_pointee(s->r->variables, type->members[0].type);
	struct value_bytes bytes;
	uint64_t array, length, room, size;
	bool has_room = word_at(s, at + 16, 8, &room);

	if (!word_at(s, at, 8, &array) || !word_at(s, at + 8, 8, &length)) {
		strbuf_addc(s->sb, '?');
		return;
	}
	if (!array && !length) {
		strbuf_adds(s->sb, "nil");
		return;
	}
	strbuf_addf(s->sb, "len %lu cap ", length);
	if (has_room)
		strbuf_addu(s->sb, room);
	else
		strbuf_addc(s->sb, '?');
	if (!element || !element->size || element->size > sizeof(bytes.data) || !length)
		return;
	strbuf_addc(s->sb, ' ');
	if (element->kind == GO_UINT && element->size == 1) {
		show_text(s, array, length);
		return;
	}
	size = CONTENT_BYTES / element->size * element->size;
	bytes.size = size ? size : element->size;
	if (length <= bytes.size / element->size)
		bytes.size = length * element->size;
	memset(bytes.known, value_read(s->r, array, bytes.data, bytes.size), sizeof(bytes.known));
	show_elements(s, &bytes, element, length, depth);
}

static void show_members(struct shower *s, const struct go_type *type, uint64_t at, int depth)
{
	strbuf_addc(s->sb, '{');
	for (size_t i = 0; i < type->count; i++) {
		const struct go_member *m = &type->members[i];

		strbuf_adds(s->sb, i ? ", " : "");
		if (is_full(s) || i >= MAX_ITEMS) {
			strbuf_adds(s->sb, "...");
			break;
		}
		printable_adds(s->sb, m->name);
		strbuf_adds(s->sb, ": ");
		show(s, m->type, at + m->offset, depth + 1);
	}
	strbuf_addc(s->sb, '}');
}

static void show_structure(struct shower *s, const struct go_type *type, uint64_t at, int depth)
{
	uint64_t address, length;

	if (has_members(type, "str", "len") && type->size == 16) {
		if (word_at(s, at, 8, &address) && word_at(s, at + 8, 8, &length))
			show_text(s, address, length);
		else
			strbuf_addc(s->sb, '?');
	} else if (has_members(type, "array", "len") && type->count == 3) {
		show_slice(s, type, at, depth);
	} else if ((has_members(type, "tab", "data") || has_members(type, "_type", "data")) &&
		   type->size == 16) {
		show_interface(s, type, at);
	} else {
		show_members(s, type, at, depth);
	}
}

static void show_array(struct shower *s, const struct go_type *type, uint64_t at, int depth)
{
	uint64_t size = type->element->size, count = size ? type->size / size : 0;

	strbuf_addc(s->sb, '[');
	for (uint64_t i = 0; i < count; i++) {
		strbuf_adds(s->sb, i ? ", " : "");
		if (is_full(s) || (i && i * size >= CONTENT_BYTES)) {
			strbuf_adds(s->sb, "...");
			break;
		}
		show(s, type->element, at + i * size, depth + 1);
	}
	strbuf_addc(s->sb, ']');
}

static void show(struct shower *s, const struct go_type *type, uint64_t at, int depth)
{
	uint64_t word;

	if (is_full(s) || depth > MAX_DEPTH)
		strbuf_adds(s->sb, "...");
	else if (type->kind == GO_STRUCT)
		show_structure(s, type, at, depth);
	else if (type->kind == GO_ARRAY)
		show_array(s, type, at, depth);
	else if (type->kind == GO_COMPLEX)
		show_complex(s, type, at);
	else if (type->kind == GO_UNKNOWN || !word_at(s, at, type->size, &word))
		strbuf_addc(s->sb, '?');
	else if (type->kind == GO_POINTER)
		show_pointer(s, type, word);
	else
		show_number(s, type, word);
}

void value_show(struct strbuf *sb, const struct value_reader *r, const struct go_type *type,
		const struct value_bytes *bytes)
{
	struct shower s = {sb, sb->length + TEXT_BYTES, r, bytes};

	show(&s, type, 0, 0);
}
