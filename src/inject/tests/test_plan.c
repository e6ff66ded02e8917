/* Plans by a process that the parsed program may have taken over: which are refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/unit_test.h"
#include "inject/plan.h"
#include "inject/survey_code.h"

#define TEXT 0x400000ull
#define TEXT_BYTES 0x100000ull
#define DATA 0x500000ull
#define CODE 0x4000000ull
#define FAR 0x6000000ull
#define STUB (CODE + 0x3800)

static struct target_map items[] = {
	{.start = TEXT, .end = TEXT + TEXT_BYTES / 2, .readable = true, .executable = true},
	{.start = TEXT + TEXT_BYTES / 2,
	 .end = TEXT + TEXT_BYTES,
	 .readable = true,
	 .executable = true},
	{.start = DATA, .end = DATA + 0x10000, .readable = true, .writable = true},
	{.start = 0x7f0000000000, .end = 0x7f0000100000, .readable = true, .executable = true},
};
static const struct target_maps maps = {items, 4, 4};

static struct code_site site(uint64_t address, uint16_t length, uint64_t jump)
{
	return (struct code_site){.address = address,
				  .stub = STUB,
				  .jump = jump,
				  .length = length,
				  /* the highest byte of the jump's distance */
				  .bytes = {0x48, 0x83, 0xec, 0x18, 0x05}};
}

/* As gospect makes them: two probe sites, one of four bytes with its jump on a trampoline page. */
static struct plan *made(void)
{
	struct plan *plan = calloc(1, PLAN_MOST_BYTES);
	struct code_head *h = &plan->head;

	assert_non_null(plan);
	h->magic = CODE_MAGIC;
	h->version = CODE_VERSION;
	h->site_count = 3;
	h->code = CODE;
	h->stub_bytes = 4 * CODE_PAGE_BYTES;
	h->code_bytes = h->stub_bytes + code_agent_bytes() + CODE_PAGE_BYTES;
	h->agent = CODE + h->stub_bytes;
	h->control = CODE + h->code_bytes - CODE_PAGE_BYTES;
	h->trampolines[0] = FAR;
	h->sites[0] = site(TEXT + 0x100, 7, STUB);
	h->sites[2] = site(TEXT + 0x200, 4, FAR);
	plan->shared_bytes = 1 << 26;
	plan->slots = 4 + AGENT_FALLBACK_SLOTS;
	plan->slots_offset = 1 << 20;
	plan->functions = (struct quiescence_functions){{{TEXT + 0x80, 0x100}}, 1, 1};
	return plan;
}

static size_t size_of(const struct plan *plan)
{
	return plan_bytes(&plan->head);
}

static void assert_accepted(const struct plan *plan)
{
	struct error *err = plan_check(plan, size_of(plan), &maps);

	assert_string_equal(err ? err->message : "", "");
}

/* For this reason; frees the plan. */
static void assert_refused_of(struct plan *plan, size_t size, const char *why)
{
	struct error *err = plan_check(plan, size, &maps);

	assert_non_null(err);
	if (!strstr(err->message, why))
		assert_string_equal(err->message, why);
	error_destroy(err);
	free(plan);
}

static void assert_refused(struct plan *plan, const char *why)
{
	assert_refused_of(plan, size_of(plan), why);
}

static void plan_of_gospect_is_accepted(void **state)
{
	struct plan *plan = made();

	/* The trampoline page is where the jump's last byte is the next instruction's first. */
	plan->head.sites[2].bytes[4] = (FAR - (TEXT + 0x205)) >> 24;
	assert_accepted(plan);
	/* At the end of one mapping of code, and into the next. */
	plan->head.sites[0].address = TEXT + TEXT_BYTES / 2 - 3;
	assert_accepted(plan);
	plan->head.sites[0].address = TEXT + TEXT_BYTES - 7;
	assert_accepted(plan);
	free(plan);
}

#define REFUSED(why, ...)                                                 \
	do {                                                              \
		struct plan *p = made();                                  \
                                                                          \
		p->head.sites[2].bytes[4] = (FAR - (TEXT + 0x205)) >> 24; \
		__VA_ARGS__;                                              \
		assert_refused(p, why);                                   \
	} while (0)

