/* The stubs: the registers they preserve, the slot they take, and where they continue. */
#include "hooks/tests/made_target.h"

static void other_hooks_keep_every_register(void **state)
{
	static struct made d;
	struct registers before, after;
	uint64_t n[2];

	make(&d, HOOK_P_STOP, STUB_P_OF_THREAD);
	before = after = some_registers(&d, 0, 0);
	call_function(&d, &after);
	assert_memory_equal(&before, &after, sizeof(before));
	assert_left_well(&d);
	assert_int_equal(first_record(&d, 1, n, 2), RECORD_P_STOP);
	assert_int_equal(n[1], 1);
	unmake(&d);
}

/* An instruction that refers to memory by its own address refers to the same memory after its move;
 * labels in unreadable memory are reported by their address. */
static void an_instruction_that_is_relative_is_executed_elsewhere(void **state)
{
	/* push rbp; mov rbp, rsp; cmp dword [rip+0xf5], 7; sete bl; pop rbp; ret */
	static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0x83, 0x3d, 0xf5, 0,
				       0,    0,    7,    0x0f, 0x94, 0xc3, 0x5d, 0xc3};
	static struct made d;
	struct registers r;
	uint64_t n[4];

	make_of(&d, code, sizeof(code), SITE_FIRST | SITE_RELATIVE, HOOK_LABELS, STUB_P_OF_THREAD);
	for (uint32_t value = 6; value <= 8; value++) {
		memcpy(d.memory + 0x100, &value, sizeof(value));
		r = some_registers(&d, 0, 0);
		r.r14 = word_of(d.g);
		r.rax = 4096;
		call_function(&d, &r);
		assert_int_equal(r.rbx & 0xff, value == 7);
		assert_int_equal(r.rax, 4096);
	}
	assert_left_well(&d);
	assert_int_equal(first_record(&d, 1, n, 4), RECORD_LABELS_UNREAD);
	assert_int_equal(n[1], 300);
	assert_int_equal(n[2], word_of(d.g));
	assert_int_equal(n[3], 4096);
	unmake(&d);
}

static void a_thread_without_a_p_takes_a_fallback_slot(void **state)
{
	static struct made d;
	struct registers before, after;
	uint64_t n[2];

	make(&d, HOOK_CASGSTATUS, STUB_CASGSTATUS);
	d.m[M_P] = 0;
	slot_of(&d, P_SLOTS)->busy = 1; /* another thread uses it */
	before = after = some_registers(&d, 1, 2);
	call_function(&d, &after);
	assert_three_kept(&before, &after);
	assert_int_equal(slot_of(&d, 1)->write, 0);
	assert_int_equal(slot_of(&d, P_SLOTS)->write, 0);
	assert_int_equal(first_record(&d, P_SLOTS + 1, n, 2), RECORD_START);
	assert_int_equal(n[1], 300);
	unmake(&d);
}

static void call_without_a_slot_counts_as_lost(void **state)
{
	static struct made d;
	struct registers r;
	struct code_control control;

	make(&d, HOOK_CASGSTATUS, STUB_CASGSTATUS);
	d.m[M_P] = 0;
	for (unsigned int i = P_SLOTS; i < SLOTS; i++)
		slot_of(&d, i)->busy = 1;
	for (int i = 0; i < 3; i++) {
		r = some_registers(&d, 1, 2);
		call_function(&d, &r);
		assert_int_equal(r.rax, word_of(d.g));
	}
	memcpy(&control, d.memory + CONTROL, sizeof(control));
	assert_int_equal(control.lost, 3);
	unmake(&d);
}

static void switched_off_it_touches_nothing(void **state)
{
	static struct made d;
	struct registers before, after;
	uint64_t size;

	make(&d, HOOK_CASGSTATUS, STUB_CASGSTATUS);
	size = d.shared->size;
	memset(d.memory + CONTROL, 0, 8);
	mprotect(d.shared, size, PROT_NONE); /* as in a child of fork */
	before = after = some_registers(&d, 1, 2);
	call_function(&d, &after);
	assert_memory_equal(&before, &after, sizeof(before));
	mprotect(d.shared, size, PROT_READ | PROT_WRITE);
	unmake(&d);
}

/* Jumps to the function's last instruction but one, as a thread does that was stopped before it. */
static void go_to_pop(const struct made *d)
{
	register const uint8_t *at __asm__("r15") = d->memory + FUNCTION + 22;

	__asm__ volatile("sub $128, %%rsp\n\tlea 1f(%%rip), %%rax\n\tpush %%rax\n\t"
			 "push %%rbp\n\tjmp *%%r15\n1:\tadd $128, %%rsp"
			 :
			 : "r"(at)
			 : "rax", "memory", "cc");
}

/* The function, its last add patched: somewhere low, for the jump leads 1.5 GB up. */
static void make_return(struct made *d, uint8_t **ret_trampolines)
{
	static const enum stub_p kinds[HOOKS];
	struct code_site *site = &d->head.sites[HOOKS];

	make_memory(d, (void *)0x20000000, made_function, sizeof(made_function));
	*ret_trampolines =
		mmap((void *)0x7d800000, CODE_PAGE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	assert_ptr_not_equal(*ret_trampolines, MAP_FAILED);
	d->site.address = word_of(d->memory + FUNCTION + 18);
	d->shared->sites.addresses[HOOKS] = d->site.address;
	d->shared->sites.entry_sites[0] = (struct agent_entry_site){3, ENTRY_RETURN, 0, 40};
	*site = (struct code_site){.address = d->site.address,
				   .jump = word_of(*ret_trampolines + 32),
				   .length = 4};
	memcpy(site->bytes, made_function + 18, SITE_JUMP_BYTES);
	make_stubs(d, kinds, HOOKS + 1);
	trampoline_write(site, *ret_trampolines + 32);
	assert_true(code_jump(site, d->memory + FUNCTION + 18));
}

static void a_return_is_recorded_and_who_comes_back_behind_it_returns_as_ever(void **state)
{
	static struct made d;
	struct registers before, after;
	uint8_t *trampolines;
	uint64_t n[4], here = word_of(&before);

	make_return(&d, &trampolines);
	assert_int_equal(d.memory[FUNCTION + 22], 0x5d);
	go_to_pop(&d);
	assert_int_equal(slot_of(&d, 1)->write, 0);
	before = some_registers(&d, 8, 9);
	before.r14 = word_of(d.g);
	after = before;
	d.g[G_HI] = here;
	call_function(&d, &after);
	assert_memory_equal(&before, &after, sizeof(before));
	assert_left_well(&d);
	assert_int_equal(first_record(&d, 1, n, 4), RECORD_RETURN);
	assert_int_equal(n[1], 300);
	assert_int_equal(n[2], 3);
	assert_true(n[3] < 65536 || -n[3] < 65536); /* from the call to `before` */
	munmap(trampolines, CODE_PAGE_BYTES);
	unmake(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(other_hooks_keep_every_register),
		cmocka_unit_test(an_instruction_that_is_relative_is_executed_elsewhere),
		cmocka_unit_test(a_thread_without_a_p_takes_a_fallback_slot),
		cmocka_unit_test(call_without_a_slot_counts_as_lost),
		cmocka_unit_test(switched_off_it_touches_nothing),
		cmocka_unit_test(a_return_is_recorded_and_who_comes_back_behind_it_returns_as_ever),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
