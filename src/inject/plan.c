#include "inject/plan.h"

#include "inject/survey_code.h"

/* Limit of the shared memory: a table of stacks and 1,032 rings take 4.4 GB, of which little is
 * touched. */
#define MOST_SHARED_BYTES (1ull << 36)

static struct error *must_check refused(const char *why)
{
	return error_format(ERROR_CORRUPT,
			    "internal error: invalid plan for the target: %s; please report it",
			    why);
}

static bool is_same(const struct original *o, uint64_t address, const uint8_t *bytes)
{
	return o->address == address && !memcmp(o->bytes, bytes, SITE_JUMP_BYTES);
}

bool originals_have(const struct originals *o, uint64_t address, const uint8_t *bytes)
{
	for (size_t i = 0; i < o->count; i++)
		if (is_same(&o->items[i], address, bytes))
			return true;
	return false;
}

bool originals_add(struct originals *o, uint64_t address, const uint8_t *bytes)
{
	struct original *item = &o->items[o->count];

	if (originals_have(o, address, bytes))
		return true;
	if (o->count >= ORIGINALS_MOST)
		return false;
	item->address = address;
	memcpy(item->bytes, bytes, SITE_JUMP_BYTES);
	o->count++;
	return true;
}

/* ---- ranges ---- */

/* In the user's part, without an overflow. */
static bool is_range(uint64_t start, uint64_t size)
{
	return size && start >= ADDRESS_LOWEST && start < ADDRESS_END &&
	       size <= ADDRESS_END - start;
}

/* All of it in mappings of code, side by side. */
static bool is_code(const struct target_maps *maps, uint64_t start, uint64_t size)
{
	uint64_t end = start + size;

	if (!is_range(start, size))
		return false;
	while (start < end) {
		const struct target_map *map = target_maps_find(maps, start);

		if (!map || !map->executable)
			return false;
		start = map->end;
	}
	return true;
}

static bool is_free(const struct target_maps *maps, uint64_t start, uint64_t size)
{
	if (!is_range(start, size) || start % CODE_PAGE_BYTES)
		return false;
	for (size_t i = 0; i < maps->count; i++)
		if (maps->items[i].start < start + size && maps->items[i].end > start)
			return false;
	return true;
}

/* ---- the survey ---- */

static bool are_small(const struct runtime_words *w)
{
	const uint32_t offsets[] = {w->m_procid,   w->m_alllink,  w->m_gsignal,
				    w->m_curg,     w->g_stack_lo, w->g_stack_hi,
				    w->g_sched_sp, w->g_sched_pc, w->g_sched_bp};

	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++)
		if (offsets[i] > RUNTIME_WORD_LIMIT - sizeof(uint64_t))
			return false;
	return is_range(w->allm, sizeof(uint64_t));
}

static bool is_there(struct target *t, const struct target_maps *maps, uint64_t address,
		     const struct machine_code *code)
{
	uint8_t now[MACHINE_CODE_MOST];

	return is_code(maps, address, code->size) &&
	       !error_dropped(target_read(t, address, now, code->size)) &&
	       !memcmp(now, code->bytes, code->size);
}

static struct error *must_check check_instructions(struct target *t, const struct target_maps *maps,
						   const struct survey *s)
{
	bool restores = false;

	if (!is_there(t, maps, s->syscall, &survey_syscall))
		return refused("no system call instruction at its address");
	for (size_t i = 0; i < SURVEY_SIGRETURNS; i++)
		restores |= is_there(t, maps, s->restore, &survey_sigreturns[i]);
	return restores ? NULL : refused("no sigreturn at its address");
}

struct error *survey_check(struct target *t, const struct survey *s)
{
	_cleanup_maps_ struct target_maps maps = {0};
	struct error *err = target_maps(t, &maps);

	if (err)
		return err;
	if (!are_small(&s->words))
		return refused("an offset in the runtime's structures is too large");
	if (s->original_count > CODE_MAX_SITES)
		return refused("too many probe sites");
	for (size_t i = 0; i < s->original_count; i++)
		if (!is_code(&maps, s->originals[i].address, SITE_JUMP_BYTES))
			return refused("a probe site to restore lies outside the target's code");
	return check_instructions(t, &maps, s);
}

/* ---- the plan ---- */

static struct error *must_check check_sizes(const struct plan *plan, size_t size)
{
	const struct code_head *h = &plan->head;

	if (h->magic != CODE_MAGIC || h->version != CODE_VERSION)
		return refused("another version of the plan");
	if (!h->site_count || h->site_count > CODE_MAX_SITES)
		return refused("invalid number of probe sites");
	if (h->stub_bytes > CODE_MAX_STUB_BYTES || h->stub_bytes % CODE_PAGE_BYTES ||
	    h->stub_bytes < code_head_bytes(h))
		return refused("wrong size of the code");
	if (h->code_bytes != h->stub_bytes + code_agent_bytes() + CODE_PAGE_BYTES ||
	    h->agent != h->code + h->stub_bytes ||
	    h->control != h->code + h->code_bytes - CODE_PAGE_BYTES)
		return refused("the agent does not follow the stubs");
	return size == plan_bytes(h) ? NULL : refused("wrong length");
}

