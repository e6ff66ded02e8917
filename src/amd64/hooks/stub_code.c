/*
 * At a probe site R12, R13 and the flags are free, R14 is the g that runs, RBP the function's
 * frame (hooks/probe_site.h). Nothing is written to the stack that the thread is on: goroutines
 * have little room. The thread's XMM registers are not touched.
 */
#include "hooks/stub_code.h"

#include <stddef.h>
#include <string.h>

#include "agent/blob.h"

const size_t stub_code_bytes = 64, stub_code_common_bytes = 1264;

#define EMIT(c, ...)                                          \
	do {                                                  \
		static const uint8_t code_[] = {__VA_ARGS__}; \
		code_put(c, code_, sizeof(code_));            \
	} while (0)

static void emit32(struct code *c, uint32_t value)
{
	code_put(c, &value, sizeof(value));
}

/* Emits a 32-bit displacement; `behind` more bytes of the instruction follow it. */
static void emit_relative(struct code *c, uint64_t to, unsigned int behind)
{
	int64_t distance = (int64_t)(to - (code_here(c) + 4 + behind));

	c->failed |= distance != (int32_t)distance;
	emit32(c, (uint32_t)distance);
}

/* Emits a jump whose displacement patch_jump() fills in later. */
static size_t emit_jump_placeholder(struct code *c)
{
	emit32(c, 0);
	return c->at;
}

static void patch_jump(struct code *c, size_t from)
{
	uint32_t distance = c->at - from;

	if (!c->failed)
		memcpy(c->page + from - 4, &distance, 4);
}

static void emit_jump(struct code *c, uint64_t to)
{
	EMIT(c, 0xe9); /* jmp to */
	emit_relative(c, to, 0);
}

/* Takes the slot of the P in R13 and marks it busy; jumps ahead if there is none. */
static void take_slot(struct code *c, const struct code_head *head, const struct stub_numbers *n,
		      size_t ret_jumps[3])
{
	EMIT(c, 0x4d, 0x85, 0xed, 0x0f, 0x84); /* test r13, r13; je */
	ret_jumps[0] = emit_jump_placeholder(c);
	EMIT(c, 0x45, 0x8b, 0xad); /* mov r13d, [r13 + p.id] */
	emit32(c, n->p_id);
	EMIT(c, 0x41, 0x81, 0xfd); /* cmp r13d, slots */
	emit32(c, n->p_slots);
	EMIT(c, 0x0f, 0x83); /* jae */
	ret_jumps[1] = emit_jump_placeholder(c);
	EMIT(c, 0x49, 0xc1, 0xe5, AGENT_SLOT_SHIFT); /* shl r13, shift */
	EMIT(c, 0x4c, 0x03, 0x2d);                   /* add r13, [slots] */
	emit_relative(c, head->control + offsetof(struct code_control, slots), 0);
	EMIT(c, 0x41, 0x83, 0x7d, offsetof(struct agent_slot, busy), 0, 0x0f, 0x85); /* cmp; jne */
	ret_jumps[2] = emit_jump_placeholder(c);
	EMIT(c, 0x41, 0xc7, 0x45, offsetof(struct agent_slot, busy), 1, 0, 0, 0); /* busy = 1 */
}

/* One of the fallback slots; when all are taken, the call is counted as lost. R12 stays as it is.
 */
static void take_fallback(struct code *c, const struct code_head *head, size_t have)
{
	uint64_t control = head->control;

	EMIT(c, 0x4c, 0x8b, 0x2d); /* mov r13, [fallback_slots] */
	emit_relative(c, head->code + offsetof(struct code_head, fallback_slots), 0);
	for (unsigned int i = 0; i < AGENT_FALLBACK_SLOTS; i++) {
		/* lock bts dword [r13 + busy], 0; jnc have; add r13, bytes of a slot */
		EMIT(c, 0xf0, 0x41, 0x0f, 0xba, 0x6d, offsetof(struct agent_slot, busy), 0);
		EMIT(c, 0x0f, 0x83);
		emit_relative(c, c->address + have, 0);
		EMIT(c, 0x49, 0x81, 0xc5);
		emit32(c, AGENT_SLOT_BYTES);
	}
	EMIT(c, 0xf0, 0x48, 0xff, 0x05); /* lock inc qword [lost] */
	emit_relative(c, control + offsetof(struct code_control, lost), 0);
}

/* if (!enabled) goto out: the first thing, for in a child of fork nothing else is there. */
static size_t leave_when_disabled(struct code *c, const struct code_head *head)
{
	EMIT(c, 0x83, 0x3d); /* cmp dword [enabled], 0 */
	emit_relative(c, head->control + offsetof(struct code_control, enabled), 1);
	EMIT(c, 0, 0x0f, 0x84); /* je */
	return emit_jump_placeholder(c);
}

