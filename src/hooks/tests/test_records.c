/* The agent's records and the stacks in them, by the hooks of casgstatus and of system calls. */
#include "agent/cpu.h"
#include "hooks/tests/made_target.h"

/* As it was before the first record. */
static void empty_ring(struct agent_slot *slot)
{
	slot->write = slot->limit = slot->fresh = 0;
}

static void a_wait_is_recorded_with_its_stack(void **state)
{
	for (int i = 0; i < 2; i++) { /* each time at another address */
		static struct made made[2];
		struct made *d = &made[i];
		struct registers before, after;
		uint64_t n[4];

		make(d, HOOK_CASGSTATUS, STUB_CASGSTATUS);
		before = after = some_registers(d, 2, 4);
		call_function(d, &after);
		assert_three_kept(&before, &after);
		assert_left_well(d);
		assert_int_equal(first_record(d, 1, n, 4), RECORD_BLOCK);
		assert_int_equal(n[1], 300);
		assert_int_equal(n[3], 9);
		assert_words(d, n[2], (uint64_t[]){0x1001, 0x1002, 0x1003}, 3);
		if (i)
			unmake(&made[0]);
		if (i)
			unmake(d);
	}
}

static void a_stack_seen_before_has_the_same_number_and_a_changed_one_another(void **state)
{
	static struct made d;
	struct registers r;
	struct agent_slot *slot;
	uint64_t n[4], first;

	make(&d, HOOK_CASGSTATUS, STUB_CASGSTATUS);
	slot = slot_of(&d, 1);
	for (int i = 0; i < 4; i++) {
		r = some_registers(&d, 2, 4);
		empty_ring(slot); /* each record is the first */
		d.stack[31] = i == 3 ? 0x1004 : 0x1003;
		call_function(&d, &r);
		assert_int_equal(first_record(&d, 1, n, 4), RECORD_BLOCK);
		if (!i)
			first = n[2];
		else if (i < 3)
			assert_int_equal(n[2], first);
		else
			assert_int_not_equal(n[2], first);
	}
	assert_int_equal(d.shared->stacks, 2);
	unmake(&d);
}

static void started_goroutine_record_names_its_kind(void **state)
{
	static struct made d;
	struct seen r;

	make(&d, HOOK_CASGSTATUS, STUB_CASGSTATUS);
	for (unsigned int i = 0; i < 3; i++) { /* also not as the first record of a chunk */
		d.p[P_MODE] = 3;               /* of the previous goroutine */
		d.g[G_REASON] = 9;
		r = change(&d, d.g, 1, 2);
		assert_int_equal(r.kind, RECORD_START);
		assert_int_equal(r.goid, 300);
		d.g[G_REASON] = WORKER_REASON;
		d.p[P_MODE] = 0;
		r = change(&d, d.g, 1, 2);
		assert_int_equal(r.kind, RECORD_START);
		d.p[P_MODE] = 3;
		r = change(&d, d.g, 1, 2);
		assert_int_equal(r.kind, RECORD_START_WORKER);
		assert_int_equal(r.goid, 300);
		assert_int_equal(r.others[0], 3);
	}
	unmake(&d);
}

static void create_and_end_records_have_all_fields(void **state)
{
	static struct made d;
	struct seen first, r;

	make(&d, HOOK_CASGSTATUS, STUB_CASGSTATUS);
	d.g[G_START] = 0x12345;
	first = change(&d, d.g, 2, 4);
	for (unsigned int i = 0; i < 3; i++) { /* not as the first record of a chunk */
		r = change(&d, d.g, 6, 1);
		assert_int_equal(r.kind, RECORD_CREATE);
		assert_int_equal(r.goid, 300);
		assert_int_equal(r.others[0], 0x12345);
		assert_int_equal(r.others[1], first.others[0]);
		r = change(&d, d.g, 2, 6);
		assert_int_equal(r.kind, RECORD_EXIT);
		assert_int_equal(r.goid, 300);
	}
	unmake(&d);
}

