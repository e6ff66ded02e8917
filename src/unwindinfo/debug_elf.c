#include "unwindinfo/debug_elf.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

#define ALIGN 16

static uint64_t aligned(uint64_t offset, uint64_t align)
{
	return (offset + align - 1) / align * align;
}

static void put_padding(struct strbuf *sb, uint64_t align)
{
	while (sb->length % align && !sb->failed)
		strbuf_add(sb, "", 1);
}

/* The program's segments, so that readers know at which offset of its file an address is. They have
 * no bytes here. */
static void put_segments(const struct elf_segment *segments, size_t count, struct strbuf *sb)
{
	for (size_t i = 0; i < count; i++) {
		const Elf64_Phdr ph = {
			.p_type = PT_LOAD,
			.p_flags = PF_R | (segments[i].writable ? PF_W : 0) |
				   (segments[i].executable ? PF_X : 0),
			.p_offset = segments[i].offset,
			.p_vaddr = segments[i].address,
			.p_paddr = segments[i].address,
			.p_memsz = segments[i].memory_size,
			.p_align = 4096,
		};

		strbuf_add(sb, &ph, sizeof(ph));
	}
}

struct layout {
	struct strbuf names;
	struct strbuf headers; /* of the sections */
	struct strbuf contents;
	uint64_t start; /* of the contents, in the file */
};

static uint32_t add_name(struct layout *l, const char *name)
{
	uint32_t at = l->names.length;

	strbuf_add(&l->names, name, strlen(name) + 1);
	return at;
}

static void add_section(struct layout *l, const struct debug_section *s)
{
	Elf64_Shdr header = {
		.sh_name = add_name(l, s->name),
		.sh_type = s->type,
		.sh_flags = s->flags,
		.sh_addr = s->address,
		.sh_offset = s->offset,
		.sh_size = s->contents ? s->contents->length : s->size,
		.sh_link = s->link,
		.sh_info = s->info,
		.sh_addralign = s->align,
		.sh_entsize = s->entry_size,
	};

	if (s->contents) {
		put_padding(&l->contents, ALIGN);
		header.sh_offset = l->start + l->contents.length;
		strbuf_add(&l->contents, s->contents->data, s->contents->length);
	}
	strbuf_add(&l->headers, &header, sizeof(header));
}

static void add_sections(struct layout *l, const struct debug_section *sections, size_t count)
{
	static const Elf64_Shdr none;
	struct strbuf names = STRBUF_INIT;
	const struct debug_section list = {.name = ".shstrtab",
					   .type = SHT_STRTAB,
					   .align = 1,
					   .contents = &names};

	strbuf_add(&l->names, "", 1);
	strbuf_add(&l->headers, &none, sizeof(none));
	for (size_t i = 0; i < count; i++)
		add_section(l, &sections[i]);
	/* The list of names has its own. */
	strbuf_add(&names, l->names.data, l->names.length);
	strbuf_add(&names, list.name, strlen(list.name) + 1);
	add_section(l, &list);
	put_padding(&l->contents, ALIGN);
	l->contents.failed |= names.failed;
	strbuf_release(&names);
}

static Elf64_Ehdr header_of(const struct elf_file *program, size_t segments)
{
	return (Elf64_Ehdr){
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			    EV_CURRENT},
		.e_type = elf_file_is_pie(program) ? ET_DYN : ET_EXEC,
		.e_machine = elf_file_machine(program) == MACHINE_AMD64 ? EM_X86_64 : EM_AARCH64,
		.e_version = EV_CURRENT,
		.e_entry = elf_file_entry(program),
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_phoff = sizeof(Elf64_Ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = segments,
		.e_shentsize = sizeof(Elf64_Shdr),
	};
}

static struct error *put(FILE *out, const struct strbuf *sb)
{
	if (fwrite(sb->data, 1, sb->length, out) == sb->length)
		return NULL;
	return error_errno(ERROR_FAILED, errno, "cannot write the output");
}

struct error *debug_elf_write(const struct elf_file *program, const struct debug_section *sections,
			      size_t count, FILE *out)
{
	_cleanup_strbuf_ struct strbuf start = STRBUF_INIT;
	struct layout l = {STRBUF_INIT, STRBUF_INIT, STRBUF_INIT, 0};
	const struct elf_segment *segments;
	size_t segment_count = elf_file_segments(program, &segments);
	Elf64_Ehdr header = header_of(program, segment_count);
	struct error *err = NULL;

	l.start = aligned(sizeof(header) + segment_count * sizeof(Elf64_Phdr), ALIGN);
	add_sections(&l, sections, count);
	header.e_shoff = l.start + l.contents.length;
	header.e_shnum = count + 2;
	header.e_shstrndx = count + 1;
	strbuf_add(&start, &header, sizeof(header));
	put_segments(segments, segment_count, &start);
	put_padding(&start, ALIGN);
	if (start.failed || l.names.failed || l.headers.failed || l.contents.failed)
		err = &error_no_memory;
	if (!err)
		err = put(out, &start);
	if (!err)
		err = put(out, &l.contents);
	if (!err)
		err = put(out, &l.headers);
	strbuf_release(&l.names);
	strbuf_release(&l.headers);
	strbuf_release(&l.contents);
	return err;
}
