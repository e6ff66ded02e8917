/* The stubs of arm64, read by Capstone. Runs on either machine. */
#include <capstone/capstone.h>
#include <stdlib.h>
#include <string.h>

#include "agent/blob.h"
#include "base/unit_test.h"
#include "hooks/stub.h"

#define CODE 0x8000000ull
#define SITE 0x411014ull
#define CONTROL (CODE + 0x60000)
enum { BYTES = 65536, SLOT_COUNT = 7 };

/* The agent is another machine's here: these are where its functions would be. */
const unsigned char agent_blob[4096];
const size_t agent_blob_size = 4096, agent_blob_status = 0x100, agent_blob_change = 0x200,
	     agent_blob_syscall = 0x300, agent_blob_syscall_exit = 0x400;

static uint8_t pages[BYTES];
static struct code_head head;

static struct stub_numbers numbers = {.g_m = 48,
				      .m_p = 208,
				      .m_vdso_sp = 808,
				      .m_vdso_pc = 816,
				      .p_id = 0,
				      .p_slots = SLOT_COUNT};
static uint16_t arguments; /* of the site; 0: in registers */

static bool make_at(uint64_t code, unsigned int hook, enum stub_p kind, uint32_t replaced,
		    uint64_t control)
{
	enum stub_p kinds[HOOKS] = {0};

	memset(pages, 0, sizeof(pages));
	head = (struct code_head){.code = code,
				  .agent = code + BYTES,
				  .control = control,
				  .stub_bytes = stubs_size(HOOKS),
				  .site_count = HOOKS};
	kinds[hook] = kind;
	numbers.stack_arguments = arguments != 0;
	head.sites[hook] = (struct code_site){.address = code - CODE + SITE,
					      .length = 4,
					      .arguments = arguments};
	memcpy(head.sites[hook].bytes, &replaced, sizeof(replaced));
	assert_true(head.stub_bytes <= sizeof(pages));
	return stubs_write(&head, &numbers, kinds, pages);
}

static bool make(unsigned int hook, enum stub_p kind, uint32_t replaced, uint64_t control)
{
	return make_at(CODE, hook, kind, replaced, control);
}

static uint32_t at(uint64_t address)
{
	uint32_t insn;

	memcpy(&insn, pages + (address - CODE), sizeof(insn));
	return insn;
}

/* "mnemonic operands" of the instruction there. */
static const char *text(uint64_t address)
{
	static char line[200];
	csh handle;
	cs_insn *insn;
	uint32_t bytes = at(address);

	assert_int_equal(cs_open(CS_ARCH_ARM64, CS_MODE_ARM, &handle), CS_ERR_OK);
	assert_int_equal(cs_disasm(handle, (const uint8_t *)&bytes, 4, address, 1, &insn), 1);
	snprintf(line, sizeof(line), "%s %s", insn->mnemonic, insn->op_str);
	cs_free(insn, 1);
	cs_close(&handle);
	return line;
}

/* The instruction there says this; `address` goes on. */
static void expect(uint64_t *address, const char *line)
{
	assert_string_equal(text(*address), line);
	*address += 4;
}

static void a_stub_looks_at_the_switch_first_and_goes_back_by_the_replaced_instruction(void **state)
{
	uint64_t stub;

	assert_true(make(HOOK_P_STOP, STUB_P_OF_THREAD, 0xf90007e0, CONTROL));
	stub = head.sites[HOOK_P_STOP].stub;
	assert_int_equal(head.sites[HOOK_P_STOP].jump, stub);
	assert_int_equal(stub % 16, 0);
	expect(&stub, "adrp x25, #0x8060000");
	expect(&stub, "ldr w24, [x25]");
	assert_true(strstr(text(stub), "cbz w24, "));
	stub += 4;
	expect(&stub, "ldr x24, [x28, #0x30]");
	expect(&stub, "ldr x24, [x24, #0xd0]");
	assert_true(strstr(text(stub), "adr x25, "));
	stub += 8;
	assert_int_equal(at(stub), HOOK_P_STOP);
	stub += 4;
	expect(&stub, "movz x25, #0");
	expect(&stub, "str x0, [sp, #8]");
	expect(&stub, "b #0x411018");
}

