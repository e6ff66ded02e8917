#include "unwindinfo/unwind_file.h"

#include <string.h>

#include "base/cleanup.h"
#include "golayout/golayout.h"
#include "unwindinfo/debug_elf.h"
#include "unwindinfo/dwarf_frame.h"
#include "unwindinfo/program_copy.h"
#include "unwindinfo/sframe.h"

#define PAGE 4096
#define SECTION_ALIGN 16
/* A hostile table could give each function the same long name. */
#define NAMES_BASE (1u << 20)
#define NAMES_PER_BYTE 1
#define MAX_SEGMENTS 1024
#define BYTES_OF_ID 64
/* In the list of sections: .eh_frame, .eh_frame_hdr and .sframe. */
enum { FIRST_TABLE = 1, TABLES = 3 };

struct making {
	enum unwind_file_kind kind;
	const struct image *image;
	struct frame_rows rows;
	struct dwarf_frame eh, debug;
	struct sframe sframe;
	struct strbuf symbols, names;
	size_t most_names;
	struct strbuf eh_table, sframe_section, note;
	struct unwind_file *result;
};

static void making_release(struct making *m)
{
	frame_rows_release(&m->rows);
	dwarf_frame_release(&m->eh);
	dwarf_frame_release(&m->debug);
	sframe_release(&m->sframe);
	strbuf_release(&m->symbols);
	strbuf_release(&m->names);
	strbuf_release(&m->eh_table);
	strbuf_release(&m->sframe_section);
	strbuf_release(&m->note);
}

static void add_symbol(struct making *m, const struct go_func *f)
{
	size_t length = strlen(f->name);
	Elf64_Sym symbol = {
		.st_name = m->names.length,
		.st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC),
		.st_shndx = 1,
		.st_value = f->entry,
		.st_size = m->rows.end - f->entry,
	};

	if (m->names.length + length + 1 > m->most_names)
		return;
	strbuf_add(&m->names, f->name, length + 1);
	strbuf_add(&m->symbols, &symbol, sizeof(symbol));
}

static struct error *add_function(struct making *m, const struct go_func *f)
{
	struct error *err = frame_rows_of(&m->rows, m->image, f);

	if (err)
		return err;
	dwarf_frame_add(&m->eh, f, &m->rows);
	dwarf_frame_add(&m->debug, f, &m->rows);
	sframe_add(&m->sframe, f, &m->rows);
	add_symbol(m, f);
	m->result->functions++;
	return m->eh.failed || m->debug.failed ? &error_no_memory : NULL;
}

/* Functions do not overlap, so all rows together are no more than the bytes of code. */
static struct error *add_functions(struct making *m)
{
	const struct pclntab *tab = &m->image->functions;
	uint64_t last = tab->text;
	struct error *err = NULL;
	struct go_func f;

	for (size_t i = 0; !err && i < tab->count; i++) {
		if (!pclntab_function(tab, i, &f) || f.entry < last || f.end <= f.entry ||
		    f.end > tab->etext || !image_bytes(m->image, f.entry, f.end - f.entry)) {
			m->result->left_out++;
			continue;
		}
		last = f.end;
		err = add_function(m, &f);
	}
	if (!err && !m->result->functions)
		return error_format(ERROR_CORRUPT,
				    "none of the functions in its function table has code");
	return err;
}

/* The note that names the build, as the program has it. */
static void make_note(struct making *m)
{
	const Elf64_Nhdr header = {4, 0, NT_GNU_BUILD_ID};
	const char *id = elf_file_build_id(m->image->elf);
	size_t size = strlen(id) / 2;
	uint8_t bytes[BYTES_OF_ID];
	Elf64_Nhdr note = header;

	if (!size || size > sizeof(bytes) || strspn(id, "0123456789abcdef") != 2 * size)
		return;
	for (size_t i = 0; i < size; i++)
		sscanf(id + 2 * i, "%2hhx", &bytes[i]);
	note.n_descsz = size;
	strbuf_add(&m->note, &note, sizeof(note));
	strbuf_add(&m->note, "GNU", 4);
	strbuf_add(&m->note, bytes, size);
	strbuf_add(&m->note, "\0\0\0", -size & 3);
	snprintf(m->result->build_id, sizeof(m->result->build_id), "%s", id);
}

