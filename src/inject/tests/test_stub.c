/*
 * The stubs and the agent at work in our own process: a function made here is patched as one of the
 * runtime's would be, and called with a made goroutine, at two addresses.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/abi.h"
#include "agent/blob.h"
#include "base/unit_test.h"
#include "inject/place.h"
#include "inject/stub.h"

enum {
	FUNCTION = 0, /* offsets in the memory that is made */
	CODE = 0x1000,
	AGENT = 0x2000,
	CONTROL = 0x8000,
	SIZE = 0x9000,
	RING = 4 * AGENT_CHUNK_BYTES,
	P_SLOTS = 2,
	SLOTS = P_SLOTS + AGENT_SPARE_SLOTS,
	STACK_WORDS = 512,
	ARENA = 0x40000,
};

enum { WORKER_REASON = 11 };

/* Of made structures: one word each. */
enum { G_M, G_HI, G_SP, G_PC, G_BP, G_STATUS, G_GOID, G_REASON, G_START, G_LABELS, G_WORDS };
enum { M_PROCID, M_CURG, M_P, M_VDSO_SP, M_VDSO_PC, M_WORDS };
enum { P_ID, P_MODE, P_WORDS };

struct made {
	uint8_t *memory;
	struct agent_shared *shared;
	uint64_t g0[G_WORDS], g[G_WORDS], m[M_WORDS], p[P_WORDS];
	uint64_t stack[STACK_WORDS]; /* of the goroutine */
	struct code_head head;
	struct place place;
};

/* push rbp; mov rbp, rsp; sub rsp, 32; mov [rsp+16], rax; mov rax, [rsp+16]; add rsp, 32; pop; ret
 */
static const uint8_t function[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x20,
				   0x48, 0x89, 0x44, 0x24, 0x10, 0x48, 0x8b, 0x44,
				   0x24, 0x10, 0x48, 0x83, 0xc4, 0x20, 0x5d, 0xc3};

static uint64_t word_of(const void *p)
{
	return (uint64_t)p;
}

static struct agent_slot *slot_of(const struct made *d, unsigned int i)
{
	return (void *)((uint8_t *)d->shared + d->shared->slots_offset + i * AGENT_SLOT_BYTES);
}

static void fill_config(struct made *d)
{
	struct agent_config *c = &d->shared->config;

	*c = (struct agent_config){.g_m = G_M * 8,
				   .g_stack_hi = G_HI * 8,
				   .g_sched_sp = G_SP * 8,
				   .g_sched_pc = G_PC * 8,
				   .g_sched_bp = G_BP * 8,
				   .g_status = G_STATUS * 8,
				   .g_goid = G_GOID * 8,
				   .g_waitreason = G_REASON * 8,
				   .g_startpc = G_START * 8,
				   .g_labels = G_LABELS * 8,
				   .m_procid = M_PROCID * 8,
				   .m_curg = M_CURG * 8,
				   .m_p = M_P * 8,
				   .m_vdso_sp = M_VDSO_SP * 8,
				   .m_vdso_pc = M_VDSO_PC * 8,
				   .p_id = P_ID * 8,
				   .p_gc_worker_mode = P_MODE * 8,
				   .worker_reason = WORKER_REASON,
				   .worker_active_reason = UINT32_MAX,
				   .depth = 32,
				   .dead_extra = 6,
				   .assist_reason = UINT32_MAX,
				   /* whatever calls the function is its scheduler */
				   .park_m = {0, UINT64_MAX}};
	for (unsigned int i = 0; i < HOOKS; i++)
		d->shared->places.addresses[i] = d->place.address;
	for (unsigned int i = 0; i < SLOTS; i++)
		slot_of(d, i)->config = *c;
}

