#include "unwind/tests/made_sample.h"

#include <string.h>

#include "base/array.h"

static const struct made_function functions[FUNCTIONS] = {
	[LEAF] = {"main.leaf", NULL, 24, 0, 0},
	[MIDDLE] = {"main.middle", NULL, 40, 0, 0},
	[ROOT] = {"main.root", NULL, 8, 0, 0},
	[GOEXIT] = {"runtime.goexit", NULL, 0, FUNC_TOPFRAME, 0},
	[SYSTEMSTACK] = {"runtime.systemstack", NULL, 8, FUNC_SPWRITE, 0},
	[OLD_SYSTEMSTACK] = {"runtime.systemstack.abi0", NULL, 0, FUNC_SPWRITE, 0},
	[ASMCGOCALL] = {"runtime.asmcgocall", NULL, 8, FUNC_SPWRITE, 0},
	[MCALL] = {"runtime.mcall", NULL, 8, FUNC_SPWRITE, 0},
	[MORESTACK] = {"runtime.morestack", NULL, 0, FUNC_SPWRITE, 0},
	[SIGTRAMP] = {"runtime.sigtramp", NULL, 48, FUNC_TOPFRAME, 0},
	[CLOSURE] = {"main.root.func1", NULL, 24, 0, 0},
	[GOGO] = {"gogo", NULL, 0, FUNC_SPWRITE, 0},
	[NANOTIME] = {"runtime.nanotime1", NULL, 40, FUNC_SPWRITE, 0},
	[SIGRETURN] = {"runtime.sigreturn__sigaction", NULL, 0, 0, 0},
	[GOSCHED] = {"runtime.goschedImpl", NULL, 24, 0, 0},
	[ASSIST] = {"runtime.gcAssistAlloc1", NULL, 24, 0, 0},
};

uint64_t *stack_at(struct made_stack *s, uint64_t address)
{
	return &s->words[ARRAY_SIZE(s->words) - (s->end - address) / 8];
}

void push_word(struct made_stack *s, uint64_t word)
{
	s->sp -= 8;
	*stack_at(s, s->sp) = word;
}

void push_frame(struct made_stack *s, size_t size, uint64_t return_address)
{
	push_word(s, return_address);
	push_word(s, s->fp);
	s->fp = s->sp;
	for (size_t i = 8; i < size; i += 8)
		push_word(s, 0x1111);
}

static bool read_memory(void *arg, uint64_t address, void *buffer, size_t size)
{
	struct made_sample *f = arg;
	struct made_stack *s =
		address < THREAD_STACK - sizeof(s->words) ? &f->goroutine : &f->thread;
	uint64_t begin = s->end - sizeof(s->words);

	if (address < begin || address >= s->end)
		return false;
	memset(buffer, 0, size);
	if (size > s->end - address)
		size = s->end - address;
	memcpy(buffer, stack_at(s, address), size);
	return true;
}

static bool find_goroutine(void *arg, uint64_t g, struct goroutine_place *ret)
{
	struct made_sample *f = arg;

	if (g != G)
		return false;
	*ret = f->place;
	return true;
}

static bool no_thread_sp(void *arg, uint64_t *ret)
{
	return false;
}

int made_sample_set_up(void **state)
{
	static struct made_sample f;

	memset(&f, 0, sizeof(f));
	made_functions_init(&f.made, PCLNTAB_GO120, functions, FUNCTIONS);
	f.stacks = stacks_create(&f.made.tab, MACHINE_AMD64);
	f.unwinder = running_unwinder_create(f.stacks, &f.made.tab, MACHINE_AMD64, NULL);
	f.goroutine = (struct made_stack){.end = G_HI, .sp = G_HI};
	f.thread = (struct made_stack){.end = THREAD_STACK, .sp = THREAD_STACK};
	f.place = (struct goroutine_place){.stack_lo = G_LO, .stack_hi = G_HI, .start_pc = START};
	*state = &f;
	return f.stacks && f.unwinder ? 0 : -1;
}

int made_sample_tear_down(void **state)
{
	struct made_sample *f = *state;

	running_unwinder_destroy(f->unwinder);
	stacks_destroy(f->stacks);
	made_functions_release(&f->made);
	return 0;
}

void make_goroutine(struct made_sample *f)
{
	push_frame(&f->goroutine, 8, END);
	push_frame(&f->goroutine, 40, made_pc(ROOT, false));
}

void take_sample(struct made_sample *f, const struct made_stack *s, size_t size, int function)
{
	struct made_stack *captured = (struct made_stack *)s;

	registers_set(&f->sample.regs, AMD64_PC, made_pc(function, false));
	registers_set(&f->sample.regs, AMD64_RSP, s->sp);
	registers_set(&f->sample.regs, AMD64_RBP, s->fp);
	f->sample.bytes = (const uint8_t *)stack_at(captured, s->sp);
	f->sample.size = size < s->end - s->sp ? size : s->end - s->sp;
}

void unwind_sample(struct made_sample *f)
{
	struct running_source source = {read_memory, find_goroutine, no_thread_sp, f};

	assert_null(running_unwind(f->unwinder, &f->sample, &source, &f->result));
	f->stack = stacks_get(f->stacks, f->result.stack);
}

void assert_pcs(const struct made_sample *f, const uint64_t *pcs, size_t count)
{
	assert_int_equal(f->stack.count, count);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(f->stack.pcs[i], pcs[i]);
}

void make_systemstack(struct made_sample *f, int function)
{
	make_goroutine(f);
	if (function == SYSTEMSTACK)
		push_frame(&f->goroutine, 8, made_pc(MIDDLE, false));
	else
		push_word(&f->goroutine, made_pc(MIDDLE, false));
	f->thread.fp = f->goroutine.fp;
	push_frame(&f->thread, 24, made_pc(function, false));
	f->place.sp = f->goroutine.sp;
	f->sample.g = G;
	take_sample(f, &f->thread, SIZE_MAX, LEAF);
}

void make_morestack(struct made_sample *f)
{
	make_goroutine(f);
	push_word(&f->goroutine, made_pc(MIDDLE, false));
	f->place.sp = f->goroutine.sp;
	f->place.pc = MADE_TEXT + LEAF * MADE_SIZE + 4;
	f->sample.g = G;
	f->thread.fp = f->goroutine.fp;
	push_frame(&f->thread, 40, made_pc(MORESTACK, false));
	take_sample(f, &f->thread, SIZE_MAX, MIDDLE);
}