static void a_probe_site_outside_the_targets_code_is_refused(void **state)
{
	REFUSED("lies outside the target's code", p->head.sites[0].address = DATA + 0x100);
	REFUSED("lies outside the target's code", p->head.sites[0].address = TEXT - 3);
	REFUSED("lies outside the target's code", p->head.sites[0].address = TEXT + TEXT_BYTES - 6);
	REFUSED("lies outside the target's code", p->head.sites[0].address = UINT64_MAX - 2);
	REFUSED("lies outside the target's code", p->head.sites[0].address = 1ull << 63);
	REFUSED("lies outside the target's code", p->head.sites[0].address = 1);
	/* No address of the kernel's half is accepted, whatever the mappings say. */
	REFUSED("lies outside the target's code", p->head.sites[0].address = 0xffffffffff600000);
}

static void probe_sites_that_overlap_are_refused(void **state)
{
	REFUSED("two probe sites overlap", p->head.sites[1] = p->head.sites[0]);
	REFUSED("two probe sites overlap", p->head.sites[1] = site(TEXT + 0x106, 5, STUB));
	REFUSED("two probe sites overlap", p->head.sites[1] = site(TEXT + 0xfc, 5, STUB));
	/* The jump over four bytes takes the first of the next instruction. */
	REFUSED("two probe sites overlap", p->head.sites[1] = site(TEXT + 0x204, 5, STUB));
}

static void lengths_that_no_instruction_has_are_refused(void **state)
{
	REFUSED("wrong length", p->head.sites[0].length = 0);
	REFUSED("wrong length", p->head.sites[0].length = 3);
	REFUSED("wrong length", p->head.sites[0].length = SITE_MAX_BYTES + 1);
	REFUSED("wrong length", p->head.sites[0].length = UINT16_MAX);
	REFUSED("wrong length", p->head.sites[0].relative = 4);
	REFUSED("wrong length", p->head.sites[0].relative = UINT16_MAX);
}

static void a_jump_elsewhere_than_to_the_agent_is_refused(void **state)
{
	REFUSED("a jump leaves the agent", p->head.sites[0].jump = TEXT);
	REFUSED("a jump leaves the agent", p->head.sites[0].jump = CODE); /* the head */
	REFUSED("a jump leaves the agent", p->head.sites[0].jump = p->head.agent);
	REFUSED("a jump leaves the agent", p->head.sites[0].stub = p->head.agent);
	REFUSED("a jump leaves the agent", p->head.sites[0].jump = FAR + 4096 - 15);
	REFUSED("a jump leaves the agent", p->head.sites[0].jump = FAR - 1);
	REFUSED("out of range", p->head.sites[0].address = 0x7f0000000100);
	REFUSED("out of range", p->head.sites[2].bytes[4] ^= 1);
}

static void giant_counts_and_sizes_are_refused(void **state)
{
	const size_t size = plan_bytes(&(struct code_head){.stub_bytes = 4 * CODE_PAGE_BYTES});

	REFUSED("invalid number of probe sites", p->head.site_count = 0);
	REFUSED("invalid number of probe sites", p->head.site_count = CODE_MAX_SITES + 1);
	REFUSED("invalid number of probe sites", p->head.site_count = UINT64_MAX);
	REFUSED("invalid number of probe sites",
		p->head.site_count = UINT64_MAX / sizeof(struct code_site));
	REFUSED("wrong size of the code", p->head.site_count = CODE_MAX_SITES;
		p->head.stub_bytes = CODE_PAGE_BYTES);
	REFUSED("wrong size of the code", p->head.stub_bytes = 0);
	REFUSED("wrong size of the code", p->head.stub_bytes += 1);
	assert_refused_of(made(), sizeof(struct plan) - 1, "length out of range");
	assert_refused_of(made(), PLAN_MOST_BYTES + 1, "length out of range");
	assert_refused_of(made(), SIZE_MAX, "length out of range");
	assert_refused_of(made(), size, "wrong length"); /* without the trampoline page */
	REFUSED("too many functions", p->functions.count = QUIESCENCE_FUNCTIONS + 1);
	REFUSED("too many functions", p->functions.count = UINT64_MAX);
	REFUSED("too many functions", p->functions.changing = 2);
}

