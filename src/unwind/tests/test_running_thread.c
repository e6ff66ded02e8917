#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "tests/fake_program.h"
#include "unwind/tests/made_sample.h"

static void captured_registers_and_stack_suffice(void **state)
{
	struct made_sample *f = *state;

	make_goroutine(f);
	push_frame(&f->goroutine, 24, made_pc(MIDDLE, false));
	f->sample.g = G;
	f->sample.g_is_certain = true;
	take_sample(f, &f->goroutine, SIZE_MAX, LEAF);
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(MIDDLE, false), made_pc(ROOT, false), END);
	assert_int_equal(f->result.g, G);
	assert_int_equal(f->result.start_pc, START);
	assert_false(f->result.used_memory || f->result.used_chain || f->result.truncated);
}

static void assembly_may_use_the_g_register(void **state)
{
	struct made_sample *f = *state;

	make_goroutine(f);
	push_frame(&f->goroutine, 24, made_pc(MIDDLE, false));
	f->sample.g = G; /* for which the thread works, as it seems */
	take_sample(f, &f->goroutine, SIZE_MAX, LEAF);
	unwind_sample(f);
	assert_int_equal(f->result.g, G);
	f->place.stack_lo += 0x100000;
	f->place.stack_hi += 0x100000;
	unwind_sample(f);
	assert_int_equal(f->result.g, 0);
}

static void systemstack_leads_to_its_caller(void **state)
{
	struct made_sample *f = *state;

	make_systemstack(f, SYSTEMSTACK);
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(SYSTEMSTACK, false), made_pc(MIDDLE, false),
		   made_pc(ROOT, false), END);
	assert_int_equal(f->result.g, G);
	assert_true(f->result.used_memory);
}

static void before_go_1_21_as_well(void **state)
{
	struct made_sample *f = *state;

	make_systemstack(f, OLD_SYSTEMSTACK);
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(OLD_SYSTEMSTACK, false), made_pc(MIDDLE, false),
		   made_pc(ROOT, false), END);
	assert_int_equal(f->result.g, G);
}

static void another_goroutine_is_not_taken_for_it(void **state)
{
	struct made_sample *f = *state;

	make_systemstack(f, SYSTEMSTACK);
	f->place.stack_lo += 0x100000;
	f->place.stack_hi += 0x100000;
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(SYSTEMSTACK, false), STACK_PC_TRUNCATED);
	assert_int_equal(f->result.g, 0);
}

/* leaf stands for C: it returns to asmcgocall, which has put g and its depth at its SP. */
static void c_leads_to_the_goroutine_that_called_it(void **state)
{
	struct made_sample *f = *state;

	make_goroutine(f);
	push_frame(&f->goroutine, 8, made_pc(MIDDLE, false));
	for (int i = 0; i < 8; i++)
		push_word(&f->thread, 0);
	*stack_at(&f->thread, f->thread.sp + 48) = G;
	*stack_at(&f->thread, f->thread.sp + 40) = G_HI - f->goroutine.sp;
	*stack_at(&f->thread, f->thread.sp + 8) =
		G; /* an old word, in the place of other versions */
	*stack_at(&f->thread, f->thread.sp) = 16;
	f->place.sp = f->goroutine.sp;
	f->thread.fp = 0xdead; /* C uses it for something else */
	push_frame(&f->thread, 24, made_pc(ASMCGOCALL, false));
	take_sample(f, &f->thread, SIZE_MAX, LEAF);
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(ASMCGOCALL, false), made_pc(MIDDLE, false),
		   made_pc(ROOT, false), END);
	assert_int_equal(f->result.g, G);
}

static void a_thread_that_has_left_its_goroutine_schedules(void **state)
{
	struct made_sample *f = *state;

	f->sample.g = G;
	push_frame(&f->thread, 24, made_pc(MCALL, false));
	take_sample(f, &f->thread, SIZE_MAX, LEAF);
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(MCALL, false));
	assert_true(f->result.is_scheduler);
	assert_int_equal(f->result.g, 0);
}

