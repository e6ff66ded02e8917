/* Locks in the code of amd64: LOCK CMPXCHG takes one, LOCK XADD frees one. */
#include <string.h>

#include "image/amd64.h"
#include "waits/lock_machine.h"

static bool has_index(const uint8_t *code, const struct amd64_insn *insn)
{
	size_t at = 0;

	while (at < insn->length && code[at] != insn->opcode)
		at++;
	if (at + 2 >= insn->length || (code[at + 1] & 7) != 4)
		return false;
	return (code[at + 2] >> 3 & 7) != 4 || insn->rex & 2;
}

static bool decode_at(const struct lock_reading *r, size_t i, struct amd64_insn *ret)
{
	const struct lock_insn *insn = &r->code->insns[i];

	return amd64_decode(r->bytes + insn->offset, insn->length, ret);
}

/* The offset from the CFA of a place on the stack, from its offset from RSP. */
static bool from_cfa(const struct lock_reading *r, size_t i, int32_t displacement, int64_t *ret)
{
	int32_t delta = pclntab_sp_delta(r->f, r->f->entry + r->code->insns[i].offset);

	*ret = (int64_t)displacement - delta - 8;
	return delta >= 0;
}

/* A store of this register to the stack. */
static bool is_store(const uint8_t *code, const struct amd64_insn *insn, unsigned int reg)
{
	return insn->map == AMD64_ONE_BYTE && insn->opcode == 0x89 && insn->is_memory &&
	       insn->is_wide && insn->base == MODRM_RSP && insn->reg == reg &&
	       !has_index(code, insn);
}

static bool is_slot(const struct lock_reading *r, size_t i, const struct amd64_insn *insn,
		    struct lock_operand *o)
{
	o->base = LOCK_SLOT;
	return from_cfa(r, i, insn->displacement, &o->at);
}

static uint64_t address_behind(const struct lock_reading *r, size_t i, int32_t displacement)
{
	const struct lock_insn *insn = &r->code->insns[i];

	return r->f->entry + insn->offset + insn->length + displacement;
}

/* ADD of a constant to this register. */
static bool is_add(const uint8_t *code, const struct amd64_insn *insn, unsigned int reg,
		   int64_t *ret)
{
	int32_t value;

	if (insn->map != AMD64_ONE_BYTE || insn->is_memory || !insn->is_wide || insn->reg & 7 ||
	    insn->rm != reg || (insn->opcode != 0x83 && insn->opcode != 0x81))
		return false;
	memcpy(&value, code + insn->length - sizeof(value), sizeof(value));
	*ret = insn->opcode == 0x83 ? (int8_t)code[insn->length - 1] : value;
	return true;
}

enum step { STEP_ON, STEP_FOUND, STEP_LOST };

/* The instruction that computes the register: continues with its operands. */
static enum step step_back(const struct lock_reading *r, size_t i, const struct amd64_insn *insn,
			   unsigned int *reg, struct lock_operand *o)
{
	const uint8_t *code = lock_bytes(r, i);
	int64_t constant;

	if (is_add(code, insn, *reg, &constant)) {
		o->plus += constant;
		return STEP_ON;
	}
	if (insn->map == AMD64_ONE_BYTE && !insn->is_memory && insn->is_wide &&
	    ((insn->opcode == 0x8b && insn->reg == *reg) ||
	     (insn->opcode == 0x89 && insn->rm == *reg))) {
		*reg = insn->opcode == 0x8b ? insn->rm : insn->reg;
		return STEP_ON;
	}
	if ((!amd64_is_lea(insn) && !amd64_is_load(insn)) || !insn->is_wide ||
	    has_index(code, insn) || insn->base == MODRM_NONE)
		return STEP_LOST;
	if (amd64_is_load(insn) && insn->base == MODRM_RSP)
		return is_slot(r, i, insn, o) ? STEP_FOUND : STEP_LOST;
	if (insn->base == MODRM_RSP)
		return STEP_LOST;
	if (amd64_is_load(insn)) {
		if (o->dereferenced)
			return STEP_LOST;
		o->dereferenced = true;
		o->behind = o->plus;
		o->plus = 0;
	}
	if (insn->base == MODRM_PC) {
		o->base = LOCK_GLOBAL;
		o->at = (int64_t)address_behind(r, i, insn->displacement);
		return STEP_FOUND;
	}
	o->plus += insn->displacement;
	*reg = insn->base;
	return STEP_ON;
}

