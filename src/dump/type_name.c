/* Sources: internal/abi/type.go (Type, Name), runtime/type.go (resolveNameOff), Go 1.17 to 1.27. */
#include "dump/type_name.h"

#include <string.h>

#include "base/array.h"
#include "base/printable.h"
#include "image/dwarf_types.h"

/* abi.Type up to its name. */
#define TYPE_BYTES 44
#define TYPE_FLAGS 20
#define TYPE_NAME 40
#define FLAG_EXTRA_STAR 2
/* Longer names are cut. */
#define MAX_NAME 128

struct error *type_names_open(struct target *t, const struct image *img, struct type_names *ret)
{
	struct dwarf_query queries[] = {{.type = "runtime.moduledata", .path = "types"},
					{.type = "runtime.moduledata", .path = "etypes"}};
	const struct elf_file *elf = img->unstripped ? img->unstripped : img->elf;
	uint64_t module = image_symbol(img, "runtime.firstmoduledata");
	struct error *err;
	bool has_dwarf;

	*ret = (struct type_names){.t = t};
	err = dwarf_answer(elf, queries, ARRAY_SIZE(queries), &has_dwarf);
	if (err && err->code != ERROR_CORRUPT)
		return err;
	if (error_dropped(err) || !module || !queries[0].found || !queries[1].found ||
	    error_dropped(target_read_u64(t, module + queries[0].value, &ret->types)) ||
	    error_dropped(target_read_u64(t, module + queries[1].value, &ret->etypes)))
		ret->types = ret->etypes = 0;
	return NULL;
}

/* A byte of flags, the length as a varint, the text. */
static bool add_name(struct strbuf *sb, const uint8_t *bytes, size_t size, bool without_star)
{
	size_t at = 1, length = 0;
	int shift = 0;

	do {
		if (at >= size || shift > 14)
			return false;
		length |= (size_t)(bytes[at] & 0x7f) << shift;
		shift += 7;
	} while (bytes[at++] & 0x80);
	if (without_star && length && bytes[at] == '*') {
		at++;
		length--;
	}
	if (!length || at >= size)
		return false;
	printable_add(sb, (const char *)bytes + at, length < size - at ? length : size - at);
	if (length > size - at)
		strbuf_adds(sb, "...");
	return true;
}

bool type_names_add(const struct type_names *names, uint64_t type, struct strbuf *sb)
{
	uint8_t description[TYPE_BYTES], name[MAX_NAME + 3];
	size_t size = sizeof(name);
	uint32_t offset;
	uint64_t at;

	if (type < names->types || type >= names->etypes ||
	    error_dropped(target_read(names->t, type, description, sizeof(description))))
		return false;
	memcpy(&offset, description + TYPE_NAME, sizeof(offset));
	at = names->types + offset;
	if (!offset || at >= names->etypes)
		return false;
	if (names->etypes - at < size)
		size = names->etypes - at;
	return !error_dropped(target_read(names->t, at, name, size)) &&
	       add_name(sb, name, size, description[TYPE_FLAGS] & FLAG_EXTRA_STAR);
}
