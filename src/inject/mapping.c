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
#include "inject/memfile.h"
#include "inject/operation.h"
#include "inject/remote_file.h"
#include "inject/stale_agent.h"
#include "inject/threads.h"
#include "target/proc_status.h"

/*
 * The memory must not be charged to the target: a program that locks all its future mappings
 * (mlockall with MCL_FUTURE) would make each page present at once. Inaccessible pages are not made
 * present, so the mapping is unlocked first. It is in no core file, and children do not have it.
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
		err = remote_must(r, "exclude memory from its child processes", SYS_madvise,
				  (uint64_t[6]){at, size, MADV_DONTFORK}, &result);
	if (!err)
		err = remote_must(r, "exclude memory from core files", SYS_madvise,
				  (uint64_t[6]){at, size, MADV_DONTDUMP}, &result);
	if (!err)
		err = remote_must(r, "map memory", SYS_mprotect,
				  (uint64_t[6]){at, size, PROT_READ | PROT_WRITE}, &result);
	if (!err)
		*ret = at;
	return err;
}

/* The shared memory: mapped there and here. */
static struct error *must_check map_shared(struct surgeon *s, struct remote *r, int *ret_shared)
{
	size_t size = s->plan->shared_bytes;
	_cleanup_close_ int ours = -1;
	uint64_t address;
	int64_t theirs;
	void *memory;
	struct error *err = remote_file(r, DATA_NAME, MFD_NOEXEC_SEAL, size, &theirs, &ours);

	if (!err)
		err = memfile_seal(ours, size, 0);
	if (err)
		return err;
	s->answer.shared_file = memfile_id(ours);
	err = map_untouched(r, size, theirs, &address);
	if (!err)
		err = memfile_check_mapped(s->t, ours, address, size, 0);
	if (!err)
		err = remote_close(r, theirs);
	if (err)
		return err;
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ours, 0);
	if (memory == MAP_FAILED)
		return error_errno(ERROR_FAILED, errno, "cannot map %zu bytes", size);
	s->answer.shared_address = address;
	s->w.shared = s->shared = memory;
	s->w.slots_offset = s->plan->slots_offset;
	s->w.slots = s->plan->slots;
	*ret_shared = ours;
	ours = -1;
	return NULL;
}

/* Fields that the plan could not know. */
static void complete_head(struct surgeon *s)
{
	struct code_head *h = &s->plan->head;

	h->tracer = getpid();
	h->tracer_start = process_start(getpid());
	h->slots = s->answer.shared_address + s->plan->slots_offset;
	h->fallback_slots = h->slots + (s->plan->slots - AGENT_FALLBACK_SLOTS) * AGENT_SLOT_BYTES;
	memcpy(s->plan->pages, h, code_head_bytes(h));
}

static struct error *must_check map_file(struct surgeon *s, struct remote *r, uint64_t address,
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
		err = error_format(
			ERROR_FAILED,
			"process %d uses the address range that gospect chose for the agent; try "
			"again",
			target_pid(s->t));
	return err ? err : memfile_check_mapped(s->t, ours, address, size, offset);
}

/* In the file: the code pages, the agent, the trampoline pages. */
static struct error *must_check fill_file(const struct surgeon *s, int file)
{
	const struct code_head *h = &s->plan->head;
	ssize_t trampoline_bytes = code_trampoline_count(h) * CODE_PAGE_BYTES;

	if (pwrite(file, s->plan->pages, h->stub_bytes, 0) != (ssize_t)h->stub_bytes ||
	    pwrite(file, agent_blob, agent_blob_size, h->stub_bytes) != (ssize_t)agent_blob_size ||
	    pwrite(file, s->plan->pages + h->stub_bytes, trampoline_bytes, h->code_bytes) !=
		    trampoline_bytes)
		return error_errno(ERROR_FAILED, errno, "cannot write the agent to the target");
	return NULL;
}

/* The code pages, the agent, and behind them the page with the switch, which is another's. */
static struct error *must_check map_code(struct surgeon *s, struct remote *r)
{
	struct code_head *h = &s->plan->head;
	size_t size = h->code_bytes + code_trampoline_count(h) * CODE_PAGE_BYTES;
	_cleanup_close_ int ours = -1;
	int64_t theirs, result;
	struct error *err = remote_file(r, CODE_NAME, MFD_EXEC, size, &theirs, &ours);

	if (!err)
		err = fill_file(s, ours);
	if (!err)
		err = memfile_seal(ours, size, F_SEAL_WRITE);
	if (err)
		return err;
	s->answer.code_file = memfile_id(ours);
	err = map_file(s, r, h->code, h->code_bytes, theirs, ours, 0);
	for (size_t i = 0; !err && i < code_trampoline_count(h); i++)
		err = map_file(s, r, h->trampolines[i], CODE_PAGE_BYTES, theirs, ours,
			       h->code_bytes + i * CODE_PAGE_BYTES);
	if (!err)
		err = remote_must(r, "map memory", SYS_mmap,
				  (uint64_t[6]){h->control, CODE_PAGE_BYTES, PROT_READ | PROT_WRITE,
						MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1ull, 0},
				  &result);
	fault_point("control-mapped");
	if (!err)
		err = remote_must(r, "exclude memory from its child processes", SYS_madvise,
				  (uint64_t[6]){h->control, CODE_PAGE_BYTES, MADV_WIPEONFORK},
				  &result);
	return err ? err : remote_close(r, theirs);
}

struct map_step {
	struct surgeon *surgeon;
	int shared;
};

/* By one thread of the target, while the others run. */
static struct error *must_check map_all(void *arg)
{
	struct map_step *step = arg;
	struct surgeon *s = step->surgeon;
	struct remote r;
	struct error *err = remote_begin(&r, s->t, &s->survey, s->memory, s->w.suspend_seccomp);

	if (err)
		return err;
	err = map_shared(s, &r, &step->shared);
	if (!err) {
		complete_head(s);
		err = map_code(s, &r);
	}
	remote_end(&r);
	fault_point("all-mapped");
	return err;
}

struct error *operation_map(struct surgeon *s, int *ret_shared)
{
	struct map_step step = {s, -1};
	struct error *err = run_on_tracer_thread(map_all, &step);

	if (err)
		cleanup_close(&step.shared);
	else
		*ret_shared = step.shared;
	return err;
}
