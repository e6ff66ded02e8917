/*
 * Stacks, each kept once and known by a small number, and the unwinder that makes them.
 *
 * Unwinding is exact: it steps by the pcsp tables, as the runtime's own traceback does, so it is
 * right in prologues, epilogues and frameless leaves, wherever a goroutine stands. It works on a
 * copy of the stack's memory and knows nothing of the process.
 *
 * Most stacks are recognised rather than unwound. A template is keyed by the innermost pc and the
 * number of bytes in use, and lists the places and values of the return addresses. When all of them
 * are the same in another stack, the walk would be the same: each step depends on the pc alone. No
 * chain of loads, no lookup by pc: 2 ns a frame.
 */
#ifndef UNWIND_STACKS_H
#define UNWIND_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/elf_file.h"
#include "image/pclntab.h"
#include "unwind/method.h"

/* No stack: it could not be unwound, which means that it was torn. */
#define STACK_NONE 0u

#define STACK_MAX_FRAMES 65536

struct stack {
	const uint64_t *pcs; /* stack words (image/pclntab.h), innermost first */
	uint32_t count;
	bool truncated; /* STACK_PC_TRUNCATED stands where frames are missing */
};

/* Where unwinding begins, and a copy of the stack from sp on. */
struct stack_memory {
	uint64_t pc;
	uint64_t sp;
	uint64_t fp;       /* the frame pointer, for UNWIND_FP; 0: not known */
	uint64_t lr;       /* arm64: the return address of a function that has not saved it yet */
	uint64_t start_pc; /* the goroutine's start function; put at the end of a truncated stack */
	bool exact_pc;     /* pc is that of an interrupted instruction, not a return address */
	const uint8_t *bytes;
	size_t size;
	size_t below; /* bytes of the copy that lie before sp, where arm64 has a frame record */
	bool whole;   /* the copy goes up to the stack's end */
};

struct stacks;

/* NULL when there is no memory. Keeps `functions`. */
struct stacks *stacks_create(const struct pclntab *functions, enum machine machine);
void stacks_destroy(struct stacks *s);

/* Finds frames so from now on; before the first stack. By pcsp, when it was not called. */
void stacks_unwind_by(struct stacks *s, const struct unwinding *by);
const struct unwinding *stacks_unwinding(const struct stacks *s);

/*
 * The stack's number, or STACK_NONE when the bytes do not lead to the function where a goroutine's
 * stack ends. *ret is valid when there is no error; the only error is ERROR_NO_MEMORY.
 */
struct error *stacks_unwind(struct stacks *s, const struct stack_memory *memory,
			    uint32_t *ret) must_check;

/* The number of a stack given by its words; STACK_NONE when there are too many already. */
struct error *stacks_intern(struct stacks *s, const uint64_t *pcs, size_t count,
			    uint32_t *ret) must_check;

/* Keeps at most so many words of stacks from now on. A new stack past that is "[other stacks]",
 * under the function where it began; each time that one is seen is counted. */
void stacks_limit(struct stacks *s, size_t words);
uint64_t stacks_dropped(const struct stacks *s);

/* The stack of this number; it stays where it is. */
struct stack stacks_get(const struct stacks *s, uint32_t id);
size_t stacks_count(const struct stacks *s);

static inline void cleanup_stacks(struct stacks **s)
{
	stacks_destroy(*s);
}
#define _cleanup_stacks_ __attribute__((cleanup(cleanup_stacks)))

#endif