static void cbz_of_the_switch_skips_the_hook(void **state)
{
	uint64_t stub, to;

	assert_true(make(HOOK_P_STOP, STUB_P_ARGUMENT, 0xf90007e0, CONTROL));
	stub = head.sites[HOOK_P_STOP].stub;
	to = stub + 8 + (at(stub + 8) >> 5 & 0x7ffff) * 4;
	assert_string_equal(text(to), "movz x25, #0");
	assert_int_equal(at(to - 4), HOOK_P_STOP);
	assert_string_equal(text(stub + 12), "mov x24, x0");
}

/* adrp x0, N pages on: from the stub it leads to the same page. */
static void assert_moved(int32_t page_count)
{
	uint32_t insn = 0x90000000 | ((uint32_t)page_count & 3) << 29 |
			((uint32_t)(page_count >> 2) & 0x7ffff) << 5;
	char want[64];
	uint64_t stub;

	assert_true(make(HOOK_LABELS, STUB_P_OF_THREAD, insn, CONTROL));
	stub = head.sites[HOOK_LABELS].stub + 36;
	snprintf(want, sizeof(want), "adrp x0, #0x%llx",
		 (SITE & ~0xfffull) + (int64_t)page_count * 4096);
	assert_string_equal(text(stub), want);
	assert_string_equal(text(stub + 4), "b #0x411018");
}

static void adrp_leads_to_the_same_page_from_the_stub(void **state)
{
	assert_moved(0);
	assert_moved(1);
	assert_moved(-1);
	assert_moved(-0x400);
	assert_moved(0x7fff6);
	/* Too far from the stub. */
	assert_false(make(HOOK_LABELS, STUB_P_OF_THREAD, 0x90000000 | 1 << 23, CONTROL));
}

/* A position-independent program is far from address 0, where a hook is that it has not. */
static void a_hook_that_does_not_exist_is_not_reached(void **state)
{
	const uint64_t code = 0xaaaad4600000;

	assert_true(make_at(code, HOOK_P_STOP, STUB_P_OF_THREAD, 0xf90007e0, code + 0x60000));
	assert_true(make_at(code, HOOK_SYSCALL, STUB_SYSCALL, 0xf90007e0, code + 0x60000));
	assert_true(
		make_at(code, HOOK_SYSCALL_EXIT, STUB_SYSCALL_EXIT, 0xf90007e0, code + 0x60000));
}

static void no_p_counts_when_casgstatus_leaves_a_system_call(void **state)
{
	uint64_t stub;

	assert_true(make(HOOK_CASGSTATUS, STUB_CASGSTATUS_NO_P_IN_SYSCALL, 0xf90007e0, CONTROL));
	stub = head.sites[HOOK_CASGSTATUS].stub + 20;
	expect(&stub, "cmp w1, #3");
	expect(&stub, "ccmp w1, #0xb, #4, ne");
	expect(&stub, "csel x24, xzr, x24, eq");
}

struct counts {
	unsigned int saved, restored, calls;
};

/* Of the common code, all of which Capstone knows. */
static struct counts count_common(unsigned int hook)
{
	uint64_t end = head.sites[hook].stub;
	struct counts n = {0};

	for (uint64_t address = CODE + code_head_bytes(&head); address < end; address += 4) {
		const char *line = at(address) ? text(address) : "";

		n.saved += !strncmp(line, "stp ", 4);
		n.restored += !strncmp(line, "ldp ", 4);
		n.calls += !strncmp(line, "bl ", 3);
	}
	return n;
}

static void what_is_saved_is_restored(void **state)
{
	struct counts n;

	assert_true(make(HOOK_CASGSTATUS, STUB_CASGSTATUS, 0xf90007e0, CONTROL));
	n = count_common(HOOK_CASGSTATUS);
	/* X0 to X18 and LR, for entries and for this one, which reads two arguments again. */
	assert_int_equal(n.saved, 20);
	assert_int_equal(n.restored, 21);
	assert_int_equal(n.calls, 3);
	assert_true(make(HOOK_SYSCALL, STUB_SYSCALL, 0xf90007e0, CONTROL));
	n = count_common(HOOK_SYSCALL);
	assert_int_equal(n.saved, 20);
	assert_int_equal(n.restored, 20);
	assert_int_equal(n.calls, 2);
}

