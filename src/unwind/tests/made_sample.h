/*
 * Samples of threads that do not exist, with their stacks, memory and chains: for tests of the walk
 * of running_thread.h.
 */
#ifndef UNWIND_TESTS_MADE_SAMPLE_H
#define UNWIND_TESTS_MADE_SAMPLE_H

#include "base/unit_test.h"
#include "image/tests/made_functions.h"
#include "unwind/running_thread.h"

enum {
	LEAF,
	MIDDLE,
	ROOT,
	GOEXIT,
	SYSTEMSTACK,
	OLD_SYSTEMSTACK, /* Go 1.20: without a frame */
	ASMCGOCALL,
	MCALL,
	MORESTACK,
	SIGTRAMP,
	CLOSURE,
	GOGO,
	GOSCHED,
	NANOTIME,
	SIGRETURN,
	ASSIST,
	FUNCTIONS
};

#define G 0xc000001000u
#define G_LO 0xc000010000u
#define G_HI 0xc000012000u
#define THREAD_STACK 0x7ffe00001000u
#define START (MADE_TEXT + ROOT * MADE_SIZE)
#define END (MADE_TEXT + GOEXIT * MADE_SIZE + 1)

/* A stack that is filled from its end, as stacks grow. */
struct made_stack {
	uint64_t words[1024];
	uint64_t end; /* the address behind its last word */
	uint64_t sp;
	uint64_t fp;
};

uint64_t *stack_at(struct made_stack *s, uint64_t address);
void push_word(struct made_stack *s, uint64_t word);
/* A frame of `size` bytes, its record included, under a return address. */
void push_frame(struct made_stack *s, size_t size, uint64_t return_address);

struct made_sample {
	struct made_functions made;
	struct stacks *stacks;
	struct running_unwinder *unwinder;
	struct made_stack goroutine; /* as memory has it now */
	struct made_stack thread;    /* likewise */
	struct goroutine_place place;
	uint64_t chain[16];
	struct running_sample sample;
	struct running_stack result;
	struct stack stack;
};

int made_sample_set_up(void **state);
int made_sample_tear_down(void **state);

/* The goroutine's stack: root, called by goexit, has called middle. */
void make_goroutine(struct made_sample *f);
/* On the thread's stack leaf runs, called by this systemstack; its record is the goroutine's. */
void make_systemstack(struct made_sample *f, int function);
/* The same with middle, called by morestack; on the goroutine's stack leaf has no frame yet. */
void make_morestack(struct made_sample *f);
/* A sample of the thread in this function, with so many bytes of this stack. */
void take_sample(struct made_sample *f, const struct made_stack *s, size_t size, int function);
void unwind_sample(struct made_sample *f);

void assert_pcs(const struct made_sample *f, const uint64_t *pcs, size_t count);
#define ASSERT_PCS(f, ...)                             \
	do {                                           \
		const uint64_t pcs_[] = {__VA_ARGS__}; \
		assert_pcs(f, pcs_, ARRAY_SIZE(pcs_)); \
	} while (0)

#define EXACTLY(function) (made_pc(function, false) | STACK_PC_EXACT)

#endif
