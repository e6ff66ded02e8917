/*
 * All instructions have four bytes, as the jump has, so that no place is between two of them.
 * Source: the Arm Architecture Reference Manual, chapter C4; frames:
 * cmd/internal/obj/arm64/obj7.go.
 */
#include "hooks/probe_site.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "image/arm64.h"

#define INSN_BYTES 4
/* As far as one of the runtime's functions is looked at, in instructions; and how large another may
 * be, in bytes. */
#define LOOK_INSNS 256
#define MOST_BYTES 65536
/* Instructions until the frame is there; behind it, where to look at most, and where if there may
 * be jumps that are not known. */
#define PROLOGUE_INSNS 16
#define BEGIN_INSNS 16
#define FRAME_INSNS 3
/* Between the two instructions of an exclusive access. */
#define EXCLUSIVE_INSNS 16

const enum machine probe_site_machine = MACHINE_ARM64;
const bool probe_site_has_link_register = true;
const int probe_site_first_with_registers = 18;

/* Registers as bits, by their numbers. */
enum { ARGUMENTS = 0x1f, SCRATCH = 0xf << 22 };
_Static_assert(SITE_FIRST == 1 && SITE_FIFTH == 1 << 4, "arguments have their registers' bits");

struct look {
	uint64_t address;
	const uint8_t *code;
	size_t count;
};

static uint32_t insn_at(const struct look *look, size_t i)
{
	uint32_t insn;

	memcpy(&insn, look->code + i * INSN_BYTES, sizeof(insn));
	return insn;
}

static uint64_t address_at(const struct look *look, size_t i)
{
	return look->address + i * INSN_BYTES;
}

static bool is(uint32_t insn, uint32_t mask, uint32_t value)
{
	return (insn & mask) == value;
}

static uint32_t bit(uint32_t insn, int first)
{
	return 1u << (insn >> first & 31);
}

/* ---- what an instruction does ---- */

static bool is_system(uint32_t insn)
{
	return is(insn, 0xffc00000, 0xd5000000);
}

static bool changes_flow(uint32_t insn)
{
	return (is(insn, 0x1c000000, 0x14000000) && !is_system(insn)) ||
	       !arm64_is_instruction(insn);
}

static bool is_return(uint32_t insn)
{
	return is(insn, 0xfffffc1f, 0xd65f0000);
}

static bool is_conditional(uint32_t insn)
{
	return is(insn, 0xff000000, 0x54000000) || is(insn, 0x7c000000, 0x34000000);
}

static bool is_indirect_jump(uint32_t insn)
{
	return is(insn, 0xfffffc1f, 0xd61f0000);
}

static bool is_adrp(uint32_t insn)
{
	return is(insn, 0x9f000000, 0x90000000);
}

static bool is_literal(uint32_t insn)
{
	return is(insn, 0x3b000000, 0x18000000);
}

static bool depends_on_place(uint32_t insn)
{
	return is(insn, 0x1f000000, 0x10000000) || is_literal(insn);
}

/* LDXR, STXR and their like: nothing may come in between. */
static bool is_exclusive(uint32_t insn)
{
	return is(insn, 0x3f800000, 0x08000000);
}

static bool is_memory(uint32_t insn)
{
	return is(insn, 0x0a000000, 0x08000000);
}

static bool is_pair(uint32_t insn)
{
	return is(insn, 0x3a000000, 0x28000000);
}

/* With a register as a third one: an index, or the operand of an atomic operation. */
static bool has_third(uint32_t insn)
{
	return is(insn, 0x3b200000, 0x38200000);
}

static uint32_t read_by_memory(uint32_t insn)
{
	uint32_t base = bit(insn, 5), first = bit(insn, 0), second = bit(insn, 10);

	if (is_literal(insn))
		return 0;
	if (is(insn, 0x3f000000, 0x08000000))
		return base | first | second | bit(insn, 16);
	if (is_pair(insn))
		return insn & 1u << 22 ? base : base | first | second;
	if (has_third(insn))
		return base | first | bit(insn, 16);
	return insn & 3u << 22 ? base : base | first;
}

static uint32_t read_by_constant(uint32_t insn)
{
	if (is(insn, 0x1f000000, 0x10000000))
		return 0;
	if (is(insn, 0x1f800000, 0x12800000))
		return is(insn, 0x60000000, 0x60000000) ? bit(insn, 0) : 0;
	if (is(insn, 0x1f800000, 0x13000000)) /* a bit field: BFM keeps the other bits */
		return bit(insn, 5) | bit(insn, 0);
	return bit(insn, 5) | (is(insn, 0x1f800000, 0x13800000) ? bit(insn, 16) : 0);
}