/* Where the program ends in memory: the tables are given addresses behind it. */
static uint64_t end_of(const struct elf_file *elf, uint64_t text, uint64_t *ret_offset)
{
	const struct elf_segment *segments;
	size_t count = elf_file_segments(elf, &segments);
	uint64_t end = 0;

	*ret_offset = 0;
	for (size_t i = 0; i < count; i++) {
		const struct elf_segment *s = &segments[i];

		end = s->address + s->memory_size > end ? s->address + s->memory_size : end;
		if (text >= s->address && text - s->address < s->memory_size)
			*ret_offset = s->offset + (text - s->address);
	}
	return (end + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

static uint64_t behind(uint64_t address, const struct strbuf *contents)
{
	return (address + contents->length + SECTION_ALIGN - 1) & ~(uint64_t)(SECTION_ALIGN - 1);
}

static struct error *finish(struct making *m, uint64_t *ret_table, uint64_t *ret_sframe)
{
	bool done;

	*ret_table = behind(m->eh.address, &m->eh.bytes) + SECTION_ALIGN;
	dwarf_frame_finish(&m->eh, *ret_table, &m->eh_table);
	*ret_sframe = behind(*ret_table, &m->eh_table);
	done = sframe_finish(&m->sframe, *ret_sframe, &m->sframe_section);
	if (m->eh.too_far || m->sframe.too_far)
		return error_format(
			ERROR_UNSUPPORTED,
			"its memory spans more than 2 GB, which .eh_frame cannot describe");
	return done && !m->eh.failed && !m->names.failed && !m->symbols.failed && !m->note.failed
		       ? NULL
		       : &error_no_memory;
}

/* gdb takes the names of functions only if their section has the place and size that it has in the
 * program. */
static struct elf_section text_of(const struct image *img)
{
	const struct pclntab *tab = &img->functions;
	struct elf_section text;

	if (elf_file_section(img->elf, ".text", &text) && tab->text >= text.address &&
	    tab->text - text.address < text.size)
		return text;
	return (struct elf_section){.address = tab->text, .size = tab->etext - tab->text};
}

static struct error *write_sections(struct making *m, const struct elf_section *text,
				    uint64_t text_offset, uint64_t table, uint64_t sframe,
				    FILE *out)
{
	const struct debug_section sections[] = {
		{.name = ".text",
		 .type = SHT_NOBITS,
		 .flags = SHF_ALLOC | SHF_EXECINSTR,
		 .address = text->address,
		 .size = text->size,
		 .offset = text_offset,
		 .align = 16},
		{.name = ".eh_frame",
		 .type = SHT_PROGBITS,
		 .address = m->eh.address,
		 .align = 8,
		 .contents = &m->eh.bytes},
		{.name = ".eh_frame_hdr",
		 .type = SHT_PROGBITS,
		 .address = table,
		 .align = 4,
		 .contents = &m->eh_table},
		{.name = ".sframe",
		 .type = SHT_PROGBITS,
		 .address = sframe,
		 .align = 8,
		 .contents = &m->sframe_section},
		{.name = ".debug_frame",
		 .type = SHT_PROGBITS,
		 .align = 8,
		 .contents = &m->debug.bytes},
		{.name = ".symtab",
		 .type = SHT_SYMTAB,
		 .align = 8,
		 .entry_size = sizeof(Elf64_Sym),
		 .contents = &m->symbols,
		 .link = 7,
		 .info = m->symbols.length / sizeof(Elf64_Sym)},
		{.name = ".strtab", .type = SHT_STRTAB, .align = 1, .contents = &m->names},
		{.name = ".note.gnu.build-id",
		 .type = SHT_NOTE,
		 .address = behind(sframe, &m->sframe_section),
		 .align = 4,
		 .contents = &m->note},
	};
	size_t count = sizeof(sections) / sizeof(sections[0]);

	if (m->kind == UNWIND_FILE_COPY)
		return program_copy_write(m->image->elf, &sections[FIRST_TABLE], TABLES, out);
	return debug_elf_write(m->image->elf, sections, m->note.length ? count : count - 1, out);
}

static struct error *make(struct making *m, FILE *out)
{
	static const Elf64_Sym none;
	const struct elf_file *elf = m->image->elf;
	const struct elf_segment *segments;
	uint64_t text_offset, table, sframe;
	struct elf_section text = text_of(m->image);
	struct error *err;
	size_t size;

	elf_file_whole(elf, &size);
	m->most_names = NAMES_BASE + NAMES_PER_BYTE * size;
	m->eh.is_eh = true;
	m->eh.machine = m->debug.machine = m->sframe.machine = m->image->machine;
	m->sframe.text = m->image->functions.text;
	m->eh.address = end_of(elf, text.address, &text_offset);
	if (elf_file_segments(elf, &segments) > MAX_SEGMENTS)
		return error_format(ERROR_CORRUPT, "it has more than %d segments", MAX_SEGMENTS);
	strbuf_add(&m->names, "", 1);
	strbuf_add(&m->symbols, &none, sizeof(none));
	make_note(m);
	err = add_functions(m);
	if (!err)
		err = finish(m, &table, &sframe);
	return err ? err : write_sections(m, &text, text_offset, table, sframe, out);
}

struct error *unwind_file_write(const char *path, enum unwind_file_kind kind, FILE *out,
				struct unwind_file *ret)
{
	_cleanup_image_ struct image *img = NULL;
	_cleanup_golayout_ struct golayout *layout = NULL;
	_cleanup_(making_release) struct making m = {
		.kind = kind,
		.eh.bytes = STRBUF_INIT,
		.debug.bytes = STRBUF_INIT,
		.sframe.functions = STRBUF_INIT,
		.sframe.rows = STRBUF_INIT,
		.symbols = STRBUF_INIT,
		.names = STRBUF_INIT,
		.eh_table = STRBUF_INIT,
		.sframe_section = STRBUF_INIT,
		.note = STRBUF_INIT,
		.result = ret,
	};
	struct error *err = image_open_file(path, &img);

	*ret = (struct unwind_file){0};
	if (!err)
		err = golayout_open(img, NULL, &layout);
	m.image = img;
	if (!err)
		err = make(&m, out);
	return img ? image_check(img, err) : err;
}
