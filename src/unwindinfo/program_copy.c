#include "unwindinfo/program_copy.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

#define PAGE 4096
#define NEW_SEGMENTS 2
#define MAX_SECTIONS 4096

struct copy {
	const struct debug_section *sections;
	size_t count;
	Elf64_Ehdr header;
	Elf64_Shdr names_section;
	struct strbuf bytes; /* the file */
	uint64_t address;    /* of the new segment */
	uint64_t offset;     /* of it in the file */
};

static uint64_t align(uint64_t value, uint64_t to)
{
	return (value + to - 1) / to * to;
}

static void pad(struct strbuf *sb, uint64_t to)
{
	uint64_t missing = to > sb->length ? to - sb->length : 0;
	char *room = strbuf_reserve(sb, missing);

	if (!room)
		return;
	memset(room, 0, missing);
	sb->length += missing;
}

static bool is_inside(const struct copy *c, uint64_t offset, uint64_t size)
{
	return offset <= c->bytes.length && size <= c->bytes.length - offset;
}

static struct error *no_room(void)
{
	return error_format(ERROR_UNSUPPORTED,
			    "it has tables of C code, or no room in its header for more segments; "
			    "omit --copy");
}

/* The section headers, which lie behind the segments in Go's own layout and are written anew. */
static struct error *check_header(struct copy *c)
{
	const Elf64_Ehdr *h = &c->header;

	if (h->e_phentsize != sizeof(Elf64_Phdr) || h->e_shentsize != sizeof(Elf64_Shdr) ||
	    !h->e_shnum || h->e_shnum > MAX_SECTIONS || h->e_shstrndx >= h->e_shnum ||
	    h->e_phnum > MAX_SECTIONS ||
	    !is_inside(c, h->e_shoff, h->e_shnum * sizeof(Elf64_Shdr)) ||
	    !is_inside(c, h->e_phoff, h->e_phnum * sizeof(Elf64_Phdr)))
		return no_room();
	memcpy(&c->names_section, c->bytes.data + h->e_shoff + h->e_shstrndx * sizeof(Elf64_Shdr),
	       sizeof(Elf64_Shdr));
	if (!is_inside(c, c->names_section.sh_offset, c->names_section.sh_size))
		return no_room();
	return NULL;
}

/* Where the first section or segment begins behind the list of segments. */
static uint64_t room_end(const struct copy *c, const Elf64_Shdr *sections)
{
	uint64_t from = c->header.e_phoff, end = UINT64_MAX;

	for (size_t i = 0; i < c->header.e_shnum; i++) {
		const Elf64_Shdr *s = &sections[i];

		if (s->sh_type != SHT_NOBITS && s->sh_size && s->sh_offset >= from &&
		    s->sh_offset < end)
			end = s->sh_offset;
	}
	for (size_t i = 0; i < c->header.e_phnum; i++) {
		Elf64_Phdr ph;

		memcpy(&ph, c->bytes.data + from + i * sizeof(ph), sizeof(ph));
		if (ph.p_offset > from && ph.p_filesz && ph.p_offset < end)
			end = ph.p_offset;
	}
	return end;
}

static bool has_eh_frame(const struct copy *c)
{
	for (size_t i = 0; i < c->header.e_phnum; i++) {
		Elf64_Phdr ph;

		memcpy(&ph, c->bytes.data + c->header.e_phoff + i * sizeof(ph), sizeof(ph));
		if (ph.p_type == PT_GNU_EH_FRAME)
			return true;
	}
	return false;
}

static Elf64_Phdr segment_of(const struct copy *c, uint32_t type, uint64_t address, uint64_t size,
			     uint64_t alignment)
{
	uint64_t offset = c->offset + (address - c->address);

	return (Elf64_Phdr){.p_type = type,
			    .p_flags = PF_R,
			    .p_offset = offset,
			    .p_vaddr = address,
			    .p_paddr = address,
			    .p_filesz = size,
			    .p_memsz = size,
			    .p_align = alignment};
}

/* Adds the segments behind those that are there. */
static void put_segments(struct copy *c, uint64_t size)
{
	char *at = c->bytes.data + c->header.e_phoff;
	Elf64_Phdr list[NEW_SEGMENTS] = {segment_of(c, PT_LOAD, c->address, size, PAGE)};

	for (size_t i = 0; i < c->count; i++)
		if (!strcmp(c->sections[i].name, ".eh_frame_hdr"))
			list[1] = segment_of(c, PT_GNU_EH_FRAME, c->sections[i].address,
					     c->sections[i].contents->length, 4);
	for (size_t i = 0; i < c->header.e_phnum; i++) {
		Elf64_Phdr ph;

		memcpy(&ph, at + i * sizeof(ph), sizeof(ph));
		if (ph.p_type != PT_PHDR)
			continue;
		ph.p_filesz += sizeof(list);
		ph.p_memsz += sizeof(list);
		memcpy(at + i * sizeof(ph), &ph, sizeof(ph));
	}
	memcpy(at + c->header.e_phnum * sizeof(Elf64_Phdr), list, sizeof(list));
	c->header.e_phnum += NEW_SEGMENTS;
}

