#include "inject/claim.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "inject/fault.h"
#include "inject/memfile.h"
#include "inject/remote_file.h"
#include "inject/stale_agent.h"
#include "inject/threads.h"
#include "target/proc_status.h"

/* Two gospects that start at once may both give way: then each tries again a little later. */
#define TRIES 10
#define MOST_PAUSE_US 30000
/* Between two looks at a gospect that cleans up after another. */
#define CLEANING_PAUSE_US 5000
/* Time for another gospect to finish what it began before it could see this claim. */
#define OTHERS_NS 1000000000ull

/* The kernel reads this when the thread ends: a list with one entry, in memory of gospect; the
 * number itself is at a distance from the entry, in the page. */
static struct {
	struct robust_list_head head;
	struct robust_list entry;
} robust;

static void hold(struct claim_page *page)
{
	robust.entry.next = &robust.head.list;
	robust.head.list.next = page ? &robust.entry : &robust.head.list;
	robust.head.futex_offset = page ? (char *)&page->holder - (char *)&robust.entry : 0;
	syscall(SYS_set_robust_list, &robust.head, sizeof(robust.head));
}

struct step {
	const struct claim_way *way;
	struct claim *claim;
	pid_t thread;
	bool met;   /* another came at the same time */
	bool waits; /* for another that is gone in a moment */
};

static struct error *must_check look(struct step *step, uint64_t own)
{
	const struct claim_way *way = step->way;
	_cleanup_stale_agent_ struct stale_agent l = {0};
	struct error *err = stale_agent_find(way->t, way->originals, own, &l);

	step->waits = !err && l.holder && l.holder_cleans;
	return err ? err : stale_agent_check_holder(way->t, &l);
}

/* Filled before it is seen, at the place where the kernel will look. */
static struct error *must_check fill(const struct step *step, int file)
{
	struct claim_page *page = mmap(step->claim->page, CLAIM_BYTES, PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_FIXED, file, 0);

	if (page == MAP_FAILED)
		return error_format(ERROR_FAILED, "cannot map %d bytes", CLAIM_BYTES);
	page->cleans = step->way->cleans;
	page->named = (uint32_t)step->way->named;
	claim_page_sign(page, step->thread);
	return NULL;
}

static struct error *must_check map_page(struct step *step, struct remote *r)
{
	_cleanup_close_ int ours = -1;
	int64_t theirs, address, result;
	struct error *err =
		remote_file(r, CLAIM_NAME, MFD_NOEXEC_SEAL, CLAIM_BYTES, &theirs, &ours);

	if (!err)
		err = memfile_seal(ours, CLAIM_BYTES, 0);
	if (!err)
		err = fill(step, ours);
	if (!err)
		err = remote_must(r, "map memory", SYS_mmap,
				  (uint64_t[6]){0, CLAIM_BYTES, PROT_READ, MAP_SHARED, theirs, 0},
				  &address);
	if (err)
		return err;
	step->claim->address = address;
	fault_point("claim-mapped");
	err = remote_must(r, "exclude memory from its child processes", SYS_madvise,
			  (uint64_t[6]){address, CLAIM_BYTES, MADV_DONTFORK}, &result);
	if (!err)
		err = memfile_check_mapped(step->way->t, ours, address, CLAIM_BYTES, 0);
	return err ? err : remote_close(r, theirs);
}

static struct error *must_check unmap_page(struct claim *claim, struct remote *r)
{
	int64_t result;
	struct error *err =
		remote_call(r, SYS_munmap, (uint64_t[6]){claim->address, CLAIM_BYTES}, &result);

	if (!err)
		claim->address = 0;
	return err;
}

static struct error *must_check take_step(void *arg)
{
	struct step *step = arg;
	const struct claim_way *w = step->way;
	struct remote r;
	struct error *err = look(step, 0);

	if (!err)
		err = remote_begin(&r, w->t, w->survey, w->memory, w->suspend_seccomp);
	if (err)
		return err;
	/* Again: a gospect that has a claim now waits until we have let go of the thread. */
	err = look(step, 0);
	if (!err)
		err = map_page(step, &r);
	if (!err) {
		err = look(step, step->claim->address);
		step->met = err;
	}
	if (err && step->claim->address)
		error_destroy(unmap_page(step->claim, &r));
	remote_end(&r);
	return err;
}

/* A gospect that began before our page existed is still at work, by a thread that it traces. A
 * gospect that begins now sees us. */
static struct error *must_check await_others(pid_t pid)
{
	uint64_t end = clock_now() + OTHERS_NS;
	struct error *err;

	while ((err = threads_check_untraced(pid)) && err->code == ERROR_DENIED &&
	       clock_now() < end) {
		error_destroy(err);
		usleep(500);
	}
	return err;
}

static struct error *must_check reserve(struct claim *claim)
{
	void *page =
		mmap(NULL, CLAIM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return &error_no_memory;
	claim->page = page;
	hold(claim->page);
	return NULL;
}

struct error *claim_take(const struct claim_way *way, struct claim *ret)
{
	struct claim claim = {0};
	struct step step = {.way = way, .claim = &claim, .thread = gettid()};
	uint64_t end = clock_now() + CLAIM_CLEANING_NS;
	struct error *err = reserve(&claim);

	for (int tries = 0; !err;) {
		step.met = step.waits = false;
		err = run_on_tracer_thread(take_step, &step);
		if (step.met ? tries++ == TRIES : !step.waits || clock_now() > end)
			break;
		error_destroy(err);
		err = NULL;
		usleep(step.met ? (clock_now() ^ (uint64_t)getpid() << 7) % MOST_PAUSE_US
				: CLEANING_PAUSE_US);
	}
	if (!err)
		err = await_others(target_pid(way->t));
	*ret = claim;
	return err;
}

static struct error *must_check release_step(void *arg)
{
	struct step *step = arg;
	const struct claim_way *w = step->way;
	struct remote r;
	struct error *err = remote_begin(&r, w->t, w->survey, w->memory, w->suspend_seccomp);

	if (err)
		return err;
	err = unmap_page(step->claim, &r);
	remote_end(&r);
	return err;
}

/* Undoes the mapping, also after gospect was asked to end. */
static struct error *must_check unmap(const struct claim_way *way, struct claim *claim)
{
	const volatile sig_atomic_t *end = threads_end;
	struct step step = {.way = way, .claim = claim};
	struct error *err;

	threads_end = NULL;
	err = run_on_tracer_thread(release_step, &step);
	threads_end = end;
	return err;
}

void claim_end(struct claim *claim)
{
	if (!claim->page)
		return;
	__atomic_store_n(&claim->page->holder, 0, __ATOMIC_RELEASE);
	hold(NULL);
	munmap(claim->page, CLAIM_BYTES);
	*claim = (struct claim){0};
}

bool claim_release(const struct claim_way *way, struct claim *claim)
{
	bool gone = !claim->address || error_dropped(target_check(way->t)) ||
		    !error_dropped(unmap(way, claim));

	claim_end(claim);
	return gone;
}
