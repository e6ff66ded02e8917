#include "image/pclntab.h"

#include <stdio.h>
#include <string.h>

/*
 * Fields of runtime._func that moved between formats, as offsets in it; args follows the name. The
 * fixed part is followed by u32 pcdata[npcdata], then funcdata[nfuncdata] (u32 offsets; Go 1.17:
 * addresses, 8-aligned).
 */
static const struct func_layout {
	uint8_t name, pcsp, pcfile, pcln, npcdata, cu_offset, func_id, flags, nfuncdata, size;
} func_layouts[] = {
	[PCLNTAB_GO116] = {8, 20, 24, 28, 32, 36, 40, 41, 43, 44},
	[PCLNTAB_GO118] = {4, 16, 20, 24, 28, 32, 36, 37, 39, 40},
	[PCLNTAB_GO120] = {4, 16, 20, 24, 28, 32, 40, 41, 43, 44},
};

/* Fields of runtime.inlinedCall. */
static const struct inline_layout {
	uint8_t func_id, name, parent_pc, size;
} inline_layouts[] = {
	[PCLNTAB_GO116] = {2, 12, 16, 20},
	[PCLNTAB_GO118] = {2, 12, 16, 20},
	[PCLNTAB_GO120] = {0, 4, 8, 16},
};

enum {
	PCDATA_STACK_MAP_INDEX = 1,
	PCDATA_INLINE_INDEX = 2,
	PCDATA_ARGUMENTS_LIVE_INDEX = 3,
	FUNCDATA_ARGS = 0,
	FUNCDATA_LOCALS = 1,
	FUNCDATA_STACK_OBJECTS = 2,
	FUNCDATA_INLINE_TREE = 3,
	FUNCDATA_OPEN_DEFERS = 4,
	FUNCDATA_ARGUMENTS = 5,
	FUNCDATA_ARGUMENTS_LIVE = 6,
	FUNCDATA_WRAP_INFO = 7
};

static bool load_u32(struct bytes b, uint64_t at, uint32_t *ret)
{
	if (b.size < sizeof(*ret) || at > b.size - sizeof(*ret))
		return false;
	memcpy(ret, b.data + at, sizeof(*ret));
	return true;
}

static bool load_u64(struct bytes b, uint64_t at, uint64_t *ret)
{
	if (b.size < sizeof(*ret) || at > b.size - sizeof(*ret))
		return false;
	memcpy(ret, b.data + at, sizeof(*ret));
	return true;
}

static const char *load_string(struct bytes b, uint64_t at)
{
	if (at >= b.size || !memchr(b.data + at, 0, b.size - at))
		return NULL;
	return (const char *)b.data + at;
}

/* The i-th entry of ftab: where a function begins and where its _func lies. */
static bool ftab_entry(const struct pclntab *tab, size_t i, uint64_t *ret_pc, uint64_t *ret_offset)
{
	uint32_t pc, offset;

	if (tab->format == PCLNTAB_GO116)
		return load_u64(tab->ftab, i * 16, ret_pc) &&
		       load_u64(tab->ftab, i * 16 + 8, ret_offset);
	if (!load_u32(tab->ftab, i * 8, &pc) || !load_u32(tab->ftab, i * 8 + 4, &offset))
		return false;
	*ret_pc = tab->text + pc;
	*ret_offset = offset;
	return true;
}

bool pclntab_function(const struct pclntab *tab, size_t i, struct go_func *ret)
{
	const struct func_layout *lay = &func_layouts[tab->format];
	uint64_t entry, end, offset, unused;
	const uint8_t *f;
	uint32_t name;

	if (i >= tab->count || !ftab_entry(tab, i, &entry, &offset) ||
	    !ftab_entry(tab, i + 1, &end, &unused))
		return false;
	if (offset >= tab->funcs.size || tab->funcs.size - offset < lay->size)
		return false;
	f = tab->funcs.data + offset;
	*ret = (struct go_func){.tab = tab, .entry = entry, .end = end, .offset = offset};
	memcpy(&name, f + lay->name, 4);
	memcpy(&ret->args, f + lay->name + 4, 4);
	memcpy(&ret->pcsp, f + lay->pcsp, 4);
	memcpy(&ret->pcfile, f + lay->pcfile, 4);
	memcpy(&ret->pcln, f + lay->pcln, 4);
	memcpy(&ret->npcdata, f + lay->npcdata, 4);
	memcpy(&ret->cu_offset, f + lay->cu_offset, 4);
	ret->func_id = f[lay->func_id];
	ret->flags = f[lay->flags];
	ret->nfuncdata = f[lay->nfuncdata];
	ret->name = load_string(tab->names, name);
	return ret->name != NULL;
}