static void make_shared(struct made *d)
{
	uint64_t slots = 0x10000 + AGENT_TABLE_SLOTS * sizeof(struct agent_stack) + ARENA;
	uint64_t size = slots + SLOTS * (AGENT_SLOT_BYTES + RING);
	struct agent_shared *s = mmap(NULL, size, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_ptr_not_equal(s, MAP_FAILED);
	*s = (struct agent_shared){.size = size,
				   .slots = SLOTS,
				   .ring_bytes = RING,
				   .table_offset = 0x10000,
				   .arena_offset = slots - ARENA,
				   .arena_words = ARENA / 8,
				   .slots_offset = slots + AGENT_SLOT_OFFSET,
				   .rings_offset = slots + SLOTS * AGENT_SLOT_BYTES};
	d->shared = s;
	for (unsigned int i = 0; i < SLOTS; i++) {
		struct agent_slot *slot = slot_of(d, i);

		slot->shared = word_of(s);
		slot->ring = word_of(s) + s->rings_offset + i * RING;
	}
}

static void make_goroutine(struct made *d)
{
	d->g0[G_M] = d->g[G_M] = word_of(d->m);
	d->m[M_PROCID] = 4711;
	d->m[M_CURG] = word_of(d->g);
	d->m[M_P] = word_of(d->p);
	d->p[P_ID] = 1;
	d->g[G_GOID] = 300;
	d->g[G_STATUS] = 2;
	d->g[G_REASON] = 9;
	d->g[G_HI] = word_of(d->stack + STACK_WORDS);
	d->g[G_PC] = 0x1001;
	d->g[G_SP] = word_of(d->stack + 10);
	d->g[G_BP] = word_of(d->stack + 20);
	d->stack[20] = word_of(d->stack + 30);
	d->stack[21] = 0x1002;
	d->stack[30] = 0;
	d->stack[31] = 0x1003;
}

/* The code, patched by a hook of that kind. */
static void make_of(struct made *d, const uint8_t *code, size_t size, unsigned int arguments,
		    enum agent_hook hook, enum stub_p kind)
{
	struct code_control control = {.enabled = 1};
	struct stub_numbers numbers = {.g_m = G_M * 8,
				       .m_p = M_P * 8,
				       .m_vdso_sp = M_VDSO_SP * 8,
				       .m_vdso_pc = M_VDSO_PC * 8,
				       .p_id = P_ID * 8,
				       .p_slots = P_SLOTS};
	enum stub_p kinds[HOOKS] = {[HOOK_CASGSTATUS] = STUB_CASGSTATUS};
	struct code_head *h = &d->head;

	memset(d, 0, sizeof(*d));
	d->memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE | PROT_EXEC,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(d->memory, MAP_FAILED);
	memcpy(d->memory + FUNCTION, code, size);
	assert_null(place_at_body("function", word_of(d->memory + FUNCTION), code, size, arguments,
				  false, &d->place));
	make_shared(d);
	make_goroutine(d);
	fill_config(d);
	kinds[hook] = kind;
	*h = (struct code_head){.code = word_of(d->memory + CODE),
				.agent = word_of(d->memory + AGENT),
				.control = word_of(d->memory + CONTROL),
				.slots = word_of(slot_of(d, 0)),
				.spare_slots = word_of(slot_of(d, P_SLOTS)),
				.stub_bytes = CODE_PAGE_BYTES,
				.place_count = HOOKS};
	h->places[hook].address = d->place.address;
	h->places[hook].length = d->place.length;
	h->places[hook].relative = d->place.relative;
	memcpy(h->places[hook].bytes, d->place.bytes, PLACE_MAX_BYTES);
	assert_true(stubs_write(h, &numbers, kinds, d->memory + CODE));
	assert_true(agent_blob_size <= CONTROL - AGENT);
	memcpy(d->memory + AGENT, agent_blob, agent_blob_size);
	control.slots = h->slots;
	memcpy(d->memory + CONTROL, &control, sizeof(control));
	assert_true(
		stub_jump(&h->places[hook], d->memory + (d->place.address - word_of(d->memory))));
}

static void make(struct made *d, enum agent_hook hook, enum stub_p kind)
{
	make_of(d, function, sizeof(function), PLACE_RAX | PLACE_RBX | PLACE_RCX, hook, kind);
	assert_int_equal(d->place.address, word_of(d->memory) + 8);
}

static void unmake(struct made *d)
{
	munmap(d->shared, d->shared->size);
	munmap(d->memory, SIZE);
}

/* What a caller finds in the registers afterwards: as it left them. */
struct registers {
	uint64_t rax, rbx, rcx, rdx, rdi, rsi, r8, r9, r10, r11, r14;
};

static void call_function(struct made *d, struct registers *r)
{
	register uint64_t g __asm__("r14") = r->r14;
	register uint64_t r8 __asm__("r8") = r->r8, r9 __asm__("r9") = r->r9;
	register uint64_t r10 __asm__("r10") = r->r10, r11 __asm__("r11") = r->r11;
	register const uint8_t *f __asm__("r15") = d->memory + FUNCTION;

	__asm__ volatile("sub $128, %%rsp\n\tcall *%%r15\n\tadd $128, %%rsp"
			 : "+a"(r->rax), "+b"(r->rbx), "+c"(r->rcx), "+d"(r->rdx), "+D"(r->rdi),
			   "+S"(r->rsi), "+r"(r8), "+r"(r9), "+r"(r10), "+r"(r11), "+r"(g)
			 : "r"(f)
			 : "r12", "r13", "memory", "cc");
	r->r8 = r8;
	r->r9 = r9;
	r->r10 = r10;
	r->r11 = r11;
	r->r14 = g;
}

static struct registers some_registers(const struct made *d, uint64_t old, uint64_t new)
{
	return (struct registers){word_of(d->g), old, new, 1, 2, 3, 4, 5, 6, 7, word_of(d->g0)};
}

/* The numbers of the first record of a slot. */
static unsigned int first_record(const struct made *d, unsigned int slot, uint64_t *ret,
				 unsigned int count)
{
	const struct agent_slot *s = slot_of(d, slot);
	const uint8_t *at = (const uint8_t *)s->ring + sizeof(struct agent_chunk);
	unsigned int kind;

	if (s->write <= sizeof(struct agent_chunk))
		return RECORD_NONE;
	kind = *at++;
	for (unsigned int i = 0; i < count; i++) {
		ret[i] = 0;
		for (unsigned int shift = 0;; shift += 7) {
			ret[i] |= (uint64_t)(*at & 0x7f) << shift;
			if (*at++ < 0x80)
				break;
		}
	}
	return kind;
}

/* A record, of a kind that is known here. */
struct seen {
	unsigned int kind;
	uint64_t since, goid, others[2];
};

static uint64_t next_number(const uint8_t **at)
{
	uint64_t value = 0;

	for (unsigned int shift = 0;; shift += 7) {
		uint8_t byte = *(*at)++;

		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return value;
	}
}

/* The last record of slot 1, which is in its first chunk. */
static struct seen last_record(const struct made *d)
{
	static const uint8_t others[RECORDS] = {[RECORD_BLOCK] = 2,
						[RECORD_UNBLOCK] = 1,
						[RECORD_SYSCALL] = 1,
						[RECORD_START_WORKER] = 1,
						[RECORD_CREATE] = 2};
	const struct agent_slot *slot = slot_of(d, 1);
	const uint8_t *at = (const uint8_t *)slot->ring + sizeof(struct agent_chunk);
	const uint8_t *end = (const uint8_t *)slot->ring + slot->write;
	struct seen r = {0};

	while (at < end) {
		r = (struct seen){.kind = *at++};
		r.since = next_number(&at);
		r.goid = next_number(&at);
		for (unsigned int i = 0; i < others[r.kind]; i++)
			r.others[i] = next_number(&at);
	}
	assert_ptr_equal(at, end);
	return r;
}

/* Where casgstatus is patched, no other registers are in use. */
static void assert_three_kept(const struct registers *before, const struct registers *after)
{
	assert_int_equal(before->rax, after->rax);
	assert_int_equal(before->rbx, after->rbx);
	assert_int_equal(before->rcx, after->rcx);
	assert_int_equal(before->r14, after->r14);
}

static void assert_left_well(const struct made *d)
{
	for (unsigned int i = 0; i < SLOTS; i++)
		assert_int_equal(slot_of(d, i)->busy, 0);
	assert_int_equal(d->m[M_VDSO_SP], 0);
	assert_int_equal(d->m[M_VDSO_PC],
			 slot_of(d, 1)->write || slot_of(d, P_SLOTS)->write ? d->place.address : 0);
}

static void assert_words(const struct made *d, uint32_t stack, const uint64_t *words, size_t n)
{
	const struct agent_stack *table =
		(const void *)((uint8_t *)d->shared + d->shared->table_offset);
	const uint64_t *arena = (const uint64_t *)((uint8_t *)d->shared + d->shared->arena_offset);

	assert_int_equal(arena[table[stack - 1].offset - 1], n);
	assert_memory_equal(arena + table[stack - 1].offset, words, n * sizeof(words[0]));
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
		assert_int_equal(n[2], 9);
		assert_words(d, n[3], (uint64_t[]){0x1001, 0x1002, 0x1003}, 3);
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
		slot->write = slot->limit = 0; /* each record is the first */
		d.stack[31] = i == 3 ? 0x1004 : 0x1003;
		call_function(&d, &r);
		assert_int_equal(first_record(&d, 1, n, 4), RECORD_BLOCK);
		if (!i)
			first = n[3];
		else if (i < 3)
			assert_int_equal(n[3], first);
		else
			assert_int_not_equal(n[3], first);
	}
	assert_int_equal(d.shared->stacks, 2);
	unmake(&d);
}

