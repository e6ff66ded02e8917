#include "inject/inject.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/blob.h"
#include "base/cleanup.h"
#include "inject/fault.h"
#include "inject/guardian.h"
#include "inject/injection.h"
#include "inject/leftovers.h"
#include "inject/readable.h"
#include "inject/region.h"
#include "inject/roots.h"
#include "inject/status.h"
#include "inject/threads.h"

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
	struct error *err;

	in->is_guarded = true;
	err = injection_enter(in);
	if (!err) {
		in->touched = true;
		/* Also the page that was kept: it is free by now. */
		in->w.keep_code_page = false;
		err = withdraw(&in->w);
		in->w.keep_code_page = true;
		in->touched = err != NULL;
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
	in->attached = in->touched = true;
	in->w.never_ran = true;
	err = injection_map(in);
	if (!err)
		err = inject_update_readable(in);
	if (!err)
		err = readable_find_heap(in->t, in->img, in->lay, in->shared);
	return err ? err : injection_switch_on(in);
}

/* Measured with 10, 1,000 and 10,000 threads that sleep, on a machine at rest and on a busy one. */
#define PAUSE_NS 300000ull
#define PAUSE_PER_THREAD_NS 8000ull

uint64_t inject_expected_pause_ns(struct target *t, size_t *ret_threads)
{
	_cleanup_free_ struct target_thread *threads = NULL;

	*ret_threads = 0;
	if (error_dropped(target_threads(t, &threads, ret_threads)))
		return 0;
	return PAUSE_NS + *ret_threads * PAUSE_PER_THREAD_NS;
}

static struct injection *create(struct target *t, const struct image *img,
				const struct golayout *lay)
{
	struct injection *in = calloc(1, sizeof(*in));

	if (!in)
		return NULL;
	pthread_mutex_init(&in->switching, NULL);
	in->memory = -1;
	in->t = t;
	in->img = img;
	in->lay = lay;
	return in;
}

struct error *inject_attach(struct target *t, const struct image *img, const struct golayout *lay,
			    const struct inject_options *options, struct injection **ret)
{
	_cleanup_injection_ struct injection *in = NULL;
	struct error *err;

	if (!agent_blob_size || img->machine != MACHINE_AMD64)
		return error_format(ERROR_UNSUPPORTED, "trace works on amd64 alone so far; record "
						       "and dump work here too");
	in = create(t, img, lay);
	if (!in)
		return &error_no_memory;
	threads_end = options->stop;
	err = attach(in, options);
	threads_end = NULL;
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

/* Once it is taken out, the switch's place in the target is the target's. */
static void switch_on_again(struct injection *in)
{
	const uint32_t enabled = 1;

	pthread_mutex_lock(&in->switching);
	if (in->attached)
		(void)!pwrite(in->memory, &enabled, sizeof(enabled),
			      in->head.control + offsetof(struct code_control, enabled));
	pthread_mutex_unlock(&in->switching);
}

bool inject_beat(struct injection *in)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	__atomic_store_n(&in->shared->seen, (uint64_t)high << 32 | low, __ATOMIC_RELAXED);
	if (!__atomic_exchange_n(&in->shared->switched_off, 0, __ATOMIC_ACQ_REL))
		return false;
	switch_on_again(in);
	return true;
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

/* What we have mapped is still there, and not another file that has its name. */
static struct error *must_check check_in_place(const struct injection *in)
{
	_cleanup_maps_ struct target_maps maps = {0};
	const struct target_map *code, *data;
	struct error *err = target_maps(in->t, &maps);

	if (err)
		return err;
	code = target_maps_find(&maps, in->head.code);
	data = target_maps_find(&maps, in->shared_address);
	if (code && data && memfile_is(code, in->code_file) && memfile_is(data, in->shared_file))
		return NULL;
	return error_format(ERROR_FAILED,
			    "the agent is not in process %d any more: another gospect, or the "
			    "process itself, has removed it; what happened since is not in the "
			    "trace",
			    target_pid(in->t));
}

/* Somebody else may take the agent out from now on. */
static struct error *must_check hand_over(struct injection *in, struct error *err)
{
	struct error *said;
	pid_t pid;

	claim_end(&in->claim);
	pid = guardian_take_over();
	said = error_format(err->code, "%s; process %d, gospect's too, goes on trying",
			    err->message, pid);
	error_destroy(err);
	return said;
}

struct error *inject_serve_detach(void *arg, struct door_call *call)
{
	struct injection *in = arg;
	struct error *err;

	door_call_drop(call);
	err = withdraw(&in->w);
	if (!err)
		injection_unclaim(in);
	call->size = sizeof(in->w.stop_ns);
	memcpy(call->bytes, &in->w.stop_ns, sizeof(in->w.stop_ns));
	return err;
}

/* Who gave up the privilege to stop threads has the broker do it. */
static struct error *must_check ask_to_withdraw(struct injection *in)
{
	struct door_call call = {0};
	struct error *err = door_call(DOOR_DETACH, &call);

	if (!err && call.size == sizeof(in->w.stop_ns))
		memcpy(&in->w.stop_ns, call.bytes, sizeof(in->w.stop_ns));
	if (!err)
		in->claim.address = 0;
	return err;
}

/* *ret_removed: the agent was not there any more. */
static struct error *must_check take_out(struct injection *in, struct error **ret_removed)
{
	struct error *err = target_check(in->t);

	if (err)
		return err;
	if (!in->w.never_ran)
		*ret_removed = check_in_place(in);
	return door_is_brokered() ? ask_to_withdraw(in) : withdraw(&in->w);
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
	err = take_out(in, &removed);
	err = err ? explain(in->t, err) : NULL;
	in->touched = err && err->code != ERROR_GONE;
	if (in->touched)
		return hand_over(in, err);
	if (!error_dropped(err))
		return take_ptr(removed);
	return NULL;
}

void inject_destroy(struct injection *in)
{
	if (!in)
		return;
	error_destroy(inject_detach(in));
	injection_leave(in);
	if (in->touched)
		guardian_take_over();
	else
		guardian_dismiss();
	if (in->shared)
		munmap(in->shared, in->layout.size);
	if (in->memory >= 0)
		close(in->memory);
	pthread_mutex_destroy(&in->switching);
	free(in->pages);
	strbuf_release(&in->hooks.left_out);
	free(in);
}

struct error *inject_clean(struct target *t, const struct image *img, const struct golayout *lay,
			   bool *ret_found)
{
	_cleanup_injection_ struct injection *in = create(t, img, lay);
	_cleanup_leftovers_ struct leftovers l = {0};
	struct error *err;

	*ret_found = false;
	if (!in)
		return &error_no_memory;
	err = leftovers_find(t, img, 0, &l);
	if (err || leftovers_none(&l) || leftovers_kept_page_alone(&l))
		return err;
	*ret_found = true;
	in->cleans = in->is_guarded = true;
	err = injection_enter(in);
	if (!err)
		err = withdraw(&in->w);
	in->touched = err != NULL;
	return err;
}

bool injection_is_cleaned(struct target *t, const struct image *img, const struct golayout *lay)
{
	_cleanup_injection_ struct injection *in = create(t, img, lay);
	_cleanup_leftovers_ struct leftovers l = {0};
	struct error *err = target_check(t);

	if (err)
		return error_dropped(err);
	if (!in || error_dropped(leftovers_find(t, img, 0, &l)))
		return false;
	if (leftovers_none(&l) || leftovers_kept_page_alone(&l) || l.holder)
		return true;
	in->cleans = true;
	err = injection_enter(in);
	return !error_dropped(err ? err : withdraw(&in->w));
}