static const struct pclntab *known_module(const struct pclntab *tab, uint64_t pc)
{
	for (; tab; tab = __atomic_load_n(&tab->next, __ATOMIC_ACQUIRE))
		if (pc >= tab->text && pc < tab->etext)
			return tab;
	return NULL;
}

static const struct pclntab *module_of(const struct pclntab *tab, uint64_t pc)
{
	const struct pclntab *module = known_module(tab, pc);

	return module || !tab->more || !tab->more(tab->more_arg, pc) ? module
								     : known_module(tab, pc);
}

bool pclntab_is_code(const struct pclntab *tab, uint64_t pc)
{
	return module_of(tab, pc) != NULL;
}

bool pclntab_find(const struct pclntab *first, uint64_t pc, struct go_func *ret)
{
	const struct pclntab *tab = module_of(first, pc);
	size_t lo = 0, hi = tab ? tab->count : 0;
	uint64_t entry, unused;

	if (!tab)
		return false;
	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (!ftab_entry(tab, mid, &entry, &unused))
			return false;
		if (entry <= pc)
			lo = mid;
		else
			hi = mid;
	}
	return pclntab_function(tab, lo, ret) && pc >= ret->entry && pc < ret->end;
}

bool pclntab_find_name(const struct pclntab *tab, const char *name, struct go_func *ret)
{
	for (size_t i = 0; i < tab->count; i++)
		if (pclntab_function(tab, i, ret) && !strcmp(ret->name, name))
			return true;
	return false;
}

