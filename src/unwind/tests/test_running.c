#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/unit_test.h"
#include "tests/fake_program.h"
#include "tests/made_functions.h"
#include "unwind/running.h"

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
	FUNCTIONS
};

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

static uint64_t *at(struct made_stack *s, uint64_t address)
{
	return &s->words[ARRAY_SIZE(s->words) - (s->end - address) / 8];
}

static void push(struct made_stack *s, uint64_t word)
{
	s->sp -= 8;
	*at(s, s->sp) = word;
}

/* A frame of `size` bytes, its record included, under a return address. */
static void push_frame(struct made_stack *s, size_t size, uint64_t return_address)
{
	push(s, return_address);
	push(s, s->fp);
	s->fp = s->sp;
	for (size_t i = 8; i < size; i += 8)
		push(s, 0x1111);
}

struct fixture {
	struct made_functions made;
	struct stacks *stacks;
	struct running_unwinder *unwinder;
	struct made_stack goroutine; /* as memory has it now */
	struct made_stack thread;
	struct goroutine_place place;
	uint64_t chain[16];
	struct running_sample sample;
	struct running_stack result;
	struct stack stack;
};

static bool read_memory(void *arg, uint64_t address, void *buffer, size_t size)
{
	struct made_stack *s = &((struct fixture *)arg)->goroutine;
	uint64_t begin = s->end - sizeof(s->words);

	if (address < begin || address >= s->end)
		return false;
	memset(buffer, 0, size);
	if (size > s->end - address)
		size = s->end - address;
	memcpy(buffer, at(s, address), size);
	return true;
}

static bool find_goroutine(void *arg, uint64_t g, struct goroutine_place *ret)
{
	struct fixture *f = arg;

	if (g != G)
		return false;
	*ret = f->place;
	return true;
}

static bool no_goroutine(void *arg, uint64_t g, struct goroutine_place *ret)
{
	return false;
}

static bool no_thread_sp(void *arg, uint64_t *ret)
{
	return false;
}

