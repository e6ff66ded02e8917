/*
 * The stubs of the code page (inject/code_page.h): for each hook one that takes a slot, calls the
 * agent on the slot's stack, executes the instruction that the jump has replaced, and goes back.
 * One file for each architecture.
 */
#ifndef HOOKS_STUB_H
#define HOOKS_STUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/abi.h"
#include "hooks/probe_site.h"
#include "inject/code_page.h"

enum stub_p {
	STUB_P_OF_THREAD,
	STUB_P_ARGUMENT, /* the P is the first argument, which the thread is about to take */
	STUB_CASGSTATUS, /* the thread's; but for three arguments, no register is in use */
	STUB_CASGSTATUS_NO_P_IN_SYSCALL, /* and from a system call on the P may be another's */
	STUB_SYSCALL,                    /* the thread's, by a goroutine: reentersyscall */
	STUB_SYSCALL_EXIT,               /* and exitsyscall */
};

struct stub_numbers {
	uint32_t g_m, m_p, m_vdso_sp, m_vdso_pc, p_id;
	uint32_t p_slots;     /* how many there are */
	bool stack_arguments; /* each site's arguments are on the stack: up to Go 1.17 on arm64 */
};

/*
 * Writes the head and a stub for each probe site into the head->stub_bytes of `pages`, and fills in
 * head->sites[].stub, and .jump where that is 0. `kinds` has one for each hook, those of entry
 * points have STUB_P_OF_THREAD. false: it does not fit.
 */
bool stubs_write(struct code_head *head, const struct stub_numbers *numbers,
		 const enum stub_p *kinds, uint8_t *pages);

/* Whole pages that are enough for so many probe sites. */
size_t stubs_size(size_t sites);

/* The bytes at site->jump, if that is on a trampoline page. */
void trampoline_write(const struct code_site *site, uint8_t ret[CODE_TRAMPOLINE_BYTES]);

#endif
