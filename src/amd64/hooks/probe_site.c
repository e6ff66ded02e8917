#include "hooks/probe_site.h"

#include <capstone/capstone.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* As far as one of the runtime's functions is looked at; and how large another may be. */
#define LOOK_BYTES 640
#define MOST_BYTES 65536
/* Instructions behind the check for room: until the frame is there, and where to look at most. */
#define FRAME_INSNS 3
#define BEGIN_INSNS 16

const enum machine probe_site_machine = MACHINE_AMD64;
const bool probe_site_has_link_register = false;
const int probe_site_first_with_registers = 17;

struct look {
	csh handle;
	cs_insn *items;
	size_t count;
};

static void look_release(struct look *look)
{
	if (look->items)
		cs_free(look->items, look->count);
	if (look->handle)
		cs_close(&look->handle);
}
#define _cleanup_look_ __attribute__((cleanup(look_release)))

static struct error *must_check look_at(uint64_t address, const uint8_t *code, size_t size,
					struct look *ret)
{
	if (cs_open(CS_ARCH_X86, CS_MODE_64, &ret->handle) != CS_ERR_OK ||
	    cs_option(ret->handle, CS_OPT_DETAIL, CS_OPT_ON) != CS_ERR_OK)
		return &error_no_memory;
	ret->count = cs_disasm(ret->handle, code, size, address, 0, &ret->items);
	return NULL;
}

/* The 64-bit register that this one is part of, as a bit; 0 for those that do not matter. */
static unsigned int register_bit(unsigned int reg)
{
	static const struct {
		unsigned int bit, names[4];
	} registers[] = {
		{SITE_FIRST, {X86_REG_RAX, X86_REG_EAX, X86_REG_AX, X86_REG_AL}},
		{SITE_SECOND, {X86_REG_RBX, X86_REG_EBX, X86_REG_BX, X86_REG_BL}},
		{SITE_THIRD, {X86_REG_RCX, X86_REG_ECX, X86_REG_CX, X86_REG_CL}},
		{SITE_FOURTH, {X86_REG_RDI, X86_REG_EDI, X86_REG_DI, X86_REG_DIL}},
		{SITE_FIFTH, {X86_REG_RSI, X86_REG_ESI, X86_REG_SI, X86_REG_SIL}},
		{0x100, {X86_REG_R12, X86_REG_R12D, X86_REG_R12W, X86_REG_R12B}},
		{0x200, {X86_REG_R13, X86_REG_R13D, X86_REG_R13W, X86_REG_R13B}},
		{0x400, {X86_REG_EFLAGS}},
	};

	for (size_t i = 0; i < sizeof(registers) / sizeof(registers[0]); i++)
		for (size_t k = 0; k < 4; k++)
			if (registers[i].names[k] == reg)
				return registers[i].bit;
	return 0;
}

enum { FIRST_SCRATCH = 0x100, SCRATCH = 0x300, FLAGS = 0x400 };

static unsigned int bits_of(const cs_regs regs, uint8_t count)
{
	unsigned int bits = 0;

	for (uint8_t i = 0; i < count; i++)
		bits |= register_bit(regs[i]);
	return bits;
}

static void accessed(const struct look *look, const cs_insn *insn, unsigned int *read,
		     unsigned int *written)
{
	cs_regs r, w;
	uint8_t nr = 0, nw = 0;

	*read = *written = ~0u;
	if (cs_regs_access(look->handle, insn, r, &nr, w, &nw) == CS_ERR_OK) {
		*read = bits_of(r, nr);
		*written = bits_of(w, nw);
	}
}

static bool in_group(const struct look *look, const cs_insn *insn, unsigned int group)
{
	return cs_insn_group(look->handle, insn, group);
}

static bool changes_flow(const struct look *look, const cs_insn *insn)
{
	return in_group(look, insn, CS_GRP_JUMP) || in_group(look, insn, CS_GRP_CALL) ||
	       in_group(look, insn, CS_GRP_RET) || in_group(look, insn, CS_GRP_INT) ||
	       in_group(look, insn, CS_GRP_BRANCH_RELATIVE);
}