/* The general registers that it may read, as bits, without SP; more where that is not clear. */
static uint32_t read_by(uint32_t insn)
{
	uint32_t read = bit(insn, 0) | bit(insn, 5) | bit(insn, 10) | bit(insn, 16);

	if (is_memory(insn))
		read = read_by_memory(insn);
	else if (is(insn, 0x1c000000, 0x10000000))
		read = read_by_constant(insn);
	else if (is(insn, 0x0e000000, 0x0a000000)) /* of registers */
		read = bit(insn, 5) | bit(insn, 16) |
		       (is(insn, 0x1f000000, 0x1b000000) ? bit(insn, 10) : 0);
	else if (is(insn, 0x7c000000, 0x34000000)) /* cbz, tbz */
		read = bit(insn, 0);
	else if (is(insn, 0xfe000000, 0xd6000000)) /* br, blr, ret */
		read = bit(insn, 5);
	else if (changes_flow(insn))
		read = 0;
	return read & ~bit(31, 0);
}

/* Those that it writes, with a base that it moves. */
static uint32_t written_by(uint32_t insn)
{
	bool moves_base = is_memory(insn) &&
			  (is(insn, 0x3b200400, 0x38000400) || is(insn, 0x3a800000, 0x28800000));

	return (arm64_written(insn) | (moves_base ? bit(insn, 5) : 0)) & ~bit(31, 0);
}

static bool reads_flags(uint32_t insn)
{
	return is(insn, 0xff000000, 0x54000000) || /* b.cond */
	       is(insn, 0x1fe00000, 0x1a800000) || /* csel */
	       is(insn, 0x1fe00000, 0x1a400000) || /* ccmp */
	       is(insn, 0x1fe00000, 0x1a000000) || /* adc */
	       is(insn, 0xff200c00, 0x1e200c00) || /* fcsel */
	       is(insn, 0xff200c00, 0x1e200400) || /* fccmp */
	       is(insn, 0xffffffe0, 0xd53b4200);   /* mrs nzcv */
}

static bool writes_flags(uint32_t insn)
{
	return is(insn, 0x3f000000, 0x31000000) || /* adds of a constant */
	       is(insn, 0x3f000000, 0x2b000000) || /* and of a register */
	       is(insn, 0x7f800000, 0x72000000) || /* ands of a constant */
	       is(insn, 0x7f000000, 0x6a000000) || /* and of a register */
	       is(insn, 0xff20fc07, 0x1e202000);   /* fcmp */
}

/* Nobody will ask for the flags as they are before the i-th instruction. */
static bool flags_are_free(const struct look *look, size_t i)
{
	for (; i < look->count; i++) {
		uint32_t insn = insn_at(look, i);

		if (reads_flags(insn))
			return false;
		if (writes_flags(insn) || changes_flow(insn))
			return true;
	}
	return false;
}

/* Between a load and its store: our own accesses would make the store fail, each time. */
static bool is_in_exclusive(const struct look *look, size_t i)
{
	for (size_t n = 0; n < EXCLUSIVE_INSNS && i-- > 0; n++) {
		uint32_t insn = insn_at(look, i);

		if (is_exclusive(insn))
			return insn & 1u << 22;
	}
	return false;
}

static bool is_suitable(const struct look *look, size_t i, bool relative)
{
	uint32_t insn = insn_at(look, i);

	return !changes_flow(insn) && !is_system(insn) &&
	       (!depends_on_place(insn) || (relative && is_adrp(insn))) &&
	       !((read_by(insn) | written_by(insn)) & SCRATCH) && !is_exclusive(insn) &&
	       !is_in_exclusive(look, i) && flags_are_free(look, i);
}

/* sub x29, sp, 8: the frame is there behind it. */
static bool sets_frame(uint32_t insn)
{
	return insn == 0xd10023fd;
}

static void fill(const struct look *look, size_t i, struct probe_site *ret)
{
	*ret = (struct probe_site){.address = address_at(look, i), .length = INSN_BYTES};
	memcpy(ret->bytes, look->code + i * INSN_BYTES, INSN_BYTES);
}

static struct error *must_check unknown_code(const char *name)
{
	return error_format(
		ERROR_UNSUPPORTED,
		"cannot patch %s: gospect does not know its code; report the Go version and how "
		"the program was built",
		name);
}

