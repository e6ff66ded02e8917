#include "inject/remote_registers.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>

#include "inject/signal_frame.h"
#include "inject/user_registers.h"

/* From the frame: the state of the floating-point unit. The kernel wants it so aligned. */
#define FLOAT_OFFSET 1024
#define FLOAT_ALIGNMENT 64
#define MAX_FLOAT_BYTES 16384
/* The least room of the signal stack above all that. */
#define LEAST_LEFT 4096

/* Where XSAVE leaves room for software, the kernel has this (asm/sigcontext.h: _fpx_sw_bytes). */
#define FLOAT_SOFTWARE_OFFSET 464
#define FLOAT_BEGIN 0x46505853u
#define FLOAT_END 0x46505845u

struct remote_registers {
	struct user_regs_struct user;
	uint64_t mask;
	size_t float_bytes;
	uint8_t floats[MAX_FLOAT_BYTES + sizeof(uint32_t)]; /* as of XSAVE, and FLOAT_END */
};

struct float_software {
	uint32_t begin;
	uint32_t all_bytes; /* with FLOAT_END */
	uint64_t features;
	uint32_t bytes;
};

/* The arguments of rt_sigreturn: arch/x86/include/asm/sigframe.h. */
struct frame {
	uint64_t restore;
	struct signal_frame context;
};
_Static_assert(sizeof(struct frame) <= FLOAT_OFFSET, "the floats lie behind it");

/* linux/errno.h: results of a system call that the stop interrupted, and how the kernel resumes it.
 */
enum { RESTART_FIRST = 512, RESTART_LAST = 514, RESTART_BLOCK = 516 };

struct remote_registers *remote_registers_create(void)
{
	return calloc(1, sizeof(struct remote_registers));
}

static bool restart_syscall(struct user_regs_struct *regs)
{
	long result = -(long)regs->rax;

	if ((long)regs->orig_rax < 0)
		return false;
	if (result >= RESTART_FIRST && result <= RESTART_LAST) {
		regs->rax = regs->orig_rax;
		regs->rip -= 2;
	} else if (result == RESTART_BLOCK) {
		regs->rax = SYS_restart_syscall;
		regs->rip -= 2;
	} else if (result > 0 && result != EINTR && result != EAGAIN && result != ETIMEDOUT) {
		return false;
	}
	regs->orig_rax = -1;
	return true;
}

/* ptrace gives the form of signal frames, except for the fields with its size. */
static void read_floats(pid_t id, struct remote_registers *saved)
{
	struct iovec to = {saved->floats, MAX_FLOAT_BYTES};
	struct float_software about = {.begin = FLOAT_BEGIN};
	const uint32_t end = FLOAT_END;

	saved->float_bytes = 0;
	if (ptrace(PTRACE_GETREGSET, id, NT_X86_XSTATE, &to) ||
	    to.iov_len < FLOAT_SOFTWARE_OFFSET + sizeof(about))
		return;
	about.bytes = to.iov_len;
	about.all_bytes = to.iov_len + sizeof(end);
	memcpy(&about.features, saved->floats + FLOAT_SOFTWARE_OFFSET, sizeof(about.features));
	memcpy(saved->floats + FLOAT_SOFTWARE_OFFSET, &about, sizeof(about));
	memcpy(saved->floats + to.iov_len, &end, sizeof(end));
	saved->float_bytes = about.all_bytes;
}

bool remote_registers_save(pid_t id, int memory, struct remote_registers *ret)
{
	if (ptrace(PTRACE_GETREGS, id, NULL, &ret->user) ||
	    ptrace(PTRACE_GETSIGMASK, id, sizeof(ret->mask), &ret->mask) ||
	    !restart_syscall(&ret->user))
		return false;
	read_floats(id, ret);
	return true;
}

long remote_registers_next_call(const struct remote_registers *r, int memory)
{
	return -1;
}

