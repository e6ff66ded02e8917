#include "image/cfi.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define MAX_DEPTH 16

/* The machine of DWARF expressions, as far as call frame information uses it: frames of C, the
 * procedure linkage table, and signal frames. */
struct evaluation {
	const struct registers *regs;
	const struct stack_reader *stack;
	uint64_t cfa;
	uint64_t values[MAX_DEPTH];
	size_t depth;
	bool is_value; /* the result is the value itself, not its address */
	bool in_register;
};

static bool push(struct evaluation *e, uint64_t value)
{
	if (e->depth >= MAX_DEPTH)
		return false;
	e->values[e->depth++] = value;
	return true;
}

static bool pop(struct evaluation *e, uint64_t *ret)
{
	if (!e->depth)
		return false;
	*ret = e->values[--e->depth];
	return true;
}

static bool push_register(struct evaluation *e, uint64_t number, uint64_t offset)
{
	uint64_t value;

	return registers_get(e->regs, number, &value) && push(e, value + offset);
}

static bool is_binary(uint8_t op)
{
	switch (op) {
	case DW_OP_plus:
	case DW_OP_minus:
	case DW_OP_and:
	case DW_OP_or:
	case DW_OP_mul:
	case DW_OP_shl:
	case DW_OP_ge:
		return true;
	}
	return false;
}

static uint64_t binary(uint8_t op, uint64_t a, uint64_t b)
{
	switch (op) {
	case DW_OP_plus:
		return a + b;
	case DW_OP_minus:
		return a - b;
	case DW_OP_and:
		return a & b;
	case DW_OP_or:
		return a | b;
	case DW_OP_mul:
		return a * b;
	case DW_OP_shl:
		return b < 64 ? a << b : 0;
	default: /* DW_OP_ge */
		return (int64_t)a >= (int64_t)b;
	}
}

static bool evaluate_constant(struct evaluation *e, const Dwarf_Op *op)
{
	if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31)
		return push(e, op->atom - DW_OP_lit0);
	switch (op->atom) {
	case DW_OP_const1u:
	case DW_OP_const1s:
	case DW_OP_const2u:
	case DW_OP_const2s:
	case DW_OP_const4u:
	case DW_OP_const4s:
	case DW_OP_const8u:
	case DW_OP_const8s:
	case DW_OP_constu:
	case DW_OP_consts:
		return push(e, op->number);
	}
	return false;
}

static bool evaluate_register(struct evaluation *e, const Dwarf_Op *op)
{
	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31)
		return push_register(e, op->atom - DW_OP_breg0, op->number);
	if (op->atom == DW_OP_bregx)
		return push_register(e, op->number, op->number2);
	e->in_register = true;
	if (op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31)
		return push_register(e, op->atom - DW_OP_reg0, 0);
	return op->atom == DW_OP_regx && push_register(e, op->number, 0);
}

static bool is_register(uint8_t op)
{
	return (op >= DW_OP_reg0 && op <= DW_OP_breg31) || op == DW_OP_regx || op == DW_OP_bregx;
}

static bool evaluate_one(struct evaluation *e, const Dwarf_Op *op)
{
	uint64_t a, b;

	if (is_register(op->atom))
		return evaluate_register(e, op);
	if (is_binary(op->atom))
		return pop(e, &b) && pop(e, &a) && push(e, binary(op->atom, a, b));
	switch (op->atom) {
	case DW_OP_call_frame_cfa:
		return push(e, e->cfa);
	case DW_OP_plus_uconst:
		return pop(e, &a) && push(e, a + op->number);
	case DW_OP_deref:
		return pop(e, &a) && e->stack->word(e->stack->arg, a, &b) && push(e, b);
	case DW_OP_dup:
		return pop(e, &a) && push(e, a) && push(e, a);
	case DW_OP_stack_value:
		e->is_value = true;
		return true;
	}
	return evaluate_constant(e, op);
}

/* Returns false also for operations that frames do not have: then the whole expression is rejected.
 */
static bool evaluate(struct evaluation *e, const Dwarf_Op *ops, size_t count, uint64_t *ret)
{
	for (size_t i = 0; i < count; i++)
		if (!evaluate_one(e, &ops[i]))
			return false;
	return pop(e, ret);
}

static bool find_cfa(Dwarf_Frame *frame, const struct registers *regs,
		     const struct stack_reader *stack, uint64_t *ret)
{
	struct evaluation e = {.regs = regs, .stack = stack};
	Dwarf_Op *ops;
	size_t count;

	return !dwarf_frame_cfa(frame, &ops, &count) && count && evaluate(&e, ops, count, ret);
}

enum rule { RULE_FOUND, RULE_UNDEFINED, RULE_FAILED };

/* The caller's rule for this register. */
static enum rule find_register(Dwarf_Frame *frame, int number, uint64_t cfa,
			       const struct registers *regs, const struct stack_reader *stack,
			       uint64_t *ret)
{
	struct evaluation e = {.regs = regs, .stack = stack, .cfa = cfa};
	Dwarf_Op room[3], *ops;
	uint64_t result;
	size_t count;

	if (dwarf_frame_register(frame, number, room, &ops, &count))
		return RULE_FAILED;
	if (!count && ops)
		return RULE_UNDEFINED;
	if (!count)
		return registers_get(regs, number, ret) ? RULE_FOUND : RULE_FAILED;
	if (!evaluate(&e, ops, count, &result))
		return RULE_FAILED;
	if (e.is_value || e.in_register)
		*ret = result;
	else if (!stack->word(stack->arg, result, ret))
		return RULE_FAILED;
	return RULE_FOUND;
}

static enum cfi_result step_frame(Dwarf_Frame *frame, int ra, enum machine machine,
				  const struct stack_reader *stack, struct registers *regs)
{
	const struct register_roles *roles = register_roles(machine);
	struct registers caller = {0};
	uint64_t cfa, value;
	enum rule rule;

	if (ra < 0 || ra >= REGISTERS_MAX || !find_cfa(frame, regs, stack, &cfa))
		return CFI_FAILED;
	rule = find_register(frame, ra, cfa, regs, stack, &value);
	if (rule != RULE_FOUND)
		return rule == RULE_UNDEFINED ? CFI_OUTERMOST : CFI_FAILED;
	for (int i = 0; i < REGISTERS_MAX; i++) {
		uint64_t other;

		if (find_register(frame, i, cfa, regs, stack, &other) == RULE_FOUND)
			registers_set(&caller, i, other);
	}
	/* A rule says otherwise in frames of signals alone. */
	if (!(caller.known >> roles->sp & 1))
		registers_set(&caller, roles->sp, cfa);
	registers_set(&caller, roles->pc, value);
	*regs = caller;
	return value ? CFI_STEPPED : CFI_OUTERMOST;
}

enum cfi_result cfi_step(Dwarf_CFI *cfi, uint64_t address, enum machine machine,
			 const struct stack_reader *stack, struct registers *regs, bool *ret_exact)
{
	_cleanup_free_ Dwarf_Frame *frame = NULL;
	enum cfi_result result;
	bool is_signal;
	int ra;

	if (!cfi || dwarf_cfi_addrframe(cfi, address, &frame))
		return CFI_NONE;
	ra = dwarf_frame_info(frame, NULL, NULL, &is_signal);
	result = step_frame(frame, ra, machine, stack, regs);
	if (result == CFI_STEPPED)
		*ret_exact = is_signal;
	return result;
}
