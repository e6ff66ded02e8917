/*
 * The code page: the stubs to which probe sites jump, and a head that describes them.
 *
 * This page stays in the target after a trace, because a thread may still be in the last
 * instructions of a stub. The head says what was changed and where: with it, a later gospect
 * removes what a killed one has left. With many probe sites there are several pages. hooks/stub.h
 * makes the stubs.
 *
 * Trampoline pages contain jumps to stubs. On amd64, some instructions have only four bytes. The
 * fifth byte of the jump is then the first byte of the next instruction, to which a function may
 * return, so it must not change. It is the highest byte of the jump's distance. So it decides, to
 * within 16 MB, where the jump leads: to a trampoline page that lies there.
 */
#ifndef INJECT_CODE_PAGE_H
#define INJECT_CODE_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "agent/abi.h"
#include "agent/blob.h"
#include "inject/jump.h"

#define CODE_MAGIC 0x65646f6374677367ull /* "gsgtcode" */
#define CODE_VERSION 4
#define CODE_MAX_SITES (HOOKS + AGENT_MAX_ENTRY_SITES)
#define CODE_TRAMPOLINE_PAGES 8
#define CODE_TRAMPOLINE_BYTES 16 /* an instruction and the address of a stub */
#define CODE_MAX_STUB_BYTES 65536

/* Name of the mappings, which the kernel shows as /memfd:NAME. */
#define CODE_NAME "gospect-code"
#define DATA_NAME "gospect-data"

struct code_site {
	uint64_t address; /* 0: this probe site is not used */
	uint64_t stub;
	uint64_t jump; /* where the jump leads: to the stub, or on a trampoline page */
	uint16_t length;
	uint16_t relative; /* in it: 32 bits that say where its operand is, from its end; 0: none */
	uint16_t arguments; /* of the function: where they are, from SP; 0: in registers */
	uint8_t bytes[SITE_MAX_BYTES]; /* the whole instruction, as it was */
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
	uint64_t fallback_slots;
	uint64_t stub_bytes; /* whole pages, with this head: the part that stays */
	uint64_t trampolines[CODE_TRAMPOLINE_PAGES]; /* where they are, the first ones in use; 0: no
							more */
	uint64_t site_count; /* by enum agent_hook, then those of entry points */
	struct code_site sites[CODE_MAX_SITES];
};

struct code_control {
	uint32_t enabled;
	uint64_t slots; /* as in the head, but in the line that every hook reads anyway */
	uint64_t lost;  /* calls that found no slot */
};

/* The head without the probe sites that it has not. */
static inline size_t code_head_bytes(const struct code_head *head)
{
	return offsetof(struct code_head, sites) + head->site_count * sizeof(head->sites[0]);
}

/* Whole pages for the agent. */
static inline size_t code_agent_bytes(void)
{
	return (agent_blob_size + CODE_PAGE_BYTES - 1) & ~(CODE_PAGE_BYTES - 1ul);
}

static inline size_t code_trampoline_count(const struct code_head *head)
{
	size_t n = 0;

	while (n < CODE_TRAMPOLINE_PAGES && head->trampolines[n])
		n++;
	return n;
}

/* Somebody with this pc is in our code. */
static inline bool code_has(const struct code_head *head, uint64_t address)
{
	bool has = address - head->code < head->code_bytes;

	for (unsigned int i = 0; i < CODE_TRAMPOLINE_PAGES; i++)
		has |= head->trampolines[i] && address - head->trampolines[i] < CODE_PAGE_BYTES;
	return has;
}

/* So many bytes of it are looked at: the instruction, or the jump where that is longer. */
static inline size_t code_site_bytes(const struct code_site *site)
{
	return site->length < SITE_JUMP_BYTES ? SITE_JUMP_BYTES : site->length;
}

/* The jump that is written at the probe site; false when it cannot lead there. */
static inline bool code_jump(const struct code_site *site, uint8_t ret[SITE_JUMP_BYTES])
{
	const size_t last = SITE_JUMP_BYTES - 1;

	return jump_make(site->address, site->jump, ret) &&
	       (site->length >= SITE_JUMP_BYTES || ret[last] == site->bytes[last]);
}

#endif
