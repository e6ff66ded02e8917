/*
 * Decodes arm64 instructions: the registers that each writes, and the address that it names.
 * Registers are numbered as in the instruction, and in image/registers.h; 31 is SP or none.
 *
 * Source: the Arm Architecture Reference Manual, chapter C4, A64 Instruction Set Encoding.
 */
#ifndef IMAGE_ARM64_H
#define IMAGE_ARM64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/registers.h"

enum { ARM64_REGISTERS = 32 };

/* Whether it is a valid encoding; the others are data among the code. */
bool arm64_is_instruction(uint32_t insn);

/* The general registers that it computes or loads, as bits: without an updated base register, and
 * without SP. */
uint32_t arm64_written(uint32_t insn);

/* BL and BLR. */
bool arm64_is_call(uint32_t insn);
/* RET, BR, BRK, B: the code behind it, if it is reached at all, is reached from elsewhere. */
bool arm64_is_jump(uint32_t insn);
/* LDR, LDUR or LDP of general registers, relative to SP. */
bool arm64_is_load_from_sp(uint32_t insn);

/* ADRP: its register, and the page; `address` is the instruction's. */
bool arm64_adrp(uint32_t insn, uint64_t address, uint32_t *ret_register, uint64_t *ret_page);
/* ADR, likewise. */
bool arm64_adr(uint32_t insn, uint64_t address, uint64_t *ret_address);
/* ADD or SUB of a constant, which may be shifted; *ret_base is the register that it is added to. */
bool arm64_add(uint32_t insn, uint32_t *ret_base, uint64_t *ret_constant);
bool arm64_sub(uint32_t insn, uint32_t *ret_base, uint64_t *ret_constant);
/* A load or store at a register and a constant, which writes no base before. */
bool arm64_memory(uint32_t insn, uint32_t *ret_base, int64_t *ret_displacement);

#endif
