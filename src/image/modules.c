/*
 * A process may have tens of thousands of mappings, and replace them by others. All mappings ever
 * seen are kept; where two overlap, the newer one wins. A look-up stays fast: starts and ends cut
 * the addresses into pieces (struct piece), sorted, of which each knows its module. They are
 * rebuilt after every few hundred modules.
 */
#include "image/modules.h"

#include <elf.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "image/elf_bounds.h"
#include "image/function_symbols.h"
#include "image/library.h"

#define MAX_VDSO (1u << 20)
/* No frame of C code is larger. */
#define MAX_FRAME (1u << 20)
#define MAX_NAME 64
/* Modules that are not in the pieces yet; these are searched one by one. */
#define MAX_NEW 512

/* A mapping with code. */
struct module {
	size_t place; /* in struct modules */
	uint64_t start, end, offset;
	uint64_t bias;
	char *path;
	bool tried; /* to open it */
	struct elf_file *file;
	uint8_t *copy; /* of the vDSO, which is no file */
	Elf *elf;
	Dwarf_CFI *eh_frame;
	struct function_symbols symbols;
	char build_id[ELF_BUILD_ID_SIZE];
	char name[MAX_NAME]; /* "[libc.so.6]" */
};

/* From here to the next one. */
struct piece {
	uint64_t start;
	uint32_t owner; /* the place of the module, + 1; 0: none is there */
	uint32_t next;  /* while pieces are made: the next one that may have no owner */
};

struct modules {
	struct target *t;
	enum machine machine;
	/* All that were ever seen. The newest are last; one that is gone keeps its name. */
	struct module **items;
	size_t count;
	size_t capacity;
	struct piece *pieces; /* of the first so many modules */
	size_t piece_count, pieces_of;
	struct target_maps maps; /* as they were last read */
	size_t *met;
	size_t met_count;
	size_t met_capacity;
	uint64_t left_out;
	bool fresh;
};

static void module_destroy(struct module *m)
{
	if (!m)
		return;
	function_symbols_release(&m->symbols);
	dwarf_cfi_end(m->eh_frame);
	elf_end(m->elf);
	elf_file_close(m->file);
	free(m->copy);
	free(m->path);
	free(m);
}

void modules_close(struct modules *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->count; i++)
		module_destroy(m->items[i]);
	free(m->items);
	free(m->pieces);
	free(m->met);
	target_maps_release(&m->maps);
	free(m);
}

uint64_t modules_left_out(const struct modules *m)
{
	return m ? m->left_out : 0;
}

/* ---- which module is at an address ---- */

