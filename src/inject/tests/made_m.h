/* M's and goroutines in our own memory, as far as inject/on_systemstack.c reads them. */
#ifndef INJECT_TESTS_MADE_M_H
#define INJECT_TESTS_MADE_M_H

#include <stddef.h>

#include "agent/abi.h"
#include "inject/runtime_words.h"

/* The address of systemstack_switch(), and a caller of systemstack(): no code exists there. */
#define MADE_SWITCH 0x401000
#define MADE_SWITCH_BYTES 32
#define MADE_CALLER 0x402010

struct made_g {
	uint64_t lo, hi, sp, pc, bp;
};

struct made_m {
	uint64_t curg, next;
};

static uint64_t made_allm;

static const struct agent_range made_switch = {MADE_SWITCH, MADE_SWITCH_BYTES};
static const struct runtime_words made_words = {
	.allm = (uint64_t)&made_allm,
	.m_curg = offsetof(struct made_m, curg),
	.m_alllink = offsetof(struct made_m, next),
	.g_stack_lo = offsetof(struct made_g, lo),
	.g_stack_hi = offsetof(struct made_g, hi),
	.g_sched_sp = offsetof(struct made_g, sp),
	.g_sched_pc = offsetof(struct made_g, pc),
	.g_sched_bp = offsetof(struct made_g, bp),
};

#endif
