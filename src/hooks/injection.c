#include "hooks/injection.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/blob.h"
#include "agent/cpu.h"
#include "base/cleanup.h"
#include "hooks/entry_points.h"
#include "hooks/hooks.h"
#include "hooks/probe_site.h"
#include "hooks/readable.h"
#include "hooks/region.h"
#include "hooks/request_functions.h"
#include "hooks/survey.h"
#include "hooks/unsafe_functions.h"
#include "inject/fault.h"
#include "inject/presence.h"
#include "inject/stale_agent.h"
#include "inject/surgeon.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* The part of the shared memory that is used at first. */
#define FIRST_STACK_BYTES 262144
#define FIRST_RING_BYTES 262144
#define STACK_BYTES 4096 /* of a slot */

struct injection {
	struct target *t;
	const struct image *img;
	const struct golayout *lay;
	struct surgeon *surgeon;
	bool entered;
	pthread_mutex_t
		switching; /* held by the caller that asks for the switch, while `attached` */
	bool attached;
	struct hooks hooks;
	uint64_t code, control;       /* addresses in the target */
	struct agent_shared layout;   /* as gospect made it */
	struct surgeon_answer answer; /* the last one */
	uint64_t shared_address;      /* in the target; a copy, which other threads may read */
	uint64_t p_now;               /* Ps that exist and have a slot */
	uint64_t without_ring;
	struct agent_shared *shared;
	int shared_file;
	uint64_t lost;
};

/* ---- the plan ---- */

static struct error *must_check choose_layout(struct injection *in,
					      const struct inject_options *options)
{
	struct agent_shared *l = &in->layout;
	uint64_t p_count, slots;
	struct error *err = region_p_slots(in->t, in->lay, &in->p_now, &p_count);

	if (err)
		return err;
	l->magic = AGENT_MAGIC;
	l->slots = p_count + AGENT_FALLBACK_SLOTS;
	l->ring_bytes = options->ring_bytes;
	l->table_offset = (sizeof(*l) + CODE_PAGE_BYTES - 1) & ~(CODE_PAGE_BYTES - 1ul);
	l->arena_offset = l->table_offset + AGENT_TABLE_SLOTS * sizeof(struct agent_stack);
	l->arena_words = AGENT_TABLE_SLOTS * 32;
	slots = l->arena_offset + l->arena_words * 8;
	l->slots_offset = slots + AGENT_SLOT_OFFSET;
	l->rings_offset = slots + (uint64_t)l->slots * AGENT_SLOT_BYTES;
	l->size = l->rings_offset + (uint64_t)l->slots * l->ring_bytes;
	if (!options->no_names)
		err = request_layout(in->t, in->img, in->lay, &l->http);
	if (err)
		return err;
	err = hooks_config(in->t, in->img, in->lay, options->depth, &l->config);
	if (!err && options->allocations)
		err = hooks_add_allocations(in->t, in->img, in->lay, &in->hooks, &l->config);
	hooks_sites(&in->hooks, &l->sites);
	return err;
}

static struct error *must_check choose_code(struct injection *in, struct code_head *h)
{
	struct error *err;

	h->magic = CODE_MAGIC;
	h->version = CODE_VERSION;
	h->site_count = in->hooks.site_count;
	h->stub_bytes = stubs_size(h->site_count);
	h->code_bytes = h->stub_bytes + code_agent_bytes() + CODE_PAGE_BYTES;
	memcpy(h->trampolines, in->hooks.trampolines.pages, sizeof(h->trampolines));
	memcpy(h->sites, in->hooks.sites, sizeof(h->sites));
	err = region_choose(in->t, in->img, h->code_bytes, &h->code);
	h->agent = h->code + h->stub_bytes;
	h->control = h->agent + code_agent_bytes();
	return err;
}

static void write_trampolines(struct plan *plan)
{
	const struct code_head *h = &plan->head;
	uint8_t *page = plan->pages + h->stub_bytes;

	for (size_t k = 0; k < code_trampoline_count(h); k++, page += CODE_PAGE_BYTES)
		for (size_t i = 0; i < h->site_count; i++)
			if (h->sites[i].jump - h->trampolines[k] < CODE_PAGE_BYTES)
				trampoline_write(&h->sites[i],
						 page + h->sites[i].jump - h->trampolines[k]);
}

