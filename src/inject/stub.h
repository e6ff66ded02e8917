/*
 * The code page: what a patched place jumps to. For each hook a stub that takes a slot, calls the
 * agent on the slot's stack, executes the instruction that the jump has replaced, and goes back.
 *
 * The page is the one thing that stays in the target when tracing has ended, so that a thread that
 * was on its way out of a stub finds its way. It begins with a head that says what was changed and
 * where: from it, whoever comes later undoes what a gospect that was killed has left.
 */
#ifndef INJECT_STUB_H
#define INJECT_STUB_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/abi.h"
#include "inject/place.h"

#define CODE_PAGE_BYTES 4096
#define CODE_MAGIC 0x65646f6374677367ull /* "gsgtcode" */
#define CODE_VERSION 2

struct code_place {
	uint64_t address; /* 0: this hook is not used */
	uint64_t stub;
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
	uint64_t slots;   /* the first slot of a P */
	uint64_t spare_slots;
	struct code_place places[HOOKS];
};

struct code_control {
	uint32_t enabled;
	uint64_t lost; /* calls that found no slot */
};

enum stub_p {
	STUB_P_OF_THREAD,
	STUB_P_ARGUMENT, /* the P in RAX, which the thread is about to take */
	STUB_CASGSTATUS, /* the thread's, RAX, RBX and RCX are the only registers in use */
	STUB_CASGSTATUS_NO_P_IN_SYSCALL, /* and from a system call on the P may be another's */
};

struct stub_numbers {
	uint32_t g_m, m_p, p_id;
	uint32_t p_slots; /* how many there are */
};

/*
 * Writes the head and a stub for each place into the page, and fills in head->places[].stub.
 * `kinds` has one for each hook. false: it does not fit.
 */
bool stubs_write(struct code_head *head, const struct stub_numbers *numbers,
		 const enum stub_p *kinds, uint8_t page[CODE_PAGE_BYTES]);

/* The jump to the stub that is written at the place; false when it is out of reach. */
bool stub_jump(const struct code_place *place, uint8_t ret[PLACE_JUMP_BYTES]);

#endif
