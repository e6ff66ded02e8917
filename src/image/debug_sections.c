#include "image/debug_sections.h"

#include <dwarf.h>
#include <endian.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "base/cursor.h"
#include "base/strbuf.h"
#include "image/elf_bounds.h"

/* Real DWARF compresses at most 8:1 (.debug_loc); zlib can do 1000:1. A section with a higher ratio
 * was made to fill memory. */
#define MAX_RATIO 20u
#define ALWAYS_FINE (4u << 20)
#define MAX_UNPACKED (4ull << 30)

/* Both ways to say that a section is compressed: by flag, and by name (".zdebug_", until 1.18). */
static bool unwrap(struct debug_section *p, bool by_flag, bool by_name)
{
	struct cursor c = cursor_of(p->data, p->size, "a debug section");
	size_t header = by_flag ? sizeof(Elf64_Chdr) : 12;

	p->unpacked_size = p->size;
	p->compressed = by_flag || by_name;
	if (!p->compressed)
		return true;
	if (by_flag) {
		if (cursor_u32(&c) != ELFCOMPRESS_ZLIB)
			return false;
		cursor_u32(&c);
		p->unpacked_size = cursor_u64(&c);
	} else {
		if (cursor_u32(&c) != 0x42494c5a) /* "ZLIB" */
			return false;
		p->unpacked_size = be64toh(cursor_u64(&c));
	}
	if (c.failed || p->size < header ||
	    (p->unpacked_size > ALWAYS_FINE && p->unpacked_size / MAX_RATIO > p->size))
		return false;
	p->data += header;
	p->size -= header;
	return true;
}

struct debug_section debug_section_find(Elf *elf, const char *name)
{
	size_t names, whole_size;
	const char *whole = elf_rawfile(elf, &whole_size);
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;

	if (!whole || elf_getshdrstrndx(elf, &names))
		return (struct debug_section){0};
	while ((scn = elf_nextscn(elf, scn))) {
		const char *found =
			gelf_getshdr(scn, &sh) ? elf_bounds_string(elf, names, sh.sh_name) : NULL;
		bool z = found && !strncmp(found, ".zdebug_", 8);
		struct debug_section p;

		if (!found || (!z && strncmp(found, ".debug_", 7)) || strcmp(found + 7 + z, name) ||
		    sh.sh_type == SHT_NOBITS || sh.sh_offset > whole_size ||
		    sh.sh_size > whole_size - sh.sh_offset)
			continue;
		p = (struct debug_section){.data = (const uint8_t *)whole + sh.sh_offset,
					   .size = sh.sh_size};
		return unwrap(&p, sh.sh_flags & SHF_COMPRESSED, z) ? p : (struct debug_section){0};
	}
	return (struct debug_section){0};
}

bool debug_section_unpack(const struct debug_section *p, uint8_t *ret)
{
	uLongf size = p->unpacked_size;

	if (!p->compressed)
		memcpy(ret, p->data, p->size);
	return !p->compressed ||
	       (uncompress(ret, &size, p->data, p->size) == Z_OK && size == p->unpacked_size);
}

/* The parts of the file, while its size is computed and while it is written. */
struct plan {
	struct debug_section found[DEBUG_SECTIONS_MAX + 2];
	Elf64_Shdr headers[DEBUG_SECTIONS_MAX + 2]; /* the first is empty, the second the names */
	size_t count;
	struct strbuf names;
	size_t size;
};

static void plan_release(struct plan *p)
{
	strbuf_release(&p->names);
}

static Elf64_Shdr *plan_add(struct plan *p, const char *prefix, const char *name, int type,
			    size_t size)
{
	Elf64_Shdr *h = &p->headers[p->count++];

	*h = (Elf64_Shdr){.sh_name = p->names.length,
			  .sh_type = type,
			  .sh_offset = p->size,
			  .sh_size = size,
			  .sh_addralign = 1};
	strbuf_addf(&p->names, "%s%s", prefix, name);
	strbuf_addc(&p->names, 0);
	p->size += size + 1;
	return h;
}

static struct error *plan_all(struct plan *p, Elf *original, const char *const *names, size_t count)
{
	Elf64_Shdr *names_header;

