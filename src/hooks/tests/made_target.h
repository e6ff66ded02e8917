/*
 * A target made in our own process: a function that is patched as one of the runtime's would be,
 * and a made goroutine that calls it. For tests of the stubs and of the agent.
 */
#ifndef HOOKS_TESTS_MADE_TARGET_H
#define HOOKS_TESTS_MADE_TARGET_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/abi.h"
#include "base/unit_test.h"
#include "hooks/probe_site.h"
#include "hooks/stub.h"

enum {
	FUNCTION = 0, /* offsets in the memory that is made */
	CODE = 0x1000,
	AGENT = 0x2000,
	CONTROL = 0x8000,
	SIZE = 0x9000,
	RING = 4 * AGENT_CHUNK_BYTES,
	P_SLOTS = 2,
	SLOTS = P_SLOTS + AGENT_FALLBACK_SLOTS,
	STACK_WORDS = 512,
	ARENA = 0x80000,
};

enum { WORKER_REASON = 11 };

/* Synthetic structures: one word each. */
enum { G_M, G_HI, G_SP, G_PC, G_BP, G_STATUS, G_GOID, G_REASON, G_START, G_LABELS, G_WORDS };
enum { M_PROCID, M_CURG, M_P, M_VDSO_SP, M_VDSO_PC, M_WORDS };
enum { P_ID, P_MODE, P_WORDS };

struct made {
	uint8_t *memory;
	struct agent_shared *shared;
	uint64_t g0[G_WORDS], g[G_WORDS], m[M_WORDS], p[P_WORDS];
	uint64_t stack[STACK_WORDS]; /* of the goroutine */
	struct code_head head;
	struct probe_site site;
};

/* push rbp; mov rbp, rsp; sub rsp, 32; mov [rsp+16], rax; mov rax, [rsp+16]; add rsp, 32; pop; ret
 */
extern const uint8_t made_function[24];

/* The caller's registers, which must be preserved. */
struct registers {
	uint64_t rax, rbx, rcx, rdx, rdi, rsi, r8, r9, r10, r11, r14;
};

/* A record, of a kind that is known here. */
struct seen {
	unsigned int kind;
	uint64_t since, goid, others[2];
};

static inline uint64_t word_of(const void *p)
{
	return (uint64_t)p;
}

static inline struct agent_slot *slot_of(const struct made *d, unsigned int i)
{
	return (void *)((uint8_t *)d->shared + d->shared->slots_offset + i * AGENT_SLOT_BYTES);
}

/* Memory with this code and all data that the agent reads; at `at`, or anywhere. */
void make_memory(struct made *d, void *at, const uint8_t *code, size_t size);
/* The agent, and the stubs of the probe sites that d->head has. */
void make_stubs(struct made *d, const enum stub_p *kinds, unsigned int sites);
/* Both, and the code patched by a hook of that kind. */
void make_of(struct made *d, const uint8_t *code, size_t size, unsigned int arguments,
	     enum agent_hook hook, enum stub_p kind);
/* The same of made_function. */
void make(struct made *d, enum agent_hook hook, enum stub_p kind);
void unmake(struct made *d);

struct registers some_registers(const struct made *d, uint64_t old, uint64_t new);
void call_function(struct made *d, struct registers *r);
/* By a goroutine; every register is as it was. */
void call_by_goroutine(struct made *d, struct registers before);
/* A call of casgstatus, of which the record is returned. */
struct seen change(struct made *d, uint64_t *g, uint64_t old, uint64_t new);
/* A goroutine changes its own state; the record is returned. */
struct seen change_by_goroutine(struct made *d, uint64_t old, uint64_t new);

/* The numbers of the first record of a slot. */
unsigned int first_record(const struct made *d, unsigned int slot, uint64_t *ret,
			  unsigned int count);
/* The last record of slot 1, which is in its first chunk. */
struct seen last_record(const struct made *d);

/* Where casgstatus is patched, no other registers are in use. */
void assert_three_kept(const struct registers *before, const struct registers *after);
void assert_left_well(const struct made *d);
void assert_words(const struct made *d, uint32_t stack, const uint64_t *words, size_t n);

#endif