/* Behind it, the way goes on unless something is wrong: the runtime's checks jump away. */
static bool is_conditional(const cs_insn *insn)
{
	return insn->id >= X86_INS_JAE && insn->id <= X86_INS_JS && insn->id != X86_INS_JMP &&
	       insn->id != X86_INS_LJMP;
}

static bool depends_on_place(const cs_insn *insn)
{
	const cs_x86 *x = &insn->detail->x86;

	for (uint8_t i = 0; i < x->op_count; i++)
		if (x->operands[i].type == X86_OP_MEM && (x->operands[i].mem.base == X86_REG_RIP ||
							  x->operands[i].mem.base == X86_REG_EIP))
			return true;
	return false;
}

/* Nobody will ask for the flags as they are before the i-th instruction. */
static bool flags_are_free(const struct look *look, size_t i)
{
	for (; i < look->count; i++) {
		unsigned int read, written;

		accessed(look, &look->items[i], &read, &written);
		if (read & FLAGS)
			return false;
		if (written & FLAGS || changes_flow(look, &look->items[i]))
			return true;
	}
	return false;
}

/* The kernel writes page by page, and may be interrupted in between. */
static bool crosses_page(const cs_insn *insn)
{
	return (insn->address & 4095) > 4096 - SITE_JUMP_BYTES;
}

/* Where in the instruction it says how far its operand is; 0: nowhere, or not in 32 bits. */
static size_t relative_part(const cs_insn *insn)
{
	const cs_x86_encoding *e = &insn->detail->x86.encoding;

	return depends_on_place(insn) && e->disp_size == 4 ? e->disp_offset : 0;
}

static bool is_suitable_from(const struct look *look, size_t i, bool relative, size_t least)
{
	const cs_insn *insn = &look->items[i];
	unsigned int read, written;

	accessed(look, insn, &read, &written);
	return insn->size >= least && insn->size <= SITE_MAX_BYTES && insn->id != X86_INS_NOP &&
	       !changes_flow(look, insn) &&
	       (!depends_on_place(insn) || (relative && relative_part(insn))) &&
	       !(read & SCRATCH) && flags_are_free(look, i);
}

static bool is_suitable(const struct look *look, size_t i, bool relative)
{
	return is_suitable_from(look, i, relative, SITE_JUMP_BYTES);
}

/* mov rbp, rsp (Go 1.21 and later) or lea rbp, [rsp+n]: the frame is there behind it. */
static bool sets_frame(const cs_insn *insn)
{
	const cs_x86 *x = &insn->detail->x86;

	if (x->op_count != 2 || x->operands[0].type != X86_OP_REG ||
	    x->operands[0].reg != X86_REG_RBP)
		return false;
	if (insn->id == X86_INS_MOV)
		return x->operands[1].type == X86_OP_REG && x->operands[1].reg == X86_REG_RSP;
	return insn->id == X86_INS_LEA && x->operands[1].mem.base == X86_REG_RSP &&
	       x->operands[1].mem.index == X86_REG_INVALID;
}

static void fill(const cs_insn *insn, struct probe_site *ret)
{
	*ret = (struct probe_site){.address = insn->address,
				   .length = insn->size,
				   .relative = relative_part(insn)};
	memcpy(ret->bytes, insn->bytes, insn->size);
}

static struct error *must_check unknown_code(const char *name)
{
	return error_format(
		ERROR_UNSUPPORTED,
		"cannot patch %s: gospect does not know its code; report the Go version and how "
		"the program was built",
		name);
}