static void morestack_leads_to_who_needs_the_stack(void **state)
{
	struct made_sample *f = *state;

	make_morestack(f);
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(MIDDLE), made_pc(MORESTACK, false), f->place.pc,
		   made_pc(MIDDLE, false), made_pc(ROOT, false), END);
}

/* gopreempt_m, called by newstack. */
static void dropg_under_morestack_is_the_scheduler(void **state)
{
	struct made_sample *f = *state;

	make_goroutine(f);
	f->sample.g = G;
	f->thread.fp = f->goroutine.fp;
	push_frame(&f->thread, 40, made_pc(MORESTACK, false));
	push_frame(&f->thread, 24, made_pc(MIDDLE, false));
	push_frame(&f->thread, 24, made_pc(GOSCHED, false));
	take_sample(f, &f->thread, SIZE_MAX, LEAF);
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(GOSCHED, false), made_pc(MIDDLE, false),
		   made_pc(MORESTACK, false));
	assert_true(f->result.is_scheduler);
	assert_false(f->result.truncated);
	assert_int_equal(f->result.g, 0);
}

/* The captured bytes of g0's stack lack the part that the chain has. */
static void the_chain_tells_it_as_well(void **state)
{
	struct made_sample *f = *state;
	const uint64_t chain[] = {made_pc(LEAF, false), made_pc(GOSCHED, false),
				  made_pc(MIDDLE, false), made_pc(MORESTACK, false), END};

	make_goroutine(f);
	f->sample.g = G;
	f->thread.fp = f->goroutine.fp;
	push_frame(&f->thread, 40, made_pc(MORESTACK, false));
	push_frame(&f->thread, 24, made_pc(MIDDLE, false));
	push_frame(&f->thread, 24, made_pc(GOSCHED, false));
	take_sample(f, &f->thread, 32, LEAF);
	f->sample.chain = chain;
	f->sample.chain_count = ARRAY_SIZE(chain);
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(GOSCHED, false), made_pc(MIDDLE, false),
		   made_pc(MORESTACK, false));
	assert_true(f->result.is_scheduler);
}

/* The kernel's frame of a signal: the return address, then the context. */
static void push_context(struct made_sample *f, uint64_t pc)
{
	for (int i = 0; i < 40; i++)
		push_word(&f->thread, 0);
	*stack_at(&f->thread, f->thread.sp + 40 + 8 * 6) = G; /* r14 */
	*stack_at(&f->thread, f->thread.sp + 40 + 8 * 10) = f->goroutine.fp;
	*stack_at(&f->thread, f->thread.sp + 160) = f->goroutine.sp;
	*stack_at(&f->thread, f->thread.sp + 168) = pc;
}

/* Leaf, called by the signal handler on the thread's stack, whose frame has been pushed there. */
static void unwind_handler(struct made_sample *f)
{
	const uint64_t chain[] = {made_pc(LEAF, false), made_pc(SIGTRAMP, false), 0x7fff00000000,
				  made_pc(ROOT, false), END};

	f->thread.fp = f->goroutine.fp;
	push_frame(&f->thread, 48, 0x7fff00000000); /* sigtramp, under sigreturn */
	push_frame(&f->thread, 24, made_pc(SIGTRAMP, false));
	take_sample(f, &f->thread, SIZE_MAX, LEAF);
	f->sample.chain = chain;
	f->sample.chain_count = ARRAY_SIZE(chain);
	unwind_sample(f);
}

static void a_signal_leads_to_what_it_interrupted(void **state)
{
	struct made_sample *f = *state;

	make_goroutine(f);
	push_context(f, made_pc(MIDDLE, true));
	unwind_handler(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(SIGTRAMP, false),
		   made_pc(MIDDLE, true) | STACK_PC_EXACT, made_pc(ROOT, false), END);
	assert_int_equal(f->result.g, G);
}

