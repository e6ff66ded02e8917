#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/blob.h"
#include "base/cleanup.h"
#include "inject/fault.h"
#include "inject/injection.h"
#include "inject/leftovers.h"
#include "inject/memfile.h"
#include "inject/remote_file.h"
#include "inject/threads.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Of the shared memory, what is used at first. */
#define FIRST_STACK_BYTES 262144
#define FIRST_RING_BYTES 262144

static void init_slot(struct injection *in, uint32_t i)
{
	struct agent_slot *slot = (void *)((char *)in->shared + in->layout.slots_offset +
					   (size_t)i * AGENT_SLOT_BYTES);

	slot->config = in->layout.config;
	slot->shared = in->shared_address;
	slot->ring =
		in->shared_address + in->layout.rings_offset + (uint64_t)i * in->layout.ring_bytes;
}

/* Memory is charged to who touches it first: to us, not to the target and its cgroup. The target
 * finds it in its own page tables, as we have read each page of it there. */
void inject_populate(const struct injection *in, uint64_t offset, uint64_t size)
{
	uint64_t first = offset & ~(CODE_PAGE_BYTES - 1ull);
	uint8_t byte;

	if (offset >= in->layout.size)
		return;
	madvise((char *)in->shared + first, offset + size - first, MADV_POPULATE_WRITE);
	for (uint64_t at = first; at < offset + size; at += CODE_PAGE_BYTES)
		if (pread(in->memory, &byte, 1, in->shared_address + at) != 1)
			return;
}

static void populate_first(const struct injection *in)
{
	const struct agent_shared *l = &in->layout;

	inject_populate(in, l->table_offset, l->arena_offset - l->table_offset + FIRST_STACK_BYTES);
	for (uint64_t i = 0; i < l->slots; i++) {
		uint64_t slot = l->slots_offset + i * AGENT_SLOT_BYTES;

		if (i >= in->p_now && i < l->slots - AGENT_SPARE_SLOTS)
			continue;
		/* With what its stack needs at most times. */
		inject_populate(in, slot - CODE_PAGE_BYTES,
				sizeof(struct agent_slot) + CODE_PAGE_BYTES);
		inject_populate(in, l->rings_offset + i * l->ring_bytes, FIRST_RING_BYTES);
	}
}

/*
 * None of it is the target's: a program that locks all it will ever map (mlockall with MCL_FUTURE)
 * would make each page present at once, and be charged for them. What may not be accessed is not
 * made present; so it is unlocked first. It is in no core file, and children do not have it.
 */
static struct error *must_check map_untouched(struct remote *r, size_t size, int64_t theirs,
					      uint64_t *ret)
{
	int64_t at, result;
	struct error *err =
		remote_must(r, "map memory", SYS_mmap,
			    (uint64_t[6]){0, size, PROT_NONE, MAP_SHARED, theirs, 0}, &at);

	fault_point("shared-mapped");
	if (!err)
		err = remote_must(r, "unlock memory", SYS_munlock, (uint64_t[6]){at, size},
				  &result);
	if (!err)
		err = remote_must(r, "keep memory from its children", SYS_madvise,
				  (uint64_t[6]){at, size, MADV_DONTFORK}, &result);
	if (!err)
		err = remote_must(r, "keep memory out of core files", SYS_madvise,
				  (uint64_t[6]){at, size, MADV_DONTDUMP}, &result);
	if (!err)
		err = remote_must(r, "map memory", SYS_mprotect,
				  (uint64_t[6]){at, size, PROT_READ | PROT_WRITE}, &result);
	if (!err)
		*ret = at;
	return err;
}

/* The shared memory: mapped there and here, filled with what the agent has to find. */
static struct error *must_check map_shared(struct injection *in, struct remote *r)
{
	size_t size = in->layout.size;
	_cleanup_close_ int ours = -1;
	int64_t theirs;
	struct error *err = remote_file(r, DATA_NAME, MFD_NOEXEC_SEAL, size, &theirs, &ours);

	if (!err)
		err = memfile_seal(ours, size, 0);
	if (err)
		return err;
	in->shared_file = memfile_id(ours);
	err = map_untouched(r, size, theirs, &in->shared_address);
	if (!err)
		err = memfile_check_mapped(in->t, ours, in->shared_address, size, 0);
	if (!err)
		err = remote_close(r, theirs);
	if (err)
		return err;
	in->shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ours, 0);
	if (in->shared == MAP_FAILED) {
		in->shared = NULL;
		return error_errno(ERROR_FAILED, errno, "cannot map %zu bytes", size);
	}
	*in->shared = in->layout;
	in->shared->enabled = in->head.control + offsetof(struct code_control, enabled);
	in->w.shared = in->shared;
	in->w.slots_offset = in->layout.slots_offset;
	in->w.slots = in->layout.slots;
	for (uint32_t i = 0; i < in->layout.slots; i++)
		init_slot(in, i);
	return NULL;
}

static size_t far_pages(const struct code_head *h)
{
	size_t n = 0;

	while (n < CODE_FAR_PAGES && h->far[n])
		n++;
	return n;
}