	p->size = sizeof(Elf64_Ehdr) + sizeof(p->headers);
	p->count = 1;
	strbuf_addc(&p->names, 0);
	names_header = plan_add(p, "", ".shstrtab", SHT_STRTAB, 0);
	for (size_t i = 0; i < count && i < DEBUG_SECTIONS_MAX; i++) {
		struct debug_section s = debug_section_find(original, names[i]);

		if (!s.data)
			continue;
		if (s.unpacked_size > MAX_UNPACKED - p->size)
			return error_format(ERROR_CORRUPT, "its debug sections are too large");
		p->found[p->count] = s;
		plan_add(p, ".debug_", names[i], SHT_PROGBITS, s.unpacked_size);
	}
	names_header->sh_offset = p->size;
	names_header->sh_size = p->names.length;
	p->size += p->names.length;
	return p->names.failed ? &error_no_memory : NULL;
}

static bool plan_write(const struct plan *p, int machine, uint8_t *to)
{
	Elf64_Ehdr header = {
		.e_ident = ELFMAG "\2\1\1", /* ELFCLASS64, ELFDATA2LSB, EV_CURRENT */
		.e_type = ET_EXEC,
		.e_machine = machine,
		.e_version = EV_CURRENT,
		.e_shoff = sizeof(header),
		.e_ehsize = sizeof(header),
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = p->count,
		.e_shstrndx = 1,
	};

	memcpy(to, &header, sizeof(header));
	memcpy(to + sizeof(header), p->headers, sizeof(p->headers));
	memcpy(to + p->headers[1].sh_offset, p->names.data, p->names.length);
	for (size_t i = 2; i < p->count; i++)
		if (!debug_section_unpack(&p->found[i], to + p->headers[i].sh_offset))
			return false;
	return true;
}

struct error *debug_sections_build(Elf *original, const char *const *names, size_t count,
				   uint8_t **ret, size_t *ret_size)
{
	_cleanup_(plan_release) struct plan p = {.names = STRBUF_INIT};
	_cleanup_free_ uint8_t *bytes = NULL;
	GElf_Ehdr header;
	struct error *err = plan_all(&p, original, names, count);

	if (err)
		return err;
	if (!gelf_getehdr(original, &header))
		return error_format(ERROR_CORRUPT, "its ELF header is corrupt");
	bytes = calloc(1, p.size);
	if (!bytes)
		return &error_no_memory;
	if (!plan_write(&p, header.e_machine, bytes))
		return error_format(ERROR_CORRUPT, "cannot decompress its debug sections");
	*ret = take_ptr(bytes);
	*ret_size = p.size;
	return NULL;
}

/* An average unit is far larger. libdw allocates 300 bytes for each unit. */
#define MANY_UNITS 1000u
#define UNIT_BYTES 256u

bool debug_units_are_few(struct debug_units *u, const uint8_t *info, size_t size, size_t want)
{
	while (u->end < want && size - u->end >= 12) {
		uint64_t length;
		uint32_t word;

		memcpy(&word, info + u->end, sizeof(word));
		memcpy(&length, info + u->end + 4, sizeof(length));
		u->end += word == UINT32_MAX ? 12 : 4;
		length = word == UINT32_MAX ? length : word;
		if (length > size - u->end)
			break; /* libdw goes no further */
		u->end += length;
		if (++u->count > MANY_UNITS + u->end / UNIT_BYTES)
			return false;
	}
	return true;
}

/* DW_AT_sibling is 1; no attribute has this number. */
#define NO_ATTRIBUTE 0x0f

/* The attributes of one abbreviation. */
static void drop_sibling(struct cursor *c, uint8_t *bytes)
{
	uint64_t name, form;

	do {
		uint8_t *at = bytes + (c->at - c->start);

		name = cursor_uvarint(c);
		form = cursor_uvarint(c);
		if (c->failed)
			return;
		if (name == DW_AT_sibling)
			*at = (*at & 0x80) | NO_ATTRIBUTE;
		if (form == DW_FORM_implicit_const)
			cursor_uvarint(c);
	} while (name || form);
}

size_t abbreviations_drop_siblings(uint8_t *bytes, size_t size, size_t offset)
{
	struct cursor c = cursor_of(bytes, size, "the abbreviations");

	if (offset > size)
		return 0;
	cursor_seek(&c, offset);
	while (!c.failed && cursor_uvarint(&c)) {
		cursor_uvarint(&c); /* its tag, */
		cursor_u8(&c);      /* and whether it has children */
		drop_sibling(&c, bytes);
	}
	return c.at - c.start - offset;
}