static void a_signal_whose_handler_is_about_to_begin_as_well(void **state)
{
	struct made_sample *f = *state;
	const uint64_t chain[] = {made_pc(SIGTRAMP, false), 0x7fff00000000, made_pc(ROOT, false),
				  END};

	make_goroutine(f);
	push_context(f, made_pc(MIDDLE, true));
	f->thread.fp = f->goroutine.fp;
	push_frame(&f->thread, 48, 0x7fff00000000);
	take_sample(f, &f->thread, SIZE_MAX, SIGTRAMP);
	f->sample.chain = chain;
	f->sample.chain_count = ARRAY_SIZE(chain);
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(SIGTRAMP), made_pc(MIDDLE, true) | STACK_PC_EXACT,
		   made_pc(ROOT, false), END);
	assert_int_equal(f->result.g, G);
}

static void a_signal_whose_handler_has_returned_as_well(void **state)
{
	struct made_sample *f = *state;
	const uint64_t chain[] = {made_pc(SIGRETURN, false), made_pc(ROOT, false), END};

	make_goroutine(f);
	push_context(f, made_pc(MIDDLE, true));
	f->thread.fp = f->goroutine.fp;
	take_sample(f, &f->thread, SIZE_MAX, SIGRETURN);
	f->sample.chain = chain;
	f->sample.chain_count = ARRAY_SIZE(chain);
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(SIGRETURN), made_pc(MIDDLE, true) | STACK_PC_EXACT,
		   made_pc(ROOT, false), END);
	assert_int_equal(f->result.g, G);
}

/* The interrupted function is on an unavailable stack, so its caller is lost, but the chain
 * continues. In the handler g belongs to no goroutine. */