/* Adds the contents; gives their size. */
static uint64_t put_contents(struct copy *c)
{
	c->offset = align(c->bytes.length, PAGE);
	for (size_t i = 0; i < c->count; i++) {
		pad(&c->bytes, c->offset + (c->sections[i].address - c->address));
		strbuf_add(&c->bytes, c->sections[i].contents->data,
			   c->sections[i].contents->length);
	}
	return c->bytes.length - c->offset;
}

/* The section headers again, at the end of the file, with the new ones. */
static void put_sections(struct copy *c, Elf64_Shdr *old)
{
	_cleanup_strbuf_ struct strbuf list = STRBUF_INIT, names = STRBUF_INIT;
	uint64_t names_at = align(c->bytes.length, 8);

	strbuf_add(&list, old, c->header.e_shnum * sizeof(*old));
	strbuf_add(&names, c->bytes.data + c->names_section.sh_offset, c->names_section.sh_size);
	for (size_t i = 0; i < c->count; i++) {
		const struct debug_section *s = &c->sections[i];
		Elf64_Shdr header = {
			.sh_name = names.length,
			.sh_type = s->type,
			.sh_flags = SHF_ALLOC,
			.sh_addr = s->address,
			.sh_offset = c->offset + (s->address - c->address),
			.sh_size = s->contents->length,
			.sh_addralign = s->align,
		};

		strbuf_add(&names, s->name, strlen(s->name) + 1);
		strbuf_add(&list, &header, sizeof(header));
	}
	pad(&c->bytes, names_at);
	strbuf_add(&c->bytes, names.data, names.length);
	c->bytes.failed |= list.failed || names.failed;
	if (c->bytes.failed)
		return;
	c->names_section.sh_offset = names_at;
	c->names_section.sh_size = names.length;
	memcpy(list.data + c->header.e_shstrndx * sizeof(Elf64_Shdr), &c->names_section,
	       sizeof(Elf64_Shdr));
	pad(&c->bytes, align(c->bytes.length, 8));
	c->header.e_shoff = c->bytes.length;
	c->header.e_shnum += c->count;
	strbuf_add(&c->bytes, list.data, list.length);
}

static struct error *make(struct copy *c)
{
	_cleanup_strbuf_ struct strbuf old = STRBUF_INIT;
	struct error *err = check_header(c);
	uint64_t segments_end, size;

	if (err)
		return err;
	strbuf_add(&old, c->bytes.data + c->header.e_shoff, c->header.e_shnum * sizeof(Elf64_Shdr));
	if (old.failed)
		return &error_no_memory;
	segments_end = c->header.e_phoff + (c->header.e_phnum + NEW_SEGMENTS) * sizeof(Elf64_Phdr);
	if (has_eh_frame(c) || room_end(c, (Elf64_Shdr *)old.data) < segments_end ||
	    !is_inside(c, 0, segments_end))
		return no_room();
	memset(c->bytes.data + c->header.e_shoff, 0, old.length);
	size = put_contents(c);
	if (c->bytes.failed)
		return &error_no_memory;
	put_segments(c, size);
	put_sections(c, (Elf64_Shdr *)old.data);
	if (c->bytes.failed)
		return &error_no_memory;
	memcpy(c->bytes.data, &c->header, sizeof(c->header));
	return NULL;
}

struct error *program_copy_write(const struct elf_file *program,
				 const struct debug_section *sections, size_t count, FILE *out)
{
	struct copy c = {.sections = sections,
			 .count = count,
			 .bytes = STRBUF_INIT,
			 .address = sections[0].address};
	size_t size;
	const uint8_t *whole = elf_file_whole(program, &size);
	struct error *err = NULL;

	if (size < sizeof(c.header))
		return no_room();
	memcpy(&c.header, whole, sizeof(c.header));
	strbuf_add(&c.bytes, whole, size);
	err = c.bytes.failed ? &error_no_memory : make(&c);
	if (!err && fwrite(c.bytes.data, 1, c.bytes.length, out) != c.bytes.length)
		err = error_errno(ERROR_FAILED, errno, "cannot write the output");
	strbuf_release(&c.bytes);
	return err;
}
