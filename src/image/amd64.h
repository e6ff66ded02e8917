/*
 * Decodes amd64 instructions: the length of each, and the register and address that it names.
 * Moving instructions elsewhere takes more (hooks).
 *
 * Source: Intel's Software Developer's Manual, volume 2, chapter 2 and the opcode maps of appendix
 * A.
 */
#ifndef IMAGE_AMD64_H
#define IMAGE_AMD64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As ModRM numbers them; the others have no name here. */
enum modrm_register {
	MODRM_RSP = 4,
	MODRM_RBP = 5,
	MODRM_PC = 16,
	MODRM_NONE,
};

/* Which escape precedes the opcode: none, 0f, 0f 38 or 0f 3a. */
enum amd64_map { AMD64_ONE_BYTE, AMD64_0F, AMD64_0F38, AMD64_0F3A, AMD64_OTHER_MAP };

struct amd64_insn {
	size_t length;
	enum amd64_map map;
	uint8_t opcode;
	bool is_vector; /* VEX or EVEX: registers may be those of vectors and masks */
	bool repeats;   /* F3, which makes another instruction of some */
	bool is_wide;   /* REX.W */
	bool is_short;  /* 16 bits */
	uint8_t rex;    /* R, X and B, as in a REX prefix */
	bool has_modrm;
	bool is_memory; /* ModRM names memory: `base` and `displacement` */
	uint8_t reg;    /* of ModRM */
	uint8_t rm;     /* of ModRM, when it is a register */
	enum modrm_register base;
	int32_t displacement;
	int32_t relative; /* of a branch, from its end on */
};

/* False when there is no instruction, or not all of it is there. */
bool amd64_decode(const uint8_t *code, size_t size, struct amd64_insn *ret);

/* The register, of 16 bits or more, that the instruction computes and names as its first
 * operand. */
enum modrm_register amd64_written(const struct amd64_insn *insn);

/* CALL of an address in the instruction. */
bool amd64_is_call(const struct amd64_insn *insn);
/* RET, JMP, UD2: the code behind it, if it is reached at all, is reached from elsewhere. */
bool amd64_is_jump(const struct amd64_insn *insn);
bool amd64_is_lea(const struct amd64_insn *insn);
bool amd64_is_pop(const struct amd64_insn *insn);
/* MOV from memory. */
bool amd64_is_load(const struct amd64_insn *insn);
/* MOV from this register to another. */
bool amd64_is_copy_of(const struct amd64_insn *insn, enum modrm_register from);

#endif
