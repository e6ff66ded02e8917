/*
 * libdw reads the entries. This file decides which of them counts, and evaluates their locations.
 * Go's compilers describe places by the frame's CFA and by registers alone
 * (cmd/internal/dwarf/dwarf.go, cmd/compile/internal/ssa/debug.go).
 */
#include "image/dwarf_variables.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "image/debug_sections.h"
#include "image/go_types.h"

/* Limits for one address: nested blocks and inlined calls, and variables. */
#define MAX_DEPTH 64
#define MAX_VARIABLES 65536

/* A unit's code. */
struct unit_range {
	uint64_t start;
	uint64_t end;
	Dwarf_Off unit; /* of its entry */
};

/* The variables at one address. */
struct scope {
	struct variable *items;
	size_t count;
	size_t capacity;
};

struct variables {
	uint8_t *bytes;
	Elf *elf;
	Dwarf *dwarf;
	struct unit_range *ranges;
	size_t range_count;
	size_t range_capacity;
	struct go_types types;
	struct map by_pc; /* with bit 63 a return address -> place in scopes, + 1 */
	struct scope *scopes;
	size_t scope_count;
	size_t scope_capacity;
	size_t steps;
	size_t given_up;
};

/* All units of a program of 150 MB have 100,000; units that share a list have it each. */
#define MAX_RANGES (1u << 20)
/* The most units that may claim the same pc; a linker leaves fewer. */
#define MAX_CLAIMS 16
/* Entries and parts of lists that are looked at for one address, and for all. A unit of Go's own
 * runtime has some 20,000. A list may be shared by all entries, so that no file's size limits it.
 */
#define MAX_STEPS (1u << 20)
#define MAX_ALL_STEPS (1u << 25)

static bool add_ranges(struct variables *v, Dwarf_Die *unit)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;

	while ((at = dwarf_ranges(unit, at, &base, &start, &end)) > 0 &&
	       v->range_count < MAX_RANGES) {
		if (!array_reserve(&v->ranges, &v->range_capacity, v->range_count + 1))
			return false;
		v->ranges[v->range_count++] =
			(struct unit_range){start, end, dwarf_dieoffset(unit)};
	}
	return true;
}

/* The most abbreviations of all units. Units share one table, or each has its own. */
#define MAX_ABBREVIATION_BYTES (256u << 20)

static struct error *find_units(struct variables *v)
{
	struct debug_section abbrev = debug_section_find(v->elf, "abbrev");
	struct debug_section info = debug_section_find(v->elf, "info");
	struct debug_units units = {0};
	Dwarf_Off at = 0, next, table, last = UINT64_MAX;
	size_t header, looked_at = 0;

	if (!debug_units_are_few(&units, info.data, info.size, info.size))
		return error_format(ERROR_CORRUPT, "it has more DWARF units than its size allows");
	while (!dwarf_nextcu(v->dwarf, at, &next, &header, &table, NULL, NULL)) {
		Dwarf_Die unit;

		if (table != last)
			looked_at += abbreviations_drop_siblings((uint8_t *)abbrev.data,
								 abbrev.size, table);
		if (looked_at > MAX_ABBREVIATION_BYTES)
			return error_format(ERROR_CORRUPT, "its DWARF abbreviations are corrupt");
		last = table;
		if (dwarf_offdie(v->dwarf, at + header, &unit) && !add_ranges(v, &unit))
			return &error_no_memory;
		if (next <= at)
			break;
		at = next;
	}
	return NULL;
}

static struct error *open_dwarf(struct variables *v, Elf *original)
{
	static const char *const names[] = {"abbrev",   "info",       "str",      "line_str",
					    "addr",     "loc",        "loclists", "ranges",
					    "rnglists", "str_offsets"};
	struct error *err;
	size_t size;

	err = debug_sections_build(original, names, ARRAY_SIZE(names), &v->bytes, &size);
	if (err)
		return err;
	v->elf = elf_memory((char *)v->bytes, size);
	v->dwarf = v->elf ? dwarf_begin_elf(v->elf, DWARF_C_READ, NULL) : NULL;
	return v->dwarf ? NULL : error_format(ERROR_CORRUPT, "%s", dwarf_errmsg(-1));
}

struct error *variables_open(const struct elf_file *elf, struct variables **ret)
{
	_cleanup_variables_ struct variables *v = calloc(1, sizeof(*v));
	struct error *err = NULL;
	const uint8_t *whole;
	Elf *original;
	size_t size;
	bool has_dwarf;