static void goids_and_reasons_of_any_size_are_written_as_they_are(void **state)
{
	static const uint64_t goids[] = {1,       127,           128,     16383,     16384,
					 1 << 21, (1 << 28) - 1, 1 << 28, 1ull << 40};
	static struct made d;
	struct seen first, r;

	make(&d, HOOK_CASGSTATUS, STUB_CASGSTATUS);
	first = change(&d, d.g, 2, 4);
	for (unsigned int i = 0; i < sizeof(goids) / sizeof(goids[0]); i++) {
		d.g[G_GOID] = goids[i];
		d.g[G_REASON] = i & 1 ? 200 : 20;
		r = change(&d, d.g, 2, 4);
		assert_int_equal(r.kind, RECORD_BLOCK);
		assert_int_equal(r.goid, goids[i]);
		assert_int_equal(r.others[0], first.others[0]);
		assert_int_equal(r.others[1], i & 1 ? 200 : 20);
		r = change(&d, d.g, 4, 1);
		assert_int_equal(r.kind, RECORD_UNBLOCK);
		assert_int_equal(r.goid, goids[i]);
		assert_int_equal(r.others[0], first.others[0]);
	}
	unmake(&d);
}

/* By the frequent way, which writes three bytes for a stack, and as many for a time. */
static void depth_zero_records_everything_but_stacks(void **state)
{
	static struct made d;
	struct seen r;

	make(&d, HOOK_CASGSTATUS, STUB_CASGSTATUS);
	slot_of(&d, 1)->config.depth = 0;
	change(&d, d.g, 1, 2); /* the first of a chunk never is frequent */
	for (unsigned int i = 0; i < 2; i++) {
		uint64_t before = slot_of(&d, 1)->write;

		r = change(&d, d.g, 2, 4);
		assert_int_equal(r.kind, RECORD_BLOCK);
		assert_int_equal(r.goid, 300);
		assert_int_equal(r.others[0], 0);
		assert_int_equal(r.others[1], 9);
		assert_int_equal(slot_of(&d, 1)->write - before, 1 + 3 + 2 + 3 + 1);
		r = change(&d, d.g, 4, 1);
		assert_int_equal(r.kind, RECORD_UNBLOCK);
		assert_int_equal(r.goid, 300);
		assert_int_equal(r.others[0], 0);
		before = slot_of(&d, 1)->write;
		r = change(&d, d.g, 6, 1);
		assert_int_equal(r.kind, RECORD_CREATE);
		assert_int_equal(r.goid, 300);
		assert_int_equal(r.others[1], 0);
		assert_int_equal(slot_of(&d, 1)->write - before, 1 + 3 + 2 + 1 + 3);
	}
	assert_int_equal(d.shared->stacks, 0);
	unmake(&d);
}

/* By the frequent way and by the other. */
static void times_of_any_length_are_recorded_exactly(void **state)
{
	static struct made d;

	make(&d, HOOK_CASGSTATUS, STUB_CASGSTATUS);
	change(&d, d.g, 1, 2);
	for (unsigned int shift = 6; shift < 40; shift++) {
		uint64_t since = 5ull << shift, took = cpu_clock();
		struct seen r;

		slot_of(&d, 1)->tick = took - since;
		r = change(&d, d.g, 1, 2);
		took = cpu_clock() - took;
		assert_int_equal(r.kind, RECORD_START);
		assert_int_equal(r.goid, 300);
		assert_true(r.since >= since && r.since <= since + took);
	}
	unmake(&d);
}

/* Puts the words of the stack with this number into `ret`, innermost first. The size of a frame
 * depends on its pc. Stacks of one shape differ in a single pc; some have more frames than a cache
 * entry, or a pc far from the others. */
static size_t make_stack(struct made *d, unsigned int number, uint64_t *ret)
{
	unsigned int shape = number % 128, at = 20 + shape * 2;
	size_t frames = shape % 7 ? 1 + shape % 9 : 47 + shape % 9, other = number / 128 % frames;

	ret[0] = d->g[G_PC] = 0x1001 + number % 59;
	d->g[G_BP] = word_of(d->stack + at);
	for (size_t i = 0; i < frames; i++) {
		unsigned int random = (shape + i) * 2654435761u;
		unsigned int next = at + 2 + (random >> 16 & 1) * 2;

		ret[i + 1] = 0x2000 + (random >> 16 & 3) + (random >> 28 ? 0 : 1ull << 40);
		if (i == other)
			ret[i + 1] += 4 + number / 128 * 2;
		d->stack[at] = i + 1 < frames ? word_of(d->stack + next) : 0;
		d->stack[at + 1] = ret[i + 1];
		at = next;
	}
	assert_true(at < STACK_WORDS);
	return frames + 1;
}