/* R13 = getg().m.p */
static void load_p(struct code *c, const struct stub_numbers *n)
{
	EMIT(c, 0x4d, 0x8b, 0xae); /* mov r13, [r14 + g.m] */
	emit32(c, n->g_m);
	EMIT(c, 0x4d, 0x8b, 0xad); /* mov r13, [r13 + m.p] */
	emit32(c, n->m_p);
}

/* Sets the agent's arguments except the hook's number, and calls it; RSP is the slot's stack. */
static void call_agent(struct code *c, const struct code_head *head)
{
	EMIT(c, 0x4c, 0x89, 0xef, 0x48, 0x89, 0xe6); /* mov rdi, r13; mov rsi, rsp */
	EMIT(c, 0x4c, 0x89, 0xf1, 0x4d, 0x89, 0xe0); /* mov rcx, r14; mov r8, r12 */
	EMIT(c, 0x49, 0x89, 0xe9, 0xff, 0x15);       /* mov r9, rbp; call [agent] */
	emit_relative(c, head->code + offsetof(struct code_head, agent), 0);
}

static void switch_stack(struct code *c)
{
	EMIT(c, 0x49, 0x89, 0xe4, 0x4c, 0x89, 0xec); /* mov r12, rsp; mov rsp, r13 */
}

static void release_slot(struct code *c)
{
	EMIT(c, 0x41, 0xc7, 0x45, offsetof(struct agent_slot, busy), 0, 0, 0, 0); /* busy = 0 */
}

/* The replaced instruction, and the jump back behind it. */
static void go_on(struct code *c, const struct code_site *site)
{
	int32_t distance;

	code_put(c, site->bytes, site->relative ?: site->length);
	if (site->relative) {
		size_t behind = site->length - site->relative - sizeof(distance);

		memcpy(&distance, site->bytes + site->relative, sizeof(distance));
		emit_relative(c, site->address + site->length + distance, behind);
		code_put(c, site->bytes + site->length - behind, behind);
	}
	emit_jump(c, site->address + site->length);
}

/* R12 = getg().m, which will look as if it called the vDSO from the probe site; R13 = m.p */
static void load_thread(struct code *c, const struct stub_numbers *n, uint64_t site)
{
	EMIT(c, 0x4d, 0x8b, 0xa6); /* mov r12, [r14 + g.m] */
	emit32(c, n->g_m);
	EMIT(c, 0x4c, 0x8d, 0x2d); /* lea r13, [probe site] */
	emit_relative(c, site, 0);
	EMIT(c, 0x4d, 0x89, 0xac, 0x24); /* mov [r12 + m.vdsoPC], r13 */
	emit32(c, n->m_vdso_pc);
	EMIT(c, 0x4d, 0x8b, 0xac, 0x24); /* mov r13, [r12 + m.p] */
	emit32(c, n->m_p);
}

/* The thread, R12, looks so from here on; SP is still the probe site's. */
static void set_vdso_marker(struct code *c, const struct stub_numbers *n)
{
	EMIT(c, 0x49, 0x89, 0xa4, 0x24); /* mov [r12 + m.vdsoSP], rsp */
	emit32(c, n->m_vdso_sp);
}

static void end_vdso(struct code *c, const struct stub_numbers *n)
{
	EMIT(c, 0x4d, 0x8b, 0xa6); /* mov r12, [r14 + g.m] */
	emit32(c, n->g_m);
	EMIT(c, 0x49, 0xc7, 0x84, 0x24); /* mov qword [r12 + m.vdsoSP], 0 */
	emit32(c, n->m_vdso_sp);
	emit32(c, 0);
}

/* (slot, RAX, RBX << 16 | RCX, thread, RBP, R14): of agent_status() and agent_change(). RAX
 * and RCX are as they were at the probe site. */
static void load_arguments(struct code *c, const struct stub_numbers *n)
{
	EMIT(c, 0x48, 0x89, 0xc6, 0x89, 0xda); /* mov rsi, rax; mov edx, ebx */
	EMIT(c, 0xc1, 0xe2, 16, 0x09, 0xca);   /* shl edx, 16; or edx, ecx */
	EMIT(c, 0x49, 0x8b, 0x8e);             /* mov rcx, [r14 + g.m] */
	emit32(c, n->g_m);
	EMIT(c, 0x4c, 0x89, 0xef, 0x49, 0x89, 0xe8); /* mov rdi, r13; mov r8, rbp */
	EMIT(c, 0x4d, 0x89, 0xf1, 0xe8);             /* mov r9, r14; call */
}