/* The index behind the prologue; look->count when there is none. */
static size_t behind_frame(const struct look *look)
{
	for (size_t i = 0; i < look->count && i < PROLOGUE_INSNS; i++)
		if (sets_frame(insn_at(look, i)))
			return i + 1;
	return look->count;
}

/* ---- functions of the runtime ---- */

static struct look look_at(uint64_t address, const uint8_t *code, size_t size)
{
	return (struct look){address, code, size / INSN_BYTES};
}

static size_t find_body(const struct look *look, unsigned int arguments, bool past_calls)
{
	uint32_t kept = (arguments & ARGUMENTS) | SCRATCH, changed = 0;

	for (size_t i = behind_frame(look); i < look->count; i++) {
		uint32_t insn = insn_at(look, i);

		if (!(changed & kept) && is_suitable(look, i, arguments & SITE_RELATIVE))
			return i;
		if (changes_flow(insn) && !is_conditional(insn) &&
		    !(past_calls && arm64_is_call(insn)))
			break;
		changed |= written_by(insn);
	}
	return look->count;
}

static size_t fewer(size_t a, size_t b)
{
	return a < b ? a : b;
}

struct error *probe_site_at_body(const char *name, uint64_t address, const uint8_t *code,
				 size_t size, unsigned int arguments, bool past_calls,
				 struct probe_site *ret)
{
	struct look look = look_at(address, code, fewer(size, LOOK_INSNS * INSN_BYTES));
	size_t i = find_body(&look, arguments, past_calls);

	if (i == look.count)
		return unknown_code(name);
	fill(&look, i, ret);
	return NULL;
}

/* ldr xN, [xM, offset] */
static bool loads_from(uint32_t insn, uint32_t offset)
{
	uint32_t base;
	int64_t displacement;

	return is(insn, 0xffc00000, 0xf9400000) && arm64_memory(insn, &base, &displacement) &&
	       base < ARM64_FP && displacement == offset;
}

struct error *probe_site_at_load(const char *name, uint64_t address, const uint8_t *code,
				 size_t size, uint32_t offset, struct probe_site *ret)
{
	struct look look = look_at(address, code, fewer(size, LOOK_INSNS * INSN_BYTES));
	uint32_t changed = 0;

	for (size_t i = behind_frame(&look); i < look.count; i++) {
		if (loads_from(insn_at(&look, i), offset)) {
			if (changed & SCRATCH || !is_suitable(&look, i, false))
				break;
			fill(&look, i, ret);
			return NULL;
		}
		changed |= written_by(insn_at(&look, i));
	}
	return unknown_code(name);
}

/* ---- jumps ---- */

static uint64_t jump_distance(uint32_t insn, int bits, int first)
{
	uint64_t field = insn >> first & ((1u << bits) - 1), sign = 1ull << (bits - 1);

	return ((field ^ sign) - sign) * INSN_BYTES;
}

/* To where the jump leads; 0: that is not in the instruction. */
static uint64_t jump_target(const struct look *look, size_t i)
{
	uint32_t insn = insn_at(look, i);

	if (is(insn, 0xfc000000, 0x14000000))
		return address_at(look, i) + jump_distance(insn, 26, 0);
	if (is(insn, 0xff000000, 0x54000000) || is(insn, 0x7e000000, 0x34000000))
		return address_at(look, i) + jump_distance(insn, 19, 5);
	if (is(insn, 0x7e000000, 0x36000000))
		return address_at(look, i) + jump_distance(insn, 14, 5);
	return 0;
}

static uint64_t call_target(const struct look *look, size_t i)
{
	uint32_t insn = insn_at(look, i);

	return is(insn, 0xfc000000, 0x94000000) ? address_at(look, i) + jump_distance(insn, 26, 0)
						: 0;
}

uint64_t probe_site_last_call(uint64_t address, const uint8_t *code, size_t size, uint64_t called)
{
	struct look look = look_at(address, code, size);

	for (size_t i = look.count; i-- > 0;)
		if (call_target(&look, i) == called)
			return address_at(&look, i);
	return address + size;
}

/* Somewhere in the function is a jump to one of these addresses. */
static bool is_jumped_to(const struct look *look, uint64_t first, uint64_t last)
{
	for (size_t i = 0; i < look->count; i++) {
		uint64_t to = jump_target(look, i);

		if (to && to >= first && to <= last)
			return true;
	}
	return false;
}

/* With one, not all targets are known. */
static bool has_indirect_jump(const struct look *look)
{
	for (size_t i = 0; i < look->count; i++)
		if (is_indirect_jump(insn_at(look, i)))
			return true;
	return false;
}