static void start_function_is_known_beyond_a_gap(void **state)
{
	struct made_sample *f = *state;

	make_goroutine(f);
	f->goroutine.sp = 0x5000;
	push_context(f, made_pc(MIDDLE, true));
	*stack_at(&f->thread, f->thread.sp + 40 + 8 * 6) = 0;
	unwind_handler(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(SIGTRAMP, false),
		   made_pc(MIDDLE, true) | STACK_PC_EXACT, STACK_PC_TRUNCATED, made_pc(ROOT, false),
		   END);
	assert_int_equal(f->result.g, 0);
	assert_int_equal(f->result.start_pc, START);
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

/* Go 1.20: root has called middle, which has called systemstack with leaf, and all have run on
 * since. Only the program has the code. */
static void unwind_by_code(struct made_sample *f, uint8_t *code, const uint64_t *chain,
			   size_t count)
{
	struct image program = {.machine = MACHINE_AMD64, .functions = f->made.tab};

	program.elf = fake_elf(EM_X86_64, NULL, 0, code, FUNCTIONS * MADE_SIZE, MADE_TEXT);
	running_unwinder_read_code(f->unwinder, &program);
	f->place.sp = 0;
	f->sample.chain = chain;
	f->sample.chain_count = count;
	unwind_sample(f);
	elf_file_close(program.elf);
}

static void code_identifies_the_systemstack_caller(void **state)
{
	struct made_sample *f = *state;
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

static void ambiguous_calls_yield_no_caller(void **state)
{
	struct made_sample *f = *state;
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
	struct made_sample *f = *state;
	const uint64_t chain[] = {made_pc(LEAF, false), made_pc(OLD_SYSTEMSTACK, false),
				  made_pc(ROOT, false), END};
	uint8_t code[FUNCTIONS * MADE_SIZE];

	memset(code, 0x90, sizeof(code));
	put_call(code, MIDDLE, false, OLD_SYSTEMSTACK, LEAF);
	make_systemstack(f, OLD_SYSTEMSTACK);
	unwind_by_code(f, code, chain, ARRAY_SIZE(chain));
	assert_true(f->result.truncated);
}

/* The start function has no caller: its closure's name identifies it. */
static void closure_name_identifies_the_start_function(void **state)
{
	struct made_sample *f = *state;
	const uint64_t chain[] = {made_pc(CLOSURE, false), made_pc(OLD_SYSTEMSTACK, false), END};
	uint8_t code[FUNCTIONS * MADE_SIZE];

	memset(code, 0x90, sizeof(code));
	put_call(code, ROOT, false, OLD_SYSTEMSTACK, CLOSURE);
	push_frame(&f->goroutine, 8, END);
	push_word(&f->goroutine, made_pc(ROOT, false));
	f->thread.fp = f->goroutine.fp;
	push_frame(&f->thread, 24, made_pc(OLD_SYSTEMSTACK, false));
	take_sample(f, &f->thread, SIZE_MAX, CLOSURE);
	f->sample.g = 0; /* the thread works for another by now */
	unwind_by_code(f, code, chain, ARRAY_SIZE(chain));
	ASSERT_PCS(f, EXACTLY(CLOSURE), made_pc(OLD_SYSTEMSTACK, false), made_pc(ROOT, false), END);
	assert_int_equal(f->result.g, 0);
	assert_int_equal(f->result.start_pc, START);
}

/* gogo has set SP to the stack to which it goes, and has not jumped there. */
static void switched_stack_has_no_return_address_yet(void **state)
{
	struct made_sample *f = *state;

	make_goroutine(f);
	f->sample.g = G;
	f->sample.g_is_certain = true;
	push_word(&f->goroutine, made_pc(MIDDLE, false));
	take_sample(f, &f->goroutine, SIZE_MAX, GOGO);
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(GOGO), STACK_PC_TRUNCATED, START | STACK_PC_EXACT);
}

/* middle, called by root: each has its record right below its SP, the innermost one below the
 * captured bytes. */
static void unwind_arm64(struct made_sample *f, const uint64_t *chain, size_t count)
{
	const uint64_t words[] = {made_pc(ROOT, false), 1, 2, 3, G_LO + 64 + 48, END, 0};

	running_unwinder_destroy(f->unwinder);
	f->unwinder = running_unwinder_create(f->stacks, &f->made.tab, MACHINE_ARM64, NULL);
	registers_set(&f->sample.regs, ARM64_PC, made_pc(MIDDLE, false));
	registers_set(&f->sample.regs, ARM64_SP, G_LO + 64);
	registers_set(&f->sample.regs, ARM64_FP, G_LO + 64 - 8);
	f->sample.bytes = (const uint8_t *)words;
	f->sample.size = sizeof(words);
	f->sample.chain = chain;
	f->sample.chain_count = count;
	unwind_sample(f);
}

static void arm64_needs_no_innermost_record_where_there_is_no_chain(void **state)
{
	struct made_sample *f = *state;

	unwind_arm64(f, NULL, 0);
	ASSERT_PCS(f, EXACTLY(MIDDLE), made_pc(ROOT, false), END);
	assert_false(f->result.truncated || f->result.used_memory);
}

/* The kernel's chain ends where the next stack lies lower. */
static void arm64_needs_no_innermost_record_where_the_chain_ends_early(void **state)
{
	struct made_sample *f = *state;
	const uint64_t chain[] = {made_pc(MIDDLE, false), made_pc(ROOT, false)};

	unwind_arm64(f, chain, ARRAY_SIZE(chain));
	ASSERT_PCS(f, EXACTLY(MIDDLE), made_pc(ROOT, false), END);
	assert_false(f->result.truncated || f->result.used_memory);
}

/* A sample of the thread whose innermost frame has no captured record. */
static void sample_arm64(struct made_sample *f, uint64_t pc, const uint64_t *words, size_t size)
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

static void on_arm64_the_snapshot_shows_where_systemstack_was_called(void **state)
{
	struct made_sample *f = *state;
	const uint64_t words[] = {made_pc(SYSTEMSTACK, false), 1, 2, 3, 4};
	const uint64_t goroutine[] = {made_pc(ROOT, false), END};
	const struct sampled_goroutine sample = {
		.g = G,
		.place = {G_LO, G_HI, .sp = G_HI - 16, .start_pc = START},
		.bytes = (const uint8_t *)goroutine,
		.size = sizeof(goroutine),
	};

	sample_arm64(f, made_pc(MIDDLE, false), words, sizeof(words));
	f->place.sp = G_HI - 512; /* it has gone on */
	unwind_sample(f);
	assert_true(f->result.truncated);
	f->sample.sampled = &sample;
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(MIDDLE), made_pc(SYSTEMSTACK, false), made_pc(ROOT, false), END);
	assert_int_equal(f->result.g, G);
	assert_false(f->result.truncated || f->result.used_memory);
}

