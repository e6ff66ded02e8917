#include "inject/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/user.h>
#include <unistd.h>

#include "agent/blob.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "inject/fault.h"
#include "inject/hooks.h"
#include "inject/leftovers.h"
#include "inject/places.h"
#include "inject/readable.h"
#include "inject/region.h"
#include "inject/remote.h"
#include "inject/roots.h"
#include "inject/standstill.h"
#include "inject/withdraw.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x10u
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Of the shared memory, what is used at first. */
#define FIRST_STACK_BYTES 262144
#define FIRST_RING_BYTES 262144

/* Tries to stop all threads at once; a vfork in between takes as long as the exec behind it. */
#define STOP_TRIES 200
#define STOP_PAUSE_US 5000
/* So often because a thread is where what it does would be told of by half. */
#define PATIENCE 50
#define PATIENCE_PAUSE_US 2000 /* at first: twice as long after each eight times, 0.8 s in all */

struct injection {
	struct target *t;
	const struct image *img;
	const struct golayout *lay;
	struct withdrawal w;
	int lock;
	int memory;
	bool attached;
	struct hooks hooks;
	struct code_head head;
	uint8_t *pages;             /* head.stub_bytes, then far pages */
	struct agent_shared layout; /* as we made it */
	uint64_t shared_address;    /* in the target */
	uint64_t p_now;             /* processors that there are */
	struct agent_shared *shared;
	uint64_t lost;
	uint64_t attach_ns;
	uint64_t attached_at;
};

/* ---- before anything is written ---- */

/* One gospect for a process at a time; the kernel lets go of it when we end, however we end. */
static struct error *must_check take_lock(struct injection *in)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	pid_t pid = target_pid(in->t);
	struct stat ns;
	char path[64];
	int n;

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
	if (stat(path, &ns))
		ns.st_ino = 0;
	n = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "gospect-trace-%lu-%d-%lu",
		     ns.st_ino, pid, process_start(pid));
	in->lock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (in->lock < 0)
		return error_errno(ERROR_FAILED, errno, "cannot make a socket");
	if (!bind(in->lock, (struct sockaddr *)&name,
		  offsetof(struct sockaddr_un, sun_path) + 1 + n))
		return NULL;
	if (errno == EADDRINUSE)
		return error_format(ERROR_DENIED,
				    "process %d is being traced by another gospect already", pid);
	return error_errno(ERROR_FAILED, errno, "cannot lock process %d for tracing", pid);
}

/* A number of /proc/PID/status; 0 when it is not there. */
static unsigned long status_number(pid_t pid, const char *key)
{
	unsigned long value = 0;
	char path[64], line[256];
	size_t n = strlen(key);
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, key, n) && line[n] == ':')
			value = strtoul(line + n + 1, NULL, 10);
	fclose(f);
	return value;
}

/* Where a filter decides about system calls, ours could get the target killed: only with it
 * suspended, which takes CAP_SYS_ADMIN and no filter of our own (ptrace(2)). */
static struct error *must_check check_seccomp(struct injection *in)
{
	unsigned long capabilities = 0;
	char line[256];
	FILE *f;

	if (!status_number(target_pid(in->t), "Seccomp"))
		return NULL;
	f = fopen("/proc/self/status", "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "CapEff: %lx", &capabilities) == 1)
			break;
	if (f)
		fclose(f);
	if (!(capabilities >> 21 & 1) || status_number(getpid(), "Seccomp"))
		return error_format(ERROR_DENIED,
				    "process %d has a seccomp filter, which might kill it for the "
				    "system calls that trace has it make; run gospect as root "
				    "outside the container, where the filter can be suspended",
				    target_pid(in->t));
	in->w.suspend_seccomp = true;
	return NULL;
}

static struct error *must_check open_memory(struct injection *in)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", target_pid(in->t));
	in->memory = open(path, O_RDWR | O_CLOEXEC);
	if (in->memory < 0)
		return error_errno(ERROR_DENIED, errno,
				   "cannot write to process %d's memory (run as root, or give "
				   "gospect CAP_SYS_PTRACE)",
				   target_pid(in->t));
	in->w = (struct withdrawal){.t = in->t,
				    .img = in->img,
				    .lay = in->lay,
				    .memory = in->memory,
				    .keep_code_page = true};
	return NULL;
}