static bool leaves_by_jump(const struct look *look)
{
	for (size_t i = 0; i < look->count; i++) {
		uint64_t to = jump_target(look, i);

		if (to && to - look->address >= look->count * INSN_BYTES)
			return true;
	}
	return false;
}

/* ---- branch guards ---- */

/* From the i-th instruction on, every path writes these registers before reading them, or never
 * reads them. `seen` has a byte for each instruction. Calls are assumed to preserve them. */
static bool is_dead(const struct look *look, size_t i, uint32_t reg, uint8_t *seen)
{
	for (; i < look->count && !seen[i]; i++) {
		uint32_t insn = insn_at(look, i);
		uint64_t to = jump_target(look, i);

		seen[i] = 1;
		if (read_by(insn) & reg)
			return false;
		if (written_by(insn) & reg || is_return(insn) || !arm64_is_instruction(insn))
			return true;
		if (is_indirect_jump(insn))
			return false;
		if (to && (to < look->address ||
			   !is_dead(look, (to - look->address) / INSN_BYTES, reg, seen)))
			return false;
		if (to && !is_conditional(insn))
			return true;
	}
	return i < look->count;
}

static bool scratch_is_dead(const struct look *look, size_t i)
{
	for (uint32_t reg = SCRATCH & -SCRATCH; reg & SCRATCH; reg <<= 1) {
		_cleanup_free_ uint8_t *seen = calloc(look->count, 1);

		if (!seen || !is_dead(look, i, reg, seen))
			return false;
	}
	return true;
}

/* The address that the instructions before the i-th have put into a register: adrp, and up to Go
 * 1.21 an add. */
static bool address_before(const struct look *look, size_t i, uint32_t *ret_register, uint64_t *ret)
{
	uint64_t constant = 0;
	uint32_t base;

	if (i && arm64_add(insn_at(look, i - 1), &base, &constant))
		i--;
	if (!i || !arm64_adrp(insn_at(look, i - 1), address_at(look, i - 1), ret_register, ret) ||
	    (constant && base != *ret_register))
		return false;
	*ret += constant;
	return true;
}

/* A load of a variable right behind that; 0: it is none. */
static uint64_t variable_read(const struct look *look, size_t i)
{
	uint32_t insn = insn_at(look, i), reg, base;
	int64_t displacement;
	uint64_t address;

	if (!address_before(look, i, &reg, &address) || !arm64_written(insn) || !is_memory(insn) ||
	    !arm64_memory(insn, &base, &displacement) || base != reg)
		return 0;
	return address + displacement;
}

static size_t reads_of(const struct look *look, uint64_t variable)
{
	size_t n = 0;

	for (size_t i = 0; i < look->count; i++)
		n += variable_read(look, i) == variable;
	return n;
}

static size_t find_branch_guard(const struct look *look, uint64_t called, unsigned int nth)
{
	size_t i = 0;

	while (i < look->count && (call_target(look, i) != called || --nth))
		i++;
	while (i < look->count && i && !variable_read(look, i))
		i--;
	return i;
}

struct error *probe_site_before_call(const char *name, uint64_t address, const uint8_t *code,
				     size_t size, uint64_t called, unsigned int nth,
				     struct probe_site *ret)
{
	struct look look = look_at(address, code, size);
	size_t i = find_branch_guard(&look, called, nth);

	if (!called || !i || i == look.count || reads_of(&look, variable_read(&look, i)) < 2 ||
	    !is_suitable(&look, i, false) || !scratch_is_dead(&look, i))
		return unknown_code(name);
	fill(&look, i, ret);
	return NULL;
}

/* ---- functions of the program ---- */

static struct error *must_check unsuitable(const char *why)
{
	return error_format(ERROR_UNSUPPORTED, "%s", why);
}

/* A load of g.stackguard0, which is behind g.stack. */
static bool checks_stack(uint32_t insn)
{
	return is(insn, 0xffffffe0, 0xf9400b80);
}

/* Without the constants behind the code. */
static void leave_out_constants(struct look *look)
{
	for (size_t i = 0; i < look->count; i++) {
		uint32_t insn = insn_at(look, i);
		uint64_t at = address_at(look, i) + jump_distance(insn, 19, 5) - look->address;

		if (is_literal(insn) && at > i * INSN_BYTES && at / INSN_BYTES < look->count)
			look->count = at / INSN_BYTES;
	}
}

