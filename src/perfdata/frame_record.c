#include "perfdata/frame_record.h"

#include <capstone/capstone.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

/* A function longer than this is not decoded. */
#define MAX_SIZE (1u << 20)

struct scan {
	csh handle;
	cs_insn *insn;
	enum machine machine;
	struct record_place place;
	bool has_record; /* the function makes one */
	bool jumped;     /* the instruction goes elsewhere for good */
};

static void scan_release(struct scan *s)
{
	if (s->insn)
		cs_free(s->insn, 1);
	if (s->handle)
		cs_close(&s->handle);
}

static bool scan_init(struct scan *s, enum machine machine)
{
	bool amd64 = machine == MACHINE_AMD64;

	s->machine = machine;
	if (cs_open(amd64 ? CS_ARCH_X86 : CS_ARCH_ARM64, amd64 ? CS_MODE_64 : CS_MODE_ARM,
		    &s->handle) != CS_ERR_OK)
		return false;
	cs_option(s->handle, CS_OPT_DETAIL, CS_OPT_ON);
	s->insn = cs_malloc(s->handle);
	return s->insn;
}

static bool is_memory_at_sp(const cs_x86_op *op)
{
	return op->type == X86_OP_MEM && op->mem.base == X86_REG_RSP;
}

/* The value that comes into RBP. */
static enum record_owner owner_amd64(const struct scan *s, const cs_x86 *x)
{
	const cs_x86_op *from = &x->operands[1];

	if (s->insn->id == X86_INS_POP)
		return RECORD_CALLERS;
	if (x->op_count < 2)
		return RECORD_UNKNOWN;
	if (s->insn->id == X86_INS_LEA && is_memory_at_sp(from))
		return from->mem.disp < 0 ? RECORD_AHEAD : RECORD_OWN;
	if (s->insn->id != X86_INS_MOV)
		return RECORD_UNKNOWN;
	if (from->type == X86_OP_MEM && from->mem.base == X86_REG_RBP &&
	    s->place.owner == RECORD_AHEAD)
		return RECORD_OWN;
	if (from->type == X86_OP_REG && from->reg == X86_REG_RSP)
		return RECORD_OWN;
	return is_memory_at_sp(from) ? RECORD_CALLERS : RECORD_UNKNOWN;
}

static bool is_rbp(unsigned int reg)
{
	return reg == X86_REG_RBP || reg == X86_REG_EBP;
}

static void visit_amd64(struct scan *s)
{
	const cs_x86 *x = &s->insn->detail->x86;

	s->jumped = s->insn->id == X86_INS_RET || s->insn->id == X86_INS_JMP ||
		    s->insn->id == X86_INS_UD2;
	if (!x->op_count || x->operands[0].type != X86_OP_REG || !is_rbp(x->operands[0].reg) ||
	    !(x->operands[0].access & CS_AC_WRITE))
		return;
	s->place.owner = owner_amd64(s, x);
}

static bool writes(const cs_arm64 *a, unsigned int reg)
{
	for (int i = 0; i < a->op_count; i++)
		if (a->operands[i].type == ARM64_OP_REG && a->operands[i].reg == reg &&
		    a->operands[i].access & CS_AC_WRITE)
			return true;
	return false;
}

static bool is_load_from_sp(const struct scan *s, const cs_arm64 *a)
{
	unsigned int id = s->insn->id;

	return (id == ARM64_INS_LDP || id == ARM64_INS_LDR || id == ARM64_INS_LDUR) &&
	       a->operands[a->op_count - 1].type == ARM64_OP_MEM &&
	       a->operands[a->op_count - 1].mem.base == ARM64_REG_SP;
}

/* SUB $8, RSP, R29: whose record that is depends on whether SP was given back already. With $24
 * it is that of a call to come. */
static bool is_set_from_sp(const struct scan *s, const cs_arm64 *a)
{
	return s->insn->id == ARM64_INS_SUB && a->op_count == 3 &&
	       a->operands[1].type == ARM64_OP_REG && a->operands[1].reg == ARM64_REG_SP;
}