/* A call of casgstatus, of which the record is returned. */
static struct seen change(struct made *d, uint64_t *g, uint64_t old, uint64_t new)
{
	struct registers before = some_registers(d, old, new), after;

	before.rax = word_of(g);
	after = before;
	call_function(d, &after);
	assert_three_kept(&before, &after);
	assert_left_well(d);
	return last_record(d);
}

static void who_is_started_is_told_as_what_it_is(void **state)
{
	static struct made d;
	struct seen r;

	make(&d, HOOK_CASGSTATUS, STUB_CASGSTATUS);
	for (unsigned int i = 0; i < 3; i++) { /* also not as the first record of a chunk */
		d.p[P_MODE] = 3;               /* of who ran before */
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

static void who_is_made_and_ends_is_recorded_with_all_that_is_known(void **state)
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
		assert_int_equal(r.others[1], first.others[1]);
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
		assert_int_equal(r.others[0], i & 1 ? 200 : 20);
		assert_int_equal(r.others[1], first.others[1]);
		r = change(&d, d.g, 4, 1);
		assert_int_equal(r.kind, RECORD_UNBLOCK);
		assert_int_equal(r.goid, goids[i]);
		assert_int_equal(r.others[0], first.others[1]);
	}
	unmake(&d);
}

/* The stack of this number: its words, innermost first, are put into `ret`. The size of a frame
 * depends on its pc. Those of one shape are alike but for a pc each; some have more frames than a
 * guess, or a pc far from the others. */