/* How often the common code has these words. */
static unsigned int count_lines(unsigned int hook, const char *words)
{
	unsigned int n = 0;

	for (uint64_t address = CODE + code_head_bytes(&head); address < head.sites[hook].stub;
	     address += 4)
		n += at(address) && strstr(text(address), words);
	return n;
}

static void arguments_on_the_stack_are_read_behind_the_frame(void **state)
{
	uint64_t stub;

	arguments = 0x48;
	assert_true(make(HOOK_P_START, STUB_P_ARGUMENT, 0xf90007e0, CONTROL));
	stub = head.sites[HOOK_P_START].stub;
	assert_string_equal(text(stub + 12), "ldr x24, [sp, #0x48]");
	assert_int_equal(at(stub + 24), 0x48 << 16 | HOOK_P_START);
	assert_int_equal(count_lines(HOOK_P_START, "ldurh w2, [x25, #-4]"), 1);
	assert_int_equal(count_lines(HOOK_P_START, "ldurh w1, [x25, #-2]"), 1);
	assert_int_equal(count_lines(HOOK_P_START, "add x1, x23, x1"), 1);
	assert_true(make(HOOK_CASGSTATUS, STUB_CASGSTATUS, 0xf90007e0, CONTROL));
	assert_int_equal(count_lines(HOOK_CASGSTATUS, "ldr x0, [x3]"), 2);
	assert_int_equal(count_lines(HOOK_CASGSTATUS, "ldr w1, [x3, #8]"), 2);
	assert_int_equal(count_lines(HOOK_CASGSTATUS, "ldr w2, [x3, #0xc]"), 2);
	arguments = 0;
}

static void what_is_too_far_is_refused(void **state)
{
	assert_false(make(HOOK_P_STOP, STUB_P_OF_THREAD, 0xf90007e0, CODE + (5ull << 30)));
	assert_false(make(HOOK_P_STOP, STUB_P_OF_THREAD, 0xf90007e0, CONTROL + 8));
}

static void all_hooks_and_entry_sites_fit(void **state)
{
	enum stub_p kinds[HOOKS];

	for (unsigned int i = 0; i < HOOKS; i++)
		kinds[i] = STUB_CASGSTATUS_NO_P_IN_SYSCALL;
	for (size_t count = HOOKS; count <= CODE_MAX_SITES; count = count * 2 + 1) {
		size_t bytes = stubs_size(count);
		uint8_t *made = calloc(1, bytes);

		assert_non_null(made);
		assert_true(bytes <= CODE_MAX_STUB_BYTES || count > HOOKS);
		head = (struct code_head){.code = CODE,
					  .agent = CODE + bytes,
					  .control = CODE + 0x800000,
					  .stub_bytes = bytes,
					  .site_count = count};
		for (size_t i = 0; i < count; i++)
			head.sites[i] = (struct code_site){.address = SITE + 4 * i, .length = 4};
		assert_true(stubs_write(&head, &numbers, kinds, made));
		free(made);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_stub_looks_at_the_switch_first_and_goes_back_by_the_replaced_instruction),
		cmocka_unit_test(cbz_of_the_switch_skips_the_hook),
		cmocka_unit_test(adrp_leads_to_the_same_page_from_the_stub),
		cmocka_unit_test(a_hook_that_does_not_exist_is_not_reached),
		cmocka_unit_test(no_p_counts_when_casgstatus_leaves_a_system_call),
		cmocka_unit_test(what_is_saved_is_restored),
		cmocka_unit_test(arguments_on_the_stack_are_read_behind_the_frame),
		cmocka_unit_test(what_is_too_far_is_refused),
		cmocka_unit_test(all_hooks_and_entry_sites_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
