#include "inject/remote_registers.h"

#include <elf.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <time.h>
#include <unistd.h>

#include "inject/signal_frame.h"
#include "inject/user_registers.h"

#define SIGINFO_BYTES 128
#define SVC 0xd4000001u

struct remote_registers {
	struct user_regs_struct user;
	struct user_fpsimd_struct floats;
	uint64_t mask;
};

/* arch/arm64/kernel/signal.c: struct rt_sigframe, and what setup_sigframe() puts there. */
struct frame {
	uint8_t siginfo[SIGINFO_BYTES];
	struct signal_frame context; /* with the head of the floats */
	uint32_t fpsr, fpcr;
	uint8_t vectors[512];
	uint32_t end, end_bytes;
};
_Static_assert(sizeof(struct frame) <= REMOTE_FRAME_MOST, "it fits");
_Static_assert(offsetof(struct frame, end) - offsetof(struct frame, context.next) ==
		       SIGNAL_FRAME_FLOAT_BYTES,
	       "no padding");

struct remote_registers *remote_registers_create(void)
{
	return calloc(1, sizeof(struct remote_registers));
}

/* The system call, which the stop interrupted, waits until a time: to be repeated it has to be
 * resumed, or it waits from the beginning. */
static bool has_timeout(const struct user_regs_struct *u)
{
	int operation = (int)u->regs[1] & FUTEX_CMD_MASK;

	switch (u->regs[8]) {
	case SYS_nanosleep:
		return true;
	case SYS_clock_nanosleep:
		return !(u->regs[1] & TIMER_ABSTIME);
	case SYS_futex:
		return u->regs[3] && (operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET);
	default:
		return false;
	}
}

/* The kernel has put the pc back to the system call that has to be repeated, and its first argument
 * to where it was (arch/arm64/kernel/signal.c: do_signal()). */
static bool is_at_syscall(int memory, const struct user_regs_struct *u)
{
	uint32_t insn;

	return pread(memory, &insn, sizeof(insn), (off_t)u->pc) == sizeof(insn) && insn == SVC;
}

static void resume_syscall(int memory, struct user_regs_struct *u)
{
	if (is_at_syscall(memory, u) && has_timeout(u))
		u->regs[8] = SYS_restart_syscall;
}

bool remote_registers_save(pid_t id, int memory, struct remote_registers *ret)
{
	struct iovec general = {&ret->user, sizeof(ret->user)};
	struct iovec floats = {&ret->floats, sizeof(ret->floats)};

	if (ptrace(PTRACE_GETREGSET, id, NT_PRSTATUS, &general) ||
	    ptrace(PTRACE_GETREGSET, id, NT_PRFPREG, &floats) ||
	    ptrace(PTRACE_GETSIGMASK, id, sizeof(ret->mask), &ret->mask))
		return false;
	resume_syscall(memory, &ret->user);
	return true;
}

/* The kernel has forgotten it by then (forget_syscall() in do_signal()). */
long remote_registers_next_call(const struct remote_registers *r, int memory)
{
	return is_at_syscall(memory, &r->user) ? (long)r->user.regs[8] : -1;
}

uint64_t remote_registers_sp(const struct remote_registers *r)
{
	return r->user.sp;
}

static struct frame frame_of(const struct remote_registers *r)
{
	struct frame f = {.context = {.mask = r->mask,
				      .sp = r->user.sp,
				      .pc = r->user.pc,
				      .state = r->user.pstate,
				      .next = SIGNAL_FRAME_FLOATS,
				      .next_bytes = SIGNAL_FRAME_FLOAT_BYTES},
			  .fpsr = r->floats.fpsr,
			  .fpcr = r->floats.fpcr};

	memcpy(f.context.registers, r->user.regs, sizeof(f.context.registers));
	memcpy(f.vectors, r->floats.vregs, sizeof(f.vectors));
	return f;
}

size_t remote_registers_frame(const struct remote_registers *r, const struct remote_place *place,
			      uint8_t ret[REMOTE_FRAME_MOST])
{
	struct frame f = frame_of(r);

	f.context.stack = place->stack_low;
	f.context.stack_size = place->stack_high - place->stack_low;
	memcpy(ret, &f, sizeof(f));
	return sizeof(f);
}

size_t remote_registers_end_frame(const struct remote_registers *r,
				  const struct remote_place *place, uint8_t ret[REMOTE_FRAME_MOST])
{
	struct frame f = frame_of(r);

	f.context.pc = place->syscall;
	f.context.sp = place->frame;
	f.context.registers[0] = 0;
	f.context.registers[8] = SYS_exit_group;
	f.context.mask = ~0ull;
	memcpy(ret, &f, sizeof(f));
	return sizeof(f);
}

struct thread_registers remote_registers_given(const struct remote_registers *r)
{
	return thread_registers_of(&r->user, r->mask);
}

static bool set(pid_t id, const struct user_regs_struct *u, uint64_t mask)
{
	struct user_regs_struct copy = *u;
	struct iovec from = {&copy, sizeof(copy)};

	return !ptrace(PTRACE_SETREGSET, id, NT_PRSTATUS, &from) &&
	       !ptrace(PTRACE_SETSIGMASK, id, sizeof(mask), &mask);
}

bool remote_registers_call(pid_t id, const struct remote_registers *r,
			   const struct remote_place *place, long number, const uint64_t a[6])
{
	struct user_regs_struct u = r->user;

	memcpy(u.regs, a, 6 * sizeof(a[0]));
	u.regs[8] = number;
	u.regs[30] = place->restore;
	u.sp = place->frame;
	u.pc = place->syscall;
	return set(id, &u, ~0ull);
}

bool remote_registers_result(pid_t id, int64_t *ret)
{
	struct user_regs_struct u;
	struct iovec to = {&u, sizeof(u)};

	if (ptrace(PTRACE_GETREGSET, id, NT_PRSTATUS, &to))
		return false;
	*ret = (int64_t)u.regs[0];
	return true;
}

void remote_registers_restore(pid_t id, const struct remote_registers *r)
{
	set(id, &r->user, r->mask);
}