static size_t make_stack(struct made *d, unsigned int number, uint64_t *ret)
{
	unsigned int shape = number % 128, at = 20 + shape * 2;
	size_t frames = shape % 7 ? 1 + shape % 9 : 33 + shape % 9, other = number / 128 % frames;

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

static void stacks_of_all_kinds_are_told_as_they_are(void **state)
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

		/* Mostly one of few, and over time more than there are guesses. */
		number = i % 4 ? number % (1 + i / 2000) : number % 3000;
		random = random * 1664525 + 1013904223;
		if (i % 512 == 0)
			slot_of(&d, 1)->write = slot_of(&d, 1)->limit = 0;
		count = make_stack(&d, number, words);
		r = change(&d, d.g, 2, 4);
		assert_int_equal(r.kind, RECORD_BLOCK);
		assert_words(&d, r.others[1], words, count);
	}
	assert_int_equal(slot_of(&d, 1)->guesses_used, AGENT_GUESSES - 1);
	unmake(&d);
}

/* The second time it is not walked: words[1], the first frame, stays as it is. */
static void a_stack_that_fits_into_a_guess_is_recognised(void **state)
{
	static struct made d;
	uint64_t words[64];

	make(&d, HOOK_CASGSTATUS, STUB_CASGSTATUS);
	slot_of(&d, 1)->config.depth = 64;
	for (unsigned int shape = 0; shape < 128; shape++) {
		size_t count = make_stack(&d, shape, words), near = 1;
		struct seen r = change(&d, d.g, 2, 4);

		while (near < count && words[near] < 1ull << 32)
			near++;
		slot_of(&d, 1)->words[1] = 0;
		assert_int_equal(change(&d, d.g, 2, 4).others[1], r.others[1]);
		assert_words(&d, r.others[1], words, count);
		assert_int_equal(!slot_of(&d, 1)->words[1],
				 near == count &&
					 count - 1 <= AGENT_GUESS_BLOCKS * AGENT_BLOCK_FRAMES);
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
	assert_words(&d, r.others[1], words, count - 1);
	assert_int_equal(slot_of(&d, 1)->guesses_used, 0);
	*(uint64_t *)d.g[G_BP] = 0;
	r = change(&d, d.g, 2, 4);
	assert_words(&d, r.others[1], words, count - 1);
	assert_int_equal(slot_of(&d, 1)->guesses_used, 1);
	unmake(&d);
}

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

/* By a goroutine; every register is as it was. */
static void call_by_goroutine(struct made *d, struct registers before)
{
	struct registers after = before;

	before.r14 = after.r14 = word_of(d->g);
	call_function(d, &after);
	assert_memory_equal(&before, &after, sizeof(before));
	assert_left_well(d);
}

/* reentersyscall(pc, sp, bp) says where the goroutine will be; the first time all has to be
 * looked for, then the stack is known. Without the processor's slot another is taken. */
static void a_system_call_is_told_with_its_stack(void **state)
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

static void the_end_of_a_system_call_is_told(void **state)
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

/* A goroutine changes its own state; the record is returned. */
static struct seen change_by_goroutine(struct made *d, uint64_t old, uint64_t new)
{
	struct registers before = some_registers(d, old, new), after;
	struct seen seen;

	before.r14 = word_of(d->g);
	after = before;
	call_function(d, &after);
	assert_three_kept(&before, &after);
	assert_left_well(d);
	seen = last_record(d);
	assert_int_equal(seen.goid, 300);
	return seen;
}

/* As they are up to Go 1.25. */
static void system_calls_that_change_the_state_are_told(void **state)
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

/* What refers to memory from where it is refers to the same from elsewhere; and labels that lie
 * where nothing may be read are told by their address. */
static void an_instruction_that_is_relative_is_executed_elsewhere(void **state)
{
	/* push rbp; mov rbp, rsp; cmp dword [rip+0xf5], 7; sete bl; pop rbp; ret */
	static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0x83, 0x3d, 0xf5, 0,
				       0,    0,    7,    0x0f, 0x94, 0xc3, 0x5d, 0xc3};
	static struct made d;
	struct registers r;
	uint64_t n[4];

	make_of(&d, code, sizeof(code), PLACE_RAX | PLACE_RELATIVE, HOOK_LABELS, STUB_P_OF_THREAD);
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

static void who_has_no_processor_takes_a_spare_slot(void **state)
{
	static struct made d;
	struct registers before, after;
	uint64_t n[2];

	make(&d, HOOK_CASGSTATUS, STUB_CASGSTATUS);
	d.m[M_P] = 0;
	slot_of(&d, P_SLOTS)->busy = 1; /* somebody else is there */
	before = after = some_registers(&d, 1, 2);
	call_function(&d, &after);
	assert_three_kept(&before, &after);
	assert_int_equal(slot_of(&d, 1)->write, 0);
	assert_int_equal(slot_of(&d, P_SLOTS)->write, 0);
	assert_int_equal(first_record(&d, P_SLOTS + 1, n, 2), RECORD_START);
	assert_int_equal(n[1], 300);
	unmake(&d);
}

static void without_any_slot_the_call_is_counted_as_lost(void **state)
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

/* Into the function's last but one instruction, as one returns who was stopped before it. */
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
static void make_return(struct made *d, uint8_t **ret_far)
{
	struct code_control control = {.enabled = 1};
	struct stub_numbers numbers = {.g_m = G_M * 8,
				       .m_p = M_P * 8,
				       .m_vdso_sp = M_VDSO_SP * 8,
				       .m_vdso_pc = M_VDSO_PC * 8,
				       .p_id = P_ID * 8,
				       .p_slots = P_SLOTS};
	static const enum stub_p kinds[HOOKS];
	struct code_head *h = &d->head;
	struct code_place *place = &h->places[HOOKS];

	memset(d, 0, sizeof(*d));
	d->memory = mmap((void *)0x20000000, SIZE, PROT_READ | PROT_WRITE | PROT_EXEC,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	*ret_far = mmap((void *)0x7d800000, CODE_PAGE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	assert_ptr_not_equal(d->memory, MAP_FAILED);
	assert_ptr_not_equal(*ret_far, MAP_FAILED);
	memcpy(d->memory + FUNCTION, function, sizeof(function));
	make_shared(d);
	make_goroutine(d);
	fill_config(d);
	d->place.address = word_of(d->memory + FUNCTION + 18);
	d->shared->places.addresses[HOOKS] = d->place.address;
	d->shared->places.roots[0] = (struct agent_root_place){3, 1, 40};
	*h = (struct code_head){.code = word_of(d->memory + CODE),
				.agent = word_of(d->memory + AGENT),
				.control = word_of(d->memory + CONTROL),
				.slots = word_of(slot_of(d, 0)),
				.spare_slots = word_of(slot_of(d, P_SLOTS)),
				.stub_bytes = CODE_PAGE_BYTES,
				.place_count = HOOKS + 1};
	*place = (struct code_place){.address = d->place.address,
				     .jump = word_of(*ret_far + 32),
				     .length = 4};
	memcpy(place->bytes, function + 18, PLACE_JUMP_BYTES);
	assert_true(stubs_write(h, &numbers, kinds, d->memory + CODE));
	far_jump_write(place, *ret_far + 32);
	memcpy(d->memory + AGENT, agent_blob, agent_blob_size);
	control.slots = h->slots;
	memcpy(d->memory + CONTROL, &control, sizeof(control));
	assert_true(stub_jump(place, d->memory + FUNCTION + 18));
}

static void a_return_is_recorded_and_who_comes_back_behind_it_returns_as_ever(void **state)
{
	static struct made d;
	struct registers before, after;
	uint8_t *far;
	uint64_t n[4], here = word_of(&before);

	make_return(&d, &far);
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
	munmap(far, CODE_PAGE_BYTES);
	unmake(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wait_is_recorded_with_its_stack),
		cmocka_unit_test(a_stack_seen_before_has_the_same_number_and_a_changed_one_another),
		cmocka_unit_test(who_is_started_is_told_as_what_it_is),
		cmocka_unit_test(who_is_made_and_ends_is_recorded_with_all_that_is_known),
		cmocka_unit_test(goids_and_reasons_of_any_size_are_written_as_they_are),
		cmocka_unit_test(stacks_of_all_kinds_are_told_as_they_are),
		cmocka_unit_test(a_stack_that_fits_into_a_guess_is_recognised),
		cmocka_unit_test(a_stack_that_goes_on_elsewhere_is_not_kept),
		cmocka_unit_test(other_hooks_keep_every_register),
		cmocka_unit_test(a_system_call_is_told_with_its_stack),
		cmocka_unit_test(the_end_of_a_system_call_is_told),
		cmocka_unit_test(system_calls_that_change_the_state_are_told),
		cmocka_unit_test(an_instruction_that_is_relative_is_executed_elsewhere),
		cmocka_unit_test(who_has_no_processor_takes_a_spare_slot),
		cmocka_unit_test(without_any_slot_the_call_is_counted_as_lost),
		cmocka_unit_test(switched_off_it_touches_nothing),
		cmocka_unit_test(a_return_is_recorded_and_who_comes_back_behind_it_returns_as_ever),
		cmocka_unit_test(a_full_ring_loses_and_counts_until_there_is_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
