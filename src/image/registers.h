/*
 * The registers of a thread, by their numbers in DWARF: System V ABI AMD64 (figure 3.36), DWARF for
 * the Arm 64-bit Architecture (table 4.1).
 */
#ifndef IMAGE_REGISTERS_H
#define IMAGE_REGISTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "image/elf_file.h"

#define REGISTERS_MAX 33

enum {
	AMD64_RAX = 0,
	AMD64_RDX = 1,
	AMD64_RCX = 2,
	AMD64_RBX = 3,
	AMD64_RSI = 4,
	AMD64_RDI = 5,
	AMD64_RBP = 6,
	AMD64_RSP = 7,
	AMD64_R8 = 8,
	AMD64_R12 = 12,
	AMD64_R14 = 14,
	AMD64_PC = 16, /* the column of the return address */
	ARM64_X28 = 28,
	ARM64_FP = 29,
	ARM64_LR = 30,
	ARM64_SP = 31,
	ARM64_PC = 32,
};

struct registers {
	uint64_t value[REGISTERS_MAX];
	uint64_t known; /* bit n: value[n] is valid; a callee may overwrite the others */
};

/* The registers that unwinding needs. */
struct register_roles {
	uint8_t pc, sp, fp, lr, g; /* lr: on amd64 the same as pc */
};

static inline const struct register_roles *register_roles(enum machine machine)
{
	static const struct register_roles roles[] = {
		[MACHINE_AMD64] = {AMD64_PC, AMD64_RSP, AMD64_RBP, AMD64_PC, AMD64_R14},
		[MACHINE_ARM64] = {ARM64_PC, ARM64_SP, ARM64_FP, ARM64_LR, ARM64_X28},
	};

	return &roles[machine];
}

static inline bool registers_get(const struct registers *r, unsigned int number, uint64_t *ret)
{
	if (number >= REGISTERS_MAX || !(r->known >> number & 1))
		return false;
	*ret = r->value[number];
	return true;
}

static inline void registers_set(struct registers *r, unsigned int number, uint64_t value)
{
	r->value[number] = value;
	r->known |= 1ull << number;
}

#endif
