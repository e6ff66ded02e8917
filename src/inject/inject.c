#include "inject/inject.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/blob.h"
#include "base/cleanup.h"
#include "inject/fault.h"
#include "inject/injection.h"
#include "inject/leftovers.h"
#include "inject/readable.h"
#include "inject/region.h"
#include "inject/roots.h"
#include "inject/status.h"

/* A process that was killed takes a moment to die, in which all sorts of things fail. */
static struct error *must_check explain(struct target *t, struct error *err)
{
	for (int i = 0; i < 5; i++) {
		struct error *gone = target_check(t);

		if (gone || process_is_dead(target_pid(t))) {
			error_destroy(err);
			return gone ? gone
				    : error_format(ERROR_GONE, "process %d has ended",
						   target_pid(t));
		}
		if (err->code != ERROR_FAILED && err->code != ERROR_DENIED)
			break;
		usleep(2000);
	}
	return err;
}

static struct error *must_check choose_layout(struct injection *in,
					      const struct inject_options *options)
{
	struct agent_shared *l = &in->layout;
	uint64_t p_count, slots;
	struct error *err = region_p_slots(in->t, in->lay, &in->p_now, &p_count);

	if (err)
		return err;
	l->magic = AGENT_MAGIC;
	l->slots = p_count + AGENT_SPARE_SLOTS;
	l->ring_bytes = options->ring_bytes;
	l->table_offset = (sizeof(*l) + 4095) & ~4095ul;
	l->arena_offset = l->table_offset + AGENT_TABLE_SLOTS * sizeof(struct agent_stack);
	l->arena_words = AGENT_TABLE_SLOTS * 32;
	slots = l->arena_offset + l->arena_words * 8;
	l->slots_offset = slots + AGENT_SLOT_OFFSET;
	l->rings_offset = slots + (uint64_t)l->slots * AGENT_SLOT_BYTES;
	l->size = l->rings_offset + (uint64_t)l->slots * l->ring_bytes;
	hooks_places(&in->hooks, &l->places);
	return hooks_config(in->t, in->img, in->lay, options->depth, &l->config);
}

static size_t agent_bytes(void)
{
	return (agent_blob_size + CODE_PAGE_BYTES - 1) & ~(CODE_PAGE_BYTES - 1ul);
}

static struct error *must_check choose_code(struct injection *in)
{
	struct code_head *h = &in->head;
	struct error *err;

	h->magic = CODE_MAGIC;
	h->version = CODE_VERSION;
	h->tracer = getpid();
	h->tracer_start = process_start(getpid());
	h->place_count = in->hooks.place_count;
	h->stub_bytes = stubs_size(h->place_count);
	h->code_bytes = h->stub_bytes + agent_bytes() + CODE_PAGE_BYTES;
	memcpy(h->far, in->hooks.far.pages, sizeof(h->far));
	in->pages = calloc(1, h->stub_bytes + CODE_FAR_PAGES * CODE_PAGE_BYTES);
	if (!in->pages)
		return &error_no_memory;
	err = region_choose(in->t, in->img, h->code_bytes, &h->code);
	h->agent = h->code + h->stub_bytes;
	h->control = h->agent + agent_bytes();
	return err;
}

static struct error *must_check attach(struct injection *in, const struct inject_options *options)
{
	struct error *err = injection_enter(in);

	if (!err) {
		/* Also the page that was kept: it is free by now. */
		in->w.keep_code_page = false;
		err = withdraw(&in->w);
		in->w.keep_code_page = true;
	}
	if (!err)
		err = hooks_find(in->t, in->img, in->lay, &in->hooks);
	if (!err)
		err = roots_find(in->t, in->img, options->root, &in->hooks);
	if (!err)
		err = choose_layout(in, options);
	if (!err)
		err = choose_code(in);
	fault_point("prepared");
	if (err)
		return err;
	in->attached = true;
	in->w.never_ran = true;
	err = injection_map(in);
	if (!err)
		err = inject_update_readable(in);
	if (!err)
		err = readable_find_heap(in->t, in->img, in->lay, in->shared);
	return err ? err : injection_switch_on(in);
}