/* Another gospect in another network namespace does not see our lock, but leaves its pid. */
static struct error *must_check check_tracer(struct injection *in)
{
	_cleanup_leftovers_ struct leftovers l = {0};
	struct error *err = leftovers_find(in->t, &l);
	pid_t tracer = err ? 0 : leftovers_tracer(&l);

	if (err)
		return err;
	if (tracer && tracer != getpid())
		return error_format(ERROR_DENIED,
				    "process %d is being traced by gospect, process %d, already",
				    target_pid(in->t), tracer);
	return NULL;
}

static struct error *must_check enter(struct injection *in)
{
	struct error *err = open_memory(in);

	if (!err)
		err = threads_check_untraced(target_pid(in->t));
	if (!err)
		err = check_tracer(in);
	if (!err)
		err = take_lock(in);
	if (!err)
		err = check_seccomp(in);
	return err;
}

/* ---- the memory ---- */

static struct error *must_check refused(const struct injection *in, const char *what,
					int64_t result)
{
	const char *hint = "";

	if (result == -EACCES || result == -EPERM)
		hint = " (a policy forbids it: SELinux, systemd's MemoryDenyWriteExecute, or "
		       "vm.memfd_noexec)";
	else if (result == -ENOMEM)
		hint = " (its limit of address space is reached)";
	return error_errno(ERROR_DENIED, (int)-result, "process %d may not %s%s", target_pid(in->t),
			   what, hint);
}

static struct error *must_check call(struct injection *in, struct remote *r, const char *what,
				     long number, const uint64_t a[6], int64_t *ret)
{
	struct error *err = remote_call(r, number, a, ret);

	if (err)
		return err;
	return *ret < 0 && *ret > -4096 ? refused(in, what, *ret) : NULL;
}

/* A file in the target's memory, and our own descriptor of it. */
static struct error *must_check make_file(struct injection *in, struct remote *r, const char *name,
					  unsigned int flags, size_t size, int64_t *ret_theirs,
					  int *ret_ours)
{
	uint64_t text;
	char path[64];
	struct error *err = remote_text(r, name, &text);

	if (err)
		return err;
	err = remote_call(r, SYS_memfd_create, (uint64_t[6]){text, MFD_CLOEXEC | flags},
			  ret_theirs);
	/* Linux before 6.3 does not know MFD_EXEC, and needs it not. */
	if (!err && *ret_theirs == -EINVAL)
		err = remote_call(r, SYS_memfd_create, (uint64_t[6]){text, MFD_CLOEXEC},
				  ret_theirs);
	if (!err && *ret_theirs < 0)
		err = refused(in, "make a file in memory", *ret_theirs);
	fault_point("file-made");
	if (err)
		return err;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", target_pid(in->t), (int)*ret_theirs);
	*ret_ours = open(path, O_RDWR | O_CLOEXEC);
	if (*ret_ours < 0 || ftruncate(*ret_ours, size))
		return error_errno(ERROR_FAILED, errno, "cannot share memory with process %d",
				   target_pid(in->t));
	return NULL;
}

static struct error *must_check close_file(struct remote *r, int64_t theirs)
{
	int64_t result;

	return remote_call(r, SYS_close, (uint64_t[6]){theirs}, &result);
}

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

/* The shared memory: mapped there and here, filled with what the agent has to find. */
static struct error *must_check map_shared(struct injection *in, struct remote *r)
{
	size_t size = in->layout.size;
	_cleanup_close_ int ours = -1;
	int64_t theirs, address, result;
	struct error *err = make_file(in, r, DATA_NAME, 0, size, &theirs, &ours);

