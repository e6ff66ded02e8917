/* What the kernel puts on the stack of a signal handler: amd64. */
#ifndef INJECT_SIGNAL_FRAME_H
#define INJECT_SIGNAL_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

/* With all of a CPU's registers, and the red zone. */
#define SIGNAL_FRAME_MOST 16384

/* The kernel's struct ucontext (asm-generic/ucontext.h, asm/sigcontext.h). */
struct signal_frame {
	uint64_t flags, link;
	uint64_t stack, stack_flags, stack_size;
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
	uint64_t rdi, rsi, rbp, rbx, rdx, rax, rcx, sp, pc, eflags;
	uint16_t cs, gs, fs, ss;
	uint64_t error, trap, old_mask, cr2, fpstate, reserved[8];
	uint64_t mask;
};
_Static_assert(offsetof(struct signal_frame, pc) ==
		       offsetof(ucontext_t, uc_mcontext.gregs[REG_RIP]),
	       "as the kernel has it");
_Static_assert(offsetof(struct signal_frame, mask) == offsetof(ucontext_t, uc_sigmask),
	       "as the kernel has it");

/* asm/ucontext.h. */
enum { UC_FP_XSTATE = 1, UC_SIGCONTEXT_SS = 2, UC_STRICT_RESTORE_SS = 4 };

/* These bytes may be one. The segment is that of 64-bit code (asm/segment.h: __USER_CS); that also
 * rules out a function's frame: a frame pointer, and behind it the return address. */
static inline bool signal_frame_is_likely(const uint8_t *bytes)
{
	uint16_t segment;

	memcpy(&segment, bytes + offsetof(struct signal_frame, cs), sizeof(segment));
	return segment == 0x33;
}

/* What is at `at` has all marks of one. */
static inline bool signal_frame_is_whole(const struct signal_frame *f, uint64_t at)
{
	return f->flags <= (UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS) && !f->link &&
	       (!f->fpstate || f->fpstate - at < SIGNAL_FRAME_MOST);
}

#endif