static int set_up(void **state)
{
	static struct fixture f;

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

static int tear_down(void **state)
{
	struct fixture *f = *state;

	running_unwinder_destroy(f->unwinder);
	stacks_destroy(f->stacks);
	made_functions_release(&f->made);
	return 0;
}

/* The goroutine's stack: root, called by goexit, has called middle. */
static void make_goroutine(struct fixture *f)
{
	push_frame(&f->goroutine, 8, END);
	push_frame(&f->goroutine, 40, made_pc(ROOT, false));
}

/* A sample of the thread in this function, with so many bytes of this stack. */
static void sample(struct fixture *f, const struct made_stack *s, size_t size, int function)
{
	struct made_stack *captured = (struct made_stack *)s;

	registers_set(&f->sample.regs, AMD64_PC, made_pc(function, false));
	registers_set(&f->sample.regs, AMD64_RSP, s->sp);
	registers_set(&f->sample.regs, AMD64_RBP, s->fp);
	f->sample.bytes = (const uint8_t *)at(captured, s->sp);
	f->sample.size = size < s->end - s->sp ? size : s->end - s->sp;
}

static void unwind(struct fixture *f)
{
	struct running_source source = {read_memory, find_goroutine, no_thread_sp, f};

	assert_null(running_unwind(f->unwinder, &f->sample, &source, &f->result));
	f->stack = stacks_get(f->stacks, f->result.stack);
}

static void assert_pcs(const struct fixture *f, const uint64_t *pcs, size_t count)
{
	assert_int_equal(f->stack.count, count);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(f->stack.pcs[i], pcs[i]);
}

#define ASSERT_PCS(f, ...)                             \
	do {                                           \
		const uint64_t pcs_[] = {__VA_ARGS__}; \
		assert_pcs(f, pcs_, ARRAY_SIZE(pcs_)); \
	} while (0)

#define EXACTLY(function) (made_pc(function, false) | STACK_PC_EXACT)

static void what_was_captured_needs_nothing_else(void **state)
{
	struct fixture *f = *state;

	make_goroutine(f);
	push_frame(&f->goroutine, 24, made_pc(MIDDLE, false));
	f->sample.g = G;
	f->sample.g_is_certain = true;
	sample(f, &f->goroutine, SIZE_MAX, LEAF);
	unwind(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(MIDDLE, false), made_pc(ROOT, false), END);
	assert_int_equal(f->result.g, G);
	assert_int_equal(f->result.start_pc, START);
	assert_false(f->result.used_memory || f->result.used_chain || f->result.truncated);
}

static void assembly_may_use_the_g_register(void **state)
{
	struct fixture *f = *state;

	make_goroutine(f);
	push_frame(&f->goroutine, 24, made_pc(MIDDLE, false));
	f->sample.g = G; /* for which the thread works, as it seems */
	sample(f, &f->goroutine, SIZE_MAX, LEAF);
	unwind(f);
	assert_int_equal(f->result.g, G);
	f->place.stack_lo += 0x100000;
	f->place.stack_hi += 0x100000;
	unwind(f);
	assert_int_equal(f->result.g, 0);
}

/* On the thread's stack leaf runs, called by systemstack; its record is the goroutine's. */
static void make_systemstack(struct fixture *f, int function)
{
	make_goroutine(f);
	if (function == SYSTEMSTACK)
		push_frame(&f->goroutine, 8, made_pc(MIDDLE, false));
	else
		push(&f->goroutine, made_pc(MIDDLE, false));
	f->thread.fp = f->goroutine.fp;
	push_frame(&f->thread, 24, made_pc(function, false));
	f->place.sp = f->goroutine.sp;
	f->sample.g = G;
	sample(f, &f->thread, SIZE_MAX, LEAF);
}

static void systemstack_leads_to_its_caller(void **state)
{
	struct fixture *f = *state;

	make_systemstack(f, SYSTEMSTACK);
	unwind(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(SYSTEMSTACK, false), made_pc(MIDDLE, false),
		   made_pc(ROOT, false), END);
	assert_int_equal(f->result.g, G);
	assert_true(f->result.used_memory);
}

static void before_go_1_21_as_well(void **state)
{
	struct fixture *f = *state;

	make_systemstack(f, OLD_SYSTEMSTACK);
	unwind(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(OLD_SYSTEMSTACK, false), made_pc(MIDDLE, false),
		   made_pc(ROOT, false), END);
	assert_int_equal(f->result.g, G);
}

static void a_goroutine_that_went_on_gives_no_callers(void **state)
{
	struct fixture *f = *state;

	make_systemstack(f, SYSTEMSTACK);
	f->place.sp = 0;
	unwind(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(SYSTEMSTACK, false), STACK_PC_TRUNCATED,
		   START | STACK_PC_EXACT);
	assert_true(f->result.truncated);
	assert_int_equal(f->result.g, G);
}

static void another_goroutine_is_not_taken_for_it(void **state)
{
	struct fixture *f = *state;

	make_systemstack(f, SYSTEMSTACK);
	f->place.stack_lo += 0x100000;
	f->place.stack_hi += 0x100000;
	unwind(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(SYSTEMSTACK, false), STACK_PC_TRUNCATED);
	assert_int_equal(f->result.g, 0);
}

/* The kernel went from leaf's record to systemstack's and on. */
static void make_chain(struct fixture *f)
{
	const uint64_t chain[] = {made_pc(LEAF, false), made_pc(SYSTEMSTACK, false),
				  made_pc(MIDDLE, false), made_pc(ROOT, false), END};

	memcpy(f->chain, chain, sizeof(chain));
	f->sample.chain = f->chain;
	f->sample.chain_count = ARRAY_SIZE(chain);
}

static void the_chain_is_of_the_moment(void **state)
{
	struct fixture *f = *state;

	make_systemstack(f, SYSTEMSTACK);
	make_chain(f);
	memset(&f->goroutine.words, 0, sizeof(f->goroutine.words)); /* since then */
	f->place.sp = 0;
	unwind(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(SYSTEMSTACK, false), made_pc(MIDDLE, false),
		   made_pc(ROOT, false), END);
	assert_true(f->result.used_chain);
	assert_false(f->result.truncated);
}

static void memory_that_the_chain_contradicts_is_not_believed(void **state)
{
	struct fixture *f = *state;

	make_systemstack(f, SYSTEMSTACK);
	make_chain(f);
	f->sample.chain_count = 4; /* without its end, so that memory is asked */
	f->chain[3] = made_pc(LEAF, true);
	unwind(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(SYSTEMSTACK, false), made_pc(MIDDLE, false),
		   made_pc(LEAF, true), STACK_PC_TRUNCATED, START | STACK_PC_EXACT);
}

static void a_deep_stack_goes_on_in_memory(void **state)
{
	struct fixture *f = *state;

	make_goroutine(f);
	push_frame(&f->goroutine, 24, made_pc(MIDDLE, false));
	f->sample.g = G;
	f->sample.g_is_certain = true;
	sample(f, &f->goroutine, 40, LEAF);
	unwind(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(MIDDLE, false), made_pc(ROOT, false), END);
	assert_true(f->result.used_memory);
}

static void a_deep_stack_that_changed_is_cut(void **state)
{
	struct fixture *f = *state;
	struct made_stack then;

	make_goroutine(f);
	push_frame(&f->goroutine, 24, made_pc(MIDDLE, false));
	then = f->goroutine;
	f->sample.g = G;
	f->sample.g_is_certain = true;
	sample(f, &then, 40, LEAF);
	*at(&f->goroutine, f->goroutine.sp + 24) = made_pc(ROOT, false);
	unwind(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(MIDDLE, false), STACK_PC_TRUNCATED,
		   START | STACK_PC_EXACT);
}

/* leaf stands for C: it returns to asmcgocall, which has put g and its depth at its SP. */
static void c_leads_to_the_goroutine_that_called_it(void **state)
{
	struct fixture *f = *state;

	make_goroutine(f);
	push_frame(&f->goroutine, 8, made_pc(MIDDLE, false));
	for (int i = 0; i < 8; i++)
		push(&f->thread, 0);
	*at(&f->thread, f->thread.sp + 48) = G;
	*at(&f->thread, f->thread.sp + 40) = G_HI - f->goroutine.sp;
	*at(&f->thread, f->thread.sp + 8) = G; /* an old word, in the place of other versions */
	*at(&f->thread, f->thread.sp) = 16;
	f->place.sp = f->goroutine.sp;
	f->thread.fp = 0xdead; /* C uses it for something else */
	push_frame(&f->thread, 24, made_pc(ASMCGOCALL, false));
	sample(f, &f->thread, SIZE_MAX, LEAF);
	unwind(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(ASMCGOCALL, false), made_pc(MIDDLE, false),
		   made_pc(ROOT, false), END);
	assert_int_equal(f->result.g, G);
}

static void a_thread_that_has_left_its_goroutine_schedules(void **state)
{
	struct fixture *f = *state;

	f->sample.g = G;
	push_frame(&f->thread, 24, made_pc(MCALL, false));
	sample(f, &f->thread, SIZE_MAX, LEAF);
	unwind(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(MCALL, false));
	assert_true(f->result.is_scheduler);
	assert_int_equal(f->result.g, 0);
}

static void morestack_leads_to_who_needs_the_stack(void **state)
{
	struct fixture *f = *state;

	make_goroutine(f);
	push(&f->goroutine, made_pc(MIDDLE, false)); /* leaf, before its prologue */
	f->place.sp = f->goroutine.sp;
	f->place.pc = MADE_TEXT + LEAF * MADE_SIZE + 4;
	f->sample.g = G;
	f->thread.fp = f->goroutine.fp;
	push_frame(&f->thread, 40, made_pc(MORESTACK, false));
	sample(f, &f->thread, SIZE_MAX, MIDDLE);
	unwind(f);
	ASSERT_PCS(f, EXACTLY(MIDDLE), made_pc(MORESTACK, false), f->place.pc,
		   made_pc(MIDDLE, false), made_pc(ROOT, false), END);
}

/* What was copied of the goroutine when the sample was taken; by now all has changed. */
static void go_on_after_a_copy(struct fixture *f)
{
	static struct goroutine_moment moment;
	static uint8_t copy[sizeof(f->goroutine.words)];

	moment = (struct goroutine_moment){G, f->place, copy, G_HI - f->goroutine.sp};
	memcpy(copy, at(&f->goroutine, f->goroutine.sp), moment.size);
	memset(f->goroutine.words, 0, sizeof(f->goroutine.words));
	f->place.sp = 0;
	f->sample.moment = &moment;
}

static void what_was_copied_at_the_moment_needs_no_memory(void **state)
{
	struct fixture *f = *state;

	make_goroutine(f);
	push(&f->goroutine, made_pc(MIDDLE, false)); /* leaf, before its prologue */
	f->place.sp = f->goroutine.sp;
	f->place.pc = MADE_TEXT + LEAF * MADE_SIZE + 4;
	f->sample.g = G;
	f->thread.fp = f->goroutine.fp;
	push_frame(&f->thread, 40, made_pc(MORESTACK, false));
	sample(f, &f->thread, SIZE_MAX, MIDDLE);
	go_on_after_a_copy(f);
	unwind(f);
	ASSERT_PCS(f, EXACTLY(MIDDLE), made_pc(MORESTACK, false), f->sample.moment->place.pc,
		   made_pc(MIDDLE, false), made_pc(ROOT, false), END);
	assert_int_equal(f->result.g, G);
	assert_false(f->result.used_memory || f->result.truncated);
}

static void what_was_copied_tells_who_called_systemstack(void **state)
{
	struct fixture *f = *state;

	make_systemstack(f, OLD_SYSTEMSTACK);
	go_on_after_a_copy(f);
	unwind(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(OLD_SYSTEMSTACK, false), made_pc(MIDDLE, false),
		   made_pc(ROOT, false), END);
	assert_false(f->result.used_memory || f->result.truncated);
}

static void what_was_copied_of_another_goroutine_is_not_used(void **state)
{
	struct fixture *f = *state;
	struct goroutine_moment other;

	make_systemstack(f, OLD_SYSTEMSTACK);
	go_on_after_a_copy(f);
	other = *f->sample.moment;
	other.g = G + 512;
	other.place.sp += 0x100000;
	f->sample.moment = &other;
	unwind(f);
	assert_true(f->result.truncated);
}

/* gopreempt_m, called by newstack. */
static void who_lets_go_of_its_goroutine_under_morestack_schedules(void **state)
{
	struct fixture *f = *state;

	make_goroutine(f);
	f->sample.g = G;
	f->thread.fp = f->goroutine.fp;
	push_frame(&f->thread, 40, made_pc(MORESTACK, false));
	push_frame(&f->thread, 24, made_pc(MIDDLE, false));
	push_frame(&f->thread, 24, made_pc(GOSCHED, false));
	sample(f, &f->thread, SIZE_MAX, LEAF);
	unwind(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(GOSCHED, false), made_pc(MIDDLE, false),
		   made_pc(MORESTACK, false));
	assert_true(f->result.is_scheduler);
	assert_false(f->result.truncated);
	assert_int_equal(f->result.g, 0);
}

/* Of the stack of g0 only so much is captured that the chain tells the rest. */
static void the_chain_tells_it_as_well(void **state)
{
	struct fixture *f = *state;
	const uint64_t chain[] = {made_pc(LEAF, false), made_pc(GOSCHED, false),
				  made_pc(MIDDLE, false), made_pc(MORESTACK, false), END};

	make_goroutine(f);
	f->sample.g = G;
	f->thread.fp = f->goroutine.fp;
	push_frame(&f->thread, 40, made_pc(MORESTACK, false));
	push_frame(&f->thread, 24, made_pc(MIDDLE, false));
	push_frame(&f->thread, 24, made_pc(GOSCHED, false));
	sample(f, &f->thread, 32, LEAF);
	f->sample.chain = chain;
	f->sample.chain_count = ARRAY_SIZE(chain);
	unwind(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(GOSCHED, false), made_pc(MIDDLE, false),
		   made_pc(MORESTACK, false));
	assert_true(f->result.is_scheduler);
}

/* The kernel's frame of a signal: the return address, then the context. */
static void push_context(struct fixture *f, uint64_t pc)
{
	for (int i = 0; i < 40; i++)
		push(&f->thread, 0);
	*at(&f->thread, f->thread.sp + 40 + 8 * 6) = G; /* r14 */
	*at(&f->thread, f->thread.sp + 40 + 8 * 10) = f->goroutine.fp;
	*at(&f->thread, f->thread.sp + 160) = f->goroutine.sp;
	*at(&f->thread, f->thread.sp + 168) = pc;
}

static void a_signal_leads_to_what_it_interrupted(void **state)
{
	struct fixture *f = *state;
	const uint64_t chain[] = {made_pc(LEAF, false), made_pc(SIGTRAMP, false), 0x7fff00000000,
				  made_pc(ROOT, false), END};

	make_goroutine(f);
	push_context(f, made_pc(MIDDLE, true));
	f->thread.fp = f->goroutine.fp;
	push_frame(&f->thread, 48, 0x7fff00000000); /* sigtramp, under sigreturn */
	push_frame(&f->thread, 24, made_pc(SIGTRAMP, false));
	sample(f, &f->thread, SIZE_MAX, LEAF);
	f->sample.chain = chain;
	f->sample.chain_count = ARRAY_SIZE(chain);
	unwind(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(SIGTRAMP, false),
		   made_pc(MIDDLE, true) | STACK_PC_EXACT, made_pc(ROOT, false), END);
	assert_int_equal(f->result.g, G);
}

static void a_signal_whose_handler_has_returned_as_well(void **state)
{
	struct fixture *f = *state;
	const uint64_t chain[] = {made_pc(SIGRETURN, false), made_pc(ROOT, false), END};

	make_goroutine(f);
	push_context(f, made_pc(MIDDLE, true));
	f->thread.fp = f->goroutine.fp;
	sample(f, &f->thread, SIZE_MAX, SIGRETURN);
	f->sample.chain = chain;
	f->sample.chain_count = ARRAY_SIZE(chain);
	unwind(f);
	ASSERT_PCS(f, EXACTLY(SIGRETURN), made_pc(MIDDLE, true) | STACK_PC_EXACT,
		   made_pc(ROOT, false), END);
	assert_int_equal(f->result.g, G);
}

/* It has returned from systemstack, called leaf, and that has called systemstack anew. */
static void another_call_of_systemstack_is_not_taken_for_it(void **state)
{
	struct fixture *f = *state;

	make_systemstack(f, OLD_SYSTEMSTACK);
	f->goroutine.sp += 8;
	push_frame(&f->goroutine, 24, made_pc(MIDDLE, true));
	push(&f->goroutine, made_pc(LEAF, true));
	f->place.sp = f->goroutine.sp;
	unwind(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(OLD_SYSTEMSTACK, false), STACK_PC_TRUNCATED,
		   START | STACK_PC_EXACT);
}

/* CALL rel32 and LEA rax, [rip + rel32] in the code at MADE_TEXT. */
static void put_instruction(uint8_t *code, size_t at, uint8_t opcode, uint64_t target)
{
	static const uint8_t lea[] = {0x48, 0x8d, 0x05};
	size_t end = at + (opcode == 0xe8 ? 5 : 7);
	int32_t distance = target - (MADE_TEXT + end);

	if (opcode == 0xe8)
		code[at] = opcode;
	else
		memcpy(code + at, lea, sizeof(lea));
	memcpy(code + end - 4, &distance, sizeof(distance));
}

/* A call of the function that returns to made_pc(caller, half), after its closure was named. */
static void put_call(uint8_t *code, int caller, bool half, int callee, int closure)
{
	size_t end = made_pc(caller, half) - MADE_TEXT;

	put_instruction(code, end - 12, 0x8d, MADE_TEXT + closure * MADE_SIZE);
	put_instruction(code, end - 5, 0xe8, MADE_TEXT + callee * MADE_SIZE);
}

/* Go 1.20: root has called middle, which has called systemstack with leaf, and all has gone on
 * since. The code is what the program has. */
static void unwind_by_code(struct fixture *f, uint8_t *code, const uint64_t *chain, size_t count)
{
	struct image program = {.machine = MACHINE_AMD64, .functions = f->made.tab};

	program.elf = fake_elf(EM_X86_64, NULL, 0, code, FUNCTIONS * MADE_SIZE, MADE_TEXT);
	running_unwinder_read_code(f->unwinder, &program);
	f->place.sp = 0;
	f->sample.chain = chain;
	f->sample.chain_count = count;
	unwind(f);
	elf_file_close(program.elf);
}

static void what_called_systemstack_is_known_by_the_code(void **state)
{
	struct fixture *f = *state;
	const uint64_t chain[] = {made_pc(LEAF, false), made_pc(OLD_SYSTEMSTACK, false),
				  made_pc(ROOT, false), END};
	uint8_t code[FUNCTIONS * MADE_SIZE];

	memset(code, 0x90, sizeof(code));
	put_call(code, ROOT, false, MIDDLE, GOEXIT);
	put_call(code, MIDDLE, false, OLD_SYSTEMSTACK, MCALL);
	put_call(code, MIDDLE, true, OLD_SYSTEMSTACK, LEAF);
	make_systemstack(f, OLD_SYSTEMSTACK);
	unwind_by_code(f, code, chain, ARRAY_SIZE(chain));
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(OLD_SYSTEMSTACK, false), made_pc(MIDDLE, true),
		   made_pc(ROOT, false), END);
	assert_int_equal(f->result.g, G);
	assert_false(f->result.truncated);
}