uint64_t remote_registers_sp(const struct remote_registers *r)
{
	return r->user.rsp;
}

static struct signal_frame context_of(const struct remote_registers *r,
				      const struct remote_place *place)
{
	const struct user_regs_struct *u = &r->user;

	return (struct signal_frame){
		.flags = UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS,
		.stack = place->stack_low,
		.stack_size = place->stack_high - place->stack_low,
		.r8 = u->r8,
		.r9 = u->r9,
		.r10 = u->r10,
		.r11 = u->r11,
		.r12 = u->r12,
		.r13 = u->r13,
		.r14 = u->r14,
		.r15 = u->r15,
		.rdi = u->rdi,
		.rsi = u->rsi,
		.rbp = u->rbp,
		.rbx = u->rbx,
		.rdx = u->rdx,
		.rax = u->rax,
		.rcx = u->rcx,
		.sp = u->rsp,
		.pc = u->rip,
		.eflags = u->eflags,
		.cs = u->cs,
		.ss = u->ss,
		.mask = r->mask,
	};
}

size_t remote_registers_frame(const struct remote_registers *r, const struct remote_place *place,
			      uint8_t ret[REMOTE_FRAME_MOST])
{
	uint64_t floats =
		(place->frame + FLOAT_OFFSET + FLOAT_ALIGNMENT - 1) & ~(FLOAT_ALIGNMENT - 1ull);
	struct frame f = {.restore = place->restore, .context = context_of(r, place)};
	size_t end = floats - place->frame + r->float_bytes;

	/* Where the stack has no room for them, they are as they are then. */
	if (!r->float_bytes || place->frame + end + LEAST_LEFT > place->stack_high) {
		memcpy(ret, &f, sizeof(f));
		return sizeof(f);
	}
	f.context.fpstate = floats;
	f.context.flags |= UC_FP_XSTATE;
	memset(ret, 0, end);
	memcpy(ret, &f, sizeof(f));
	memcpy(ret + (floats - place->frame), r->floats, r->float_bytes);
	return end;
}

size_t remote_registers_end_frame(const struct remote_registers *r,
				  const struct remote_place *place, uint8_t ret[REMOTE_FRAME_MOST])
{
	struct frame f = {.restore = place->restore, .context = context_of(r, place)};

	f.context.stack = f.context.stack_size = 0;
	f.context.pc = place->syscall;
	f.context.sp = place->frame;
	f.context.rax = SYS_exit_group;
	f.context.rdi = 0;
	f.context.mask = ~0ull;
	memcpy(ret, &f, sizeof(f));
	return sizeof(f);
}

struct thread_registers remote_registers_given(const struct remote_registers *r)
{
	return thread_registers_of(&r->user, r->mask);
}

bool remote_registers_call(pid_t id, const struct remote_registers *r,
			   const struct remote_place *place, long number, const uint64_t a[6])
{
	struct user_regs_struct u = r->user;
	uint64_t all = ~0ull;

	u.rip = place->syscall;
	u.rsp = place->frame;
	u.rax = number;
	u.orig_rax = -1;
	u.rdi = a[0];
	u.rsi = a[1];
	u.rdx = a[2];
	u.r10 = a[3];
	u.r8 = a[4];
	u.r9 = a[5];
	return !ptrace(PTRACE_SETREGS, id, NULL, &u) &&
	       !ptrace(PTRACE_SETSIGMASK, id, sizeof(all), &all);
}

bool remote_registers_result(pid_t id, int64_t *ret)
{
	struct user_regs_struct u;

	if (ptrace(PTRACE_GETREGS, id, NULL, &u))
		return false;
	*ret = (int64_t)u.rax;
	return true;
}

void remote_registers_restore(pid_t id, const struct remote_registers *r)
{
	uint64_t mask = r->mask;

	ptrace(PTRACE_SETREGS, id, NULL, &r->user);
	ptrace(PTRACE_SETSIGMASK, id, sizeof(mask), &mask);
}