static uint32_t read_varint(struct cursor *c)
{
	uint32_t value = 0;

	for (int shift = 0; shift < 32; shift += 7) {
		uint8_t b = cursor_u8(c);

		value |= (uint32_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			return value;
	}
	c->failed = true;
	return 0;
}

/* The most values of one table; the Go compiler's longest has 9,524. Otherwise a table without an
 * end would be read to the end of all tables, at each lookup. */
#define MAX_VALUES (1u << 18)

/*
 * A pc-value table: pairs of (zigzag delta of the value, delta of the pc) from (-1, entry) on; a
 * value holds up to the pc behind it. Source: runtime/symtab.go:pcvalue, step.
 */
struct pc_values {
	struct cursor cursor;
	uint64_t end; /* of the current value */
	uint32_t value;
	uint32_t count;
};

static struct pc_values pc_values_begin(const struct go_func *f, uint32_t table)
{
	struct pc_values v = {
		.cursor = cursor_of(f->tab->pctab.data, f->tab->pctab.size, "pctab"),
		.end = f->entry,
		.value = -1,
	};

	cursor_seek(&v.cursor, table);
	v.cursor.failed |= !table;
	return v;
}

/* False at the end of the function or of the table, or where it is broken. */
static bool pc_values_next(struct pc_values *v, const struct go_func *f)
{
	uint32_t delta;

	if (v->cursor.failed || v->end >= f->end || v->count >= MAX_VALUES)
		return false;
	delta = read_varint(&v->cursor);
	if (!delta && v->count)
		return false;
	v->count++;
	v->value += delta & 1 ? ~(delta >> 1) : delta >> 1;
	v->end += (uint64_t)read_varint(&v->cursor) * f->tab->quantum;
	return !v->cursor.failed;
}

static bool pc_value(const struct go_func *f, uint32_t table, uint64_t pc, int32_t *ret)
{
	struct pc_values v = pc_values_begin(f, table);

	while (pc_values_next(&v, f)) {
		if (pc < v.end) {
			*ret = v.value;
			return true;
		}
	}
	return false;
}

static int32_t sp_delta(int32_t value)
{
	return value < 0 || value & 7 ? -1 : value;
}

int32_t pclntab_sp_delta(const struct go_func *f, uint64_t pc)
{
	int32_t value;

	return pc_value(f, f->pcsp, pc, &value) ? sp_delta(value) : -1;
}

bool pclntab_each_sp_delta(const struct go_func *f,
			   bool (*visit)(void *arg, uint64_t from, int32_t delta), void *arg)
{
	struct pc_values v = pc_values_begin(f, f->pcsp);
	uint64_t from = f->entry;

	for (; pc_values_next(&v, f); from = v.end)
		if (v.end > from && !visit(arg, from, sp_delta(v.value)))
			return false;
	return from >= f->end || visit(arg, from, -1);
}

static bool pcdata_value(const struct pclntab *tab, const struct go_func *f, uint32_t which,
			 uint64_t pc, int32_t *ret)
{
	uint64_t at = (uint64_t)f->offset + func_layouts[tab->format].size + 4 * which;
	uint32_t table;

	return which < f->npcdata && load_u32(tab->funcs, at, &table) &&
	       pc_value(f, table, pc, ret);
}

/* A word of the funcdata table: an offset in `gofunc`; in Go 1.17 an address. */
static bool funcdata_word(const struct pclntab *tab, const struct go_func *f, uint32_t which,
			  uint64_t *ret)
{
	uint64_t at =
		(uint64_t)f->offset + func_layouts[tab->format].size + 4 * (uint64_t)f->npcdata;
	uint32_t offset;

	if (which >= f->nfuncdata)
		return false;
	if (tab->format == PCLNTAB_GO116) {
		at = ((tab->funcs_address + at + 7) & ~7ull) - tab->funcs_address;
		return load_u64(tab->funcs, at + 8 * which, ret) && *ret;
	}
	if (!load_u32(tab->funcs, at + 4 * which, &offset) || offset == UINT32_MAX)
		return false;
	*ret = offset;
	return true;
}

/* The bytes of a funcdata, up to the end of the file's data there. */
static bool funcdata(const struct pclntab *tab, const struct go_func *f, uint32_t which,
		     struct bytes *ret)
{
	uint64_t offset;

	if (!funcdata_word(tab, f, which, &offset))
		return false;
	if (tab->format == PCLNTAB_GO116)
		offset -= tab->gofunc_base;
	if (offset >= tab->gofunc.size)
		return false;
	*ret = (struct bytes){tab->gofunc.data + offset, tab->gofunc.size - offset};
	return true;
}

uint64_t pclntab_wrapped(const struct pclntab *first, uint64_t entry)
{
	struct bytes info;
	struct go_func f;
	uint32_t offset;

	if (!pclntab_find(first, entry, &f) || f.func_id != f.tab->wrapper_id ||
	    !funcdata(f.tab, &f, FUNCDATA_WRAP_INFO, &info) || !load_u32(info, 0, &offset))
		return entry;
	return f.tab->text + offset;
}

bool pclntab_defer_bits(const struct go_func *f, uint64_t *ret)
{
	struct bytes info;
	struct cursor c;

	if (!funcdata(f->tab, f, FUNCDATA_OPEN_DEFERS, &info))
		return false;
	c = cursor_of(info.data, info.size, "the deferred calls");
	if (f->tab->format == PCLNTAB_GO116)
		cursor_uvarint(&c); /* the size of arguments */
	*ret = cursor_uvarint(&c);
	return !c.failed;
}

/* Of a frame: a stack has 1 GB at most. */
#define MAX_STACK_BITS (1u << 27)

/* runtime.stackmap: the number of bitmaps and of the bits of each, then the bitmaps. */
static bool bitmap_of(const struct go_func *f, uint32_t which, int32_t index,
		      struct stack_bits *ret)
{
	struct bytes map;
	uint32_t count, bits;
	uint64_t size;

	if (!funcdata(f->tab, f, which, &map) || !load_u32(map, 0, &count) ||
	    !load_u32(map, 4, &bits) || index < 0 || (uint32_t)index >= count ||
	    bits > MAX_STACK_BITS)
		return false;
	size = (bits + 7) / 8;
	if (map.size < 8 || (map.size - 8) / (size + !size) <= (uint64_t)index)
		return false;
	*ret = (struct stack_bits){map.data + 8 + size * (uint32_t)index, bits};
	return true;
}

bool pclntab_stack_map(const struct go_func *f, uint64_t pc, struct stack_map *ret)
{
	struct bytes objects;
	uint64_t count;
	int32_t index;

	*ret = (struct stack_map){0};
	/* As in the runtime: before the first value, the map of the entry holds. */
	if (pc == f->entry || !pcdata_value(f->tab, f, PCDATA_STACK_MAP_INDEX, pc - 1, &index) ||
	    index == -1)
		index = 0;
	ret->has_locals = bitmap_of(f, FUNCDATA_LOCALS, index, &ret->locals);
	ret->has_args = bitmap_of(f, FUNCDATA_ARGS, index, &ret->args);
	if (!funcdata(f->tab, f, FUNCDATA_STACK_OBJECTS, &objects))
		return true;
	/* Go 1.17: a record ends with a pointer. */
	ret->object_stride = f->tab->format == PCLNTAB_GO116 ? 24 : 16;
	if (!load_u64(objects, 0, &count) || count > (objects.size - 8) / ret->object_stride)
		return false;
	ret->object_count = count;
	ret->objects = objects.data + 8;
	return true;
}

struct stack_object stack_map_object(const struct stack_map *map, size_t i)
{
	int32_t words[3];

	memcpy(words, map->objects + i * map->object_stride, sizeof(words));
	return (struct stack_object){
		.offset = words[0],
		/* Negative: its pointers are given by a program. */
		.pointer_bytes = words[2] < 0 ? -(uint32_t)words[2] : (uint32_t)words[2],
	};
}

bool pclntab_arguments(const struct go_func *f, uint64_t pc, struct argument_info *ret)
{
	int32_t index;

	*ret = (struct argument_info){.live_index = -1};
	if (!funcdata(f->tab, f, FUNCDATA_ARGUMENTS, &ret->format))
		return false;
	/* Go 1.17 has no such tables. */
	if (f->tab->format != PCLNTAB_GO116 &&
	    funcdata(f->tab, f, FUNCDATA_ARGUMENTS_LIVE, &ret->live) &&
	    pcdata_value(f->tab, f, PCDATA_ARGUMENTS_LIVE_INDEX, pc, &index))
		ret->live_index = index;
	return true;
}

/* A program without inlined calls has no inline tree, but maps of its stacks. */
uint64_t pclntab_any_funcdata(const struct pclntab *tab)
{
	static const uint32_t which[] = {FUNCDATA_INLINE_TREE, FUNCDATA_LOCALS};
	struct go_func f;
	uint64_t address;

	for (size_t k = 0; k < sizeof(which) / sizeof(*which); k++)
		for (size_t i = 0; i < tab->count; i++)
			if (pclntab_function(tab, i, &f) &&
			    funcdata_word(tab, &f, which[k], &address))
				return address;
	return 0;
}

size_t pclntab_inlined_count(const struct go_func *f)
{
	const struct pclntab *tab = f->tab;
	struct cursor c = cursor_of(tab->pctab.data, tab->pctab.size, "pctab");
	uint64_t at = (uint64_t)f->offset + func_layouts[tab->format].size +
		      4 * (uint64_t)PCDATA_INLINE_INDEX;
	uint32_t table, value = -1, delta;
	int32_t most = -1;

	if (PCDATA_INLINE_INDEX >= f->npcdata || !load_u32(tab->funcs, at, &table) || !table)
		return 0;
	cursor_seek(&c, table);
	for (uint32_t i = 0;; i++) {
		delta = read_varint(&c);
		if (c.failed || (!delta && i) || i == MAX_VALUES)
			return most + 1;
		value += delta & 1 ? ~(delta >> 1) : delta >> 1;
		read_varint(&c);
		most = (int32_t)value > most ? (int32_t)value : most;
	}
}

const char *pclntab_inlined(const struct go_func *f, size_t i)
{
	const struct pclntab *tab = f->tab;
	const struct inline_layout *lay = &inline_layouts[tab->format];
	struct bytes tree;
	uint32_t name;

	if (!funcdata(tab, f, FUNCDATA_INLINE_TREE, &tree) ||
	    !load_u32(tree, (uint64_t)i * lay->size + lay->name, &name))
		return NULL;
	return load_string(tab->names, name);
}

static void file_line(const struct pclntab *tab, const struct go_func *f, uint64_t pc,
		      struct go_frame *ret)
{
	const char *name = NULL;
	int32_t index, line;
	uint32_t offset;

	if (pc_value(f, f->pcfile, pc, &index) && index >= 0 &&
	    load_u32(tab->cutab, 4 * ((uint64_t)f->cu_offset + index), &offset) &&
	    offset != UINT32_MAX)
		name = load_string(tab->files, offset);
	ret->file = name ? name : "?";
	ret->line = pc_value(f, f->pcln, pc, &line) && line > 0 ? line : 0;
}

/* "main.Map[go.shape.int,string]" is printed as "main.Map[...]": runtime/symtab.go,
 * funcNameForPrint. Before Go 1.21 the linker had done so already. */
static const char *printed_name(const struct pclntab *tab, const char *name)
{
	const char *open = strchr(name, '['), *close = open ? strrchr(open, ']') : NULL;
	char text[1024];
	uint32_t id;
	int n;

	if (!close || !tab->short_names || !strncmp(open, "[...]", 5))
		return name;
	n = snprintf(text, sizeof(text), "%.*s[...]%s", (int)(open - name), name, close + 1);
	if (n < 0 || (size_t)n >= sizeof(text))
		return name;
	id = intern_string(tab->short_names, text);
	return id == INTERN_FAILED ? name : intern_get(tab->short_names, id);
}

static size_t pseudo_frame(uint64_t pc, struct go_frame *ret)
{
	static const char *const names[] = {
		[STACK_PC_RUNNING] = "[running]",
		[STACK_PC_TRUNCATED] = "[truncated]",
		[STACK_PC_UNKNOWN] = "[unknown]",
		[STACK_PC_OUTSIDE] = "[outside Go]",
		[STACK_PC_GC] = "[GC]",
		[STACK_PC_SCHEDULER] = "[scheduler]",
		[STACK_PC_IDLE] = "[idle]",
		[STACK_PC_RUNTIME] = "[runtime]",
		[STACK_PC_OTHER] = "[other stacks]",
		[STACK_PC_KERNEL] = "[kernel]",
		[STACK_PC_NO_CALLER] = "[caller unknown]",
	};

	if (pc >= sizeof(names) / sizeof(names[0]) || !names[pc])
		return 0;
	*ret = (struct go_frame){.function = names[pc], .file = ""};
	return 1;
}

/* Go 1.20 on: _func and inlinedCall say where the function begins. */
static int start_line(const struct pclntab *tab, struct bytes b, uint64_t at)
{
	int32_t line;

	return tab->format == PCLNTAB_GO120 && load_u32(b, at, (uint32_t *)&line) && line > 0 ? line
											      : 0;
}

/* One step of the inline tree: fills in the inlined function's name, and moves *pc to its call. */
static bool inlined_call(const struct pclntab *tab, const struct go_func *f, struct bytes tree,
			 uint64_t *pc, struct go_frame *ret)
{
	const struct inline_layout *lay = &inline_layouts[tab->format];
	uint32_t name, parent_pc;
	int32_t index;
	uint64_t at;

	if (!pcdata_value(tab, f, PCDATA_INLINE_INDEX, *pc, &index) || index < 0)
		return false;
	at = (uint64_t)index * lay->size;
	if (at >= tree.size || !load_u32(tree, at + lay->name, &name) ||
	    !load_u32(tree, at + lay->parent_pc, &parent_pc))
		return false;
	ret->function = load_string(tab->names, name);
	ret->wrapper = tree.data[at + lay->func_id] == tab->wrapper_id;
	ret->start_line = start_line(tab, tree, at + lay->parent_pc + 4);
	ret->inlined = true;
	*pc = f->entry + parent_pc;
	return ret->function && *pc < f->end;
}

uint64_t pclntab_inlined_at(const struct pclntab *first, uint64_t stack_pc)
{
	uint64_t pc = stack_pc_lookup(stack_pc), at = pc;
	struct go_frame frame = {0};
	struct bytes tree;
	struct go_func f;

	if (stack_pc_is_pseudo(stack_pc) || !pclntab_find(first, pc, &f) ||
	    !funcdata(f.tab, &f, FUNCDATA_INLINE_TREE, &tree))
		return 0;
	return inlined_call(f.tab, &f, tree, &at, &frame) && at != pc ? at : 0;
}

size_t pclntab_frames(const struct pclntab *first, uint64_t stack_pc, struct go_frame *ret,
		      size_t max)
{
	const struct pclntab *tab;
	uint64_t pc = stack_pc_lookup(stack_pc);
	struct bytes tree;
	struct go_func f;
	size_t n = 0;

	if (!max)
		return 0;
	if (stack_pc_is_pseudo(stack_pc))
		return pseudo_frame(stack_pc, ret);
	if (!pclntab_find(first, pc, &f))
		return 0;
	tab = f.tab;
	if (funcdata(tab, &f, FUNCDATA_INLINE_TREE, &tree)) {
		while (n + 1 < max) {
			struct go_frame *frame = &ret[n];
			uint64_t at = pc;

			*frame = (struct go_frame){.entry = f.entry};
			if (!inlined_call(tab, &f, tree, &pc, frame))
				break;
			file_line(tab, &f, at, frame);
			frame->function = printed_name(tab, frame->function);
			n++;
		}
	}
	ret[n] = (struct go_frame){
		.function = printed_name(tab, f.name),
		.wrapper = f.func_id == tab->wrapper_id,
		.entry = f.entry,
		.start_line = start_line(tab, tab->funcs, (uint64_t)f.offset + 36),
	};
	file_line(tab, &f, pc, &ret[n]);
	return n + 1;
}

bool go_frame_hidden(const struct go_frame *frame, const struct go_frame *callee)
{
	if (!frame->wrapper)
		return false;
	/* A frame "[running]" is followed by the start function alone. */
	if (callee && callee->function[0] == '[')
		return false;
	return !callee || (strcmp(callee->function, "runtime.gopanic") &&
			   strcmp(callee->function, "runtime.sigpanic") &&
			   strcmp(callee->function, "runtime.panicwrap"));
}