static void visit_arm64(struct scan *s, int32_t next_delta)
{
	const cs_arm64 *a = &s->insn->detail->arm64;
	unsigned int id = s->insn->id;

	s->jumped = id == ARM64_INS_RET || id == ARM64_INS_BR || id == ARM64_INS_BRK ||
		    (id == ARM64_INS_B && a->cc == ARM64_CC_INVALID);
	if (id == ARM64_INS_BL || id == ARM64_INS_BLR)
		s->place.lr_is_caller = false;
	if (!a->op_count)
		return;
	if (writes(a, ARM64_REG_X30))
		s->place.lr_is_caller = is_load_from_sp(s, a);
	if (!writes(a, ARM64_REG_X29))
		return;
	if (is_set_from_sp(s, a) && a->operands[2].imm > 8)
		s->place.owner = RECORD_AHEAD;
	else if (is_set_from_sp(s, a))
		s->place.owner = next_delta > 0 ? RECORD_OWN : RECORD_CALLERS;
	else
		s->place.owner = is_load_from_sp(s, a) ? RECORD_CALLERS : RECORD_UNKNOWN;
}

/* Behind a jump the code is that of another way through the function. */
static struct record_place place_behind_jump(const struct scan *s, int32_t delta)
{
	bool has_frame = delta > 0 && s->has_record;

	return (struct record_place){
		.owner = has_frame ? RECORD_OWN : RECORD_CALLERS,
		.lr_is_caller = delta <= 0,
	};
}

static bool add_change(struct frame_records *r, uint64_t address, struct record_place place)
{
	if (!array_reserve(&r->changes, &r->capacity, r->count + 1))
		return false;
	r->changes[r->count++] = (struct record_change){address, place};
	return true;
}

static bool same_place(struct record_place a, struct record_place b)
{
	return a.owner == b.owner && a.lr_is_caller == b.lr_is_caller;
}

/* False when there is no memory. */
static bool scan_function(struct scan *s, const struct image *img, const struct go_func *f,
			  struct frame_records *r)
{
	const uint8_t *code = image_bytes(img, f->entry, f->end - f->entry);
	size_t left = code ? f->end - f->entry : 0;
	uint64_t at = f->entry;

	if (left && !add_change(r, at, s->place))
		return false;
	while (left && cs_disasm_iter(s->handle, &code, &left, &at, s->insn)) {
		int32_t delta = pclntab_sp_delta(f, at);
		struct record_place before = s->place;

		if (s->machine == MACHINE_AMD64)
			visit_amd64(s);
		else
			visit_arm64(s, delta);
		s->has_record |= s->place.owner == RECORD_OWN;
		if (s->jumped)
			s->place = place_behind_jump(s, delta);
		if (!same_place(before, s->place) && !add_change(r, at, s->place))
			return false;
	}
	return true;
}

/* Their callers make a record for them. (Where they are called by assembly there is none: that is
 * nowhere but in the runtime's own tests.) */
static bool is_duff(const char *name)
{
	return !strcmp(name, "runtime.duffcopy") || !strcmp(name, "runtime.duffzero");
}

/* Adds the changes of a function; behind what was decoded nothing is known. */
static bool add_function(struct frame_records *r, const struct image *img, const struct go_func *f)
{
	static const struct record_place own = {.owner = RECORD_OWN},
					 unknown = {.owner = RECORD_UNKNOWN};
	_cleanup_(scan_release) struct scan s = {
		.place = {.owner = RECORD_CALLERS, .lr_is_caller = true},
	};
	bool done = true;

	if (f->flags & FUNC_TOPFRAME || is_duff(f->name))
		done = add_change(r, f->entry, own);
	else if (f->end - f->entry > MAX_SIZE || !scan_init(&s, img->machine))
		done = add_change(r, f->entry, unknown);
	else
		done = scan_function(&s, img, f, r);
	return done && add_change(r, f->end, unknown);
}

struct error *frame_records_at(struct frame_records *r, const struct image *img, uint16_t number,
			       uint64_t pc, struct record_place *ret)
{
	struct go_func f;
	uint64_t *first;
	size_t i;

	*ret = (struct record_place){.owner = RECORD_UNKNOWN};
	if (!pclntab_find(&img->functions, pc, &f))
		return NULL;
	first = map_at(&r->functions, (uint64_t)number << 48 | f.entry);
	if (!first)
		return &error_no_memory;
	if (!*first) {
		*first = r->count + 1;
		if (!add_function(r, img, &f))
			return &error_no_memory;
	}
	for (i = *first - 1; r->changes[i].address <= pc && pc < f.end; i++)
		*ret = r->changes[i].place;
	return NULL;
}

void frame_records_release(struct frame_records *r)
{
	map_release(&r->functions);
	free(r->changes);
	*r = (struct frame_records){0};
}