static void of_two_calls_that_could_be_it_none_is_taken(void **state)
{
	struct fixture *f = *state;
	const uint64_t chain[] = {made_pc(LEAF, false), made_pc(OLD_SYSTEMSTACK, false),
				  made_pc(ROOT, false), END};
	uint8_t code[FUNCTIONS * MADE_SIZE];

	memset(code, 0x90, sizeof(code));
	put_call(code, ROOT, false, MIDDLE, GOEXIT);
	put_call(code, MIDDLE, false, OLD_SYSTEMSTACK, LEAF);
	put_call(code, MIDDLE, true, OLD_SYSTEMSTACK, LEAF);
	make_systemstack(f, OLD_SYSTEMSTACK);
	unwind_by_code(f, code, chain, ARRAY_SIZE(chain));
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(OLD_SYSTEMSTACK, false), STACK_PC_TRUNCATED,
		   made_pc(ROOT, false), END);
	assert_true(f->result.truncated);
}

static void a_call_through_a_register_tells_nothing(void **state)
{
	struct fixture *f = *state;
	const uint64_t chain[] = {made_pc(LEAF, false), made_pc(OLD_SYSTEMSTACK, false),
				  made_pc(ROOT, false), END};
	uint8_t code[FUNCTIONS * MADE_SIZE];

	memset(code, 0x90, sizeof(code));
	put_call(code, MIDDLE, false, OLD_SYSTEMSTACK, LEAF);
	make_systemstack(f, OLD_SYSTEMSTACK);
	unwind_by_code(f, code, chain, ARRAY_SIZE(chain));
	assert_true(f->result.truncated);
}

