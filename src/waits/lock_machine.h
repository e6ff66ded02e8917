/*
 * What lock_code.c asks of a machine's instructions: lock_amd64.c and lock_arm64.c. Each is for
 * programs of that machine, which gospect reads on any.
 */
#ifndef WAITS_LOCK_MACHINE_H
#define WAITS_LOCK_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/image.h"
#include "waits/lock_code.h"

/* A function whose code is read. Its instructions are listed before one is asked about. */
struct lock_reading {
	const struct image *img;
	const struct go_func *f;
	int minor; /* Go 1.N */
	const struct lock_machine *machine;
	const uint8_t *bytes;
	struct lock_code *code;
};

/* Where an instruction leads. */
struct lock_flow {
	uint8_t length;
	bool calls;       /* at `distance`, from the instruction's first byte; 0: not known */
	bool branches;    /* there, likewise */
	bool ends;        /* the next instruction does not follow it */
	bool is_computed; /* it branches to where nobody knows */
	int64_t distance;
};

enum lock_change { LOCK_NO_CHANGE, LOCK_COMPARES_AND_SWAPS, LOCK_ADDS };

struct lock_machine {
	/* false: no instruction is there. */
	bool (*flow)(const uint8_t *code, size_t size, struct lock_flow *ret);
	/* What instruction i changes atomically, and where the address of that comes from. */
	enum lock_change (*change)(const struct lock_reading *r, size_t i);
	struct lock_operand (*changed)(const struct lock_reading *r, size_t i);
	/* Where the first argument of the call comes from. */
	struct lock_operand (*argument)(const struct lock_reading *r, size_t i);
};

extern const struct lock_machine lock_amd64, lock_arm64;

static inline bool lock_has_target(const struct lock_insn *insn)
{
	return insn->target != LOCK_NO_TARGET;
}

/* The instruction, by its number. */
static inline const uint8_t *lock_bytes(const struct lock_reading *r, size_t i)
{
	return r->bytes + r->code->insns[i].offset;
}

static inline uint64_t lock_address(const struct lock_reading *r, size_t i)
{
	return r->f->entry + r->code->insns[i].offset;
}

/* How many instructions are searched: before for an operand, after for a store of it. */
enum { LOCK_BACK = 64, LOCK_AHEAD = 32 };

#endif