static void sizes_beyond_what_a_plan_has_room_for_are_refused(void **state)
{
	struct plan *plan = made();

	plan->head.stub_bytes = CODE_MAX_STUB_BYTES + CODE_PAGE_BYTES;
	assert_refused_of(plan, PLAN_MOST_BYTES, "wrong size of the code");
	plan = made();
	plan->head.stub_bytes = UINT64_MAX & ~(CODE_PAGE_BYTES - 1ull);
	assert_refused_of(plan, PLAN_MOST_BYTES, "wrong size of the code");
}

static void the_agent_lies_behind_its_stubs_and_where_nothing_is(void **state)
{
	REFUSED("does not follow the stubs", p->head.agent += 16);
	REFUSED("does not follow the stubs", p->head.control -= CODE_PAGE_BYTES);
	REFUSED("does not follow the stubs", p->head.code_bytes += CODE_PAGE_BYTES);
	REFUSED("does not follow the stubs", p->head.code_bytes = 0);
	REFUSED("range of the code is in use", p->head.code = TEXT; p->head.agent = TEXT + 0x4000;
		p->head.control = TEXT + p->head.code_bytes - CODE_PAGE_BYTES);
	REFUSED("range of the code is in use", p->head.code += 8; p->head.agent += 8;
		p->head.control += 8);
	REFUSED("trampoline page is in use", p->head.trampolines[0] = TEXT);
	REFUSED("trampoline page is in use", p->head.trampolines[0] = CODE + CODE_PAGE_BYTES);
	REFUSED("trampoline page is in use", p->head.trampolines[0] = UINT64_MAX - 4095);
	REFUSED("a gap in the list", p->head.trampolines[2] = FAR + 0x10000);
	REFUSED("two trampoline pages have the same address", p->head.trampolines[1] = FAR);
}

static void slots_lie_in_the_shared_memory(void **state)
{
	REFUSED("wrong size of the shared memory", p->shared_bytes = 0);
	REFUSED("wrong size of the shared memory", p->shared_bytes = 1ull << 40);
	REFUSED("wrong size of the shared memory", p->shared_bytes = UINT64_MAX & ~4095ull);
	REFUSED("wrong size of the shared memory", p->shared_bytes += 1);
	REFUSED("a slot lies outside", p->slots = 0);
	REFUSED("a slot lies outside", p->slots = UINT64_MAX);
	REFUSED("a slot lies outside", p->slots = AGENT_MOST_P_SLOTS + AGENT_FALLBACK_SLOTS);
	REFUSED("a slot lies outside", p->slots_offset = p->shared_bytes - AGENT_SLOT_BYTES);
	REFUSED("a slot lies outside", p->slots_offset = UINT64_MAX & ~63ull);
	REFUSED("a slot lies outside", p->slots_offset = 0);
	REFUSED("a slot lies outside", p->slots_offset += 8);
}

static void functions_lie_in_the_targets_code(void **state)
{
	REFUSED("a function lies outside", p->functions.items[0].start = DATA);
	REFUSED("a function lies outside", p->functions.items[0].size = UINT64_MAX);
	REFUSED("a function lies outside", p->functions.items[0].start = UINT64_MAX);
	REFUSED("a function lies outside",
		p->functions.systemstack_switch = (struct agent_range){DATA, 16});
}

/* ---- the survey ---- */

/* In our own memory, and of our own process. */
static struct survey surveyed(uint8_t *code)
{
	const struct machine_code *restore = &survey_sigreturns[SURVEY_SIGRETURNS - 1];
	struct survey s = {.syscall = (uint64_t)code, .restore = (uint64_t)code + 16};