/* A store of the register after instruction k, before the register changes. */
static struct lock_operand stored_later(const struct lock_reading *r, size_t k, unsigned int reg,
					int64_t plus)
{
	struct lock_operand o = {.plus = plus};
	struct amd64_insn insn;

	for (size_t i = k + 1; i < r->code->count && i <= k + LOCK_AHEAD; i++) {
		/* Behind a branch the store may not be reached, and the slot has an older value. */
		if (!decode_at(r, i, &insn) || r->code->insns[i].ends ||
		    lock_has_target(&r->code->insns[i]) || amd64_is_call(&insn))
			break;
		if (is_store(lock_bytes(r, i), &insn, reg) && is_slot(r, i, &insn, &o))
			return o;
		if (amd64_written(&insn) == (enum modrm_register)reg)
			break;
	}
	return (struct lock_operand){0};
}

/* Where the value of the register at instruction k comes from. */
static struct lock_operand find_operand(const struct lock_reading *r, size_t k, unsigned int reg,
					int64_t plus)
{
	struct lock_operand o = {.plus = plus};
	unsigned int first = reg;
	enum step step = STEP_ON;

	for (size_t i = k; step == STEP_ON && i-- > 0 && k - i <= LOCK_BACK;) {
		struct amd64_insn insn;

		if (!decode_at(r, i, &insn) || r->code->insns[i].ends || amd64_is_call(&insn) ||
		    (insn.map == AMD64_ONE_BYTE && insn.opcode == 0xff && (insn.reg & 7) == 2))
			break;
		if (is_store(lock_bytes(r, i), &insn, reg) && is_slot(r, i, &insn, &o))
			return o;
		if (amd64_written(&insn) == (enum modrm_register)reg)
			step = step_back(r, i, &insn, &reg, &o);
	}
	if (step == STEP_FOUND)
		return o;
	return stored_later(r, k, first, plus);
}

static bool has_lock_prefix(const uint8_t *code, size_t length)
{
	return length > 3 && (code[0] == 0xf0 || (code[0] == 0x66 && code[1] == 0xf0));
}

static enum lock_change change(const struct lock_reading *r, size_t i)
{
	struct amd64_insn insn;

	if (!decode_at(r, i, &insn) || insn.map != AMD64_0F || !insn.is_memory ||
	    insn.base == MODRM_NONE || insn.base == MODRM_RSP ||
	    !has_lock_prefix(lock_bytes(r, i), insn.length))
		return LOCK_NO_CHANGE;
	if (insn.opcode == 0xb1)
		return LOCK_COMPARES_AND_SWAPS;
	return insn.opcode == 0xc1 ? LOCK_ADDS : LOCK_NO_CHANGE;
}

static struct lock_operand changed(const struct lock_reading *r, size_t i)
{
	struct amd64_insn insn;

	if (!decode_at(r, i, &insn))
		return (struct lock_operand){0};
	if (insn.base == MODRM_PC)
		return (struct lock_operand){.base = LOCK_GLOBAL,
					     .at = (int64_t)address_behind(r, i,
									   insn.displacement)};
	return find_operand(r, i, insn.base, insn.displacement);
}

/* In RAX. */
static struct lock_operand argument(const struct lock_reading *r, size_t i)
{
	return find_operand(r, i, 0, 0);
}

static bool is_branch(const struct amd64_insn *insn, const uint8_t *code, int32_t *ret)
{
	bool near = insn->map == AMD64_0F && !insn->is_vector && (insn->opcode & 0xf0) == 0x80;
	bool one = insn->map == AMD64_ONE_BYTE;

	if (near || (one && insn->opcode == 0xe9)) {
		*ret = insn->relative;
		return true;
	}
	if (one &&
	    ((insn->opcode & 0xf0) == 0x70 || insn->opcode == 0xeb || insn->opcode == 0xe3)) {
		*ret = (int8_t)code[insn->length - 1];
		return true;
	}
	return false;
}

static bool is_end(const struct amd64_insn *insn)
{
	return amd64_is_jump(insn) || (insn->map == AMD64_ONE_BYTE && insn->opcode == 0xcc);
}

/* A jump by a register or a table. */
static bool is_computed(const struct amd64_insn *insn)
{
	return insn->map == AMD64_ONE_BYTE && insn->opcode == 0xff && (insn->reg & 7) == 4;
}

static bool flow(const uint8_t *code, size_t size, struct lock_flow *ret)
{
	struct amd64_insn insn;
	int32_t distance = 0;

	if (!amd64_decode(code, size, &insn))
		return false;
	*ret = (struct lock_flow){.length = insn.length,
				  .calls = amd64_is_call(&insn),
				  .branches = is_branch(&insn, code, &distance),
				  .ends = is_end(&insn),
				  .is_computed = is_computed(&insn)};
	ret->distance = (int64_t)insn.length + (ret->calls ? insn.relative : distance);
	return true;
}

const struct lock_machine lock_amd64 = {flow, change, changed, argument};