/* Nobody has called who began the goroutine: its closure's name tells who it is. */
static void where_a_goroutine_began_is_known_by_the_closures_name(void **state)
{
	struct fixture *f = *state;
	const uint64_t chain[] = {made_pc(CLOSURE, false), made_pc(OLD_SYSTEMSTACK, false), END};
	uint8_t code[FUNCTIONS * MADE_SIZE];

	memset(code, 0x90, sizeof(code));
	put_call(code, ROOT, false, OLD_SYSTEMSTACK, CLOSURE);
	push_frame(&f->goroutine, 8, END);
	push(&f->goroutine, made_pc(ROOT, false));
	f->thread.fp = f->goroutine.fp;
	push_frame(&f->thread, 24, made_pc(OLD_SYSTEMSTACK, false));
	sample(f, &f->thread, SIZE_MAX, CLOSURE);
	f->sample.g = 0; /* the thread works for another by now */
	unwind_by_code(f, code, chain, ARRAY_SIZE(chain));
	ASSERT_PCS(f, EXACTLY(CLOSURE), made_pc(OLD_SYSTEMSTACK, false), made_pc(ROOT, false), END);
	assert_int_equal(f->result.g, 0);
	assert_int_equal(f->result.start_pc, START);
}

/*
 * Around a call of duffzero BP leads to a record below SP. Its return address is the chain's second
 * word, so the frame's own record is the third.
 */