	if (!v)
		return &error_no_memory;
	whole = elf_file_whole(elf, &size);
	elf_version(EV_CURRENT);
	original = elf_memory((char *)whole, size);
	if (!original)
		return error_format(ERROR_CORRUPT, "%s is a corrupt ELF file: %s",
				    elf_file_name(elf), elf_errmsg(-1));
	has_dwarf = debug_section_find(original, "info").data &&
		    debug_section_find(original, "abbrev").data;
	if (has_dwarf)
		err = open_dwarf(v, original);
	elf_end(original);
	if (!err && has_dwarf)
		err = find_units(v);
	if (err)
		return err->code == ERROR_CORRUPT
			       ? error_wrap(err, "the DWARF of %s is corrupt", elf_file_name(elf))
			       : err;
	*ret = has_dwarf ? take_ptr(v) : NULL;
	return NULL;
}

void variables_close(struct variables *v)
{
	if (!v)
		return;
	for (size_t i = 0; i < v->scope_count; i++)
		free(v->scopes[i].items);
	free(v->scopes);
	map_release(&v->by_pc);
	go_types_release(&v->types);
	free(v->ranges);
	if (v->dwarf)
		dwarf_end(v->dwarf);
	if (v->elf)
		elf_end(v->elf);
	free(v->bytes);
	free(v);
}

/* The variables of one address, while they are collected. */
struct search {
	struct variables *v;
	struct scope *scope;
	uint64_t address;    /* inside the instruction */
	uint64_t behind;     /* for a call: the address behind it; else 0 */
	size_t steps;        /* taken so far */
	bool has_cfa;        /* the function's frame base is its CFA */
	const char *inlined; /* the inlined call that we are in */
};

/* Counts one more step; false: too many. */
static bool go_on(struct search *s)
{
	if (s->steps >= MAX_STEPS || s->v->steps >= MAX_ALL_STEPS)
		return false;
	s->steps++;
	s->v->steps++;
	return true;
}

/* As dwarf_haspc(), but counts its steps. */
static bool has_pc(struct search *s, Dwarf_Die *die)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;

	while (go_on(s) && (at = dwarf_ranges(die, at, &base, &start, &end)) > 0)
		if (s->address >= start && s->address < end)
			return true;
	return false;
}

/* Where a part of a variable lies, while its expression is read. */
struct location {
	enum { NOWHERE, ON_STACK, IN_REGISTER } kind;
	uint64_t number;
	int64_t place;
};

/* Applies one operation; false when Go's compilers do not use it for variables. */
static bool read_operation(const struct search *s, const Dwarf_Op *op, struct location *l)
{
	if (op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31) {
		*l = (struct location){IN_REGISTER, op->atom - DW_OP_reg0, 0};
		return true;
	}
	switch (op->atom) {
	case DW_OP_regx:
		*l = (struct location){IN_REGISTER, op->number, 0};
		return true;
	case DW_OP_fbreg:
		*l = (struct location){ON_STACK, 0, (int64_t)op->number};
		return s->has_cfa;
	case DW_OP_call_frame_cfa:
		*l = (struct location){ON_STACK, 0, 0};
		return true;
	case DW_OP_plus_uconst:
	case DW_OP_consts: /* followed by DW_OP_plus */
		l->place = (int64_t)((uint64_t)l->place + op->number);
		return l->kind == ON_STACK;
	case DW_OP_plus:
		return l->kind == ON_STACK;
	default:
		return false;
	}
}

static bool add_part(struct search *s, const struct variable *variable, const struct location *l,
		     uint64_t from, uint64_t size)
{
	struct scope *scope = s->scope;

	if (l->kind == NOWHERE || !size || scope->count >= MAX_VARIABLES ||
	    (l->kind == IN_REGISTER && l->number > UINT8_MAX))
		return true;
	if (!array_reserve(&scope->items, &scope->capacity, scope->count + 1))
		return false;
	scope->items[scope->count] = *variable;
	scope->items[scope->count].in_register = l->kind == IN_REGISTER;
	scope->items[scope->count].number = l->number;
	scope->items[scope->count].place = l->place;
	scope->items[scope->count].from = from;
	scope->items[scope->count++].size = size;
	return true;
}

/* An expression, as libdw has decoded it. */
struct expression {
	Dwarf_Op *ops;
	size_t count;
};

/* A part for each piece of the expression; false when there is no memory. */
static bool add_parts(struct search *s, const struct variable *variable, struct expression e)
{
	struct location l = {0};
	uint64_t from = 0;

	for (size_t i = 0; i < e.count; i++) {
		const Dwarf_Op *op = &e.ops[i];

		if (op->atom != DW_OP_piece) {
			if (!read_operation(s, op, &l))
				return true;
			continue;
		}
		if (op->number > variable->type->size - from)
			return true;
		if (!add_part(s, variable, &l, from, op->number))
			return false;
		from += op->number;
		l = (struct location){0};
	}
	return from || add_part(s, variable, &l, 0, variable->type->size);
}