static struct error *must_check write_code(const struct injection *in, struct plan *plan)
{
	const struct golayout_numbers *n = &in->lay->n;
	const struct stub_numbers numbers = {.g_m = n->g_m,
					     .m_p = n->m_p,
					     .m_vdso_sp = n->m_vdso_sp,
					     .m_vdso_pc = n->m_vdso_pc,
					     .p_id = n->p_id,
					     .p_slots = in->layout.slots - AGENT_FALLBACK_SLOTS,
					     .stack_arguments = in->lay->minor <
								probe_site_first_with_registers};

	if (!stubs_write(&plan->head, &numbers, in->hooks.kinds, plan->pages))
		return error_format(ERROR_UNSUPPORTED,
				    "cannot trace this program: its code is too large");
	write_trampolines(plan);
	return NULL;
}

/* All that is to be done to the target; nothing of it is done. */
static struct error *must_check make_plan(struct injection *in,
					  const struct inject_options *options, struct plan **ret)
{
	_cleanup_free_ struct plan *plan = calloc(1, PLAN_MOST_BYTES);
	struct error *err;

	if (!plan)
		return &error_no_memory;
	err = hooks_find(in->t, in->img, in->lay, &in->hooks);
	if (!err)
		err = entry_points_find(in->t, in->img, in->lay, options, &in->hooks);
	if (!err)
		err = choose_layout(in, options);
	if (!err)
		err = choose_code(in, &plan->head);
	if (!err)
		err = write_code(in, plan);
	if (err)
		return err;
	unsafe_functions(in->img, &plan->head, in->layout.config.goid_late, &plan->functions);
	plan->shared_bytes = in->layout.size;
	plan->slots_offset = in->layout.slots_offset;
	plan->slots = in->layout.slots;
	in->code = plan->head.code;
	in->control = plan->head.control;
	*ret = take_ptr(plan);
	return NULL;
}

/* ---- requests to the surgeon ---- */

static struct error *must_check ask(struct injection *in, struct surgeon_request *r)
{
	struct error *err = surgeon_ask(in->surgeon, r);

	if (!err)
		in->answer = r->answer;
	return err;
}

static struct error *must_check ask_to_enter(struct injection *in, bool clean)
{
	struct survey survey = {0};
	struct surgeon_request r = {.operation = clean ? SURGEON_CLEAN : SURGEON_ENTER,
				    .survey = &survey};
	struct error *err = survey_make(in->t, in->img, in->lay, &survey);

	if (err)
		return err;
	err = ask(in, &r);
	in->entered = !err;
	/* It has opened the process that we have, if that is still the one that we have opened. */
	return err ? err : target_check(in->t);
}

static struct error *must_check ask_to_map(struct injection *in, const struct plan *plan)
{
	struct surgeon_request r = {.operation = SURGEON_MAP,
				    .plan = plan,
				    .plan_size = plan_bytes(&plan->head)};
	struct error *err = ask(in, &r);
	void *memory;

	if (err)
		return err;
	in->shared_file = r.shared;
	memory = mmap(NULL, in->layout.size, PROT_READ | PROT_WRITE, MAP_SHARED, r.shared, 0);
	if (memory == MAP_FAILED)
		return error_errno(ERROR_FAILED, errno, "cannot map %lu bytes", in->layout.size);
	in->shared = memory;
	in->shared_address = in->answer.shared_address;
	return NULL;
}

static struct error *must_check ask_for(struct injection *in, enum surgeon_operation operation)
{
	struct surgeon_request r = {.operation = operation};

	return ask(in, &r);
}

/* ---- the shared memory ---- */

static void init_slot(struct injection *in, uint32_t i)
{
	struct agent_slot *slot = (void *)((char *)in->shared + in->layout.slots_offset +
					   (size_t)i * AGENT_SLOT_BYTES);

	slot->config = in->layout.config;
	slot->shared = in->answer.shared_address;
	slot->ring = in->answer.shared_address + in->layout.rings_offset +
		     (uint64_t)i * in->layout.ring_bytes;
}

/* Memory is charged to the process that touches it first: to gospect, not to the target and its
 * cgroup. gospect has also read each page in the target, so the target's page tables have it. */
void inject_read(const struct injection *in, uint64_t offset, void *ret, size_t size)
{
	memfile_read(in->shared_file, offset, ret, size);
}