	if (err)
		return err;
	err = call(in, r, "map memory", SYS_mmap,
		   (uint64_t[6]){0, size, PROT_READ | PROT_WRITE, MAP_SHARED, theirs, 0}, &address);
	fault_point("shared-mapped");
	if (!err)
		err = call(in, r, "keep memory from its children", SYS_madvise,
			   (uint64_t[6]){address, size, MADV_DONTFORK}, &result);
	if (!err)
		err = close_file(r, theirs);
	if (err)
		return err;
	in->shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ours, 0);
	if (in->shared == MAP_FAILED) {
		in->shared = NULL;
		return error_errno(ERROR_FAILED, errno, "cannot map %zu bytes", size);
	}
	in->shared_address = address;
	*in->shared = in->layout;
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

static size_t agent_bytes(void)
{
	return (agent_blob_size + CODE_PAGE_BYTES - 1) & ~(CODE_PAGE_BYTES - 1ul);
}

static struct error *must_check map_file(struct injection *in, struct remote *r, uint64_t address,
					 size_t size, int64_t theirs, uint64_t offset)
{
	int64_t result;
	struct error *err = call(in, r, "map code", SYS_mmap,
				 (uint64_t[6]){address, size, PROT_READ | PROT_EXEC,
					       MAP_PRIVATE | MAP_FIXED_NOREPLACE, theirs, offset},
				 &result);

	fault_point("code-mapped");
	if (!err && result != (int64_t)address)
		err = error_format(ERROR_FAILED,
				   "process %d uses the memory that was chosen for "
				   "the agent; try again",
				   target_pid(in->t));
	return err;
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
	_cleanup_close_ int ours = -1;
	int64_t theirs, result;
	struct error *err =
		make_file(in, r, CODE_NAME, MFD_EXEC,
			  h->code_bytes + far_pages(h) * CODE_PAGE_BYTES, &theirs, &ours);

	if (!err)
		err = fill_file(in, ours);
	if (err)
		return err;
	err = map_file(in, r, h->code, h->code_bytes, theirs, 0);
	for (size_t i = 0; !err && i < far_pages(h); i++)
		err = map_file(in, r, h->far[i], CODE_PAGE_BYTES, theirs,
			       h->code_bytes + i * CODE_PAGE_BYTES);
	if (!err)
		err = call(in, r, "map memory", SYS_mmap,
			   (uint64_t[6]){h->control, CODE_PAGE_BYTES, PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1ull, 0},
			   &result);
	fault_point("control-mapped");
	if (!err)
		err = call(in, r, "hide memory from its children", SYS_madvise,
			   (uint64_t[6]){h->control, CODE_PAGE_BYTES, MADV_WIPEONFORK}, &result);
	return err ? err : close_file(r, theirs);
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

/* ---- the jumps ---- */

static struct error *must_check write_at(const struct injection *in, uint64_t address,
					 const void *bytes, size_t n)
{
	ssize_t done = pwrite(in->memory, bytes, n, address);

	if (done == (ssize_t)n)
		return NULL;
	if (!done || errno == ESRCH)
		return error_format(ERROR_GONE, "process %d has ended", target_pid(in->t));
	return error_errno(ERROR_DENIED, errno, "cannot write to the code of process %d",
			   target_pid(in->t));
}

/* Each page of code that will change gets its private copy now, by a write of the same bytes. */
static struct error *must_check touch_code(const struct injection *in)
{
	struct error *err = NULL;

	for (unsigned int i = 0; !err && i < in->head.place_count; i++)
		if (in->head.places[i].address)
			err = write_at(in, in->head.places[i].address, in->head.places[i].bytes,
				       PLACE_JUMP_BYTES);
	return err;
}

static struct error *must_check write_jumps(struct injection *in)
{
	struct error *err = NULL;

	in->w.never_ran = false;
	for (unsigned int i = 0; !err && i < in->head.place_count; i++) {
		uint8_t jump[PLACE_JUMP_BYTES];

		if (!in->head.places[i].address)
			continue;
		if (!stub_jump(&in->head.places[i], jump))
			return error_format(ERROR_UNSUPPORTED, "the agent is out of reach");
		err = write_at(in, in->head.places[i].address, jump, sizeof(jump));
		fault_point("jump-written");
	}
	return err;
}

struct attach_step {
	struct injection *in;
	struct threads threads;
	struct standstill standstill;
	unsigned int patience; /* how often we may still let go of them to try again */
};

static struct error *must_check write_jumps_stopped(void *arg)
{
	struct attach_step *step = arg;
	struct injection *in = step->in;
	uint64_t since;
	bool inside;
	struct error *err = places_check(in->t, &in->head);

	if (!err)
		err = standstill_prepare(in->t, in->lay, &step->standstill);
	if (!err)
		err = threads_stop_all(&step->threads, &since);
	if (err)
		return err;
	fault_point("all-stopped");
	err = standstill_look(in->t, &in->head, in->lay, &step->threads, &step->standstill,
			      &inside);
	if (!err && inside && step->patience) {
		step->patience--;
		err = &error_fault;
	}
	in->attached_at = clock_now();
	if (!err)
		err = write_jumps(in);
	threads_resume(&step->threads);
	since = clock_now() - since;
	in->attach_ns = since > in->attach_ns ? since : in->attach_ns;
	return err;
}

/* Who was stopped has to wait for a processor anew: on a busy machine longer than at first. */
static unsigned int patience_pause(unsigned int patience)
{
	unsigned int doubled = (PATIENCE - patience) / 8;

	return PATIENCE_PAUSE_US << (doubled < 4 ? doubled : 4);
}

static struct error *must_check switch_on(struct injection *in)
{
	struct code_control control = {.enabled = 1, .slots = in->head.slots};
	struct attach_step step = {in, {.pid = target_pid(in->t)}, .patience = PATIENCE};
	struct error *err = write_at(in, in->head.control, &control, sizeof(control));

	standstill_functions(in->img, &in->head, in->layout.config.goid_late,
			     &step.standstill.functions);
	if (!err)
		err = touch_code(in);
	for (int i = 0; !err && i < STOP_TRIES; i++) {
		unsigned int patience = step.patience;

		err = surgery(write_jumps_stopped, &step);
		if (err != &error_fault)
			break;
		err = NULL;
		if (i + 1 == STOP_TRIES)
			err = error_format(ERROR_FAILED,
					   "a thread of process %d could not be stopped",
					   target_pid(in->t));
		usleep(patience == step.patience ? STOP_PAUSE_US : patience_pause(step.patience));
	}
	threads_release(&step.threads);
	standstill_release(&step.standstill);
	fault_point("attached");
	return err;
}

/* ---- in and out ---- */

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
	struct error *err = enter(in);

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
	err = surgery(map_all, in);
	if (!err)
		err = inject_update_readable(in);
	if (!err)
		err = readable_find_heap(in->t, in->img, in->lay, in->shared);
	return err ? err : switch_on(in);
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
	in->lock = in->memory = -1;
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

struct error *inject_detach(struct injection *in)
{
	struct error *err;

	if (!in->attached)
		return NULL;
	in->lost = inject_lost(in);
	in->attached = false;
	err = target_check(in->t);
	if (!err)
		err = withdraw(&in->w);
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
	if (in->shared)
		munmap(in->shared, in->layout.size);
	if (in->memory >= 0)
		close(in->memory);
	if (in->lock >= 0)
		close(in->lock);
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
	in->lock = in->memory = -1;
	in->t = t;
	in->img = img;
	in->lay = lay;
	err = leftovers_find(t, &l);
	if (err || leftovers_none(&l) || leftovers_kept_page_alone(&l))
		return err;
	*ret_found = true;
	err = enter(in);
	return err ? err : withdraw(&in->w);
}