/* The index of the instruction; look->count when there is none. */
static size_t find_body(const struct look *look, unsigned int arguments, bool past_calls,
			bool crossing)
{
	unsigned int read, written, changed = 0;
	bool frame = false;

	for (size_t i = 0; i < look->count; i++) {
		const cs_insn *insn = &look->items[i];

		if (frame && !(changed & (arguments | SCRATCH)) &&
		    is_suitable(look, i, arguments & SITE_RELATIVE) &&
		    (crossing || !crosses_page(insn)))
			return i;
		if (frame && changes_flow(look, insn) && !is_conditional(insn) &&
		    !(past_calls && in_group(look, insn, CS_GRP_CALL)))
			break;
		accessed(look, insn, &read, &written);
		changed |= written;
		/* Before the frame is there, R12 serves the check of the stack alone. */
		if (!frame && sets_frame(insn)) {
			frame = true;
			changed &= ~SCRATCH;
		}
	}
	return look->count;
}

struct error *probe_site_at_body(const char *name, uint64_t address, const uint8_t *code,
				 size_t size, unsigned int arguments, bool past_calls,
				 struct probe_site *ret)
{
	_cleanup_look_ struct look look = {0};
	struct error *err = look_at(address, code, size < LOOK_BYTES ? size : LOOK_BYTES, &look);
	size_t i;

	if (err)
		return err;
	i = find_body(&look, arguments, past_calls, false);
	if (i == look.count)
		i = find_body(&look, arguments, past_calls, true);
	if (i == look.count)
		return unknown_code(name);
	fill(&look.items[i], ret);
	return NULL;
}

static bool loads_from(const cs_insn *insn, uint32_t offset)
{
	const cs_x86 *x = &insn->detail->x86;

	return insn->id == X86_INS_MOV && x->op_count == 2 && x->operands[0].type == X86_OP_REG &&
	       x->operands[1].type == X86_OP_MEM && x->operands[1].mem.disp == offset &&
	       x->operands[1].mem.index == X86_REG_INVALID &&
	       x->operands[1].mem.base != X86_REG_RSP && x->operands[1].mem.base != X86_REG_RBP;
}

struct error *probe_site_at_load(const char *name, uint64_t address, const uint8_t *code,
				 size_t size, uint32_t offset, struct probe_site *ret)
{
	_cleanup_look_ struct look look = {0};
	struct error *err = look_at(address, code, size < LOOK_BYTES ? size : LOOK_BYTES, &look);
	unsigned int read, written, changed = 0;
	bool frame = false;

	for (size_t i = 0; !err && i < look.count; i++) {
		const cs_insn *insn = &look.items[i];

		if (frame && loads_from(insn, offset)) {
			if (changed & SCRATCH || !is_suitable(&look, i, false))
				break;
			fill(insn, ret);
			return NULL;
		}
		accessed(&look, insn, &read, &written);
		changed |= written;
		if (!frame && sets_frame(insn)) {
			frame = true;
			changed &= ~SCRATCH;
		}
	}
	return err ? err : unknown_code(name);
}

/* ---- functions of the program ---- */

static struct error *must_check unsuitable(const char *why)
{
	return error_format(ERROR_UNSUPPORTED, "%s", why);
}

/* cmp with g.stackguard0, which is behind g.stack. */
static bool checks_stack(const cs_insn *insn)
{
	const cs_x86 *x = &insn->detail->x86;
	bool found = false;

	for (uint8_t i = 0; insn->id == X86_INS_CMP && i < x->op_count; i++)
		found |= x->operands[i].type == X86_OP_MEM &&
			 x->operands[i].mem.base == X86_REG_R14 &&
			 x->operands[i].mem.index == X86_REG_INVALID &&
			 x->operands[i].mem.disp == 16;
	return found;
}

/* The instruction behind the check for room on the stack; 0: it has none. */
static size_t behind_check(const struct look *look)
{
	for (size_t i = 0; i + 1 < look->count && i < BEGIN_INSNS; i++) {
		const cs_insn *insn = &look->items[i];

		if (checks_stack(insn))
			return is_conditional(insn + 1) ? i + 2 : 0;
		if (changes_flow(look, insn) && !is_conditional(insn))
			return 0;
	}
	return 0;
}

