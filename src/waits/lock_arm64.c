/*
 * Locks in the code of arm64. The compiler makes each atomic change twice, and the program chooses:
 * by one instruction (LSE) or by a loop of LDAXR and STLXR. Either is found.
 */
#include <string.h>

#include "image/arm64.h"
#include "waits/lock_machine.h"

/* Between LDAXR and its STLXR. */
#define EXCLUSIVE_INSNS 8
/* From here on arguments are in registers: Go 1.18. */
#define FIRST_WITH_REGISTERS 18

static bool is(uint32_t insn, uint32_t mask, uint32_t value)
{
	return (insn & mask) == value;
}

static uint32_t field(uint32_t insn, int first)
{
	return insn >> first & 31;
}

static int64_t signed_field(uint32_t insn, int first, int count)
{
	return (int64_t)((uint64_t)insn << (64 - first - count)) >> (64 - count);
}

static uint32_t insn_at(const struct lock_reading *r, size_t i)
{
	uint32_t insn;

	memcpy(&insn, lock_bytes(r, i), sizeof(insn));
	return insn;
}

/* LDAXR or LDXR, of 32 or 64 bits. */
static bool is_exclusive_load(uint32_t insn)
{
	return is(insn, 0xbfff7c00, 0x885f7c00);
}

static bool is_exclusive_store(uint32_t insn)
{
	return is(insn, 0xbfe07c00, 0x88007c00);
}

/* ---- where an operand comes from ---- */

/* The offset from the CFA of a place on the stack, from its offset from SP. */
static bool from_cfa(const struct lock_reading *r, size_t i, int64_t displacement,
		     struct lock_operand *o)
{
	int32_t delta = pclntab_sp_delta(r->f, lock_address(r, i));

	o->base = LOCK_SLOT;
	o->at = displacement - delta;
	return delta >= 0;
}

/* A load or store of 64 bits, or of two times 64, at a register and a constant: at which
 * displacement this register is loaded or stored. */
static bool moves(uint32_t insn, bool load, uint32_t reg, uint32_t *ret_base, int64_t *ret)
{
	bool is_pair = is(insn, 0xffc00000, load ? 0xa9400000 : 0xa9000000);

	if (!is_pair && !is(insn, 0xffc00000, load ? 0xf9400000 : 0xf9000000) &&
	    !is(insn, 0xffe00c00, load ? 0xf8400000 : 0xf8000000))
		return false;
	if (!arm64_memory(insn, ret_base, ret))
		return false;
	if (field(insn, 0) == reg)
		return true;
	*ret += 8;
	return is_pair && field(insn, 10) == reg;
}

static bool is_stored(const struct lock_reading *r, size_t i, uint32_t reg, struct lock_operand *o)
{
	int64_t displacement;
	uint32_t base;

	return moves(insn_at(r, i), false, reg, &base, &displacement) && base == ARM64_SP &&
	       from_cfa(r, i, displacement, o);
}

enum step { STEP_ON, STEP_FOUND, STEP_LOST };

static enum step step_to_load(const struct lock_reading *r, size_t i, uint32_t *reg,
			      struct lock_operand *o)
{
	int64_t displacement;
	uint32_t base;

	if (!moves(insn_at(r, i), true, *reg, &base, &displacement))
		return STEP_LOST;
	if (base == ARM64_SP)
		return from_cfa(r, i, displacement, o) ? STEP_FOUND : STEP_LOST;
	if (o->dereferenced)
		return STEP_LOST;
	o->dereferenced = true;
	o->behind = o->plus;
	o->plus = displacement;
	*reg = base;
	return STEP_ON;
}

/* The instruction that computes the register: continues with its operands. */
static enum step step_back(const struct lock_reading *r, size_t i, uint32_t *reg,
			   struct lock_operand *o)
{
	uint32_t insn = insn_at(r, i), base;
	uint64_t constant;

