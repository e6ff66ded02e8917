#include "image/arm64.h"

static uint32_t bits(uint32_t insn, int first, int count)
{
	return insn >> first & ((1u << count) - 1);
}

static int64_t signed_bits(uint32_t insn, int first, int count)
{
	uint64_t value = bits(insn, first, count), sign = 1ull << (count - 1);

	return (int64_t)((value ^ sign) - sign);
}

static bool is(uint32_t insn, uint32_t mask, uint32_t value)
{
	return (insn & mask) == value;
}

/* The groups of the encoding's first level, by bits 28 to 25. */
static bool is_reserved(uint32_t insn)
{
	return is(insn, 0x18000000, 0) && !is(insn, 0x1e000000, 0x04000000);
}

static bool is_constant_group(uint32_t insn)
{
	return is(insn, 0x1c000000, 0x10000000);
}

static bool is_register_group(uint32_t insn)
{
	return is(insn, 0x0e000000, 0x0a000000);
}

static bool is_memory_group(uint32_t insn)
{
	return is(insn, 0x0a000000, 0x08000000);
}

static bool is_vector(uint32_t insn)
{
	return insn & 1u << 26;
}

static bool is_pair(uint32_t insn)
{
	return is(insn, 0x38000000, 0x28000000);
}

static bool is_exclusive(uint32_t insn)
{
	return is(insn, 0x3f000000, 0x08000000);
}

static bool is_literal(uint32_t insn)
{
	return is(insn, 0x3b000000, 0x18000000);
}

static bool is_single(uint32_t insn)
{
	return is(insn, 0x38000000, 0x38000000);
}

/* An address of a register plus a constant. */
static bool is_scaled(uint32_t insn)
{
	return is_single(insn) && bits(insn, 24, 1);
}

static bool is_unscaled(uint32_t insn)
{
	return is_single(insn) && is(insn, 0x01200000, 0);
}

/* Atomic operations, which load the old value. */
static bool is_atomic(uint32_t insn)
{
	return is_single(insn) && is(insn, 0x01200c00, 0x00200000);
}

bool arm64_is_instruction(uint32_t insn)
{
	return !is_reserved(insn);
}

/* PRFM has a load's encoding and loads nothing. */
static bool is_prefetch(uint32_t insn)
{
	return is_literal(insn) ? bits(insn, 30, 2) == 3 : is(insn, 0xc0c00000, 0xc0800000);
}

/* LDXR, STXR, LDAR, STLR, CAS and their like. A store says in a third register whether it was done,
 * and CAS loads into that one. */
static uint32_t loaded_exclusive(uint32_t insn)
{
	uint32_t first = 1u << bits(insn, 0, 5), second = 1u << bits(insn, 10, 5);
	uint32_t third = 1u << bits(insn, 16, 5);
	bool is_load = bits(insn, 22, 1), is_ordered = bits(insn, 23, 1),
	     is_two = bits(insn, 21, 1);
	bool is_swap = is_two && (is_ordered || !bits(insn, 31, 1));

	if (is_swap)
		return third;
	if (!is_load)
		return is_ordered ? 0 : third;
	return is_two ? first | second : first;
}

static uint32_t loaded(uint32_t insn)
{
	uint32_t first = 1u << bits(insn, 0, 5), second = 1u << bits(insn, 10, 5);

	if (is_vector(insn))
		return 0;
	if (is_exclusive(insn))
		return loaded_exclusive(insn);
	if (is_pair(insn))
		return bits(insn, 22, 1) ? first | second : 0;
	if (is_literal(insn))
		return is_prefetch(insn) ? 0 : first;
	if (is_atomic(insn))
		return first;
	return is_single(insn) && bits(insn, 22, 2) && !is_prefetch(insn) ? first : 0;
}

/* FMOV and conversions to a general register, UMOV and SMOV. */
static bool moves_from_vector(uint32_t insn)
{
	static const uint32_t to_general = 1 << 0 | 1 << 1 | 1 << 4 | 1 << 5 | 1 << 6;

	if (is(insn, 0x5f20fc00, 0x1e200000))
		return to_general >> bits(insn, 16, 3) & 1;
	return is(insn, 0xbfe0fc00, 0x0e003c00) || is(insn, 0xbfe0fc00, 0x0e002c00);
}

