#include "image/function_symbols.h"

#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "image/elf_bounds.h"

static void add_symbol(struct function_symbols *s, Elf *elf, size_t names, const GElf_Sym *sym)
{
	int type = GELF_ST_TYPE(sym->st_info);
	const char *name;

	if ((type != STT_FUNC && type != STT_GNU_IFUNC) || sym->st_shndx == SHN_UNDEF)
		return;
	name = elf_bounds_string(elf, names, sym->st_name);
	if (!name || !*name || !array_reserve(&s->items, &s->capacity, s->count + 1))
		return;
	s->items[s->count++] = (struct function_symbol){sym->st_value, sym->st_size, name};
}

static void read_table(struct function_symbols *s, Elf *elf, Elf_Scn *section,
		       const GElf_Shdr *header)
{
	Elf_Data *data = elf_getdata(section, NULL);
	size_t count = header->sh_entsize ? header->sh_size / header->sh_entsize : 0;
	GElf_Sym sym;

	for (size_t i = 0; data && i < count && gelf_getsym(data, i, &sym); i++)
		add_symbol(s, elf, header->sh_link, &sym);
}

static void read_tables(struct function_symbols *s, Elf *elf, uint32_t type)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while ((section = elf_nextscn(elf, section)))
		if (gelf_getshdr(section, &header) && header.sh_type == type)
			read_table(s, elf, section, &header);
}

/* At one address the longest first, and names without underscores before those with. */
static int compare_symbols(const void *a, const void *b)
{
	const struct function_symbol *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	if (x->size != y->size)
		return x->size > y->size ? -1 : 1;
	if ((*x->name == '_') != (*y->name == '_'))
		return (*x->name == '_') - (*y->name == '_');
	return strcmp(x->name, y->name);
}

void function_symbols_read(struct function_symbols *s, Elf *elf)
{
	read_tables(s, elf, SHT_SYMTAB);
	if (!s->count)
		read_tables(s, elf, SHT_DYNSYM);
	if (s->count)
		qsort(s->items, s->count, sizeof(*s->items), compare_symbols);
}

void function_symbols_release(struct function_symbols *s)
{
	free(s->items);
	*s = (struct function_symbols){0};
}

const char *function_symbols_find(const struct function_symbols *s, uint64_t address)
{
	size_t lo = 0, hi = s->count;
	const struct function_symbol *found;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->items[mid].address <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo)
		return NULL;
	found = &s->items[lo - 1];
	while (found > s->items && found[-1].address == found->address)
		found--;
	return !found->size || address - found->address < found->size ? found->name : NULL;
}
