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
#include "base/map.h"
#include "image/functions.h"

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

/*
 * The search for a file without section names. A header may belong to an embedded program, so all
 * candidates are noted first. Then a single pass over the relocations and one over the writable
 * data look for the address of any of them. That takes time in proportion to the file's size,
 * whatever it holds.
 */
#define MAX_HEADERS 1024
#define MAX_TRIES 1024 /* words that hold a header's address but begin no moduledata */

struct search {
	const struct image *img;
	struct target *t;
	struct map headers; /* address -> 1 + its place in `counts` */
	uint64_t counts[MAX_HEADERS];
	enum pclntab_format formats[MAX_HEADERS];
	size_t header_count;
	size_t tries;
	struct module *m;
	enum pclntab_format *ret_format;
};

static bool note_header(struct search *s, uint64_t address, const uint8_t *bytes)
{
	enum pclntab_format format;
	uint64_t count, *place;

	if (!header_format(bytes, s->img->machine, &format))
		return true;
	memcpy(&count, bytes + 8, sizeof(count));
	if (!count || count >= UINT32_MAX)
		return true;
	place = s->header_count < MAX_HEADERS ? map_at(&s->headers, address) : NULL;
	if (!place)
		return false;
	s->formats[s->header_count] = format;
	s->counts[s->header_count++] = count;
	*place = s->header_count;
	return true;
}

/* Externally linked position-independent programs have no section of that name. */
static void note_headers(struct search *s)
{
	const struct elf_segment *segments;
	size_t count = elf_file_segments(s->img->elf, &segments);

	for (size_t i = 0; i < count; i++) {
		size_t size;
		const uint8_t *data = elf_file_rest(s->img->elf, segments[i].address, &size);

		for (size_t at = -segments[i].address & 7; at + 64 <= size; at += 8)
			if (!note_header(s, segments[i].address + at, data + at))
				return;
	}
}

/* The word at `address` holds `value`. True: it is the first of a moduledata. */
static bool try_word(void *arg, uint64_t address, uint64_t value)
{
	struct search *s = arg;
	const uint64_t *place = map_find(&s->headers, value);

	if (!place || s->tries++ >= MAX_TRIES)
		return false;
	s->m->header = value;
	s->m->address = address;
	s->m->count = s->counts[*place - 1];
	*s->ret_format = s->formats[*place - 1];
	return is_moduledata(s->img, s->t, s->m);
}

static bool try_data(struct search *s)
{
	const struct elf_segment *segments;
	size_t count = elf_file_segments(s->img->elf, &segments);

	for (size_t i = 0; i < count; i++) {
		size_t size;
		const uint8_t *data = elf_file_rest(s->img->elf, segments[i].address, &size);

		for (size_t at = 0; segments[i].writable && at + 8 <= size; at += 8) {
			uint64_t word;

			memcpy(&word, data + at, 8);
			if (word && try_word(s, segments[i].address + at, word))
				return true;
		}
	}
	return false;
}

static bool search_words(struct search *s)
{
	return s->header_count &&
	       (elf_file_each_relocation(s->img->elf, try_word, s) || try_data(s));
}

/* A moduledata by its name, or that of the section of its own that it has from Go 1.26 on. */
static bool find_named(struct search *s, uint64_t header, uint64_t count)
{
	uint64_t symbol = image_symbol(s->img, "runtime.firstmoduledata");
	struct elf_section section;

	s->m->header = header;
	s->m->count = count;
	s->m->address = symbol ? symbol - s->img->bias : 0;
	if (is_moduledata(s->img, s->t, s->m))
		return true;
	s->m->address = elf_file_section(s->img->elf, ".go.module", &section) ? section.address : 0;
	return is_moduledata(s->img, s->t, s->m);
}

static bool find_by_section(struct search *s)
{
	static const char *const names[] = {".gopclntab", ".data.rel.ro.gopclntab"};
	struct elf_section section;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (!elf_file_section(s->img->elf, names[i], &section) || !section.bytes ||
		    section.size < 64)
			continue;
		note_header(s, section.address, section.bytes);
		if (!s->header_count)
			continue;
		*s->ret_format = s->formats[s->header_count - 1];
		if (find_named(s, section.address, s->counts[s->header_count - 1]))
			return true;
	}
	return search_words(s);
}

