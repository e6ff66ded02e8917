/* Jumps in the target's code, and where they can lead: arm64. */
#ifndef INJECT_JUMP_H
#define INJECT_JUMP_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define SITE_MAX_BYTES 16  /* room for an instruction */
#define SITE_LEAST_BYTES 4 /* of one that can be replaced: all of them */
#define SITE_JUMP_BYTES 4  /* of the jump */
/* As large as any page of the kernel: 4, 16 or 64 KB. */
#define CODE_PAGE_BYTES 65536
#define CODE_REACH 0x7800000ull /* 120 MB of the 128 that a jump reaches */
/* The user's part of the address space. */
#define ADDRESS_LOWEST 0x10000ull
#define ADDRESS_END (1ull << 48)

/* The jump at `from` that leads to `to`; false: it is too far. */
static inline bool jump_make(uint64_t from, uint64_t to, uint8_t ret[SITE_JUMP_BYTES])
{
	int64_t distance = (int64_t)(to - from);
	uint32_t insn = 0x14000000 | ((uint32_t)(distance / 4) & 0x3ffffff); /* b */

	memcpy(ret, &insn, sizeof(insn));
	return !(distance & 3) && distance >= -(1 << 27) && distance < 1 << 27;
}

#endif