/* Code of the test stands for the vDSO's: it is in a module, and its instructions do not matter. */
static void on_arm64_lr_leads_out_of_the_vdso(void **state)
{
	struct made_sample *f = *state;
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
	unwind_sample(f);
	ASSERT_PCS(f, pc | STACK_PC_EXACT, made_pc(NANOTIME, false), made_pc(ROOT, false), END);
	assert_int_equal(f->result.g, G);
	/* It has called on since. */
	registers_set(&f->sample.regs, ARM64_LR, made_pc(ROOT, false));
	unwind_sample(f);
	assert_int_not_equal(f->stack.pcs[1], made_pc(NANOTIME, false));
	modules_close(modules);
	target_close(self);
}

/* All functions are those of a second module. The leaf has no frame yet: by frame pointers its
 * caller would be missing. */
static void functions_of_a_plugin_are_unwound_as_the_programs_own(void **state)
{
	struct made_sample *f = *state;
	uint64_t leaf = MADE_TEXT + LEAF * MADE_SIZE;
	struct pclntab plugin = f->made.tab;

	f->made.tab.etext = f->made.tab.text;
	f->made.tab.next = &plugin;
	make_goroutine(f);
	push_word(&f->goroutine, made_pc(MIDDLE, false));
	f->sample.g = G;
	f->sample.g_is_certain = true;
	take_sample(f, &f->goroutine, SIZE_MAX, LEAF);
	registers_set(&f->sample.regs, AMD64_PC, leaf);
	unwind_sample(f);
	ASSERT_PCS(f, leaf | STACK_PC_EXACT, made_pc(MIDDLE, false), made_pc(ROOT, false), END);
	assert_false(f->result.truncated);
}

static void a_pc_in_no_code_is_no_stack(void **state)
{
	struct made_sample *f = *state;

	make_goroutine(f);
	take_sample(f, &f->goroutine, SIZE_MAX, LEAF);
	registers_set(&f->sample.regs, AMD64_PC, 0x10);
	unwind_sample(f);
	assert_int_equal(f->result.stack, STACK_NONE);
}

#define RUNNING_TEST(f) \
	cmocka_unit_test_setup_teardown(f, made_sample_set_up, made_sample_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUNNING_TEST(captured_registers_and_stack_suffice),
		RUNNING_TEST(assembly_may_use_the_g_register),
		RUNNING_TEST(systemstack_leads_to_its_caller),
		RUNNING_TEST(before_go_1_21_as_well),
		RUNNING_TEST(another_goroutine_is_not_taken_for_it),
		RUNNING_TEST(c_leads_to_the_goroutine_that_called_it),
		RUNNING_TEST(a_thread_that_has_left_its_goroutine_schedules),
		RUNNING_TEST(morestack_leads_to_who_needs_the_stack),
		RUNNING_TEST(dropg_under_morestack_is_the_scheduler),
		RUNNING_TEST(the_chain_tells_it_as_well),
		RUNNING_TEST(a_signal_leads_to_what_it_interrupted),
		RUNNING_TEST(start_function_is_known_beyond_a_gap),
		RUNNING_TEST(a_signal_whose_handler_is_about_to_begin_as_well),
		RUNNING_TEST(a_signal_whose_handler_has_returned_as_well),
		RUNNING_TEST(code_identifies_the_systemstack_caller),
		RUNNING_TEST(ambiguous_calls_yield_no_caller),
		RUNNING_TEST(a_call_through_a_register_tells_nothing),
		RUNNING_TEST(closure_name_identifies_the_start_function),
		RUNNING_TEST(switched_stack_has_no_return_address_yet),
		RUNNING_TEST(arm64_needs_no_innermost_record_where_there_is_no_chain),
		RUNNING_TEST(arm64_needs_no_innermost_record_where_the_chain_ends_early),
		RUNNING_TEST(on_arm64_the_snapshot_shows_where_systemstack_was_called),
		RUNNING_TEST(on_arm64_lr_leads_out_of_the_vdso),
		RUNNING_TEST(functions_of_a_plugin_are_unwound_as_the_programs_own),
		RUNNING_TEST(a_pc_in_no_code_is_no_stack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
