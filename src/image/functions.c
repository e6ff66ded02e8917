/*
 * Finding the function table. Its header begins with a magic number; runtime.firstmoduledata begins
 * with the header's address and says where everything else is. In a position-independent file that
 * address is not in the bytes but in the relative relocations, so these are asked as well.
 *
 * Sources: runtime/symtab.go (moduledata, pcHeader), cmd/link/internal/ld/pcln.go.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "image/image.h"

/* Words of moduledata that are at the same place in every version: golang runtime/symtab.go. */
enum moduledata_word {
	MD_HEADER = 0,
	MD_NAMES = 1,
	MD_CUTAB = 4,
	MD_FILES = 7,
	MD_PCTAB = 10,
	MD_FUNCS = 13,
	MD_FTAB = 16,
	MD_MINPC = 20,
	MD_TEXT = 22,
	MD_ETEXT = 23,
	MD_WORDS = 64, /* as many as are read */
};

struct module {
	uint64_t header;          /* address of the pclntab's header in the file */
	uint64_t address;         /* of moduledata in the file */
	uint64_t words[MD_WORDS]; /* as in memory: with the bias */
	uint64_t count;           /* of functions */
};

static bool header_format(const uint8_t *h, enum machine machine, enum pclntab_format *ret)
{
	uint32_t magic;

	memcpy(&magic, h, sizeof(magic));
	if (h[4] || h[5] || h[6] != (machine == MACHINE_AMD64 ? 1 : 4) || h[7] != 8)
		return false;
	switch (magic) {
	case 0xfffffffa:
		*ret = PCLNTAB_GO116;
		return true;
	case 0xfffffff0:
		*ret = PCLNTAB_GO118;
		return true;
	case 0xfffffff1:
		*ret = PCLNTAB_GO120;
		return true;
	}
	return false;
}

/*
 * The words of a moduledata at this address of the file, as the loader leaves them. The file comes
 * first: it is right also while a program that was just started is not relocated yet.
 */
static bool file_words(const struct image *img, struct module *m)
{
	const uint8_t *bytes = elf_file_bytes(img->elf, m->address, sizeof(m->words));

	if (!bytes)
		return false;
	memcpy(m->words, bytes, sizeof(m->words));
	elf_file_relocate(img->elf, m->address, m->words, sizeof(m->words), img->bias);
	return true;
}

static bool memory_words(const struct image *img, struct target *t, struct module *m)
{
	return t &&
	       !error_dropped(target_read(t, m->address + img->bias, m->words, sizeof(m->words)));
}

static bool are_words_right(const struct image *img, const struct module *m)
{
	const uint64_t *w = m->words;

	return w[MD_HEADER] == m->header + img->bias && w[MD_FTAB + 1] == m->count + 1 &&
	       w[MD_TEXT] < w[MD_ETEXT] && w[MD_MINPC] >= w[MD_TEXT] && w[MD_MINPC] < w[MD_ETEXT];
}

static bool is_moduledata(const struct image *img, struct target *t, struct module *m)
{
	if (!m->address)
		return false;
	return (file_words(img, m) && are_words_right(img, m)) ||
	       (memory_words(img, t, m) && are_words_right(img, m));
}

/* A word of the writable data that holds the header's address. */
static bool scan_data(const struct image *img, struct target *t, struct module *m)
{
	const struct elf_segment *segments;
	size_t count = elf_file_segments(img->elf, &segments);

	for (size_t i = 0; i < count; i++) {
		size_t size;
		const uint8_t *data = elf_file_rest(img->elf, segments[i].address, &size);

		for (size_t at = 0; segments[i].writable && at + 8 <= size; at += 8) {
			uint64_t word;

			memcpy(&word, data + at, 8);
			if (word != m->header)
				continue;
			m->address = segments[i].address + at;
			if (is_moduledata(img, t, m))
				return true;
		}
	}
	return false;
}

static bool find_moduledata(const struct image *img, struct target *t, struct module *m)
{
	struct elf_section section;
	uint64_t symbol = image_symbol(img, "runtime.firstmoduledata");

	m->address = symbol ? symbol - img->bias : 0;
	if (is_moduledata(img, t, m))
		return true;
	m->address = elf_file_section(img->elf, ".go.module", &section) ? section.address : 0;
	if (is_moduledata(img, t, m))
		return true;
	m->address = elf_file_relocation_to(img->elf, m->header);
	return is_moduledata(img, t, m) || scan_data(img, t, m);
}

/* Whether a header that belongs to a moduledata begins at these bytes. */
static bool try_header(const struct image *img, struct target *t, uint64_t address,
		       const uint8_t *bytes, struct module *m, enum pclntab_format *ret_format)
{
	if (!header_format(bytes, img->machine, ret_format))
		return false;
	m->header = address;
	memcpy(&m->count, bytes + 8, sizeof(m->count));
	return m->count && m->count < UINT32_MAX && find_moduledata(img, t, m);
}

/* Externally linked position-independent programs have no section of that name. */
static bool scan_headers(const struct image *img, struct target *t, struct module *m,
			 enum pclntab_format *ret_format)
{
	const struct elf_segment *segments;
	size_t count = elf_file_segments(img->elf, &segments);

	for (size_t i = 0; i < count; i++) {
		size_t size;
		const uint8_t *data = elf_file_rest(img->elf, segments[i].address, &size);

		for (size_t at = -segments[i].address & 7; at + 64 <= size; at += 8)
			if (try_header(img, t, segments[i].address + at, data + at, m, ret_format))
				return true;
	}
	return false;
}