void inject_populate(const struct injection *in, uint64_t offset, uint64_t size)
{
	uint64_t page = sysconf(_SC_PAGESIZE), first = offset & ~(page - 1);
	uint8_t byte;

	if (offset >= in->layout.size)
		return;
	madvise((char *)in->shared + first, offset + size - first, MADV_POPULATE_WRITE);
	for (uint64_t at = first; at < offset + size; at += page)
		if (error_dropped(target_read(in->t, in->shared_address + at, &byte, 1)))
			return;
}

static void populate_first(const struct injection *in)
{
	const struct agent_shared *l = &in->layout;

	inject_populate(in, l->table_offset, l->arena_offset - l->table_offset + FIRST_STACK_BYTES);
	for (uint64_t i = 0; i < l->slots; i++) {
		uint64_t slot = l->slots_offset + i * AGENT_SLOT_BYTES;

		if (i >= in->p_now && i < l->slots - AGENT_FALLBACK_SLOTS)
			continue;
		/* With the part of its stack that it usually needs. */
		inject_populate(in, slot - STACK_BYTES, sizeof(struct agent_slot) + STACK_BYTES);
		inject_populate(in, l->rings_offset + i * l->ring_bytes, FIRST_RING_BYTES);
	}
}

/* Fills the fields that the agent reads. */
static struct error *must_check fill_shared(struct injection *in)
{
	struct error *err;

	*in->shared = in->layout;
	in->shared->absence = cpu_clock_seconds();
	in->shared->enabled = in->control + offsetof(struct code_control, enabled);
	for (uint32_t i = 0; i < in->layout.slots; i++)
		init_slot(in, i);
	populate_first(in);
	err = inject_update_readable(in);
	return err ? err : readable_find_heap(in->t, in->img, in->lay, in->shared);
}

static struct error *must_check attach(struct injection *in, const struct inject_options *options)
{
	_cleanup_free_ struct plan *plan = NULL;
	struct error *err = ask_to_enter(in, false);

	if (!err)
		err = make_plan(in, options, &plan);
	fault_point("prepared");
	if (err)
		return err;
	in->attached = true;
	err = ask_to_map(in, plan);
	if (!err)
		err = fill_shared(in);
	return err ? err : ask_for(in, SURGEON_SWITCH_ON);
}

struct error *inject_expected_pause(const struct surgeon_line *line, struct pause *ret)
{
	struct surgeon_request r = {.operation = SURGEON_EXPECT};
	struct surgeon *surgeon;
	struct error *err = surgeon_call(*line, &surgeon);

	if (err)
		return err;
	err = surgeon_ask(surgeon, &r);
	surgeon_destroy(surgeon);
	*ret = r.answer.pause;
	return err;
}

static struct error *must_check create(struct target *t, const struct image *img,
				       const struct golayout *lay,
				       const struct inject_options *options, struct injection **ret)
{
	struct injection *in = calloc(1, sizeof(*in));

	if (!in)
		return &error_no_memory;
	*ret = in;
	pthread_mutex_init(&in->switching, NULL);
	in->t = t;
	in->img = img;
	in->lay = lay;
	in->shared_file = -1;
	return options->surgeon ? surgeon_call(*options->surgeon, &in->surgeon)
				: surgeon_create(target_pid(t), options->stop, &in->surgeon);
}

struct error *inject_attach(struct target *t, const struct image *img, const struct golayout *lay,
			    const struct inject_options *options, struct injection **ret)
{
	_cleanup_injection_ struct injection *in = NULL;
	struct error *err;

	if (!agent_blob_size || img->machine != probe_site_machine)
		return error_format(ERROR_UNSUPPORTED,
				    "trace supports amd64 and arm64 only; use record or dump here");
	err = create(t, img, lay, options, &in);
	if (!err)
		err = attach(in, options);
	if (err)
		return surgeon_explain(t, err);
	*ret = take_ptr(in);
	return NULL;
}

struct agent_shared *inject_shared(const struct injection *in)
{
	return in->shared;
}

const struct agent_shared *inject_layout(const struct injection *in)
{
	return &in->layout;
}

struct error *inject_update_readable(struct injection *in)
{
	return readable_update(in->t, in->img, in->lay, in->shared);
}

const struct strbuf *inject_left_out(const struct injection *in)
{
	return &in->hooks.left_out;
}