static bool find_by_search(struct search *s)
{
	note_headers(s);
	return search_words(s);
}

static bool find_module(const struct image *img, struct target *t, struct module *m,
			enum pclntab_format *ret_format)
{
	_cleanup_free_ struct search *s = calloc(1, sizeof(*s));
	bool found;

	if (!s)
		return false;
	*s = (struct search){.img = img, .t = t, .m = m, .ret_format = ret_format};
	found = find_by_section(s) || find_by_search(s);
	map_release(&s->headers);
	return found;
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
		return error_format(ERROR_CORRUPT,
				    "the function table (pclntab) of %s is truncated",
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

static struct error *must_check take_functions(struct image *img, const struct module *m,
					       struct bytes table,
					       const struct image_layout *layout,
					       enum pclntab_format format)
{
	set_functions(img, m, table, layout, format);
	img->functions.short_names = calloc(1, sizeof(*img->functions.short_names));
	if (!img->functions.short_names)
		return &error_no_memory;
	img->moduledata = m->address + img->bias;
	return NULL;
}

struct error *functions_load(struct image *img, struct target *t, const struct image_layout *layout)
{
	enum pclntab_format format;
	struct module m = {0};
	struct bytes table;
	struct error *err = NULL;

	if (!find_module(img, t, &m, &format))
		return error_format(
			ERROR_UNSUPPORTED,
			"%s is a Go program without a function table (pclntab); if it is packed "
			"(UPX), name the unpacked program with --exe",
			elf_file_name(img->elf));
	table.data = elf_file_rest(img->elf, m.header, &table.size);
	if (!table.data)
		return error_format(ERROR_CORRUPT,
				    "the function table (pclntab) of %s is not mapped",
				    elf_file_name(img->elf));
	if (format == PCLNTAB_GO116 && elf_file_is_pie(img->elf))
		err = copy_relocated(img, &m, &table, m.header);
	if (err)
		return err;
	return take_functions(img, &m, table, layout, format);
}

/* The bytes of the table in the file, or, where it holds addresses, as they are in memory. */
static struct error *must_check table_of(struct image *img, struct target *t,
					 const struct module *m, enum pclntab_format format,
					 struct bytes *ret)
{
	size_t used = m->words[MD_FUNCS] + m->words[MD_FUNCS + 1] - m->words[MD_HEADER];

	ret->data = elf_file_rest(img->elf, m->header, &ret->size);
	if (format != PCLNTAB_GO116)
		return NULL;
	if (used > ret->size)
		return error_format(ERROR_CORRUPT,
				    "the function table (pclntab) of %s is truncated",
				    elf_file_name(img->elf));
	img->copy = malloc(used);
	if (!img->copy)
		return &error_no_memory;
	*ret = (struct bytes){img->copy, used};
	return target_read(t, m->words[MD_HEADER], img->copy, used);
}

struct error *functions_load_mapped(struct image *img, struct target *t, uint64_t moduledata,
				    const struct image_layout *layout)
{
	struct module m = {.address = moduledata - img->bias};
	enum pclntab_format format;
	const uint8_t *head;
	struct bytes table;
	struct error *err;

	if (!memory_words(img, t, &m))
		return &error_fault;
	m.header = m.words[MD_HEADER] - img->bias;
	head = elf_file_bytes(img->elf, m.header, 64);
	if (!head || !header_format(head, img->machine, &format))
		return error_format(
			ERROR_CORRUPT,
			"%s has no function table (pclntab) at the address in its module data",
			elf_file_name(img->elf));
	memcpy(&m.count, head + 8, sizeof(m.count));
	if (!m.count || m.count >= UINT32_MAX || !are_words_right(img, &m))
		return error_format(ERROR_CORRUPT, "the function table (pclntab) of %s is corrupt",
				    elf_file_name(img->elf));
	err = table_of(img, t, &m, format, &table);
	return err ? err : take_functions(img, &m, table, layout, format);
}

void functions_drop(struct image *img)
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

void image_release(struct image *img)
{
	if (!img)
		return;
	functions_drop(img);
	elf_file_close(img->elf);
	elf_file_close(img->unstripped);
	buildinfo_release(&img->info);
	free(img);
}