	mprotect(code, 4096, PROT_READ | PROT_WRITE);
	memcpy(code, survey_syscall.bytes, survey_syscall.size);
	memcpy(code + 16, restore->bytes, restore->size);
	mprotect(code, 4096, PROT_READ | PROT_EXEC);
	s.words.allm = (uint64_t)code;
	s.original_count = 1;
	s.originals[0].address = (uint64_t)code + 64;
	return s;
}

static const char *survey_refused(const struct survey *s)
{
	static char message[256];
	struct target *t;
	struct error *err;

	assert_null(target_open_process(getpid(), &t));
	err = survey_check(t, s);
	snprintf(message, sizeof(message), "%s", err ? err->message : "");
	error_destroy(err);
	target_close(t);
	return message;
}

#define SURVEY_REFUSED(why, ...)                                  \
	do {                                                      \
		struct survey s = surveyed(code);                 \
                                                                  \
		__VA_ARGS__;                                      \
		assert_non_null(strstr(survey_refused(&s), why)); \
	} while (0)

static void a_survey_that_is_not_so_is_refused(void **state)
{
	uint8_t *code = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static uint8_t data[64];
	struct survey good = surveyed(code);

	memcpy(data, survey_syscall.bytes, survey_syscall.size);
	assert_string_equal(survey_refused(&good), "");
	SURVEY_REFUSED("no system call", s.syscall++);
	SURVEY_REFUSED("no system call", s.syscall = (uint64_t)data);
	SURVEY_REFUSED("no system call", s.syscall = UINT64_MAX - 1);
	SURVEY_REFUSED("no sigreturn", s.restore = s.syscall);
	SURVEY_REFUSED("no sigreturn", s.restore = 0);
	SURVEY_REFUSED("offset", s.words.m_alllink = RUNTIME_WORD_LIMIT);
	SURVEY_REFUSED("offset", s.words.g_sched_bp = UINT32_MAX);
	SURVEY_REFUSED("offset", s.words.g_stack_lo = (uint32_t)INT32_MIN);
	SURVEY_REFUSED("offset", s.words.allm = UINT64_MAX - 3);
	SURVEY_REFUSED("too many probe sites", s.original_count = CODE_MAX_SITES + 1);
	SURVEY_REFUSED("too many probe sites", s.original_count = UINT64_MAX);
	SURVEY_REFUSED("probe site to restore", s.originals[0].address = (uint64_t)data);
	SURVEY_REFUSED("probe site to restore", s.originals[0].address = (uint64_t)code + 4092);
	munmap(code, 4096);
}

static void originals_have_room_for_so_many_and_no_more(void **state)
{
	struct originals *o = calloc(1, sizeof(*o));
	uint8_t bytes[SITE_JUMP_BYTES] = {0};

	assert_non_null(o);
	for (uint64_t i = 0; i < ORIGINALS_MOST; i++)
		assert_true(originals_add(o, TEXT + i, bytes));
	assert_true(originals_add(o, TEXT, bytes));
	assert_false(originals_add(o, TEXT + ORIGINALS_MOST, bytes));
	assert_int_equal(o->count, ORIGINALS_MOST);
	bytes[4] = 1;
	assert_false(originals_have(o, TEXT, bytes));
	free(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plan_of_gospect_is_accepted),
		cmocka_unit_test(a_probe_site_outside_the_targets_code_is_refused),
		cmocka_unit_test(probe_sites_that_overlap_are_refused),
		cmocka_unit_test(lengths_that_no_instruction_has_are_refused),
		cmocka_unit_test(a_jump_elsewhere_than_to_the_agent_is_refused),
		cmocka_unit_test(giant_counts_and_sizes_are_refused),
		cmocka_unit_test(sizes_beyond_what_a_plan_has_room_for_are_refused),
		cmocka_unit_test(the_agent_lies_behind_its_stubs_and_where_nothing_is),
		cmocka_unit_test(slots_lie_in_the_shared_memory),
		cmocka_unit_test(functions_lie_in_the_targets_code),
		cmocka_unit_test(a_survey_that_is_not_so_is_refused),
		cmocka_unit_test(originals_have_room_for_so_many_and_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