/* Once it is taken out, the switch's place in the target is the target's. */
static void switch_on_again(struct injection *in)
{
	struct surgeon_request r = {.operation = SURGEON_SWITCH_AGAIN};

	pthread_mutex_lock(&in->switching);
	if (in->attached)
		error_destroy(surgeon_ask(in->surgeon, &r));
	pthread_mutex_unlock(&in->switching);
}

bool inject_beat(struct injection *in)
{
	presence_say(in->shared);
	if (!__atomic_exchange_n(&in->shared->switched_off, 0, __ATOMIC_ACQ_REL))
		return false;
	switch_on_again(in);
	return true;
}

uint64_t inject_lost(const struct injection *in)
{
	uint64_t lost;

	if (in->attached &&
	    !error_dropped(target_read_u64(in->t, in->control + offsetof(struct code_control, lost),
					   &lost)))
		return lost;
	return in->lost;
}

uint64_t inject_without_ring(const struct injection *in)
{
	return in->without_ring;
}

uint64_t inject_attach_ns(const struct injection *in)
{
	return in->answer.attach_ns;
}

uint64_t inject_attached_at(const struct injection *in)
{
	return in->answer.attached_at;
}

uint64_t inject_detach_ns(const struct injection *in)
{
	return in->answer.detach_ns;
}

/* GOMAXPROCS may have been raised meanwhile. */
static void count_without_ring(struct injection *in)
{
	uint64_t rings = in->layout.slots - AGENT_FALLBACK_SLOTS, now;

	if (!error_dropped(region_p_count(in->t, in->lay, &now)))
		in->without_ring = now > rings ? now - rings : 0;
}

/* Checks that the mapped files are still those, and not other files of the same name. */
static struct error *must_check check_in_place(const struct injection *in)
{
	_cleanup_maps_ struct target_maps maps = {0};
	const struct target_map *code, *data;
	struct error *err = target_maps(in->t, &maps);

	if (err)
		return err;
	code = target_maps_find(&maps, in->code);
	data = target_maps_find(&maps, in->answer.shared_address);
	if (code && data && memfile_is(code, in->answer.code_file) &&
	    memfile_is(data, in->answer.shared_file))
		return NULL;
	return error_format(
		ERROR_FAILED,
		"the agent is gone from process %d: another gospect or the process itself removed "
		"it; the trace ends there",
		target_pid(in->t));
}

struct error *inject_detach(struct injection *in)
{
	_cleanup_error_ struct error *removed = NULL;
	struct error *err;

	if (!in->attached)
		return NULL;
	in->lost = inject_lost(in);
	count_without_ring(in);
	pthread_mutex_lock(&in->switching);
	in->attached = false;
	pthread_mutex_unlock(&in->switching);
	if (in->answer.attached_at && !error_dropped(target_check(in->t)))
		removed = check_in_place(in);
	err = ask_for(in, SURGEON_LEAVE);
	in->entered = false;
	return err ? err : take_ptr(removed);
}

void inject_destroy(struct injection *in)
{
	if (!in)
		return;
	error_destroy(inject_detach(in));
	if (in->entered)
		error_destroy(ask_for(in, SURGEON_LEAVE));
	surgeon_destroy(in->surgeon);
	if (in->shared)
		munmap(in->shared, in->layout.size);
	cleanup_close(&in->shared_file);
	pthread_mutex_destroy(&in->switching);
	strbuf_release(&in->hooks.left_out);
	free(in);
}

struct error *inject_clean(struct target *t, const struct image *img, const struct golayout *lay,
			   const struct surgeon_line *surgeon, bool *ret_found)
{
	const struct inject_options options = {.surgeon = surgeon};
	_cleanup_injection_ struct injection *in = NULL;
	_cleanup_free_ struct originals *originals = calloc(1, sizeof(*originals));
	_cleanup_stale_agent_ struct stale_agent l = {0};
	struct survey survey = {0};
	struct error *err;

	*ret_found = false;
	if (!originals)
		return &error_no_memory;
	err = survey_originals(t, img, &survey);
	if (err)
		return err;
	memcpy(originals->items, survey.originals, sizeof(survey.originals));
	originals->count = survey.original_count;
	err = stale_agent_find(t, originals, 0, &l);
	if (err || stale_agent_is_none(&l) || stale_agent_is_kept_page(&l))
		return err;
	*ret_found = true;
	err = create(t, img, lay, &options, &in);
	return err ? err : ask_to_enter(in, true);
}
