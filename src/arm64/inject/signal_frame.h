/* What the kernel puts on the stack of a signal handler: arm64. */
#ifndef INJECT_SIGNAL_FRAME_H
#define INJECT_SIGNAL_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

/* With vectors of any length, and the siginfo. */
#define SIGNAL_FRAME_MOST 32768
/* uapi/asm/sigcontext.h: FPSIMD_MAGIC, struct fpsimd_context. */
#define SIGNAL_FRAME_FLOATS 0x46508001u
#define SIGNAL_FRAME_FLOAT_BYTES 528u

/* The kernel's struct ucontext (asm/ucontext.h, asm/sigcontext.h), with the head of what follows.
 */
struct signal_frame {
	uint64_t flags, link;
	uint64_t stack, stack_flags, stack_size;
	uint64_t mask;
	uint64_t unused[16];
	uint64_t fault, registers[31], sp, pc, state, padding;
	uint32_t next, next_bytes;
};
_Static_assert(offsetof(struct signal_frame, pc) == offsetof(ucontext_t, uc_mcontext.pc),
	       "as the kernel has it");
_Static_assert(offsetof(struct signal_frame, next) == offsetof(ucontext_t, uc_mcontext.__reserved),
	       "as the kernel has it");
_Static_assert(offsetof(struct signal_frame, mask) == offsetof(ucontext_t, uc_sigmask),
	       "as the kernel has it");

/* These bytes may be one. */
static inline bool signal_frame_is_likely(const uint8_t *bytes)
{
	uint32_t next[2];

	memcpy(next, bytes + offsetof(struct signal_frame, next), sizeof(next));
	return next[0] == SIGNAL_FRAME_FLOATS && next[1] == SIGNAL_FRAME_FLOAT_BYTES;
}

/* What is at `at` has all marks of one. */
static inline bool signal_frame_is_whole(const struct signal_frame *f, uint64_t at)
{
	(void)at;
	return !f->flags && !f->link;
}

#endif