/* How many of `size` bytes are on the stack. */
static uint64_t bytes_on_stack(const struct search *s, struct expression e, uint64_t size)
{
	struct location l = {0};
	uint64_t bytes = 0;
	bool pieces = false;

	for (size_t i = 0; i < e.count; i++) {
		if (e.ops[i].atom != DW_OP_piece) {
			if (!read_operation(s, &e.ops[i], &l))
				return 0;
			continue;
		}
		pieces = true;
		bytes += l.kind == ON_STACK ? e.ops[i].number : 0;
		l = (struct location){0};
	}
	if (pieces)
		return bytes;
	return l.kind == ON_STACK ? size : 0;
}

/*
 * The expression that holds at the address; empty when there is none. Go's compilers write single
 * ones as blocks. From DWARF 4 on libdw does not accept blocks as expressions, so a short block is
 * read as DW_FORM_exprloc.
 */
static struct expression find_expression(struct search *s, Dwarf_Die *die, unsigned int name,
					 uint64_t address)
{
	struct expression e = {0};
	Dwarf_Addr base, start, end;
	Dwarf_Attribute attr;
	Dwarf_Block block;
	ptrdiff_t at = 0;

	if (!dwarf_attr(die, name, &attr))
		return e;
	if (dwarf_whatform(&attr) == DW_FORM_block1 && !dwarf_formblock(&attr, &block) &&
	    block.length < 128)
		attr.form = DW_FORM_exprloc;
	while (go_on(s) &&
	       (at = dwarf_getlocations(&attr, at, &base, &start, &end, &e.ops, &e.count)) > 0)
		if (address >= start && address < end)
			return e;
	return (struct expression){0};
}

/*
 * In Go's location lists a variable that outlives a call moves from its register to the stack at
 * the return address (cmd/compile/internal/ssa/debug.go): to where it was saved before. A place on
 * the stack that holds for the call itself counts too, because its range may end there.
 */
static struct expression find_place(struct search *s, Dwarf_Die *die, uint64_t size)
{
	struct expression here = find_expression(s, die, DW_AT_location, s->address), behind;

	if (!s->behind)
		return here;
	behind = find_expression(s, die, DW_AT_location, s->behind);
	return bytes_on_stack(s, behind, size) > bytes_on_stack(s, here, size) ? behind : here;
}

static bool add_variable(struct search *s, Dwarf_Die *die)
{
	const char *name = dwarf_diename(die);
	struct variable variable = {.name = name, .inlined = s->inlined};
	Dwarf_Attribute attr;
	Dwarf_Word line;

	if (!name || !dwarf_attr(die, DW_AT_location, &attr))
		return true;
	if (dwarf_attr_integrate(die, DW_AT_decl_line, &attr) && !dwarf_formudata(&attr, &line) &&
	    line <= INT32_MAX)
		variable.line = line;
	variable.is_argument = dwarf_tag(die) == DW_TAG_formal_parameter;
	variable.type = go_types_of(&s->v->types, die);
	return variable.type && add_parts(s, &variable, find_place(s, die, variable.type->size));
}

static bool add_scope(struct search *s, Dwarf_Die *parent, int depth);

static bool add_inlined(struct search *s, Dwarf_Die *call, int depth)
{
	const char *outer = s->inlined, *name = dwarf_diename(call);
	bool added;

	s->inlined = name ? name : "?";
	added = add_scope(s, call, depth + 1);
	s->inlined = outer;
	return added;
}

/* The variables of a function, a block or an inlined call; false when there is no memory. */
static bool add_scope(struct search *s, Dwarf_Die *parent, int depth)
{
	Dwarf_Die die;
	bool added = true;

	if (depth > MAX_DEPTH || dwarf_child(parent, &die))
		return true;
	do {
		switch (dwarf_tag(&die)) {
		case DW_TAG_formal_parameter:
		case DW_TAG_variable:
			added = add_variable(s, &die);
			break;
		case DW_TAG_lexical_block:
			if (has_pc(s, &die))
				added = add_scope(s, &die, depth + 1);
			break;
		case DW_TAG_inlined_subroutine:
			if (has_pc(s, &die))
				added = add_inlined(s, &die, depth);
			break;
		}
	} while (added && go_on(s) && !dwarf_siblingof(&die, &die));
	return added;
}

static bool has_cfa_as_base(struct search *s, Dwarf_Die *function)
{
	struct expression e = find_expression(s, function, DW_AT_frame_base, s->address);

	return e.count == 1 && e.ops[0].atom == DW_OP_call_frame_cfa;
}