/* To where the jump leads; 0: that is not in the instruction. */
static uint64_t jump_target(const struct look *look, const cs_insn *insn)
{
	const cs_x86 *x = &insn->detail->x86;

	return in_group(look, insn, CS_GRP_JUMP) && x->op_count == 1 &&
			       x->operands[0].type == X86_OP_IMM
		       ? (uint64_t)x->operands[0].imm
		       : 0;
}

/* Somewhere in the function is a jump to one of these addresses. */
static bool is_jumped_to(const struct look *look, uint64_t first, uint64_t last)
{
	for (size_t i = 0; i < look->count; i++) {
		uint64_t to = jump_target(look, &look->items[i]);

		if (to && to >= first && to <= last)
			return true;
	}
	return false;
}

/* With one, not all targets are known. */
static bool has_indirect_jump(const struct look *look)
{
	for (size_t i = 0; i < look->count; i++)
		if (in_group(look, &look->items[i], CS_GRP_JUMP) &&
		    !jump_target(look, &look->items[i]))
			return true;
	return false;
}

static bool leaves_by_jump(const struct look *look, uint64_t address, size_t size)
{
	for (size_t i = 0; i < look->count; i++) {
		uint64_t to = jump_target(look, &look->items[i]);

		if (to && to - address >= size)
			return true;
	}
	return false;
}

/* The jump over one of four bytes leads upwards then: where the program is low, nothing is below.
 */
static bool leaves_good_byte(const struct look *look, size_t i)
{
	return look->items[i].size >= SITE_JUMP_BYTES ||
	       (i + 1 < look->count && look->items[i + 1].bytes[0] < 0x80);
}

/* The first instruction of at least so many bytes in the code that runs once at the function's
 * entry, before any that writes the registers `kept`; look->count when there is none. */
static size_t find_begin(const struct look *look, size_t first, size_t least, unsigned int kept,
			 bool crossing)
{
	size_t end = first + (has_indirect_jump(look) ? FRAME_INSNS : BEGIN_INSNS);
	unsigned int read, written;

	for (size_t i = first; i < look->count && i < end; i++) {
		const cs_insn *insn = &look->items[i];

		accessed(look, insn, &read, &written);
		if (changes_flow(look, insn) || is_jumped_to(look, insn->address, insn->address))
			break;
		if (is_suitable_from(look, i, true, least) && leaves_good_byte(look, i) &&
		    (crossing || !crosses_page(insn)))
			return i;
		if (written & (SCRATCH | kept))
			break;
	}
	return look->count;
}

/* If the instruction has four bytes, the last byte of the jump is the first of the next
 * instruction. */
static struct error *must_check fill_end(const struct look *look, size_t i, struct probe_site *ret)
{
	if (i + 1 >= look->count)
		return unsuitable("has unknown code");
	fill(&look->items[i], ret);
	if (ret->length < SITE_JUMP_BYTES)
		ret->bytes[ret->length] = look->items[i + 1].bytes[0];
	return NULL;
}

static size_t find_begin_keeping(const struct look *look, size_t first, unsigned int kept)
{
	size_t i = look->count;

	for (size_t least = SITE_JUMP_BYTES; i == look->count && least >= 4; least--) {
		i = find_begin(look, first, least, kept, false);
		if (i == look->count)
			i = find_begin(look, first, least, kept, true);
	}
	return i;
}

static struct error *must_check find_begin_site(const struct look *look, unsigned int arguments,
						struct probe_site_ends *ret)
{
	size_t first = behind_check(look), i;
	unsigned int read, written;

	if (!first)
		return unsuitable("is assembly or has no stack frame");
	i = find_begin_keeping(look, first, arguments);
	if (i == look->count && arguments)
		i = find_begin_keeping(look, first, 0);
	if (i == look->count)
		return unsuitable("has no room for a hook at its entry");
	for (size_t k = first; k < i; k++) {
		accessed(look, &look->items[k], &read, &written);
		ret->changed |= written;
	}
	return fill_end(look, i, &ret->begin);
}

