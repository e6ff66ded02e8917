/* Jumps in the target's code, and where they can lead: amd64. */
#ifndef INJECT_JUMP_H
#define INJECT_JUMP_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define SITE_MAX_BYTES 16  /* of an instruction */
#define SITE_LEAST_BYTES 4 /* of one that can be replaced */
#define SITE_JUMP_BYTES 5  /* of the jump */
#define CODE_PAGE_BYTES 4096
#define CODE_REACH                                                                    \
	0x78000000ull /* 1.9 GB: 32-bit displacements, and some way to go in the code \
		       */
/* The user's part of the address space. */
#define ADDRESS_LOWEST 0x10000ull
#define ADDRESS_END (1ull << 47)

/* The jump at `from` that leads to `to`; false: it is too far. */
static inline bool jump_make(uint64_t from, uint64_t to, uint8_t ret[SITE_JUMP_BYTES])
{
	int64_t distance = (int64_t)(to - (from + SITE_JUMP_BYTES));
	int32_t near = (int32_t)distance;

	ret[0] = 0xe9;
	memcpy(ret + 1, &near, sizeof(near));
	return near == distance;
}

#endif
