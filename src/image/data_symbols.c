#include "image/data_symbols.h"

#include <elf.h>
#include <gelf.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "image/elf_bounds.h"

struct data_symbol {
	uint64_t address; /* in the file */
	uint64_t size;
	const char *name; /* in the file's bytes */
};

struct data_symbols {
	Elf *elf;
	uint64_t bias;
	struct data_symbol *items; /* by address */
	size_t count;
	size_t capacity;
};

static bool add_symbol(struct data_symbols *s, size_t names, const GElf_Sym *sym)
{
	const char *name;

	if (GELF_ST_TYPE(sym->st_info) != STT_OBJECT || sym->st_shndx == SHN_UNDEF || !sym->st_size)
		return true;
	name = elf_bounds_string(s->elf, names, sym->st_name);
	if (!name || !*name)
		return true;
	if (!array_reserve(&s->items, &s->capacity, s->count + 1))
		return false;
	s->items[s->count++] = (struct data_symbol){sym->st_value, sym->st_size, name};
	return true;
}

static bool read_symbols(struct data_symbols *s)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	GElf_Sym sym;

	while ((section = elf_nextscn(s->elf, section))) {
		Elf_Data *data;
		size_t count;

		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_SYMTAB ||
		    !header.sh_entsize)
			continue;
		data = elf_getdata(section, NULL);
		count = header.sh_size / header.sh_entsize;
		for (size_t i = 0; data && i < count && gelf_getsym(data, i, &sym); i++)
			if (!add_symbol(s, header.sh_link, &sym))
				return false;
	}
	return true;
}

static int compare(const void *a, const void *b)
{
	const struct data_symbol *x = a, *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

static struct error *read_file(const struct elf_file *file, uint64_t bias,
			       struct data_symbols **ret)
{
	_cleanup_data_symbols_ struct data_symbols *s = calloc(1, sizeof(*s));
	size_t size;
	const uint8_t *bytes = elf_file_whole(file, &size);

	if (!s)
		return &error_no_memory;
	s->bias = bias;
	s->elf = elf_memory((char *)bytes, size);
	if (!s->elf)
		return NULL;
	if (!read_symbols(s))
		return &error_no_memory;
	if (!s->count)
		return NULL;
	qsort(s->items, s->count, sizeof(*s->items), compare);
	*ret = take_ptr(s);
	return NULL;
}

struct error *data_symbols_open(const struct image *img, struct data_symbols **ret)
{
	struct error *err;

	*ret = NULL;
	err = read_file(img->elf, img->bias, ret);
	if (!err && !*ret && img->unstripped)
		err = read_file(img->unstripped, img->bias, ret);
	return err;
}

void data_symbols_close(struct data_symbols *s)
{
	if (!s)
		return;
	if (s->elf)
		elf_end(s->elf);
	free(s->items);
	free(s);
}

const char *data_symbols_find(const struct data_symbols *s, uint64_t address, uint64_t *ret_offset)
{
	uint64_t at = address - s->bias;
	size_t lo = 0, hi = s->count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->items[mid].address <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo || at - s->items[lo - 1].address >= s->items[lo - 1].size)
		return NULL;
	*ret_offset = at - s->items[lo - 1].address;
	return s->items[lo - 1].name;
}