	if (arm64_add(insn, &base, &constant) || arm64_sub(insn, &base, &constant)) {
		o->plus +=
			arm64_add(insn, &base, &constant) ? (int64_t)constant : -(int64_t)constant;
		*reg = base;
		return base == ARM64_SP ? STEP_LOST : STEP_ON;
	}
	if (is(insn, 0xffe0ffe0, 0xaa0003e0)) { /* mov */
		*reg = field(insn, 16);
		return *reg == 31 ? STEP_LOST : STEP_ON;
	}
	if (arm64_adrp(insn, lock_address(r, i), &base, &constant) ||
	    arm64_adr(insn, lock_address(r, i), &constant)) {
		o->base = LOCK_GLOBAL;
		o->at = (int64_t)constant;
		return STEP_FOUND;
	}
	return step_to_load(r, i, reg, o);
}

/*
 * The instruction that follows i on every way from the atomic change k, whose two forms meet behind
 * it, and whose loop has branches of its own. SIZE_MAX: none, or it may not be reached.
 */
static size_t after(const struct lock_reading *r, size_t i, size_t k)
{
	const struct lock_insn *insn = &r->code->insns[i];
	bool forward = lock_has_target(insn) && insn->target > i;
	bool in_loop = insn->target == k || (i + 1 < r->code->count && i < k + EXCLUSIVE_INSNS &&
					     is_exclusive_store(insn_at(r, i + 1)));

	if (i > k && arm64_is_call(insn_at(r, i)))
		return SIZE_MAX;
	if (insn->ends)
		return forward ? insn->target : SIZE_MAX;
	return lock_has_target(insn) && !in_loop ? SIZE_MAX : i + 1;
}

/* A store of the register after instruction k, before the register changes. */
static struct lock_operand stored_later(const struct lock_reading *r, size_t k, uint32_t reg)
{
	struct lock_operand o = {0};
	size_t i = after(r, k, k);

	for (unsigned int n = 0; i < r->code->count && n < LOCK_AHEAD; n++) {
		if (is_stored(r, i, reg, &o))
			return o;
		if (arm64_written(insn_at(r, i)) >> reg & 1)
			break;
		i = after(r, i, k);
	}
	return (struct lock_operand){0};
}

/*
 * Whether the register has the same value behind the instructions from `first` up to `end` as
 * before them: they do not write it, or they call a function, for which it was kept in a slot.
 */
static bool keeps(const struct lock_reading *r, size_t first, size_t end, uint32_t reg)
{
	struct lock_operand slot = {0}, from;
	bool same = true;

	for (size_t i = first; i < end; i++) {
		uint32_t insn = insn_at(r, i), base;
		int64_t displacement;

		if (same && is_stored(r, i, reg, &from))
			slot = from;
		if (arm64_is_call(insn))
			same = false;
		if (!(arm64_written(insn) >> reg & 1))
			continue;
		same = slot.base == LOCK_SLOT && moves(insn, true, reg, &base, &displacement) &&
		       base == ARM64_SP && from_cfa(r, i, displacement, &from) &&
		       from.at == slot.at;
		if (!same)
			return false;
	}
	return same;
}

/*
 * The instruction before i, as far as the register is concerned. Where a branch comes to i as well,
 * it is the branch, if the register is the same on either way. SIZE_MAX: none, or not known.
 */
static size_t before(const struct lock_reading *r, size_t i, uint32_t reg)
{
	const struct lock_insn *insn = &r->code->insns[i];
	bool falls = i && !insn[-1].ends;

	if (insn->from == LOCK_NO_TARGET)
		return falls ? i - 1 : SIZE_MAX;
	if (insn->is_join || (falls && !keeps(r, insn->from + 1, i, reg)))
		return SIZE_MAX;
	return insn->from;
}

/* Where the value of the register at instruction k comes from. */
static struct lock_operand find_operand(const struct lock_reading *r, size_t k, uint32_t reg)
{
	struct lock_operand o = {0};
	uint32_t first = reg;
	enum step step = STEP_ON;
	size_t i = before(r, k, reg);