static void a_record_below_sp_shifts_the_chain_by_one(void **state)
{
	struct fixture *f = *state;
	const uint64_t chain[] = {made_pc(MIDDLE, false), made_pc(MIDDLE, true),
				  made_pc(ROOT, false), END};

	make_goroutine(f);
	f->sample.g = G;
	f->sample.g_is_certain = true;
	sample(f, &f->goroutine, 48, MIDDLE);
	registers_set(&f->sample.regs, AMD64_RBP, f->goroutine.sp - 16);
	f->sample.chain = chain;
	f->sample.chain_count = ARRAY_SIZE(chain);
	f->place.stack_hi = 0; /* memory is of no help */
	unwind(f);
	ASSERT_PCS(f, EXACTLY(MIDDLE), made_pc(ROOT, false), END);
	assert_true(f->result.used_chain);
	assert_false(f->result.used_memory);
}

/* gogo has set SP to the stack to which it goes, and has not jumped there. */
static void who_arrives_on_a_stack_has_no_return_address_there(void **state)
{
	struct fixture *f = *state;

	make_goroutine(f);
	f->sample.g = G;
	f->sample.g_is_certain = true;
	push(&f->goroutine, made_pc(MIDDLE, false));
	sample(f, &f->goroutine, SIZE_MAX, GOGO);
	unwind(f);
	ASSERT_PCS(f, EXACTLY(GOGO), STACK_PC_TRUNCATED, START | STACK_PC_EXACT);
}