static void write_far_pages(struct injection *in)
{
	const struct code_head *h = &in->head;
	uint8_t *page = in->pages + h->stub_bytes;

	for (size_t k = 0; k < far_pages(h); k++, page += CODE_PAGE_BYTES)
		for (size_t i = 0; i < h->place_count; i++)
			if (h->places[i].jump - h->far[k] < CODE_PAGE_BYTES)
				far_jump_write(&h->places[i], page + h->places[i].jump - h->far[k]);
}

static struct error *must_check write_code(struct injection *in)
{
	struct code_head *h = &in->head;
	struct stub_numbers numbers = {.g_m = in->lay->n.g_m,
				       .m_p = in->lay->n.m_p,
				       .m_vdso_sp = in->lay->n.m_vdso_sp,
				       .m_vdso_pc = in->lay->n.m_vdso_pc,
				       .p_id = in->lay->n.p_id,
				       .p_slots = in->layout.slots - AGENT_SPARE_SLOTS};

	h->slots = in->shared_address + in->layout.slots_offset;
	h->spare_slots = h->slots + (uint64_t)numbers.p_slots * AGENT_SLOT_BYTES;
	memcpy(h->places, in->hooks.places, sizeof(h->places));
	if (stubs_write(h, &numbers, in->hooks.kinds, in->pages)) {
		write_far_pages(in);
		return NULL;
	}
	return error_format(ERROR_UNSUPPORTED, "the program's code is too large to be traced");
}

static struct error *must_check map_file(struct injection *in, struct remote *r, uint64_t address,
					 size_t size, int64_t theirs, int ours, uint64_t offset)
{
	int64_t result;
	struct error *err =
		remote_must(r, "map code", SYS_mmap,
			    (uint64_t[6]){address, size, PROT_READ | PROT_EXEC,
					  MAP_PRIVATE | MAP_FIXED_NOREPLACE, theirs, offset},
			    &result);

	fault_point("code-mapped");
	if (!err && result != (int64_t)address)
		err = error_format(ERROR_FAILED,
				   "process %d uses the memory that was chosen for "
				   "the agent; try again",
				   target_pid(in->t));
	return err ? err : memfile_check_mapped(in->t, ours, address, size, offset);
}

/* In the file: the code pages, the agent, the far pages. */
static struct error *must_check fill_file(const struct injection *in, int file)
{
	const struct code_head *h = &in->head;
	ssize_t far_bytes = far_pages(h) * CODE_PAGE_BYTES;

	if (pwrite(file, in->pages, h->stub_bytes, 0) != (ssize_t)h->stub_bytes ||
	    pwrite(file, agent_blob, agent_blob_size, h->stub_bytes) != (ssize_t)agent_blob_size ||
	    pwrite(file, in->pages + h->stub_bytes, far_bytes, h->code_bytes) != far_bytes)
		return error_errno(ERROR_FAILED, errno, "cannot write the agent");
	return NULL;
}

/* The code pages, the agent, and behind them the page with the switch, which is another's. */
static struct error *must_check map_code(struct injection *in, struct remote *r)
{
	struct code_head *h = &in->head;
	size_t size = h->code_bytes + far_pages(h) * CODE_PAGE_BYTES;
	_cleanup_close_ int ours = -1;
	int64_t theirs, result;
	struct error *err = remote_file(r, CODE_NAME, MFD_EXEC, size, &theirs, &ours);

	if (!err)
		err = fill_file(in, ours);
	if (!err)
		err = memfile_seal(ours, size, F_SEAL_WRITE);
	if (err)
		return err;
	in->code_file = memfile_id(ours);
	err = map_file(in, r, h->code, h->code_bytes, theirs, ours, 0);
	for (size_t i = 0; !err && i < far_pages(h); i++)
		err = map_file(in, r, h->far[i], CODE_PAGE_BYTES, theirs, ours,
			       h->code_bytes + i * CODE_PAGE_BYTES);
	if (!err)
		err = remote_must(r, "map memory", SYS_mmap,
				  (uint64_t[6]){h->control, CODE_PAGE_BYTES, PROT_READ | PROT_WRITE,
						MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1ull, 0},
				  &result);
	fault_point("control-mapped");
	if (!err)
		err = remote_must(r, "hide memory from its children", SYS_madvise,
				  (uint64_t[6]){h->control, CODE_PAGE_BYTES, MADV_WIPEONFORK},
				  &result);
	return err ? err : remote_close(r, theirs);
}

/* By one thread of the target, while the others run. */
static struct error *must_check map_all(void *arg)
{
	struct injection *in = arg;
	struct remote r;
	struct error *err =
		remote_begin(&r, in->t, in->img, in->lay, in->memory, in->w.suspend_seccomp);

	if (err)
		return err;
	err = map_shared(in, &r);
	if (!err)
		err = write_code(in);
	if (!err)
		err = map_code(in, &r);
	remote_end(&r);
	if (!err)
		populate_first(in);
	fault_point("all-mapped");
	return err;
}

struct error *injection_map(struct injection *in)
{
	return surgery(map_all, in);
}