/* C keeps RBX. Leaps to where agent_status() has not been enough. */
static size_t call_status(struct code *c, const struct code_head *head,
			  const struct stub_numbers *n)
{
	size_t more;

	switch_stack(c);
	EMIT(c, 0x51, 0x50); /* push rcx, rax */
	load_arguments(c, n);
	emit_relative(c, head->agent + agent_blob_status, 0);
	EMIT(c, 0x85, 0xc0, 0x0f, 0x84); /* test eax, eax; je */
	more = emit_jump_placeholder(c);
	return more;
}

static void call_change(struct code *c, const struct code_head *head, const struct stub_numbers *n,
			size_t back)
{
	/* mov rax, [rsp]; mov rcx, [rsp + 8] */
	EMIT(c, 0x48, 0x8b, 0x04, 0x24, 0x48, 0x8b, 0x4c, 0x24, 8);
	load_arguments(c, n);
	emit_relative(c, head->agent + agent_blob_change, 0);
	emit_jump(c, c->address + back);
}

/* casgstatus is called more often than all others: its stub is in one piece. */
static void write_casgstatus(struct code *c, const struct code_head *head,
			     const struct stub_numbers *n, bool check_syscall)
{
	size_t out, jumps[3], syscall = 0, dead = 0, have, more, back, done;

	out = leave_when_disabled(c, head);
	load_thread(c, n, head->sites[HOOK_CASGSTATUS].address);
	if (check_syscall) {
		EMIT(c, 0x83, 0xfb, 3, 0x0f, 0x84); /* cmp ebx, _Gsyscall; je */
		syscall = emit_jump_placeholder(c);
		EMIT(c, 0x83, 0xfb, 11, 0x0f, 0x84); /* cmp ebx, _Gdeadextra; je */
		dead = emit_jump_placeholder(c);
	}
	take_slot(c, head, n, jumps);
	have = c->at;
	set_vdso_marker(c, n);
	more = call_status(c, head, n);
	back = c->at;
	EMIT(c, 0x58, 0x59, 0x4c, 0x89, 0xe4); /* pop them; mov rsp, r12 */
	end_vdso(c, n);
	release_slot(c);
	patch_jump(c, out);
	done = c->at;
	go_on(c, &head->sites[HOOK_CASGSTATUS]);
	for (unsigned int i = 0; i < 3; i++)
		patch_jump(c, jumps[i]);
	if (check_syscall) {
		patch_jump(c, syscall);
		patch_jump(c, dead);
	}
	take_fallback(c, head, have);
	emit_jump(c, c->address + done);
	patch_jump(c, more);
	call_change(c, head, n, back);
}

/*
 * The code that the stubs of all other hooks share; R12 is where to continue, and the hook's number
 * precedes that. Two entries: with the P of the thread, and with the P in RAX.
 */
static void write_common(struct code *c, const struct code_head *head, const struct stub_numbers *n,
			 uint64_t *ret_own_p, uint64_t *ret_p_in_rax)
{
	size_t jumps[3], have, join;

	*ret_p_in_rax = code_here(c);
	EMIT(c, 0x49, 0x89, 0xc5, 0xe9); /* mov r13, rax; jmp */
	join = emit_jump_placeholder(c);
	*ret_own_p = code_here(c);
	load_p(c, n);
	patch_jump(c, join);
	take_slot(c, head, n, jumps);
	have = c->at;
	EMIT(c, 0x4d, 0x89, 0x65, offsetof(struct agent_slot, resume)); /* mov [resume], r12 */
	switch_stack(c);
	EMIT(c, 0x52, 0x41, 0x53, 0x41, 0x52, 0x41, 0x51, 0x41, 0x50); /* push rdx, r11 ... r8 */
	EMIT(c, 0x56, 0x57, 0x51, 0x53, 0x50);                         /* rsi, rdi, rcx, rbx, rax */
	EMIT(c, 0x49, 0x8b, 0x55, offsetof(struct agent_slot, resume), 0x8b, 0x52,
	     0xfc); /* mov rdx, [resume]; mov edx, [rdx - 4] */
	call_agent(c, head);
	EMIT(c, 0x58, 0x5b, 0x59, 0x5f, 0x5e, 0x41, 0x58, 0x41, 0x59, 0x41, 0x5a, 0x41, 0x5b,
	     0x5a); /* pop them */
	EMIT(c, 0x4c, 0x89, 0xe4, 0x4d, 0x8b, 0x65,
	     offsetof(struct agent_slot, resume)); /* mov rsp, r12; mov r12, [resume] */
	release_slot(c);
	EMIT(c, 0x41, 0xff, 0xe4); /* jmp r12 */
	for (unsigned int i = 0; i < 3; i++)
		patch_jump(c, jumps[i]);
	take_fallback(c, head, have);
	EMIT(c, 0x41, 0xff, 0xe4); /* jmp r12 */
}