static void stacks_of_all_kinds_are_recorded_as_they_are(void **state)
{
	static struct made d;
	unsigned int random = 1;
	uint64_t words[64];

	make(&d, HOOK_CASGSTATUS, STUB_CASGSTATUS);
	slot_of(&d, 1)->config.depth = 64;
	for (unsigned int i = 0; i < 30000; i++) {
		unsigned int number = random >> 8;
		size_t count;
		struct seen r;

		/* Mostly one of few, and over time more than the cache holds. */
		number = i % 4 ? number % (1 + i / 2000) : number % 3000;
		random = random * 1664525 + 1013904223;
		if (i % 512 == 0)
			empty_ring(slot_of(&d, 1));
		count = make_stack(&d, number, words);
		r = change(&d, d.g, 2, 4);
		assert_int_equal(r.kind, RECORD_BLOCK);
		assert_words(&d, r.others[0], words, count);
	}
	assert_int_equal(slot_of(&d, 1)->stack_cache_used, AGENT_CACHED_STACKS - 1);
	unmake(&d);
}

/* The second time it is not walked: words[1], the first frame, stays as it is. */
static void a_stack_that_fits_into_the_cache_is_recognised(void **state)
{
	static struct made d;
	uint64_t words[64];

	make(&d, HOOK_CASGSTATUS, STUB_CASGSTATUS);
	slot_of(&d, 1)->config.depth = 64;
	for (unsigned int shape = 0; shape < 128; shape++) {
		size_t count = make_stack(&d, shape, words);
		struct seen r = change(&d, d.g, 2, 4);

		slot_of(&d, 1)->words[1] = 0;
		assert_int_equal(change(&d, d.g, 2, 4).others[0], r.others[0]);
		assert_words(&d, r.others[0], words, count);
		assert_int_equal(!slot_of(&d, 1)->words[1], count - 1 <= AGENT_CACHED_FRAMES);
	}
	unmake(&d);
}

/* They have the same key, for only the outermost caller is another. */
static void stack_cache_distinguishes_similar_stacks(void **state)
{
	static struct made d;
	uint32_t stacks[2];

	make(&d, HOOK_CASGSTATUS, STUB_CASGSTATUS);
	for (unsigned int i = 0; i < 8; i++) {
		struct seen r;

		d.stack[31] = 0x1003 + i % 2;
		slot_of(&d, 1)->words[1] = 0;
		r = change(&d, d.g, 2, 4);
		if (i < 2)
			stacks[i] = r.others[0];
		assert_int_equal(r.others[0], stacks[i % 2]);
		assert_int_equal(!slot_of(&d, 1)->words[1], i >= 2);
	}
	assert_int_not_equal(stacks[0], stacks[1]);
	unmake(&d);
}

static void unblock_by_the_scheduler_has_no_stack(void **state)
{
	static const uint64_t goids[] = {1, 300, 20000, 1ull << 30};
	static struct made d;

	make(&d, HOOK_CASGSTATUS, STUB_CASGSTATUS);
	d.m[M_CURG] = 0;
	for (unsigned int i = 0; i < 12; i++) { /* the first begins a chunk */
		struct seen r;

		d.g[G_GOID] = goids[i % 4];
		r = change(&d, d.g, 4, 1);
		assert_int_equal(r.kind, RECORD_UNBLOCK);
		assert_int_equal(r.goid, goids[i % 4]);
		assert_int_equal(r.others[0], 0);
	}
	unmake(&d);
}

static void a_stack_that_goes_on_elsewhere_is_not_kept(void **state)
{
	static struct made d;
	uint64_t words[64];
	size_t count;
	struct seen r;

	make(&d, HOOK_CASGSTATUS, STUB_CASGSTATUS);
	count = make_stack(&d, 1, words);
	*(uint64_t *)d.g[G_BP] = 1;
	r = change(&d, d.g, 2, 4);
	assert_int_equal(count, 3);
	assert_words(&d, r.others[0], words, count - 1);
	assert_int_equal(slot_of(&d, 1)->stack_cache_used, 0);
	*(uint64_t *)d.g[G_BP] = 0;
	r = change(&d, d.g, 2, 4);
	assert_words(&d, r.others[0], words, count - 1);
	assert_int_equal(slot_of(&d, 1)->stack_cache_used, 1);
	unmake(&d);
}

