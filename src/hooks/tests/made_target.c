#include "hooks/tests/made_target.h"

#include "agent/blob.h"
#include "agent/cpu.h"

const uint8_t made_function[24] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x20,
				   0x48, 0x89, 0x44, 0x24, 0x10, 0x48, 0x8b, 0x44,
				   0x24, 0x10, 0x48, 0x83, 0xc4, 0x20, 0x5d, 0xc3};

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
				   .worker_active_reason = AGENT_NO_REASON,
				   .interrupted = 16,
				   .depth = 32,
				   .dead_extra = 6,
				   .assist_reason = AGENT_NO_REASON,
				   /* whatever calls the function is its scheduler */
				   .park_m = {0, UINT64_MAX}};
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

void make_memory(struct made *d, void *at, const uint8_t *code, size_t size)
{
	int fixed = at ? MAP_FIXED_NOREPLACE : 0;

	memset(d, 0, sizeof(*d));
	d->memory = mmap(at, SIZE, PROT_READ | PROT_WRITE | PROT_EXEC,
			 MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
	assert_ptr_not_equal(d->memory, MAP_FAILED);
	memcpy(d->memory + FUNCTION, code, size);
	make_shared(d);
	make_goroutine(d);
	fill_config(d);
	d->head.code = word_of(d->memory + CODE);
	d->head.agent = word_of(d->memory + AGENT);
	d->head.control = word_of(d->memory + CONTROL);
	d->shared->absence = cpu_clock_seconds();
	d->shared->enabled = d->head.control;
	d->shared->seen = cpu_clock();
	d->head.slots = word_of(slot_of(d, 0));
	d->head.fallback_slots = word_of(slot_of(d, P_SLOTS));
	d->head.stub_bytes = CODE_PAGE_BYTES;
}

void make_stubs(struct made *d, const enum stub_p *kinds, unsigned int sites)
{
	struct code_control control = {.enabled = 1, .slots = d->head.slots};
	struct stub_numbers numbers = {.g_m = G_M * 8,
				       .m_p = M_P * 8,
				       .m_vdso_sp = M_VDSO_SP * 8,
				       .m_vdso_pc = M_VDSO_PC * 8,
				       .p_id = P_ID * 8,
				       .p_slots = P_SLOTS};

	d->head.site_count = sites;
	assert_true(stubs_write(&d->head, &numbers, kinds, d->memory + CODE));
	assert_true(agent_blob_size <= CONTROL - AGENT);
	memcpy(d->memory + AGENT, agent_blob, agent_blob_size);
	memcpy(d->memory + CONTROL, &control, sizeof(control));
}

void make_of(struct made *d, const uint8_t *code, size_t size, unsigned int arguments,
	     enum agent_hook hook, enum stub_p kind)
{
	enum stub_p kinds[HOOKS] = {[HOOK_CASGSTATUS] = STUB_CASGSTATUS};
	struct code_site *site = &d->head.sites[hook];

	make_memory(d, NULL, code, size);
	assert_null(probe_site_at_body("function", word_of(d->memory + FUNCTION), code, size,
				       arguments, false, &d->site));
	d->shared->sites.addresses[hook] = d->site.address;
	kinds[hook] = kind;
	site->address = d->site.address;
	site->length = d->site.length;
	site->relative = d->site.relative;
	memcpy(site->bytes, d->site.bytes, SITE_MAX_BYTES);
	make_stubs(d, kinds, HOOKS);
	assert_true(code_jump(site, d->memory + (d->site.address - word_of(d->memory))));
}

void make(struct made *d, enum agent_hook hook, enum stub_p kind)
{
	make_of(d, made_function, sizeof(made_function), SITE_FIRST | SITE_SECOND | SITE_THIRD,
		hook, kind);
	assert_int_equal(d->site.address, word_of(d->memory) + 8);
}

void unmake(struct made *d)
{
	munmap(d->shared, d->shared->size);
	munmap(d->memory, SIZE);
}

void call_function(struct made *d, struct registers *r)
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

struct registers some_registers(const struct made *d, uint64_t old, uint64_t new)
{
	return (struct registers){word_of(d->g), old, new, 1, 2, 3, 4, 5, 6, 7, word_of(d->g0)};
}

unsigned int first_record(const struct made *d, unsigned int slot, uint64_t *ret,
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

struct seen last_record(const struct made *d)
{
	static const uint8_t others[RECORDS] = {
#define RECORD(name, numbers, ...) [RECORD_##name] = numbers - 1,
#include "agent/records.def"
#undef RECORD
	};
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

void assert_three_kept(const struct registers *before, const struct registers *after)
{
	assert_int_equal(before->rax, after->rax);
	assert_int_equal(before->rbx, after->rbx);
	assert_int_equal(before->rcx, after->rcx);
	assert_int_equal(before->r14, after->r14);
}

void assert_left_well(const struct made *d)
{
	for (unsigned int i = 0; i < SLOTS; i++)
		assert_int_equal(slot_of(d, i)->busy, 0);
	assert_int_equal(d->m[M_VDSO_SP], 0);
	assert_int_equal(d->m[M_VDSO_PC],
			 slot_of(d, 1)->write || slot_of(d, P_SLOTS)->write ? d->site.address : 0);
}

void assert_words(const struct made *d, uint32_t stack, const uint64_t *words, size_t n)
{
	const struct agent_stack *table =
		(const void *)((uint8_t *)d->shared + d->shared->table_offset);
	const uint64_t *arena = (const uint64_t *)((uint8_t *)d->shared + d->shared->arena_offset);

	assert_int_equal(arena[table[stack - 1].offset - 1], n);
	assert_memory_equal(arena + table[stack - 1].offset, words, n * sizeof(words[0]));
}

void call_by_goroutine(struct made *d, struct registers before)
{
	struct registers after = before;

	before.r14 = after.r14 = word_of(d->g);
	call_function(d, &after);
	assert_memory_equal(&before, &after, sizeof(before));
	assert_left_well(d);
}

struct seen change(struct made *d, uint64_t *g, uint64_t old, uint64_t new)
{
	struct registers before = some_registers(d, old, new), after;

	before.rax = word_of(g);
	after = before;
	/* gospect is there, however long the machine has kept this test waiting. */
	d->shared->seen = cpu_clock();
	call_function(d, &after);
	assert_three_kept(&before, &after);
	assert_left_well(d);
	return last_record(d);
}

struct seen change_by_goroutine(struct made *d, uint64_t old, uint64_t new)
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