/* The instruction behind the check for room on the stack and the prologue; 0: it has none. */
static size_t behind_check(const struct look *look)
{
	size_t frame = behind_frame(look), i = 0;

	while (i < frame && !checks_stack(insn_at(look, i)))
		i++;
	return i < frame && frame < look->count ? frame : 0;
}

/* The first suitable instruction in the code that runs once at the function's entry, before any
 * that writes the registers `kept`; look->count when there is none. */
static size_t find_begin(const struct look *look, size_t first, uint32_t kept)
{
	size_t end = first + (has_indirect_jump(look) ? FRAME_INSNS : BEGIN_INSNS);

	for (size_t i = first; i < look->count && i < end; i++) {
		uint64_t address = address_at(look, i);

		if (changes_flow(insn_at(look, i)) || is_jumped_to(look, address, address))
			break;
		if (is_suitable(look, i, true))
			return i;
		if (written_by(insn_at(look, i)) & (SCRATCH | kept))
			break;
	}
	return look->count;
}

static struct error *must_check find_begin_site(const struct look *look, unsigned int arguments,
						struct probe_site_ends *ret)
{
	size_t first = behind_check(look), i;

	if (!first)
		return unsuitable("is assembly or has no stack frame");
	i = find_begin(look, first, arguments & ARGUMENTS);
	if (i == look->count && arguments)
		i = find_begin(look, first, 0);
	if (i == look->count)
		return unsuitable("has no room for a hook at its entry");
	for (size_t k = first; k < i; k++)
		ret->changed |= written_by(insn_at(look, k)) & ARGUMENTS;
	fill(look, i, &ret->begin);
	return NULL;
}

static bool adds_to_sp(uint32_t insn)
{
	return is(insn, 0xff8003ff, 0x910003ff);
}

static bool loads_lr(uint32_t insn)
{
	return insn == 0xf94003fe; /* ldr x30, [sp] */
}

/* ldur x29, [sp, -8]; ldr x30, [sp], n; or, ahead of add sp, sp, n, ldr x30, [sp]; or ldp x29, x30,
 * [sp, -8]; add sp, sp, n */
static bool gives_up_frame(uint32_t first, uint32_t second)
{
	return (first == 0xf85f83fd && (is(second, 0xffe00fff, 0xf84007fe) || loads_lr(second))) ||
	       (first == 0xa97ffbfd && adds_to_sp(second));
}

/*
 * Before the ret at `at`: the first of the two instructions is the probe site, and there is no
 * other way to the ret. look->count: it is not so. A frame too large for one constant has two adds.
 */
static size_t find_return(const struct look *look, size_t at)
{
	size_t i = at;

	while (i && insn_at(look, i - 1) == 0xd503201f) /* nop */
		i--;
	while (i > 2 && adds_to_sp(insn_at(look, i - 1)) &&
	       (adds_to_sp(insn_at(look, i - 2)) || loads_lr(insn_at(look, i - 2))))
		i--;
	if (i < 2 || !gives_up_frame(insn_at(look, i - 2), insn_at(look, i - 1)) ||
	    is_jumped_to(look, address_at(look, i - 1), address_at(look, at)) ||
	    !is_suitable(look, i - 2, false))
		return look->count;
	return i - 2;
}

static struct error *must_check find_returns(const struct look *look, struct probe_site_ends *ret)
{
	if (leaves_by_jump(look))
		return unsuitable("ends with a tail call");
	ret->returns = calloc(look->count, sizeof(*ret->returns));
	if (!ret->returns)
		return &error_no_memory;
	for (size_t i = 0; i < look->count; i++) {
		size_t at;

		if (!is_return(insn_at(look, i)))
			continue;
		at = find_return(look, i);
		if (at == look->count)
			return unsuitable("has no room for a hook at a return");
		fill(look, at, &ret->returns[ret->return_count++]);
	}
	return NULL;
}

struct error *probe_site_ends(uint64_t address, const uint8_t *code, size_t size,
			      unsigned int which, unsigned int arguments,
			      struct probe_site_ends *ret)
{
	struct look look = look_at(address, code, size);
	struct probe_site_ends ends = {0};
	struct error *err = NULL;

	if (size > MOST_BYTES)
		return unsuitable("is larger than 64 KB");
	leave_out_constants(&look);
	if (which & SITE_BEGIN)
		err = find_begin_site(&look, arguments, &ends);
	if (!err && which & SITE_RETURNS)
		err = find_returns(&look, &ends);
	if (err) {
		free(ends.returns);
		return err;
	}
	*ret = ends;
	return NULL;
}