uint32_t arm64_written(uint32_t insn)
{
	uint32_t written = 0;

	if (is_memory_group(insn))
		written = loaded(insn);
	else if (is_constant_group(insn) || is_register_group(insn) || moves_from_vector(insn) ||
		 is(insn, 0xfff00000, 0xd5300000))
		written = 1u << bits(insn, 0, 5);
	return written & ~(1u << ARM64_SP);
}

bool arm64_is_call(uint32_t insn)
{
	return is(insn, 0xfc000000, 0x94000000) || is(insn, 0xfffffc1f, 0xd63f0000);
}

bool arm64_is_jump(uint32_t insn)
{
	return is(insn, 0xfffffc1f, 0xd65f0000) || is(insn, 0xfffffc1f, 0xd61f0000) ||
	       is(insn, 0xffe0001f, 0xd4200000) || is(insn, 0xfc000000, 0x14000000);
}

bool arm64_is_load_from_sp(uint32_t insn)
{
	return loaded(insn) && bits(insn, 5, 5) == ARM64_SP &&
	       (is_pair(insn) || (is_single(insn) && !is_atomic(insn)));
}

/* The distance of ADR and ADRP. */
static int64_t distance(uint32_t insn)
{
	return signed_bits(insn, 5, 19) * 4 + bits(insn, 29, 2);
}

bool arm64_adrp(uint32_t insn, uint64_t address, uint32_t *ret_register, uint64_t *ret_page)
{
	if (!is(insn, 0x9f000000, 0x90000000))
		return false;
	*ret_register = bits(insn, 0, 5);
	*ret_page = (address & ~4095ull) + distance(insn) * 4096;
	return true;
}

bool arm64_adr(uint32_t insn, uint64_t address, uint64_t *ret_address)
{
	if (!is(insn, 0x9f000000, 0x10000000))
		return false;
	*ret_address = address + distance(insn);
	return true;
}

/* ADD and SUB that set no flags, of 64 bits. */
static bool constant_of(uint32_t insn, uint32_t kind, uint32_t *ret_base, uint64_t *ret_constant)
{
	if (!is(insn, 0xff800000, kind))
		return false;
	*ret_base = bits(insn, 5, 5);
	*ret_constant = (uint64_t)bits(insn, 10, 12) << (bits(insn, 22, 1) ? 12 : 0);
	return true;
}

bool arm64_add(uint32_t insn, uint32_t *ret_base, uint64_t *ret_constant)
{
	return constant_of(insn, 0x91000000, ret_base, ret_constant);
}

bool arm64_sub(uint32_t insn, uint32_t *ret_base, uint64_t *ret_constant)
{
	return constant_of(insn, 0xd1000000, ret_base, ret_constant);
}

/* By which a load or store multiplies its constant: as a shift. */
static int scale_of(uint32_t insn)
{
	if (is_pair(insn))
		return is_vector(insn) ? 2 + bits(insn, 30, 2) : 2 + bits(insn, 31, 1);
	return is_vector(insn) && bits(insn, 23, 1) ? 4 : bits(insn, 30, 2);
}

bool arm64_memory(uint32_t insn, uint32_t *ret_base, int64_t *ret_displacement)
{
	*ret_base = bits(insn, 5, 5);
	*ret_displacement = 0;
	if (!is_memory_group(insn) || is_literal(insn))
		return false;
	if (is_scaled(insn))
		*ret_displacement = (int64_t)bits(insn, 10, 12) << scale_of(insn);
	else if (is_unscaled(insn))
		*ret_displacement = signed_bits(insn, 12, 9);
	else if (is_pair(insn))
		*ret_displacement = signed_bits(insn, 15, 7) * (1 << scale_of(insn));
	else
		return is_exclusive(insn) || is_atomic(insn);
	return true;
}