static bool find_module(const struct image *img, struct target *t, struct module *m,
			enum pclntab_format *ret_format)
{
	static const char *const names[] = {".gopclntab", ".data.rel.ro.gopclntab"};
	struct elf_section s;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (elf_file_section(img->elf, names[i], &s) && s.bytes && s.size >= 64 &&
		    try_header(img, t, s.address, s.bytes, m, ret_format))
			return true;
	return scan_headers(img, t, m, ret_format);
}

/*
 * Go 1.17's table holds absolute addresses. Where they are relocated, they are missing in the
 * file's bytes: a copy is made, relocated, and used instead.
 */
static struct error *copy_relocated(struct image *img, const struct module *m, struct bytes *table,
				    uint64_t address)
{
	const uint64_t *w = m->words;
	size_t used = w[MD_FUNCS] + w[MD_FUNCS + 1] - (address + img->bias);

	if (used > table->size)
		return error_format(ERROR_CORRUPT, "the function table of %s is cut short",
				    elf_file_name(img->elf));
	img->copy = malloc(used);
	if (!img->copy)
		return &error_no_memory;
	memcpy(img->copy, table->data, used);
	elf_file_relocate(img->elf, address, img->copy, used, img->bias);
	*table = (struct bytes){img->copy, used};
	return NULL;
}

/* A slice of moduledata, as bytes of the table; `item` is the size of an element. */
static struct bytes slice_bytes(const struct image *img, const struct module *m, struct bytes table,
				enum moduledata_word word, size_t item)
{
	uint64_t at = m->words[word] - img->bias - m->header, count = m->words[word + 1], size;

	if (at > table.size || __builtin_mul_overflow(count, item, &size))
		return (struct bytes){0};
	if (size > table.size - at)
		size = table.size - at;
	return (struct bytes){table.data + at, size};
}

/* Where funcdata lies: behind moduledata.gofunc, or, in Go 1.17, anywhere in one segment. */
static void set_gofunc(struct image *img, const struct module *m, const struct image_layout *layout)
{
	struct pclntab *tab = &img->functions;
	const struct elf_segment *segments;
	size_t count = elf_file_segments(img->elf, &segments);
	uint64_t address;

	if (layout->moduledata_gofunc) {
		address = m->words[layout->moduledata_gofunc / 8 % MD_WORDS] - img->bias;
		tab->gofunc.data = elf_file_rest(img->elf, address, &tab->gofunc.size);
		return;
	}
	address = pclntab_any_funcdata(tab) - img->bias;
	for (size_t i = 0; i < count; i++) {
		if (address - segments[i].address >= segments[i].file_size)
			continue;
		tab->gofunc_base = segments[i].address + img->bias;
		tab->gofunc.data = elf_file_rest(img->elf, segments[i].address, &tab->gofunc.size);
	}
}

static void set_functions(struct image *img, const struct module *m, struct bytes table,
			  const struct image_layout *layout, enum pclntab_format format)
{
	struct pclntab *tab = &img->functions;
	size_t entry = format == PCLNTAB_GO116 ? 16 : 8;

	tab->format = format;
	tab->quantum = img->machine == MACHINE_AMD64 ? 1 : 4;
	tab->wrapper_id = layout->wrapper_id;
	tab->text = m->words[MD_TEXT];
	tab->etext = m->words[MD_ETEXT];
	tab->names = slice_bytes(img, m, table, MD_NAMES, 1);
	tab->cutab = slice_bytes(img, m, table, MD_CUTAB, 4);
	tab->files = slice_bytes(img, m, table, MD_FILES, 1);
	tab->pctab = slice_bytes(img, m, table, MD_PCTAB, 1);
	tab->funcs = slice_bytes(img, m, table, MD_FUNCS, 1);
	tab->funcs_address = m->words[MD_FUNCS];
	tab->ftab = slice_bytes(img, m, table, MD_FTAB, entry);
	tab->count = tab->ftab.size / entry;
	tab->count -= tab->count > 0;
	set_gofunc(img, m, layout);
}

struct error *image_load_functions(struct image *img, struct target *t,
				   const struct image_layout *layout)
{
	enum pclntab_format format;
	struct module m = {0};
	struct bytes table;
	struct error *err = NULL;

	if (!find_module(img, t, &m, &format))
		return error_format(ERROR_UNSUPPORTED,
				    "%s was built by Go, but its function table (pclntab) was not "
				    "found",
				    elf_file_name(img->elf));
	table.data = elf_file_rest(img->elf, m.header, &table.size);
	if (!table.data)
		return error_format(ERROR_CORRUPT, "the function table of %s is not mapped",
				    elf_file_name(img->elf));
	if (format == PCLNTAB_GO116 && elf_file_is_pie(img->elf))
		err = copy_relocated(img, &m, &table, m.header);
	if (err)
		return err;
	set_functions(img, &m, table, layout, format);
	img->functions.short_names = calloc(1, sizeof(*img->functions.short_names));
	if (!img->functions.short_names)
		return &error_no_memory;
	img->moduledata = m.address + img->bias;
	return NULL;
}

void image_drop_functions(struct image *img)
{
	if (img->functions.short_names) {
		intern_release(img->functions.short_names);
		free(img->functions.short_names);
	}
	free(img->copy);
	img->copy = NULL;
	img->functions = (struct pclntab){0};
	img->moduledata = 0;
}