/* Continues by the common code. */
static void go_on_by_common(struct code *c, const struct code_head *head, unsigned int hook,
			    uint64_t common, size_t out)
{
	EMIT(c, 0x4c, 0x8d, 0x25, 9, 0, 0, 0); /* lea r12, [out] */
	emit_jump(c, common);
	emit32(c, hook);
	if (out)
		patch_jump(c, out);
	/* Otherwise a later signal saves our address with the registers, and the detach, which
	 * looks for such addresses, would wait (inject/detach.c). */
	EMIT(c, 0x45, 0x31, 0xe4); /* xor r12d, r12d */
	go_on(c, &head->sites[hook]);
}

static void write_stub(struct code *c, const struct code_head *head, unsigned int hook,
		       uint64_t common)
{
	go_on_by_common(c, head, hook, common, leave_when_disabled(c, head));
}

/* System calls are frequent too, from Go 1.26 on: their stub is in one piece, except for the case
 * that the P's slot is unavailable. */
static void write_syscall(struct code *c, const struct code_head *head,
			  const struct stub_numbers *n, unsigned int hook, size_t function,
			  uint64_t common)
{
	size_t jumps[3], out = leave_when_disabled(c, head);

	load_thread(c, n, head->sites[hook].address);
	take_slot(c, head, n, jumps);
	set_vdso_marker(c, n);
	switch_stack(c);
	EMIT(c, 0x52, 0x41, 0x53, 0x41, 0x52, 0x41, 0x51, 0x41, 0x50); /* push rdx, r11 ... r8 */
	EMIT(c, 0x56, 0x57, 0x51, 0x50, 0x50); /* rsi, rdi, rcx, rax twice */
	EMIT(c, 0x4c, 0x89, 0xef, 0x48, 0x89, 0xc6, 0x49, 0x8b,
	     0x96); /* mov rdi, r13; rsi, rax; rdx, [r14 + g.m] */
	emit32(c, n->g_m);
	EMIT(c, 0x4d, 0x89, 0xf0, 0x4d, 0x89, 0xe1, 0xe8); /* mov r8, r14; mov r9, r12; call */
	emit_relative(c, head->agent + function, 0);
	EMIT(c, 0x58, 0x58, 0x59, 0x5f, 0x5e, 0x41, 0x58, 0x41, 0x59, 0x41, 0x5a, 0x41, 0x5b, 0x5a,
	     0x4c, 0x89, 0xe4); /* pop them; mov rsp, r12 */
	end_vdso(c, n);
	release_slot(c);
	patch_jump(c, out);
	go_on(c, &head->sites[hook]);
	for (unsigned int i = 0; i < 3; i++)
		patch_jump(c, jumps[i]);
	go_on_by_common(c, head, hook, common, 0);
}

/* Of the common code. */
enum entry { ENTRY_OWN_P, ENTRY_P_IN_RAX };

void stub_code_write_common(struct code *c, const struct code_head *head,
			    const struct stub_numbers *n, uint64_t ret_entries[STUB_ENTRIES])
{
	write_common(c, head, n, &ret_entries[ENTRY_OWN_P], &ret_entries[ENTRY_P_IN_RAX]);
}

void stub_code_write(struct code *c, const struct code_head *head, const struct stub_numbers *n,
		     unsigned int hook, enum stub_p kind, const uint64_t entries[STUB_ENTRIES])
{
	if (kind == STUB_CASGSTATUS || kind == STUB_CASGSTATUS_NO_P_IN_SYSCALL)
		write_casgstatus(c, head, n, kind == STUB_CASGSTATUS_NO_P_IN_SYSCALL);
	else if (kind == STUB_SYSCALL)
		write_syscall(c, head, n, hook, agent_blob_syscall, entries[ENTRY_OWN_P]);
	else if (kind == STUB_SYSCALL_EXIT)
		write_syscall(c, head, n, hook, agent_blob_syscall_exit, entries[ENTRY_OWN_P]);
	else
		write_stub(c, head, hook,
			   entries[kind == STUB_P_ARGUMENT ? ENTRY_P_IN_RAX : ENTRY_OWN_P]);
}

void trampoline_write(const struct code_site *site, uint8_t ret[CODE_TRAMPOLINE_BYTES])
{
	static const uint8_t jump[] = {0xff, 0x25, 0, 0, 0, 0}; /* jmp [rip] */

	memset(ret, 0xcc, CODE_TRAMPOLINE_BYTES);
	memcpy(ret, jump, sizeof(jump));
	memcpy(ret + sizeof(jump), &site->stub, sizeof(site->stub));
}