static int compare_pieces(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* The last one that begins at the address or before it. */
static size_t find_piece(const struct piece *pieces, size_t count, uint64_t address)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (pieces[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low - 1;
}

/* The first one from i on without an owner; those on the way learn of it. */
static uint32_t skip_owned(struct piece *pieces, uint32_t i)
{
	uint32_t end = i;

	while (pieces[end].next != end)
		end = pieces[end].next;
	while (pieces[i].next != end && i != end) {
		uint32_t next = pieces[i].next;

		pieces[i].next = end;
		i = next;
	}
	return end;
}

/* Each module takes the pieces that no newer one has. The last piece, at the end of all, has no
 * owner. */
static void give_pieces(const struct modules *m, struct piece *pieces, size_t count)
{
	for (size_t i = m->count; i-- > 0;) {
		const struct module *module = m->items[i];
		uint32_t p;

		if (module->start >= module->end)
			continue;
		p = skip_owned(pieces, find_piece(pieces, count, module->start));
		while (pieces[p].start < module->end && p + 1 < count) {
			pieces[p].owner = i + 1;
			pieces[p].next = p + 1;
			p = skip_owned(pieces, p + 1);
		}
	}
}

static bool make_pieces(struct modules *m)
{
	struct piece *pieces = calloc(2 * m->count + 1, sizeof(*pieces));
	size_t count = 0;

	if (!pieces)
		return false;
	for (size_t i = 0; i < m->count; i++) {
		pieces[2 * i].start = m->items[i]->start;
		pieces[2 * i + 1].start = m->items[i]->end;
	}
	qsort(pieces, 2 * m->count, sizeof(*pieces), compare_pieces);
	for (size_t i = 0; i < 2 * m->count; i++)
		if (!count || pieces[i].start != pieces[count - 1].start)
			pieces[count++].start = pieces[i].start;
	for (size_t i = 0; i < count; i++)
		pieces[i].next = i;
	give_pieces(m, pieces, count);
	free(m->pieces);
	m->pieces = pieces;
	m->piece_count = count;
	m->pieces_of = m->count;
	return true;
}

static struct module *find(struct modules *m, uint64_t address)
{
	size_t i;

	if (m->count - m->pieces_of > MAX_NEW && !make_pieces(m))
		return NULL;
	for (i = m->count; i-- > m->pieces_of;)
		if (address >= m->items[i]->start && address < m->items[i]->end)
			return m->items[i];
	i = find_piece(m->pieces, m->piece_count, address);
	if (i >= m->piece_count || !m->pieces[i].owner)
		return NULL;
	return m->items[m->pieces[i].owner - 1];
}

static bool is_known(struct modules *m, const struct target_map *map)
{
	const struct module *have = find(m, map->start);

	return have && have->start == map->start && have->end == map->end &&
	       have->offset == map->offset && !strcmp(have->path, map->path);
}

static struct error *add_module(struct modules *m, const struct target_map *map)
{
	const char *slash = strrchr(map->path, '/');
	struct module *new;

	if (!array_reserve(&m->items, &m->capacity, m->count + 1))
		return &error_no_memory;
	new = calloc(1, sizeof(*new));
	if (!new)
		return &error_no_memory;
	new->place = m->count;
	m->items[m->count++] = new;
	new->start = map->start;
	new->end = map->end;
	new->offset = map->offset;
	new->path = strdup(map->path);
	if (map->path[0] == '[')
		snprintf(new->name, sizeof(new->name), "%s", map->path);
	else
		snprintf(new->name, sizeof(new->name), "[%s]", slash ? slash + 1 : "code");
	return new->path ? NULL : &error_no_memory;
}

/* Mappings of one time do not overlap, so a search among the older ones suffices. */
static struct error *read_maps(struct modules *m)
{
	bool *known;
	struct error *err;

	m->fresh = true;
	target_maps_release(&m->maps);
	m->maps = (struct target_maps){0};
	err = target_maps(m->t, &m->maps);
	if (err)
		return err;
	known = calloc(m->maps.count + 1, sizeof(*known));
	if (!known)
		return &error_no_memory;
	for (size_t i = 0; i < m->maps.count; i++)
		known[i] = !m->maps.items[i].executable || is_known(m, &m->maps.items[i]);
	for (size_t i = 0; !err && i < m->maps.count; i++) {
		if (known[i] || !strcmp(m->maps.items[i].path, "[vsyscall]"))
			continue;
		if (m->count < MODULES_MOST)
			err = add_module(m, &m->maps.items[i]);
		else
			m->left_out++;
	}
	free(known);
	return err;
}

struct error *modules_open(struct target *t, enum machine machine, struct modules **ret)
{
	_cleanup_modules_ struct modules *m = calloc(1, sizeof(*m));
	struct error *err;

	if (!m)
		return &error_no_memory;
	m->t = t;
	m->machine = machine;
	err = read_maps(m);
	if (!err)
		*ret = take_ptr(m);
	return err;
}

struct error *modules_of_files(enum machine machine, struct modules **ret)
{
	struct modules *m = calloc(1, sizeof(*m));

	if (!m)
		return &error_no_memory;
	m->machine = machine;
	m->fresh = true;
	*ret = m;
	return NULL;
}

void modules_stale(struct modules *m)
{
	m->fresh = false;
}

static struct module *find_fresh(struct modules *m, uint64_t address)
{
	struct module *found = find(m, address);

	if (found || m->fresh || error_dropped(read_maps(m)))
		return found;
	return find(m, address);
}

bool modules_have(struct modules *m, uint64_t address)
{
	return find_fresh(m, address) != NULL;
}

/* The address in the file that the mapping's first byte has. */
static bool find_bias(struct module *m)
{
	size_t count, page = 4096;
	GElf_Phdr segment;

	if (!m->elf || elf_getphdrnum(m->elf, &count))
		return false;
	for (size_t i = 0; i < count && gelf_getphdr(m->elf, i, &segment); i++) {
		uint64_t first = segment.p_offset & ~(page - 1);

		if (segment.p_type != PT_LOAD || m->offset < first ||
		    m->offset >= segment.p_offset + segment.p_filesz)
			continue;
		if (!(segment.p_flags & PF_X))
			continue;
		m->bias = m->start - (segment.p_vaddr - segment.p_offset + m->offset);
		return true;
	}
	return false;
}

static bool take_file(struct module *m, struct elf_file *file)
{
	size_t size;
	const uint8_t *bytes = elf_file_whole(file, &size);

	m->file = file;
	m->elf = elf_memory((char *)bytes, size);
	snprintf(m->build_id, sizeof(m->build_id), "%s", elf_file_build_id(file));
	return m->elf != NULL;
}

static bool open_file(struct modules *all, struct module *m)
{
	const struct target_map *map = target_maps_find(&all->maps, m->start);
	struct elf_file *file;
	int fd;

	if (m->path[0] != '/')
		return false;
	fd = map ? library_open_mapped(target_pid(all->t), map) : -1;
	if (fd < 0 || error_dropped(elf_file_open(fd, m->path, &file)))
		return false;
	return take_file(m, file);
}

static bool open_vdso(struct modules *all, struct module *m)
{
	size_t size = m->end - m->start;

	if (strcmp(m->path, "[vdso]") || size > MAX_VDSO)
		return false;
	m->copy = malloc(size);
	if (!m->copy || error_dropped(target_read(all->t, m->start, m->copy, size)))
		return false;
	if (error_dropped(elf_bounds_check(m->copy, size, "[vdso]")))
		return false;
	elf_version(EV_CURRENT);
	m->elf = elf_memory((char *)m->copy, size);
	elf_bytes_build_id(m->copy, size, m->build_id);
	return m->elf != NULL;
}

static void open_module(struct modules *all, struct module *m)
{
	m->tried = true;
	if (array_reserve(&all->met, &all->met_capacity, all->met_count + 1))
		all->met[all->met_count++] = m->place;
	if ((!open_file(all, m) && !open_vdso(all, m)) || !find_bias(m))
		return;
	m->eh_frame = dwarf_getcfi_elf(m->elf);
	function_symbols_read(&m->symbols, m->elf);
}

struct error *modules_add_file(struct modules *m, const struct module_range *range,
			       struct elf_file *file)
{
	_cleanup_elf_file_ struct elf_file *owned = file;
	const struct target_map map = {
		.start = range->start,
		.end = range->end,
		.offset = range->offset,
		.path = (char *)range->path,
	};
	struct error *err = add_module(m, &map);
	struct module *new = err ? NULL : m->items[m->count - 1];

	if (err)
		return err;
	new->tried = true;
	if (!owned)
		return NULL;
	if (!take_file(new, take_ptr(owned)) ||
	    !elf_file_bias(new->file, range->start, range->offset, &new->bias))
		return error_format(ERROR_CORRUPT, "%s has no code at offset 0x%lx",
				    elf_file_name(new->file), range->offset);
	new->eh_frame = dwarf_getcfi_elf(new->elf);
	function_symbols_read(&new->symbols, new->elf);
	return NULL;
}

/* The module at the address, opened. */
static struct module *meet(struct modules *m, uint64_t address)
{
	struct module *found = find_fresh(m, address);

	if (found && !found->tried)
		open_module(m, found);
	return found;
}

/* For code without information about its frames: follows frame pointers, if they lead upwards and
 * to code. */
static enum cfi_result step_by_frame_pointer(struct modules *m, const struct stack_reader *stack,
					     struct registers *regs)
{
	const struct register_roles *roles = register_roles(m->machine);
	struct registers caller = {0};
	uint64_t fp, sp, next, pc;

	if (!registers_get(regs, roles->fp, &fp) || !registers_get(regs, roles->sp, &sp) ||
	    fp < sp || fp - sp > MAX_FRAME || fp & 7)
		return CFI_FAILED;
	if (!stack->word(stack->arg, fp, &next) || !stack->word(stack->arg, fp + 8, &pc) ||
	    !modules_have(m, pc))
		return CFI_FAILED;
	registers_set(&caller, roles->pc, pc);
	registers_set(&caller, roles->sp, fp + 16);
	registers_set(&caller, roles->fp, next);
	*regs = caller;
	return CFI_STEPPED;
}

enum cfi_result modules_step(struct modules *m, const struct stack_reader *stack, bool exact,
			     struct registers *regs, bool *ret_exact)
{
	uint64_t pc = regs->value[register_roles(m->machine)->pc] - !exact;
	struct module *module = meet(m, pc);
	enum cfi_result result;

	if (!module)
		return CFI_FAILED;
	*ret_exact = false;
	result = cfi_step(module->eh_frame, pc - module->bias, m->machine, stack, regs, ret_exact);
	return result == CFI_NONE ? step_by_frame_pointer(m, stack, regs) : result;
}

const char *modules_function(struct modules *m, uint64_t address, const char **ret_file)
{
	struct module *module = meet(m, address);
	const char *name;

	if (!module)
		return NULL;
	*ret_file = module->path;
	name = function_symbols_find(&module->symbols, address - module->bias);
	return name ? name : module->name;
}

bool modules_met(const struct modules *m, size_t i, struct module_range *ret)
{
	const struct module *module;

	if (i >= m->met_count)
		return false;
	module = m->items[m->met[i]];
	*ret = (struct module_range){module->start, module->end, module->offset, module->path,
				     module->build_id};
	return true;
}