/* reentersyscall(pc, sp, bp) says where the goroutine will be; the first time all has to be
 * looked for, then the stack is known. Without the P's slot, another one is taken. */
static void a_system_call_is_recorded_with_its_stack(void **state)
{
	static const uint64_t expected[] = {0x1001, 0x1002, 0x1003};
	uint64_t stack[64] = {0}, n[3];
	static struct made d;
	struct registers r;
	struct seen seen;

	make(&d, HOOK_SYSCALL, STUB_SYSCALL);
	d.g[G_HI] = word_of(stack + 64);
	stack[20] = word_of(stack + 30);
	stack[21] = 0x1002;
	stack[31] = 0x1003;
	r = some_registers(&d, 0, word_of(stack + 20));
	r.rax = 0x1001;
	for (unsigned int i = 0; i < 3; i++) {
		call_by_goroutine(&d, r);
		seen = last_record(&d);
		assert_int_equal(seen.kind, RECORD_SYSCALL);
		assert_int_equal(seen.goid, 300);
		assert_words(&d, seen.others[0], expected, 3);
	}
	d.p[P_ID] = P_SLOTS;
	call_by_goroutine(&d, r);
	assert_int_equal(first_record(&d, P_SLOTS, n, 3), RECORD_SYSCALL);
	assert_int_equal(n[1], 300);
	assert_words(&d, n[2], expected, 3);
	unmake(&d);
}

static void the_end_of_a_system_call_is_recorded(void **state)
{
	static struct made d;
	struct seen seen;
	uint64_t n[2];

	make(&d, HOOK_SYSCALL_EXIT, STUB_SYSCALL_EXIT);
	for (unsigned int i = 0; i < 3; i++) {
		call_by_goroutine(&d, some_registers(&d, 8, 9));
		seen = last_record(&d);
		assert_int_equal(seen.kind, RECORD_SYSCALL_EXIT);
		assert_int_equal(seen.goid, 300);
	}
	d.m[M_P] = 0;
	call_by_goroutine(&d, some_registers(&d, 8, 9));
	assert_int_equal(first_record(&d, P_SLOTS, n, 2), RECORD_SYSCALL_EXIT);
	assert_int_equal(n[1], 300);
	unmake(&d);
}

/* As they are up to Go 1.25. */
static void system_calls_that_change_the_state_are_recorded(void **state)
{
	static struct made d;
	uint64_t stack = 0;

	make(&d, HOOK_CASGSTATUS, STUB_CASGSTATUS);
	for (unsigned int i = 0; i < 3; i++) {
		struct seen begin = change_by_goroutine(&d, 2, 3);

		assert_int_equal(begin.kind, RECORD_SYSCALL);
		assert_true(begin.others[0]);
		stack = i ? stack : begin.others[0];
		assert_int_equal(begin.others[0], stack);
		assert_int_equal(change_by_goroutine(&d, 3, 2).kind, RECORD_SYSCALL_EXIT);
	}
	unmake(&d);
}

static void a_full_ring_loses_and_counts_until_there_is_room(void **state)
{
	static struct made d;
	struct agent_slot *slot;
	struct agent_chunk *chunk;
	struct registers r;
	uint64_t written;

	make(&d, HOOK_CASGSTATUS, STUB_CASGSTATUS);
	slot = slot_of(&d, 1);
	while (!slot->lost) {
		r = some_registers(&d, 2, 4);
		call_function(&d, &r);
	}
	written = slot->write;
	assert_true(written > RING - AGENT_MAX_RECORD && written <= RING);
	for (int i = 0; i < 9; i++) {
		r = some_registers(&d, 2, 4);
		call_function(&d, &r);
	}
	assert_int_equal(slot->lost, 10);
	assert_int_equal(slot->write, written);
	slot->read = AGENT_CHUNK_BYTES;
	call_function(&d, &r);
	assert_true(slot->write > RING);
	assert_int_equal(slot->lost, 0);
	assert_int_equal(slot->lost_all, 10);
	chunk = (void *)slot->ring;
	assert_int_equal(chunk->lost, 10);
	assert_int_equal(chunk->thread, 4711);
	unmake(&d);
}