	for (unsigned int n = 0; step == STEP_ON && i != SIZE_MAX && n < LOCK_BACK; n++) {
		uint32_t insn = insn_at(r, i);

		if (arm64_is_call(insn))
			break;
		if (is_stored(r, i, reg, &o))
			return o;
		if (arm64_written(insn) >> reg & 1)
			step = step_back(r, i, &reg, &o);
		i = before(r, i, reg);
	}
	return step == STEP_FOUND ? o : stored_later(r, k, first);
}

/* Up to Go 1.17 the first argument is on the stack: the register that was stored there. */
static struct lock_operand argument_on_stack(const struct lock_reading *r, size_t call)
{
	for (size_t i = call; i-- > 0 && call - i <= LOCK_BACK;) {
		uint32_t insn = insn_at(r, i), base;
		int64_t displacement;

		if (r->code->insns[i].ends || arm64_is_call(insn))
			break;
		for (uint32_t reg = 0; reg < 31; reg++)
			if (moves(insn, false, reg, &base, &displacement) && base == ARM64_SP &&
			    displacement == 8)
				return find_operand(r, i, reg);
	}
	return (struct lock_operand){0};
}

static struct lock_operand argument(const struct lock_reading *r, size_t i)
{
	return r->minor < FIRST_WITH_REGISTERS ? argument_on_stack(r, i) : find_operand(r, i, 0);
}

/* ---- atomic changes ---- */

/* What is stored is what was loaded plus something, or it was compared. */
static enum lock_change change_of_loop(const struct lock_reading *r, size_t load)
{
	for (size_t i = load + 1; i < r->code->count && i <= load + EXCLUSIVE_INSNS; i++) {
		uint32_t insn = insn_at(r, i);

		if (is_exclusive_store(insn))
			return LOCK_NO_CHANGE;
		if (is(insn, 0x7f20001f, 0x6b00001f)) /* cmp */
			return LOCK_COMPARES_AND_SWAPS;
		if (is(insn, 0x7f200000, 0x0b000000)) /* add */
			return LOCK_ADDS;
	}
	return LOCK_NO_CHANGE;
}

static enum lock_change change(const struct lock_reading *r, size_t i)
{
	uint32_t insn = insn_at(r, i);

	if (is_exclusive_load(insn))
		return change_of_loop(r, i);
	if (is(insn, 0xbfa07c00, 0x88a07c00)) /* cas */
		return LOCK_COMPARES_AND_SWAPS;
	return is(insn, 0xbf20fc00, 0xb8200000) ? LOCK_ADDS : LOCK_NO_CHANGE; /* ldadd */
}

static struct lock_operand changed(const struct lock_reading *r, size_t i)
{
	return find_operand(r, i, field(insn_at(r, i), 5));
}

/* ---- the flow ---- */

/* false: its distance is not a constant. */
static bool branch(uint32_t insn, int64_t *ret)
{
	if (is(insn, 0x7c000000, 0x14000000)) /* b, bl */
		*ret = 4 * signed_field(insn, 0, 26);
	else if (is(insn, 0xff000010, 0x54000000) || is(insn, 0x7e000000, 0x34000000))
		*ret = 4 * signed_field(insn, 5, 19); /* b.cond, cbz, cbnz */
	else if (is(insn, 0x7e000000, 0x36000000))
		*ret = 4 * signed_field(insn, 5, 14); /* tbz, tbnz */
	else
		return false;
	return true;
}

/* What is no instruction is data, to which nothing leads. */
static bool flow(const uint8_t *code, size_t size, struct lock_flow *ret)
{
	uint32_t insn;
	bool direct;

	if (size < sizeof(insn))
		return false;
	memcpy(&insn, code, sizeof(insn));
	*ret = (struct lock_flow){.length = sizeof(insn)};
	direct = branch(insn, &ret->distance);
	ret->calls = direct && arm64_is_call(insn);
	ret->branches = direct && !ret->calls;
	ret->ends = arm64_is_jump(insn) || !arm64_is_instruction(insn);
	ret->is_computed = is(insn, 0xfffffc1f, 0xd61f0000); /* br */
	return true;
}

const struct lock_machine lock_arm64 = {flow, change, changed, argument};