static struct error *must_check check_shared(const struct plan *plan)
{
	uint64_t room = plan->shared_bytes - plan->slots_offset;

	if (plan->shared_bytes > MOST_SHARED_BYTES || plan->shared_bytes % CODE_PAGE_BYTES ||
	    plan->shared_bytes < sizeof(struct agent_shared))
		return refused("wrong size of the shared memory");
	if (plan->slots < AGENT_FALLBACK_SLOTS ||
	    plan->slots > AGENT_MOST_P_SLOTS + AGENT_FALLBACK_SLOTS ||
	    plan->slots_offset > plan->shared_bytes || plan->slots_offset % 64 ||
	    plan->slots_offset < sizeof(struct agent_shared) ||
	    plan->slots * AGENT_SLOT_BYTES > room)
		return refused("a slot lies outside the shared memory");
	return NULL;
}

static struct error *must_check check_functions(const struct quiescence_functions *f,
						const struct target_maps *maps)
{
	if (f->count > QUIESCENCE_FUNCTIONS || f->changing > f->count)
		return refused("too many functions");
	for (size_t i = 0; i < f->count; i++)
		if (f->items[i].size && !is_code(maps, f->items[i].start, f->items[i].size))
			return refused("a function lies outside the target's code");
	if (f->systemstack_switch.size &&
	    !is_code(maps, f->systemstack_switch.start, f->systemstack_switch.size))
		return refused("a function lies outside the target's code");
	return NULL;
}

static bool touch(uint64_t a, uint64_t a_size, uint64_t b, uint64_t b_size)
{
	return a < b + b_size && b < a + a_size;
}

/* Each trampoline page is free, and by itself; behind the last there are no more. */
static struct error *must_check check_mappings(const struct code_head *h,
					       const struct target_maps *maps)
{
	size_t count = code_trampoline_count(h);

	if (!is_free(maps, h->code, h->code_bytes))
		return refused("the address range of the code is in use");
	for (size_t i = 0; i < CODE_TRAMPOLINE_PAGES; i++) {
		if (i >= count && h->trampolines[i])
			return refused("a gap in the list of trampoline pages");
		if (i < count &&
		    (!is_free(maps, h->trampolines[i], CODE_PAGE_BYTES) ||
		     touch(h->trampolines[i], CODE_PAGE_BYTES, h->code, h->code_bytes)))
			return refused("the address range of a trampoline page is in use");
		for (size_t k = 0; k < i && i < count; k++)
			if (h->trampolines[i] == h->trampolines[k])
				return refused("two trampoline pages have the same address");
	}
	return NULL;
}

/* In the stubs, behind the head. */
static bool is_stub(const struct code_head *h, uint64_t address)
{
	uint64_t at = address - h->code;

	return at >= code_head_bytes(h) && at < h->stub_bytes;
}

static bool is_trampoline(const struct code_head *h, uint64_t address)
{
	for (size_t i = 0; i < code_trampoline_count(h); i++)
		if (address - h->trampolines[i] <= CODE_PAGE_BYTES - CODE_TRAMPOLINE_BYTES)
			return true;
	return false;
}

static struct error *must_check check_site(const struct code_head *h, const struct code_site *site,
					   const struct target_maps *maps)
{
	uint8_t jump[SITE_JUMP_BYTES];

	if (site->length < SITE_LEAST_BYTES || site->length > SITE_MAX_BYTES ||
	    (site->relative && site->relative + sizeof(uint32_t) > site->length))
		return refused("an instruction has the wrong length");
	if (!is_code(maps, site->address, code_site_bytes(site)))
		return refused("a probe site lies outside the target's code");
	if (!is_stub(h, site->stub) || (!is_stub(h, site->jump) && !is_trampoline(h, site->jump)))
		return refused("a jump leaves the agent");
	if (!code_jump(site, jump))
		return error_format(ERROR_UNSUPPORTED, "the agent is out of range");
	return NULL;
}

static struct error *must_check check_sites(const struct code_head *h,
					    const struct target_maps *maps)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < h->site_count; i++) {
		const struct code_site *site = &h->sites[i];

		if (!site->address)
			continue;
		err = check_site(h, site, maps);
		for (size_t k = 0; !err && k < i; k++)
			if (h->sites[k].address &&
			    touch(site->address, code_site_bytes(site), h->sites[k].address,
				  code_site_bytes(&h->sites[k])))
				err = refused("two probe sites overlap");
	}
	return err;
}

struct error *plan_check(const struct plan *plan, size_t size, const struct target_maps *maps)
{
	struct error *err;

	if (size < sizeof(*plan) || size > PLAN_MOST_BYTES)
		return refused("length out of range");
	err = check_sizes(plan, size);
	if (!err)
		err = check_shared(plan);
	if (!err)
		err = check_functions(&plan->functions, maps);
	if (!err)
		err = check_mappings(&plan->head, maps);
	return err ? err : check_sites(&plan->head, maps);
}
