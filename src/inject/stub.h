/*
 * The code page: what a patched place jumps to. For each hook a stub that takes a slot, calls the
 * agent on the slot's stack, executes the instruction that the jump has replaced, and goes back.
 *
 * The page is the one thing that stays in the target when tracing has ended, so that a thread that
 * was on its way out of a stub finds its way. It begins with a head that says what was changed and
 * where: from it, whoever comes later undoes what a gospect that was killed has left. With many
 * places it is several pages.
 *
 * Far pages lead to stubs. Where the instruction has four bytes alone, the fifth of the jump is the
 * first of the next instruction, to which somebody may return: it has to stay what it is. It is the
 * highest byte of the jump's distance, so the jump leads to where that takes it, within 16 MB.
 */
#ifndef INJECT_STUB_H
#define INJECT_STUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/abi.h"
#include "inject/place.h"

#define CODE_PAGE_BYTES 4096
#define CODE_MAGIC 0x65646f6374677367ull /* "gsgtcode" */
#define CODE_VERSION 4
#define CODE_MAX_PLACES (HOOKS + AGENT_MAX_ROOT_PLACES)
#define CODE_FAR_PAGES 8
#define CODE_FAR_JUMP_BYTES 16 /* an instruction and the address of a stub */
#define CODE_MAX_STUB_BYTES 65536

struct code_place {
	uint64_t address; /* 0: this hook is not used */
	uint64_t stub;
	uint64_t jump; /* where the jump leads: to the stub, or on a far page */
	uint16_t length;
	uint16_t relative;              /* struct place */
	uint8_t bytes[PLACE_MAX_BYTES]; /* the whole instruction, as it was */
};

/* At the beginning of the page. Addresses are the target's. */
struct code_head {
	uint64_t magic;
	uint32_t version;
	uint32_t tracer;       /* gospect's pid */
	uint64_t tracer_start; /* when that process began, as its /proc/PID/stat has it */
	uint64_t code;         /* where this page is; the agent's bytes and the switch follow */
	uint64_t code_bytes;   /* of all of them */
	uint64_t agent;
	uint64_t control; /* struct code_control, in a page that is 0 in children */
	uint64_t slots;   /* the first slot of a P; 0: none is there any more */
	uint64_t spare_slots;
	uint64_t stub_bytes;          /* whole pages, with this head: what stays */
	uint64_t far[CODE_FAR_PAGES]; /* where they are, the first ones in use; 0: no more */
	uint64_t place_count;         /* by enum agent_hook, then those of roots */
	struct code_place places[CODE_MAX_PLACES];
};

struct code_control {
	uint32_t enabled;
	uint64_t slots; /* as in the head, but in the line that every hook reads anyway */
	uint64_t lost;  /* calls that found no slot */
};

enum stub_p {
	STUB_P_OF_THREAD,
	STUB_P_ARGUMENT, /* the P in RAX, which the thread is about to take */
	STUB_CASGSTATUS, /* the thread's, RAX, RBX and RCX are the only registers in use */
	STUB_CASGSTATUS_NO_P_IN_SYSCALL, /* and from a system call on the P may be another's */
	STUB_SYSCALL,                    /* the thread's, by a goroutine: reentersyscall */
	STUB_SYSCALL_EXIT,               /* and exitsyscall */
};

struct stub_numbers {
	uint32_t g_m, m_p, m_vdso_sp, m_vdso_pc, p_id;
	uint32_t p_slots; /* how many there are */
};

/*
 * Writes the head and a stub for each place into the head->stub_bytes of `pages`, and fills in
 * head->places[].stub, and .jump where that is 0. `kinds` has one for each hook, those of roots
 * have STUB_P_OF_THREAD. false: it does not fit.
 */
bool stubs_write(struct code_head *head, const struct stub_numbers *numbers,
		 const enum stub_p *kinds, uint8_t *pages);

/* Whole pages that are enough for so many places. */
size_t stubs_size(size_t places);

/* What is at place->jump, if that is on a far page. */
void far_jump_write(const struct code_place *place, uint8_t ret[CODE_FAR_JUMP_BYTES]);

/* The head without the places that it has not. */
static inline size_t code_head_bytes(const struct code_head *head)
{
	return offsetof(struct code_head, places) + head->place_count * sizeof(head->places[0]);
}

/* Somebody with this pc is in our code. */
static inline bool code_has(const struct code_head *head, uint64_t address)
{
	bool has = address - head->code < head->code_bytes;

	for (unsigned int i = 0; i < CODE_FAR_PAGES; i++)
		has |= head->far[i] && address - head->far[i] < CODE_PAGE_BYTES;
	return has;
}

/* The jump that is written at the place; false when it cannot lead there. */
bool stub_jump(const struct code_place *place, uint8_t ret[PLACE_JUMP_BYTES]);

#endif