struct error *inject_attach(struct target *t, const struct image *img, const struct golayout *lay,
			    const struct inject_options *options, struct injection **ret)
{
	_cleanup_injection_ struct injection *in = NULL;
	struct error *err;

	if (!agent_blob_size || img->machine != MACHINE_AMD64)
		return error_format(ERROR_UNSUPPORTED, "trace works on amd64 alone so far; record "
						       "and dump work here too");
	in = calloc(1, sizeof(*in));
	if (!in)
		return &error_no_memory;
	in->memory = -1;
	in->t = t;
	in->img = img;
	in->lay = lay;
	err = attach(in, options);
	if (err)
		return explain(t, err);
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

uint64_t inject_lost(const struct injection *in)
{
	uint64_t lost;

	if (in->attached &&
	    pread(in->memory, &lost, sizeof(lost),
		  in->head.control + offsetof(struct code_control, lost)) == sizeof(lost))
		return lost;
	return in->lost;
}

uint64_t inject_without_ring(const struct injection *in)
{
	return in->without_ring;
}

uint64_t inject_attach_ns(const struct injection *in)
{
	return in->attach_ns;
}

uint64_t inject_attached_at(const struct injection *in)
{
	return in->attached_at;
}

uint64_t inject_detach_ns(const struct injection *in)
{
	return in->w.stop_ns;
}

/* GOMAXPROCS may have been raised meanwhile. */
static void count_without_ring(struct injection *in)
{
	uint64_t rings = in->layout.slots - AGENT_SPARE_SLOTS, now;

	if (!error_dropped(region_p_count(in->t, in->lay, &now)))
		in->without_ring = now > rings ? now - rings : 0;
}

/* What we have mapped is still there. */
static struct error *must_check check_in_place(const struct injection *in)
{
	_cleanup_maps_ struct target_maps maps = {0};
	const struct target_map *code, *data;
	struct error *err = target_maps(in->t, &maps);

	if (err)
		return err;
	code = target_maps_find(&maps, in->head.code);
	data = target_maps_find(&maps, in->shared_address);
	if (code && data && strstr(code->path, CODE_NAME) && strstr(data->path, DATA_NAME))
		return NULL;
	return error_format(ERROR_FAILED,
			    "the agent is not in process %d any more: another gospect, or the "
			    "process itself, has removed it; what happened since is not in the "
			    "trace",
			    target_pid(in->t));
}

struct error *inject_detach(struct injection *in)
{
	struct error *removed = NULL;

	struct error *err;

	if (!in->attached)
		return NULL;
	in->lost = inject_lost(in);
	count_without_ring(in);
	in->attached = false;
	err = target_check(in->t);
	if (!err && !in->w.never_ran)
		removed = check_in_place(in);
	if (!err)
		err = withdraw(&in->w);
	if (err)
		error_destroy(removed);
	else
		err = removed;
	err = err ? explain(in->t, err) : NULL;
	if (err && err->code == ERROR_GONE) {
		error_destroy(err);
		err = NULL;
	}
	return err;
}

void inject_destroy(struct injection *in)
{
	if (!in)
		return;
	error_destroy(inject_detach(in));
	injection_leave(in);
	if (in->shared)
		munmap(in->shared, in->layout.size);
	if (in->memory >= 0)
		close(in->memory);
	free(in->pages);
	strbuf_release(&in->hooks.left_out);
	free(in);
}

struct error *inject_clean(struct target *t, const struct image *img, const struct golayout *lay,
			   bool *ret_found)
{
	_cleanup_injection_ struct injection *in = calloc(1, sizeof(*in));
	_cleanup_leftovers_ struct leftovers l = {0};
	struct error *err;

	*ret_found = false;
	if (!in)
		return &error_no_memory;
	in->memory = -1;
	in->t = t;
	in->img = img;
	in->lay = lay;
	err = leftovers_find(t, img, 0, &l);
	if (err || leftovers_none(&l) || leftovers_kept_page_alone(&l))
		return err;
	*ret_found = true;
	err = injection_enter(in);
	return err ? err : withdraw(&in->w);
}