/* ---- branch guards ---- */

static size_t index_of(const struct look *look, uint64_t address)
{
	size_t low = 0, high = look->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (look->items[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < look->count && look->items[low].address == address ? low : look->count;
}

/* From the i-th instruction on, every path writes the register (bits) before reading it, or
 * never reads it. `seen` has a byte for each instruction. Calls are assumed to preserve it. */
static bool is_dead(const struct look *look, size_t i, unsigned int bits, uint8_t *seen)
{
	unsigned int read, written;

	for (; i < look->count && !seen[i]; i++) {
		const cs_insn *insn = &look->items[i];

		seen[i] = 1;
		accessed(look, insn, &read, &written);
		if (read & bits)
			return false;
		if (written & bits || in_group(look, insn, CS_GRP_RET) || insn->id == X86_INS_UD2)
			return true;
		if (!in_group(look, insn, CS_GRP_JUMP))
			continue;
		if (!is_dead(look, index_of(look, jump_target(look, insn)), bits, seen))
			return false;
		if (!is_conditional(insn))
			return true;
	}
	return i < look->count;
}

static bool scratch_is_dead(const struct look *look, size_t i)
{
	for (unsigned int bit = FIRST_SCRATCH; bit & SCRATCH; bit <<= 1) {
		_cleanup_free_ uint8_t *seen = calloc(look->count, 1);

		if (!seen || !is_dead(look, i, bit, seen))
			return false;
	}
	return true;
}

/* The variable that it reads; 0: none. */
static uint64_t variable_read(const cs_insn *insn)
{
	const cs_x86 *x = &insn->detail->x86;

	if (!relative_part(insn) || insn->id == X86_INS_LEA)
		return 0;
	for (uint8_t i = 0; i < x->op_count; i++)
		if (x->operands[i].type == X86_OP_MEM && x->operands[i].access == CS_AC_READ)
			return insn->address + insn->size + x->operands[i].mem.disp;
	return 0;
}

static size_t reads_of(const struct look *look, uint64_t variable)
{
	size_t n = 0;

	for (size_t i = 0; i < look->count; i++)
		n += variable_read(&look->items[i]) == variable;
	return n;
}

static size_t find_branch_guard(const struct look *look, uint64_t called, unsigned int nth)
{
	size_t i = 0;

	for (; i < look->count; i++) {
		const cs_insn *insn = &look->items[i];

		if (insn->id == X86_INS_CALL && insn->detail->x86.operands[0].type == X86_OP_IMM &&
		    (uint64_t)insn->detail->x86.operands[0].imm == called && !--nth)
			break;
	}
	while (i < look->count && i && !variable_read(&look->items[i]))
		i--;
	return i;
}

struct error *probe_site_before_call(const char *name, uint64_t address, const uint8_t *code,
				     size_t size, uint64_t called, unsigned int nth,
				     struct probe_site *ret)
{
	_cleanup_look_ struct look look = {0};
	struct error *err;
	size_t i;

	if (size > MOST_BYTES)
		return unknown_code(name);
	err = look_at(address, code, size, &look);
	i = err ? 0 : find_branch_guard(&look, called, nth);
	if (err)
		return err;
	if (!i || i == look.count || reads_of(&look, variable_read(&look.items[i])) < 2 ||
	    !is_suitable(&look, i, true) || !scratch_is_dead(&look, i))
		return unknown_code(name);
	fill(&look.items[i], ret);
	return NULL;
}

static bool changes_sp(const cs_insn *insn)
{
	const cs_x86 *x = &insn->detail->x86;

	return (insn->id == X86_INS_ADD || insn->id == X86_INS_SUB) && x->op_count == 2 &&
	       x->operands[0].type == X86_OP_REG && x->operands[0].reg == X86_REG_RSP &&
	       x->operands[1].type == X86_OP_IMM;
}

static bool restores_bp(const cs_insn *insn)
{
	const cs_x86 *x = &insn->detail->x86;

	return insn->id == X86_INS_MOV && x->op_count == 2 && x->operands[0].type == X86_OP_REG &&
	       x->operands[0].reg == X86_REG_RBP && x->operands[1].type == X86_OP_MEM &&
	       x->operands[1].mem.base == X86_REG_RSP;
}

static bool pops_bp(const cs_insn *insn)
{
	return insn->id == X86_INS_POP && insn->detail->x86.operands[0].reg == X86_REG_RBP;
}

/*
 * Before the ret at `at`: up to Go 1.20 mov rbp, [rsp+n]; add rsp, n; later add rsp, n; pop rbp.
 * The first of the two is the probe site, and there is no other way to the ret. look->count: it is
 * not so.
 */
static size_t find_return(const struct look *look, size_t at)
{
	const cs_insn *items = look->items;
	size_t i = at;

	while (i && items[i - 1].id == X86_INS_NOP)
		i--;
	if (i < 2)
		return look->count;
	i -= 2;
	if (!(restores_bp(&items[i]) && changes_sp(&items[i + 1])) &&
	    !(changes_sp(&items[i]) && pops_bp(&items[i + 1])))
		return look->count;
	if (items[i].size < 4 || items[i].size > SITE_MAX_BYTES ||
	    is_jumped_to(look, items[i].address + 1, items[at].address))
		return look->count;
	return i;
}

static struct error *must_check find_returns(const struct look *look, struct probe_site_ends *ret)
{
	struct error *err = NULL;

	ret->returns = calloc(look->count, sizeof(*ret->returns));
	if (!ret->returns)
		return &error_no_memory;
	for (size_t i = 0; !err && i < look->count; i++) {
		size_t at;

		if (!in_group(look, &look->items[i], CS_GRP_RET))
			continue;
		at = find_return(look, i);
		if (at == look->count)
			return unsuitable("has no room for a hook at a return");
		err = fill_end(look, at, &ret->returns[ret->return_count++]);
	}
	return err;
}

static struct error *must_check find_all_returns(const struct look *look, uint64_t address,
						 size_t size, struct probe_site_ends *ret)
{
	if (leaves_by_jump(look, address, size))
		return unsuitable("ends with a tail call");
	return find_returns(look, ret);
}

struct error *probe_site_ends(uint64_t address, const uint8_t *code, size_t size,
			      unsigned int which, unsigned int arguments,
			      struct probe_site_ends *ret)
{
	_cleanup_look_ struct look look = {0};
	struct probe_site_ends ends = {0};
	struct error *err;

	if (size > MOST_BYTES)
		return unsuitable("is larger than 64 KB");
	/* The padding behind the last function is no instruction. */
	while (size && code[size - 1] == 0xcc)
		size--;
	err = look_at(address, code, size, &look);
	if (!err && which & SITE_BEGIN)
		err = find_begin_site(&look, arguments, &ends);
	if (err)
		return err;
	if (!look.count ||
	    look.items[look.count - 1].address + look.items[look.count - 1].size != address + size)
		return unsuitable("has unknown instructions");
	if (which & SITE_RETURNS)
		err = find_all_returns(&look, address, size, &ends);
	if (err) {
		free(ends.returns);
		return err;
	}
	*ret = ends;
	return NULL;
}

uint64_t probe_site_last_call(uint64_t address, const uint8_t *code, size_t size, uint64_t called)
{
	enum { CALL = 0xe8, CALL_BYTES = 5 };
	int32_t distance;

	for (size_t i = size; i-- > CALL_BYTES;) {
		size_t at = i - CALL_BYTES;

		memcpy(&distance, code + at + 1, sizeof(distance));
		if (code[at] == CALL && address + i + distance == called)
			return address + at;
	}
	return address + size;
}