/* A record below SP again, and the frame's own is not among the captured bytes: the chain's place
 * on the stack is not known. */
static void make_chain_without_place(struct fixture *f, const uint64_t *chain, size_t count)
{
	make_goroutine(f);
	push_frame(&f->goroutine, 24, made_pc(MIDDLE, false));
	f->sample.g = G;
	f->sample.g_is_certain = true;
	sample(f, &f->goroutine, 16, LEAF);
	registers_set(&f->sample.regs, AMD64_RBP, f->goroutine.sp - 16);
	f->sample.chain = chain;
	f->sample.chain_count = count;
}

static void memory_has_to_agree_with_a_chain_without_place(void **state)
{
	struct fixture *f = *state;
	const uint64_t chain[] = {made_pc(LEAF, false), made_pc(LEAF, true), made_pc(MIDDLE, false),
				  made_pc(ROOT, false), END};

	make_chain_without_place(f, chain, ARRAY_SIZE(chain));
	unwind(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(MIDDLE, false), made_pc(ROOT, false), END);
	assert_true(f->result.used_memory);
}

static void memory_that_has_not_all_of_the_chain_is_not_believed(void **state)
{
	struct fixture *f = *state;
	const uint64_t chain[] = {made_pc(LEAF, false), made_pc(LEAF, true), made_pc(MIDDLE, false),
				  made_pc(ROOT, true), END};

	make_chain_without_place(f, chain, ARRAY_SIZE(chain));
	unwind(f);
	ASSERT_PCS(f, EXACTLY(LEAF), STACK_PC_TRUNCATED, START | STACK_PC_EXACT);
	assert_false(f->result.used_memory);
}