static void a_ring_takes_memory_by_what_is_unread(void **state)
{
	static struct made d;
	struct agent_slot *slot;
	struct registers r;

	make(&d, HOOK_CASGSTATUS, STUB_CASGSTATUS);
	slot = slot_of(&d, 1);
	while (slot->write < 5 * RING) {
		r = some_registers(&d, 2, 4);
		call_function(&d, &r);
		slot->read = slot->write;
	}
	assert_int_equal(slot->fresh, 2);
	/* Two more, of which one has no probe site so far. */
	for (uint64_t end = slot->write + 2 * AGENT_CHUNK_BYTES; slot->write < end;) {
		r = some_registers(&d, 2, 4);
		call_function(&d, &r);
	}
	assert_int_equal(slot->fresh, 3);
	assert_int_equal(slot->lost_all, 0);
	unmake(&d);
}

/* It is looked for when a chunk is begun. */
static void hook_switches_the_agent_off_when_gospect_is_gone(void **state)
{
	static struct made d;
	struct code_control control;
	struct agent_slot *slot;
	struct registers r;
	uint64_t written;

	make(&d, HOOK_CASGSTATUS, STUB_CASGSTATUS);
	slot = slot_of(&d, 1);
	r = some_registers(&d, 2, 4);
	call_function(&d, &r);
	assert_int_equal(d.shared->switched_off, 0);
	d.shared->seen = cpu_clock() - d.shared->absence - 1;
	slot->limit = slot->write;
	call_function(&d, &r);
	memcpy(&control, d.memory + CONTROL, sizeof(control));
	assert_int_equal(control.enabled, 0);
	assert_int_equal(d.shared->switched_off, 1);
	assert_int_equal(slot->lost_all, 1);
	written = slot->write;
	call_function(&d, &r);
	assert_int_equal(slot->write, written);
	unmake(&d);
}

static void a_sampled_allocation_is_recorded_with_its_size_and_the_rate(void **state)
{
	static const uint64_t rate = 524288;

	for (uint32_t in_rcx = 0; in_rcx < 2; in_rcx++) {
		static struct made made[2];
		struct made *d = &made[in_rcx];
		struct registers before, after;
		uint64_t n[5];

		make(d, HOOK_ALLOC, STUB_P_OF_THREAD);
		slot_of(d, 1)->config.mem_profile_rate = (uintptr_t)&rate;
		slot_of(d, 1)->config.alloc_size_is_third = in_rcx;
		before = after = some_registers(d, 1000, 1ull << 40);
		call_function(d, &after);
		assert_memory_equal(&before, &after, sizeof(before));
		assert_left_well(d);
		assert_int_equal(first_record(d, 1, n, 5), RECORD_ALLOC);
		assert_int_equal(n[1], 300);
		assert_words(d, n[2], (uint64_t[]){0x1001, 0x1002, 0x1003}, 3);
		assert_int_equal(n[3], in_rcx ? 1ull << 40 : 1000);
		assert_int_equal(n[4], rate);
		unmake(d);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wait_is_recorded_with_its_stack),
		cmocka_unit_test(a_stack_seen_before_has_the_same_number_and_a_changed_one_another),
		cmocka_unit_test(started_goroutine_record_names_its_kind),
		cmocka_unit_test(create_and_end_records_have_all_fields),
		cmocka_unit_test(goids_and_reasons_of_any_size_are_written_as_they_are),
		cmocka_unit_test(depth_zero_records_everything_but_stacks),
		cmocka_unit_test(times_of_any_length_are_recorded_exactly),
		cmocka_unit_test(stacks_of_all_kinds_are_recorded_as_they_are),
		cmocka_unit_test(a_stack_that_fits_into_the_cache_is_recognised),
		cmocka_unit_test(stack_cache_distinguishes_similar_stacks),
		cmocka_unit_test(unblock_by_the_scheduler_has_no_stack),
		cmocka_unit_test(a_stack_that_goes_on_elsewhere_is_not_kept),
		cmocka_unit_test(a_system_call_is_recorded_with_its_stack),
		cmocka_unit_test(the_end_of_a_system_call_is_recorded),
		cmocka_unit_test(system_calls_that_change_the_state_are_recorded),
		cmocka_unit_test(a_full_ring_loses_and_counts_until_there_is_room),
		cmocka_unit_test(a_ring_takes_memory_by_what_is_unread),
		cmocka_unit_test(a_sampled_allocation_is_recorded_with_its_size_and_the_rate),
		cmocka_unit_test(hook_switches_the_agent_off_when_gospect_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