/* Looks for the function among those of a unit. */
static bool search_unit(struct search *s, Dwarf_Die *unit)
{
	Dwarf_Die die;

	if (dwarf_child(unit, &die))
		return true;
	do {
		if (dwarf_tag(&die) != DW_TAG_subprogram || !has_pc(s, &die))
			continue;
		s->has_cfa = has_cfa_as_base(s, &die);
		return add_scope(s, &die, 0);
	} while (go_on(s) && !dwarf_siblingof(&die, &die));
	return true;
}

static bool collect(struct variables *v, uint64_t pc, bool is_return, struct scope *ret)
{
	uint64_t address = is_return ? pc - 1 : pc;
	struct search s = {.v = v, .scope = ret, .address = address, .behind = is_return ? pc : 0};
	size_t claims = 0;

	/* These checks are cheap, but an address may need all of them. */
	v->steps += v->range_count / 32;
	for (size_t i = 0;
	     i < v->range_count && !ret->count && claims < MAX_CLAIMS && v->steps < MAX_ALL_STEPS;
	     i++) {
		const struct unit_range *r = &v->ranges[i];
		Dwarf_Die unit;

		if (address < r->start || address >= r->end ||
		    !dwarf_offdie(v->dwarf, r->unit, &unit))
			continue;
		claims++;
		if (!search_unit(&s, &unit))
			return false;
	}
	v->given_up += s.steps >= MAX_STEPS || v->steps >= MAX_ALL_STEPS;
	return true;
}

size_t variables_given_up(const struct variables *v)
{
	return v->given_up;
}

const struct go_type *variables_pointee(struct variables *v, const struct go_type *pointer)
{
	return pointer->points_to ? go_types_at(&v->types, v->dwarf, pointer->points_to) : NULL;
}

struct error *variables_at(struct variables *v, uint64_t pc, bool is_return,
			   const struct variable **ret, size_t *ret_count)
{
	uint64_t *known = map_at(&v->by_pc, (pc & (INT64_MAX >> 1)) | (uint64_t)is_return << 63);

	if (!known || !array_reserve(&v->scopes, &v->scope_capacity, v->scope_count + 1))
		return &error_no_memory;
	if (!*known) {
		*known = ++v->scope_count;
		if (!collect(v, pc, is_return, &v->scopes[*known - 1]))
			return &error_no_memory;
	}
	*ret = v->scopes[*known - 1].items;
	*ret_count = v->scopes[*known - 1].count;
	return NULL;
}

/* ---- global variables ---- */

static bool fixed_address(Dwarf_Die *die, uint64_t *ret)
{
	Dwarf_Attribute attr, at;
	Dwarf_Addr address;
	Dwarf_Block block;
	Dwarf_Op *ops;
	size_t count;

	if (!dwarf_attr(die, DW_AT_location, &attr))
		return false;
	if (dwarf_whatform(&attr) == DW_FORM_block1 && !dwarf_formblock(&attr, &block) &&
	    block.length < 128)
		attr.form = DW_FORM_exprloc;
	if (dwarf_getlocation(&attr, &ops, &count) || count != 1)
		return false;
	if (ops[0].atom == DW_OP_addr) {
		*ret = ops[0].number;
		return true;
	}
	if (ops[0].atom != DW_OP_addrx || dwarf_getlocation_attr(&attr, &ops[0], &at) ||
	    dwarf_formaddr(&at, &address))
		return false;
	*ret = address;
	return true;
}

struct error *variables_globals(struct variables *v,
				bool (*found)(void *arg, const char *name, uint64_t address,
					      const struct go_type *type),
				void *arg)
{
	struct scope unused = {0};
	struct search s = {.v = v, .scope = &unused};
	Dwarf_Off at = 0, next;
	Dwarf_Die unit, die;
	size_t header;
	bool ok = true;

	for (; ok && !dwarf_nextcu(v->dwarf, at, &next, &header, NULL, NULL, NULL) && next > at;
	     at = next) {
		if (!dwarf_offdie(v->dwarf, at + header, &unit) || dwarf_child(&unit, &die))
			continue;
		s.steps = 0;
		do {
			const char *name = dwarf_diename(&die);
			const struct go_type *type;
			uint64_t address;

			if (dwarf_tag(&die) != DW_TAG_variable || !name ||
			    !fixed_address(&die, &address))
				continue;
			type = go_types_of(&v->types, &die);
			ok = type && found(arg, name, address, type);
		} while (ok && go_on(&s) && !dwarf_siblingof(&die, &die));
	}
	return ok ? NULL : &error_no_memory;
}