/* middle, called by root: each has its record right below its SP, the innermost one below what was
 * captured. */
static void unwind_arm64(struct fixture *f, const uint64_t *chain, size_t count)
{
	const uint64_t words[] = {made_pc(ROOT, false), 1, 2, 3, G_LO + 64 + 48, END, 0};
	struct running_source source = {read_memory, no_goroutine, no_thread_sp, f};

	running_unwinder_destroy(f->unwinder);
	f->unwinder = running_unwinder_create(f->stacks, &f->made.tab, MACHINE_ARM64, NULL);
	registers_set(&f->sample.regs, ARM64_PC, made_pc(MIDDLE, false));
	registers_set(&f->sample.regs, ARM64_SP, G_LO + 64);
	registers_set(&f->sample.regs, ARM64_FP, G_LO + 64 - 8);
	f->sample.bytes = (const uint8_t *)words;
	f->sample.size = sizeof(words);
	f->sample.chain = chain;
	f->sample.chain_count = count;
	assert_null(running_unwind(f->unwinder, &f->sample, &source, &f->result));
	f->stack = stacks_get(f->stacks, f->result.stack);
}

static void arm64_needs_no_innermost_record_where_there_is_no_chain(void **state)
{
	struct fixture *f = *state;

	unwind_arm64(f, NULL, 0);
	ASSERT_PCS(f, EXACTLY(MIDDLE), made_pc(ROOT, false), END);
	assert_false(f->result.truncated || f->result.used_memory);
}

/* The kernel's chain ends where the next stack lies lower. */
static void arm64_needs_no_innermost_record_where_the_chain_ends_early(void **state)
{
	struct fixture *f = *state;
	const uint64_t chain[] = {made_pc(MIDDLE, false), made_pc(ROOT, false)};

	unwind_arm64(f, chain, ARRAY_SIZE(chain));
	ASSERT_PCS(f, EXACTLY(MIDDLE), made_pc(ROOT, false), END);
	assert_false(f->result.truncated || f->result.used_memory);
}

/* A sample of the thread whose innermost frame has no record that was captured. */
static void sample_arm64(struct fixture *f, uint64_t pc, const uint64_t *words, size_t size)
{
	running_unwinder_destroy(f->unwinder);
	f->unwinder = running_unwinder_create(f->stacks, &f->made.tab, MACHINE_ARM64, NULL);
	registers_set(&f->sample.regs, ARM64_PC, pc);
	registers_set(&f->sample.regs, ARM64_SP, THREAD_STACK);
	registers_set(&f->sample.regs, ARM64_FP, THREAD_STACK - 8);
	f->sample.bytes = (const uint8_t *)words;
	f->sample.size = size;
	f->sample.g = G;
}

static void on_arm64_the_moment_tells_where_systemstack_was_called(void **state)
{
	struct fixture *f = *state;
	const uint64_t words[] = {made_pc(SYSTEMSTACK, false), 1, 2, 3, 4};
	const uint64_t goroutine[] = {made_pc(ROOT, false), END};
	const struct goroutine_moment moment = {
		.g = G,
		.place = {G_LO, G_HI, .sp = G_HI - 16, .start_pc = START},
		.bytes = (const uint8_t *)goroutine,
		.size = sizeof(goroutine),
	};

	sample_arm64(f, made_pc(MIDDLE, false), words, sizeof(words));
	f->place.sp = G_HI - 512; /* it has gone on */
	unwind(f);
	assert_true(f->result.truncated);
	f->sample.moment = &moment;
	unwind(f);
	ASSERT_PCS(f, EXACTLY(MIDDLE), made_pc(SYSTEMSTACK, false), made_pc(ROOT, false), END);
	assert_int_equal(f->result.g, G);
	assert_false(f->result.truncated || f->result.used_memory);
}

/* Code of ours stands for the vDSO's: it is in a module, and what it is does not matter. */
static void on_arm64_lr_leads_out_of_the_vdso(void **state)
{
	struct fixture *f = *state;
	uint64_t pc = (uintptr_t)&on_arm64_lr_leads_out_of_the_vdso;
	const uint64_t chain[] = {pc, made_pc(ROOT, false), END}, words[] = {1, 2};
	struct modules *modules;
	struct target *self;

	assert_null(target_open_process(getpid(), &self));
	assert_null(modules_open(self, MACHINE_ARM64, &modules));
	sample_arm64(f, pc, words, sizeof(words));
	running_unwinder_destroy(f->unwinder);
	f->unwinder = running_unwinder_create(f->stacks, &f->made.tab, MACHINE_ARM64, modules);
	registers_set(&f->sample.regs, ARM64_LR, made_pc(NANOTIME, false));
	registers_set(&f->sample.regs, 20, G_HI - 56); /* where nanotime1 keeps its SP */
	registers_set(&f->sample.regs, ARM64_FP, G_HI - 64);
	f->sample.chain = chain;
	f->sample.chain_count = ARRAY_SIZE(chain);
	f->sample.g_is_certain = true;
	unwind(f);
	ASSERT_PCS(f, pc | STACK_PC_EXACT, made_pc(NANOTIME, false), made_pc(ROOT, false), END);
	assert_int_equal(f->result.g, G);
	/* It has called on since. */
	registers_set(&f->sample.regs, ARM64_LR, made_pc(ROOT, false));
	unwind(f);
	assert_int_not_equal(f->stack.pcs[1], made_pc(NANOTIME, false));
	modules_close(modules);
	target_close(self);
}

static void a_pc_in_no_code_is_no_stack(void **state)
{
	struct fixture *f = *state;

	make_goroutine(f);
	sample(f, &f->goroutine, SIZE_MAX, LEAF);
	registers_set(&f->sample.regs, AMD64_PC, 0x10);
	unwind(f);
	assert_int_equal(f->result.stack, STACK_NONE);
}

#define RUNNING_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUNNING_TEST(what_was_captured_needs_nothing_else),
		RUNNING_TEST(assembly_may_use_the_g_register),
		RUNNING_TEST(systemstack_leads_to_its_caller),
		RUNNING_TEST(before_go_1_21_as_well),
		RUNNING_TEST(a_goroutine_that_went_on_gives_no_callers),
		RUNNING_TEST(another_goroutine_is_not_taken_for_it),
		RUNNING_TEST(the_chain_is_of_the_moment),
		RUNNING_TEST(memory_that_the_chain_contradicts_is_not_believed),
		RUNNING_TEST(a_deep_stack_goes_on_in_memory),
		RUNNING_TEST(a_deep_stack_that_changed_is_cut),
		RUNNING_TEST(c_leads_to_the_goroutine_that_called_it),
		RUNNING_TEST(a_thread_that_has_left_its_goroutine_schedules),
		RUNNING_TEST(morestack_leads_to_who_needs_the_stack),
		RUNNING_TEST(what_was_copied_at_the_moment_needs_no_memory),
		RUNNING_TEST(what_was_copied_tells_who_called_systemstack),
		RUNNING_TEST(what_was_copied_of_another_goroutine_is_not_used),
		RUNNING_TEST(who_lets_go_of_its_goroutine_under_morestack_schedules),
		RUNNING_TEST(the_chain_tells_it_as_well),
		RUNNING_TEST(a_signal_leads_to_what_it_interrupted),
		RUNNING_TEST(a_signal_whose_handler_has_returned_as_well),
		RUNNING_TEST(another_call_of_systemstack_is_not_taken_for_it),
		RUNNING_TEST(what_called_systemstack_is_known_by_the_code),
		RUNNING_TEST(of_two_calls_that_could_be_it_none_is_taken),
		RUNNING_TEST(a_call_through_a_register_tells_nothing),
		RUNNING_TEST(where_a_goroutine_began_is_known_by_the_closures_name),
		RUNNING_TEST(a_record_below_sp_shifts_the_chain_by_one),
		RUNNING_TEST(who_arrives_on_a_stack_has_no_return_address_there),
		RUNNING_TEST(memory_has_to_agree_with_a_chain_without_place),
		RUNNING_TEST(memory_that_has_not_all_of_the_chain_is_not_believed),
		RUNNING_TEST(arm64_needs_no_innermost_record_where_there_is_no_chain),
		RUNNING_TEST(arm64_needs_no_innermost_record_where_the_chain_ends_early),
		RUNNING_TEST(on_arm64_the_moment_tells_where_systemstack_was_called),
		RUNNING_TEST(on_arm64_lr_leads_out_of_the_vdso),
		RUNNING_TEST(a_pc_in_no_code_is_no_stack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
